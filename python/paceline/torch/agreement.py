"""What all ranks must have alike beyond names and shapes, which the core compares: layout and type of each parameter, and attach's own choices.

Rank 0's description travels as a tensor of initial values, one number a line, so that a rank that differs can name the first difference.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from paceline._errors import PacelineError
from paceline.torch import memory
from paceline.torch.table import Table


def lines_of(table: Table, choices: Sequence[tuple[str, object]]) -> list[tuple[str, str]]:
    """(what, how it is here)."""
    lines = [(f"attach({name}=...)", repr(value)) for name, value in choices]
    for entry in table.entries:
        layout = f"with strides {entry.strides}" if entry.is_strided else f"that is {memory.described(entry.parameter)}"
        lines.append((f"parameter {entry.name}", f"{str(entry.parameter.dtype).removeprefix('torch.')} {layout}"))
    return lines


def digest(lines: Sequence[tuple[str, str]]) -> Tensor:
    """24 bits of each line: a float32 holds them exactly."""
    return torch.tensor([zlib.crc32(f"{what} {how}".encode()) & 0xFFFFFF for what, how in lines], dtype=torch.float32, device="cpu")


def compare(lines: Sequence[tuple[str, str]], ours: Tensor, rank_0: Tensor, rank: int) -> None:
    for (what, how), mine, theirs in zip(lines, ours.tolist(), rank_0.tolist()):
        if mine != theirs:
            raise PacelineError(
                f"ranks 0 and {rank} disagree on {what}: rank {rank} has {how}; start every rank with the same script and model",
                code="model-differs" if what.startswith("parameter ") else "disagree",
                subject=what,
            )
