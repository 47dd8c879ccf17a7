"""What a figure or table of the papers is here: the cells that it needs, how they are read, what the paper says, and how it is drawn."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
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

    def again(self) -> "Cell":
        return replace(self, name=f"{self.name}-again")


@dataclass
class Reading:
    verdict: str
    sentence: str  # where ours differs, or what is better
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # what, the paper's number, ours
    draw: Callable[[Any], None] | None = None  # on a matplotlib figure
    again: frozenset[str] = frozenset()  # names of cells to run twice: what they measure is within three spreads of the verdict's limit


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


def half_range(runs: Mapping[str, float]) -> float:
    """The spread of runs, as a share of their median."""
    return (runs["highest"] - runs["lowest"]) / 2 / runs["median"]


def spreads_of(answer: Any, **wanted: Any) -> dict[str, float]:
    """{contestant: share} of `bench schedules`: the largest of the rows that fit."""
    found: dict[str, float] = {}
    for row in answer["rows"]:
        if all(row[key] == value for key, value in wanted.items()):
            found[row["contestant"]] = max(found.get(row["contestant"], 0), half_range(row["iteration_seconds"]))
    return found


def close(value: float, spread: float, *limits: float) -> bool:
    """`spread`: a share of `value`."""
    return any(abs(value - limit) <= 3 * spread * value for limit in limits)


def names(cells: Iterable[Cell]) -> frozenset[str]:
    return frozenset(cell.name for cell in cells)


def within(ours: float, low: float, high: float) -> str:
    """The larger the better."""
    return REPRODUCED if low <= ours <= high else BETTER if ours > high else DIFFERS


def plain(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}"
