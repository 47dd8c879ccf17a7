"""A model's buffers: rank 0's at the start; later each rank's own, or rank 0's before every forward pass, or means.

They leave at the end of an iteration with least urgency and are adopted before the next forward pass, or when somebody asks for a state dict.
What the script writes meanwhile stays. From then on they are adopted within step(): what it writes after that has everybody's values below it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

import torch
from torch import Tensor, nn

from paceline._errors import PacelineError
from paceline.torch import memory
from paceline.torch.attached import refusals, table
from paceline.torch.attached.account import Account
from paceline.torch.attached.exchange import Exchange, Row

WAYS = ("local", "broadcast", "mean")


@dataclasses.dataclass(frozen=True)
class Held:
    """A buffer, and as what it was found."""

    name: str
    module: nn.Module
    key: str
    row: Row
    as_is: bool  # travels as the float32 that it is; others by their bytes
    form: Hashable
    described: str


class Buffers:
    def __init__(self, model: nn.Module, way: str, exchange: Exchange) -> None:
        if way not in WAYS:
            raise PacelineError(f"buffers={way!r} is none of {', '.join(map(repr, WAYS))}", subject="buffers")
        self.way = way
        self.exchange = exchange
        self.due: int | None = None  # iteration whose values are to be adopted
        self._held: list[Held] = []
        self._left: list[tuple[Held, Tensor, tuple[int, int]]] = []  # those that are due, as they were when they left
        self._early = False  # the script writes to some after they have been sent
        seen: set[Tensor] = set()
        for prefix, module in model.named_modules():
            for key, buffer in module._buffers.items():
                if buffer is None or buffer in seen:
                    continue
                seen.add(buffer)
                name = f"{prefix}.{key}" if prefix else key
                refuse(name, buffer, way)
                as_is = way != "broadcast" and buffer.dtype == torch.float32 and memory.is_plain(buffer)
                travels = way == "broadcast" or (way == "mean" and as_is)
                row = exchange.add(f"buffer {name}", self._sent(name, buffer, as_is), frozen=not travels)
                self._held.append(Held(name, module, key, row, as_is, memory.form_of(buffer), memory.described(buffer)))

    @property
    def travel(self) -> bool:
        return any(not held.row.frozen for held in self._held)

    def on_joined(self) -> None:
        for held in self._held:
            self._adopt(held, self.exchange.value(held.row))

    def send(self, rank: int, iteration: int) -> None:
        """This rank's part of the iteration that ends, after what came back from the last."""
        left = []
        for held in self._held:
            if held.row.frozen:
                continue
            buffer = self._checked(held)
            left.append((held, buffer, memory.mark_of(buffer)))
            if self.way == "mean" or rank == 0:
                self.exchange.send_row(held.row, self._sent(held.name, buffer, held.as_is))
        self._left, self.due = left, iteration if left else None

    def adopt(self, workers: int) -> None:
        """What came back for iteration `due`."""
        if self.due is None:
            return
        self.exchange.wait_rows(self.due)
        self.due = None
        for held, left, mark in self._left:
            if table.held_as(held.module._buffers, held.key) is not left or memory.mark_of(left) != mark:
                self._early = True
                continue
            values = self.exchange.value(held.row)
            self._adopt(held, values if held.as_is else values * float(workers))  # rank 0's, divided by the number of ranks
        self._left.clear()

    def adopt_early(self, account: Account, workers: int) -> None:
        """Within step(), where the script writes to buffers after it. Otherwise those that only some ranks have changed would never become one."""
        if self._early:
            with account.timed("step"):
                self.adopt(workers)

    def _checked(self, held: Held) -> Tensor:
        """The buffer, which has as many elements as its row."""
        buffer: Tensor | None = table.held_as(held.module._buffers, held.key)
        if buffer is None or memory.form_of(buffer) != held.form:
            now = "is gone" if buffer is None else f"is {memory.described(buffer)} now"
            raise PacelineError(
                f"buffer {held.name} was {held.described} when attach ran and {now}; give it its size before attach, or leave buffers to each rank with attach(..., buffers='local')",
                subject=held.name,
            )
        return buffer

    def _adopt(self, held: Held, values: Tensor) -> None:
        buffer = self._checked(held)
        with torch.no_grad():
            if not held.as_is:
                memory.floats_as_bytes(values, buffer)
            elif buffer.numel():
                (part,) = memory.parts_of(buffer)
                part.copy_(values.view(part.shape))

    @staticmethod
    def _sent(name: str, buffer: Tensor, as_is: bool) -> Tensor:
        return refusals.readable(f"buffer {name}", buffer, memory.numbers_of if as_is and buffer.numel() else memory.bytes_as_floats)


def refuse(name: str, buffer: Tensor, way: str) -> None:
    if type(buffer).__name__ == "DTensor":
        raise PacelineError(f"buffer {name} is a DTensor, a part of a tensor; attach needs whole buffers", subject=name)
    if buffer.device.type not in table.DEVICES:
        raise PacelineError(f"buffer {name} is on {buffer.device}; legal are {' and '.join(table.DEVICES)}", subject=name)
    if way == "mean" and buffer.dtype == torch.float32 and not memory.is_plain(buffer):
        raise PacelineError(f"buffer {name} is {memory.described(buffer)}, and means are of dense ones; hold a dense one, or attach(..., buffers='local') or 'broadcast'", subject=name)


def statistic_of(model: nn.Module) -> str:
    """The name of a buffer that a forward pass of training changes, as batch norms have; "" if there is none."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.running_mean is not None:
            return f"buffer {name}.running_mean" if name else "buffer running_mean"
    return ""
