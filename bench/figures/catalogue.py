"""What a figure or table of the papers is here: the cells that it needs, how they are read, what the paper says, and how it is drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLES = Path(__file__).resolve().parents[1] / "tables"
Answers = Mapping[str, Any]  # by the names of cells

REPRODUCED, BETTER, DIFFERS, NOT_HERE = "reproduced", "better", "differs", "not runnable here"
VERDICTS = (REPRODUCED, BETTER, DIFFERS, NOT_HERE)


@dataclass(frozen=True)
class Cell:
    """A command of this program that prints one JSON document; `{work}` in it is a folder of its own, where it may go on."""

    name: str
    words: tuple[str, ...]
    quick: tuple[str, ...] = ()  # () as `words`
    needs: tuple[str, ...] = ()  # "lab", "trainer"
    seconds: float = 1.0  # about

    def command(self, quick: bool) -> tuple[str, ...]:
        return self.quick if quick and self.quick else self.words


@dataclass
class Reading:
    verdict: str
    sentence: str  # where ours differs, or what is better
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # what, the paper's number, ours
    draw: Callable[[Any], None] | None = None  # on a matplotlib figure


@dataclass(frozen=True)
class Figure:
    id: str
    paper: str
    title: str  # in our words
    cells: tuple[Cell, ...]
    read: Callable[[Answers], Reading]
    how: str = "measured"  # or "computed" by a formula, or "stepped": the ledgers of a job in virtual time


def machines_of(name: str, table: str, counts: str, bandwidth: str, schedule: str, *more: str, quick: str = "", seconds: float = 5.0) -> Cell:
    """Seconds of an iteration by numbers of machines, stepped; `quick`: these numbers."""
    words = ("plan", "speedup", "--input", table, "--bandwidth", bandwidth, "--payload", "1", "--schedule", schedule, *more)
    return Cell(name, (*words, "--machines", counts), (*words, "--machines", quick) if quick else (), seconds=seconds)


def by_machines(answer: Any, key: str = "speedup") -> dict[int, float]:
    return {row["machines"]: row[key] for row in answer}


def not_here(id: str, paper: str, title: str, why: str) -> Figure:
    return Figure(id, paper, title, (), lambda _: Reading(NOT_HERE, why), how="")


def within(ours: float, low: float, high: float) -> str:
    """The larger the better."""
    return REPRODUCED if low <= ours <= high else BETTER if ours > high else DIFFERS


def plain(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}"
