"""Readers that no gate can see: references to parameters that are older than attach (`held = list(model.parameters())`).

A mode of torch sees every operation on them, for a microsecond or two each, so it is on only outside of the model's forward pass, where gates see what is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from paceline._errors import PacelineError
from paceline.torch.front import Front
from paceline.torch.lock import is_mine
from paceline.torch.waiting import ABOUT, WaitingGrad

GET_GRAD = getattr(Tensor, "grad").__get__
# What may be done to a parameter without reading its numbers.
BESIDE = ABOUT | {
    GET_GRAD, getattr(Tensor, "grad").__set__, getattr(Tensor, "grad").__delete__, getattr(Tensor, "requires_grad").__set__, Tensor.requires_grad_,
    Tensor.register_hook, Tensor.register_post_accumulate_grad_hook, Tensor.is_shared, Tensor.retain_grad,
}  # fmt: skip


class References(TorchFunctionMode):
    """Also decides what `.grad` of a parameter shows that this rank has not used: a mean, or nothing if no other rank has either."""

    def __init__(self, front: Front, refuse: bool) -> None:
        super().__init__()
        self.front = front
        self.refuse = refuse

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        front = self.front
        if func == GET_GRAD:
            grad = func(*args, **(kwargs or {}))
            mine = isinstance(grad, WaitingGrad) and grad.source == front.settle and not front.inert and not is_mine(front.lock)
            return front.seen(grad) if mine else grad
        if torch.compiler.is_compiling():
            return func(*args, **(kwargs or {}))
        if front.ledger.due and not front.inert and not is_mine(front.lock):
            if func not in BESIDE:
                self._look(func, args)
                if kwargs:
                    self._look(func, tuple(kwargs.values()))
        return func(*args, **(kwargs or {}))

    def _look(self, func: Callable[..., Any], values: Any) -> None:
        for value in values:
            if isinstance(value, nn.Parameter):
                entry = self.front.table.of(value)
                if entry is not None and entry.layer in self.front.ledger.due:
                    if self.refuse:
                        raise PacelineError(
                            f"{getattr(func, '__name__', func)} reads parameter {entry.name} by a reference that is older than attach, before its update is applied; "
                            f"read it through the model, or call job.synchronize() first",
                            subject=entry.name,
                        )
                    self.front.open([entry.layer], "a held reference")
            elif isinstance(value, (list, tuple)):
                self._look(func, value)


class Window:
    """When the mode is on: from attach on, but not within a forward pass of the model.

    Modes are a stack of a thread: ours is put on an empty one only, and taken off only from the top, so that nobody else's is lost.
    """

    def __init__(self, front: Front, refuse: bool) -> None:
        self.refuse = refuse
        self._mode = References(front, refuse)
        self._thread: int | None = None  # on whose stack it is

    def open(self) -> None:
        if self._thread is None and torch._C._len_torch_function_stack() == 0:
            self._mode.__enter__()  # type: ignore[no-untyped-call]
            self._thread = threading.get_ident()

    def close(self) -> None:
        depth = torch._C._len_torch_function_stack()
        if self._thread == threading.get_ident() and depth > 0 and torch._C._get_function_stack_at(depth - 1) is self._mode:
            self._mode.__exit__(None, None, None)
            self._thread = None
