"""Readers that no gate can see: references to parameters that are older than attach (`held = list(model.parameters())`).

A mode of torch sees every operation on them, for a microsecond or two each, so it is on only outside of the model's forward pass, where gates see what is read.
"""

from __future__ import annotations

import bisect
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from paceline._errors import PacelineError
from paceline.torch.attached.front import Front
from paceline.torch.attached.lock import is_mine
from paceline.torch.attached.looks import reader_of, seen
from paceline.torch.memory import is_strided
from paceline.torch.attached.table import Entry, span
from paceline.torch.attached.waiting import ABOUT

GET_GRAD = getattr(Tensor, "grad").__get__
# After which somebody may write to a parameter without its version counting that.
GIVES_MEMORY = {getattr(Tensor, "data").__get__, getattr(Tensor, "data").__set__}
# What may be done to a parameter without reading its numbers.
BESIDE = ABOUT | {
    GET_GRAD, getattr(Tensor, "grad").__set__, getattr(Tensor, "grad").__delete__, getattr(Tensor, "requires_grad").__set__, Tensor.requires_grad_,
    Tensor.register_hook, Tensor.register_post_accumulate_grad_hook, Tensor.is_shared, Tensor.retain_grad,
}  # fmt: skip


class References(TorchFunctionMode):
    """Of one thread, for all attached models that are outside of a forward pass.

    Also decides what `.grad` of a parameter shows that this rank has not used: a mean, or nothing if no other rank has either.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watched: tuple[Window, ...] = ()

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func == GET_GRAD:
            grad = func(*args)
            for window in self.watched:
                if window.looks and (entry := window.front.table.of(args[0])) is not None:
                    return seen(window.front, entry, grad, reader_of(sys._getframe(1)))
            return grad
        if torch.compiler.is_compiling():
            return func(*args, **(kwargs or {}))
        if func == Tensor.backward:
            return self._backward(args, kwargs or {})
        for window in self.watched:
            if window.front.ledger.due and window.looks and func not in BESIDE:
                window.look(func, args)
                if kwargs:
                    window.look(func, tuple(kwargs.values()))
        if func in GIVES_MEMORY:
            for window in self.watched:
                if window.looks:
                    window.front.updates.on_touched(args[0])
        return func(*args, **(kwargs or {}))

    def _backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One that reaches no parameter of any job leaves no other trace."""
        before = [window.front.passes.count for window in self.watched]
        Tensor.backward(*args, **kwargs)  # type: ignore[no-untyped-call]
        if before == [window.front.passes.count for window in self.watched]:
            for window in self.watched:
                window.front.passes.over = True


def is_bare() -> bool:
    depth = torch._C._len_torch_function_stack()
    default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return depth == 0 or (depth == 1 and default is not None and torch._C._get_function_stack_at(0) is default)


class Threads(threading.local):
    """The mode of each. Modes are a stack: ours is put on an empty one only, or above that of torch.set_default_device, which knows of others; and
    taken off only from the top, so that nobody else's is lost."""

    mode: References | None = None  # while it is on the stack

    def begin(self) -> References | None:
        if self.mode is None and is_bare():
            self.mode = References()
            self.mode.__enter__()  # type: ignore[no-untyped-call]
        return self.mode

    def end(self) -> None:
        depth = torch._C._len_torch_function_stack()
        if self.mode is not None and depth > 0 and torch._C._get_function_stack_at(depth - 1) is self.mode:
            self.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self.mode = None


_here = Threads()


class Memory:
    """Whose parameters' memory a tensor of the script's own stands in, as `.data` does, kept from before attach."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        spans = sorted((*span(entry.parameter), entry.index) for entry in entries if is_strided(entry.parameter) and entry.parameter.numel())
        self._entries = [entries[index] for _, _, index in spans]
        self._begins = [begin for begin, _, _ in spans]
        self._ends = [end for _, end, _ in spans]

    def of(self, tensor: Tensor) -> Iterable[Entry]:
        """All that it reaches into. `tensor` is of no subclass."""
        if tensor.layout is not torch.strided or not self._begins:
            return ()
        begin = tensor.data_ptr()
        first = bisect.bisect_right(self._ends, begin)
        if first == len(self._begins):
            return ()
        end = begin + tensor.nbytes if tensor.is_contiguous() else span(tensor)[1]
        return self._entries[first : bisect.bisect_left(self._begins, end)]


class Window:
    """When one model's references are watched: from attach on, but not within a forward pass of it, and by the thread that has opened it."""

    def __init__(self, front: Front, refuse: bool) -> None:
        self.front = front
        self.refuse = refuse
        self.memory = Memory(front.table.entries)
        self._mode: References | None = None

    @property
    def is_open(self) -> bool:
        return self._mode is not None

    @property
    def looks(self) -> bool:
        return not self.front.inert and not is_mine(self.front.lock)

    def open(self) -> None:
        if self._mode is None and (mode := _here.begin()) is not None:
            self._mode = mode
            mode.watched += (self,)

    def take(self) -> None:
        """Opens for this thread, whichever had opened before."""
        if self._mode is not None and self._mode is not _here.mode:
            self._leave(self._mode)
        self.open()

    def close(self) -> None:
        mode = self._mode
        if mode is not None and mode is _here.mode:
            self._leave(mode)
            if not mode.watched:
                _here.end()

    def _leave(self, mode: References) -> None:
        self._mode = None
        mode.watched = tuple(window for window in mode.watched if window is not self)

    def look(self, func: Callable[..., Any], values: Any) -> None:
        for value in values:
            if isinstance(value, Tensor):
                entry = self.front.table.of(value)
                for entry in (entry,) if entry is not None else self.memory.of(value) if type(value) is Tensor else ():
                    if entry.layer not in self.front.ledger.due:
                        continue
                    if self.refuse:
                        raise PacelineError(
                            f"{getattr(func, '__name__', func)} reads parameter {entry.name} by a reference that is older than attach, before its update is applied; "
                            f"read it through the model, or call job.synchronize() first",
                            subject=entry.name,
                        )
                    self.front.open([entry.layer], "a held reference")
            elif isinstance(value, (list, tuple)):
                self.look(func, value)
