"""Tensors that wait when somebody looks at them: what `parameter.grad` is between a gradient's end and its mean, and the norm of all means.

A script that clips, unscales, logs or changes gradients between `backward()` and `step()` meets the mean of all ranks, never its own
part; it waits for as much as it touches. Shape, type and the like are answered without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from paceline.torch.attached.table import Entry

aten = torch.ops.aten

# What may be asked of a gradient without needing its numbers.
ABOUT = {
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_leaf", "grad_fn", "is_sparse", "is_cuda", "is_cpu", "is_quantized",
                 "is_mkldnn", "is_meta", "is_xla", "is_mps", "is_nested", "is_sparse_csr", "itemsize", "nbytes", "_version", "output_nr", "grad", "_base", "retains_grad")
} | {
    Tensor.size, Tensor.stride, Tensor.dim, Tensor.numel, Tensor.nelement, Tensor.element_size, Tensor.is_contiguous, Tensor.is_floating_point,
    Tensor.is_complex, Tensor.ndimension, Tensor.is_inference, Tensor.storage_offset, Tensor.get_device, Tensor.__len__, Tensor.__hash__,
}  # fmt: skip


def in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


class Waiting(torch.Tensor):
    """A tensor whose numbers are there when somebody has looked at them. A subclass says how it is made, and `settled`."""

    def settled(self) -> Tensor:
        """The numbers, in memory of their own; waits for them."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.settled().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = self.settled().clone()
        memo[id(self)] = copied
        return copied

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func in ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        return func(*replaced(args), **{name: replaced(value) for name, value in (kwargs or {}).items()})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*replaced(args), **{name: replaced(value) for name, value in (kwargs or {}).items()})


class WaitingGrad(Waiting):
    """States: local (not sent: `local` holds this rank's gradient, None if it has none), on its way (sent, no mean), settled (`arrived`)."""

    entry: Entry
    local: Tensor | None
    sent: bool
    arrived: Tensor | None
    scaled: bool
    source: Callable[[WaitingGrad], Tensor]

    @staticmethod
    def __new__(cls, entry: Entry, source: Callable[[WaitingGrad], Tensor], local: Tensor | None, sent: bool) -> WaitingGrad:
        like = entry.parameter
        grad: WaitingGrad = torch.Tensor._make_wrapper_subclass(
            cls, tuple(like.shape), strides=entry.strides, dtype=like.dtype, device=like.device, requires_grad=False
        )
        return grad

    def __init__(self, entry: Entry, source: Callable[[WaitingGrad], Tensor], local: Tensor | None, sent: bool) -> None:
        self.entry = entry
        self.source = source
        self.begin(local, sent)

    def begin(self, local: Tensor | None, sent: bool) -> None:
        """Also of another iteration, once nobody can look at it any more: a new object costs more than all else that is done here."""
        self.local = local
        self.sent = sent
        self.arrived = None
        self.scaled = False  # by a clipping that was asked for before somebody looked

    def settled(self) -> Tensor:
        """The mean."""
        if self.arrived is None:
            self.arrived = self.source(self)
            self.local = None
        return self.arrived

    def content(self) -> Tensor | None:
        """What a further backward pass has added to, if it is there: this rank's part, or the mean if that was looked at."""
        return self.arrived if self.arrived is not None else self.local

    def with_added(self, add: Callable[..., Tensor], more: Tensor) -> Tensor:
        """This rank's part and `more`, of whatever layouts, as autograd adds them up where nothing waits."""
        if self.local is None:
            if more.is_sparse:
                return more.clone()
            return torch.empty_strided(tuple(self.shape), self.entry.strides, dtype=self.dtype, device=self.device).copy_(more)
        return more + self.local if self.local.is_sparse and not more.is_sparse else add(self.local, more)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"WaitingGrad({self.entry.name}, {tuple(self.shape)}, {'settled' if self.arrived is not None else 'sent' if self.sent else 'not sent'})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Reached from C++ only: autograd adds to a gradient that is there already, in place or, with create_graph, not.
        grad = args[0]
        if isinstance(grad, WaitingGrad) and func in (aten.add_.Tensor, aten.add.Tensor) and in_backward() and grad.arrived is None and not grad.sent:
            with torch.no_grad():
                grad.local = grad.with_added(func, args[1])
            return grad
        return super().__torch_dispatch__(func, types, args, kwargs)


def replaced(value: Any) -> Any:
    """`value` with numbers in the place of what waits for them."""
    if isinstance(value, Waiting):
        return value.settled()
    if isinstance(value, (list, tuple)):
        if any(isinstance(part, (Waiting, list, tuple)) for part in value):
            return type(value)(*map(replaced, value)) if hasattr(value, "_fields") else type(value)(map(replaced, value))
        return value
    if isinstance(value, dict):
        return {key: replaced(part) for key, part in value.items()}
    return value
