"""A model's buffers: rank 0's at the start; later each rank's own, or rank 0's before every forward pass, or means.

They leave at the end of an iteration with least urgency and are adopted before the next forward pass, or when somebody asks for a state dict.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from paceline._errors import PacelineError
from paceline.torch import memory, table
from paceline.torch.exchange import Exchange, Row

WAYS = ("local", "broadcast", "mean")


class Buffers:
    def __init__(self, model: nn.Module, way: str, exchange: Exchange) -> None:
        if way not in WAYS:
            raise PacelineError(f"buffers={way!r} is none of {', '.join(map(repr, WAYS))}", subject="buffers")
        self.way = way
        self.exchange = exchange
        self.due: int | None = None  # iteration whose values are to be adopted
        self._held: list[tuple[nn.Module, str, Row, bool]] = []
        seen: set[Tensor] = set()
        for prefix, module in model.named_modules():
            for key, buffer in module._buffers.items():
                if buffer is None or buffer in seen:
                    continue
                seen.add(buffer)
                name = f"{prefix}.{key}" if prefix else key
                if buffer.device.type not in table.DEVICES:
                    raise PacelineError(f"buffer {name} is on {buffer.device}; legal are {' and '.join(table.DEVICES)}", subject=name)
                as_is = way != "broadcast" and buffer.dtype == torch.float32
                travels = way == "broadcast" or (way == "mean" and as_is)
                row = exchange.add(f"buffer {name}", self._sent(buffer, as_is), frozen=not travels)
                self._held.append((module, key, row, as_is))

    @property
    def travel(self) -> bool:
        return any(not row.frozen for _, _, row, _ in self._held)

    def on_joined(self) -> None:
        for module, key, row, as_is in self._held:
            self._adopt(module, key, self.exchange.value(row), as_is)

    def send(self, rank: int) -> bool:
        """This rank's part of the iteration that ends, after what came back from the last. Whether something comes back."""
        sent = False
        for module, key, row, as_is in self._held:
            buffer = module._buffers.get(key)
            if row.frozen or buffer is None:
                continue
            sent = True
            if self.way == "mean" or rank == 0:
                self.exchange.send_row(row, self._sent(buffer, as_is))
        return sent

    def adopt(self, workers: int) -> None:
        """What came back for iteration `due`."""
        if self.due is None:
            return
        self.exchange.wait_rows(self.due)
        self.due = None
        for module, key, row, as_is in self._held:
            if not row.frozen:
                values = self.exchange.value(row)
                self._adopt(module, key, values if as_is else values * float(workers), as_is)  # rank 0's, divided by the number of ranks

    def _adopt(self, module: nn.Module, key: str, values: Tensor, as_is: bool) -> None:
        buffer = module._buffers.get(key)
        if buffer is None:
            return
        with torch.no_grad():
            if not as_is:
                memory.floats_as_bytes(values, buffer)
            elif buffer.numel():
                buffer.copy_(values.view(buffer.shape))

    @staticmethod
    def _sent(buffer: Tensor, as_is: bool) -> Tensor:
        if as_is and buffer.numel():
            return buffer.detach().cpu().contiguous().clone()
        return memory.bytes_as_floats(buffer)
