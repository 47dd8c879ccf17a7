"""What all ranks must have alike when they begin, beyond names and shapes, which the core compares: attach's own choices, the settings of the optimizer's
groups, and of each parameter layout, type and the optimizer's state.

Rank 0's description travels as initial values: choices and settings as texts, so that a rank that differs can name both; of each parameter a digest.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from paceline._errors import PacelineError
from paceline.torch import memory
from paceline.torch.attached.table import Table

Lines = list[tuple[str, str]]  # what, how it is here

ROOM = 4096  # bytes of texts; what is longer is compared, and not shown


def of_parameters(table: Table, states: Sequence[str]) -> Lines:
    """`states`: of the optimizer, by parameter; none where rank 0's is everybody's."""
    lines = []
    for entry in table.entries:
        layout = f"with strides {entry.strides}" if entry.is_strided else f"that is {memory.described(entry.parameter)}"
        lines.append((f"parameter {entry.name}", f"{str(entry.parameter.dtype).removeprefix('torch.')} {layout}"))
    return lines + [(f"the optimizer's state of {entry.name}", state) for entry, state in zip(table.entries, states)]


def digest(lines: Lines) -> Tensor:
    """24 bits of each line: a float32 holds them exactly."""
    return torch.tensor([zlib.crc32(f"{what} {how}".encode()) & 0xFFFFFF for what, how in lines], dtype=torch.float32, device="cpu")


def written(lines: Lines) -> Tensor:
    """Checksum and texts, each byte a number."""
    text = "\n".join(f"{what}\t{how}" for what, how in lines).encode()
    data = zlib.crc32(text).to_bytes(4, "little") + text[: ROOM - 4]
    return memory.bytes_as_floats(torch.frombuffer(bytearray(data.ljust(ROOM, b"\0")), dtype=torch.uint8))


def read(values: Tensor) -> dict[str, str]:
    """The texts, the last perhaps cut off."""
    text = bytes(int(value) for value in values[4:].tolist()).rstrip(b"\0").decode(errors="replace")
    return dict(line.split("\t", 1) for line in text.split("\n") if "\t" in line)


def compare_texts(ours: Tensor, rank_0: Tensor, rank: int) -> None:
    if torch.equal(ours, rank_0):
        return
    mine, theirs = read(ours), read(rank_0)
    different = [what for what in {**mine, **theirs} if mine.get(what) != theirs.get(what)]
    what = different[0] if different else "one of many settings of the optimizer"
    here, there = (texts.get(what, "nothing of it") for texts in (mine, theirs))
    raise disagreement(what, f"rank {rank} has {here}, rank 0 has {there}" if different else f"more than {ROOM} bytes of text are not shown", rank)


def compare(lines: Lines, ours: Tensor, rank_0: Tensor, rank: int) -> None:
    for (what, how), mine, theirs in zip(lines, ours.tolist(), rank_0.tolist()):
        if mine != theirs:
            raise disagreement(what, f"rank {rank} has {how}", rank)


def disagreement(what: str, how: str, rank: int) -> PacelineError:
    remedy = "load its state dict on every rank, before attach" if what.startswith("the optimizer's state") else "start every rank with the same script and model"
    return PacelineError(
        f"ranks 0 and {rank} disagree on {what}: {how}; {remedy}", code="model-differs" if what.startswith("parameter ") else "disagree", subject=what
    )
