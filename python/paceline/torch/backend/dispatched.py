"""What PyTorch 2.13 does in C++ for groups of its own, and not for one that is a Python object.

Its tools (CommDebugMode, FakeTensorMode, the profiler) see what passes its dispatcher; calls of a Python group do not, so they are sent there when
somebody looks. Two functional operations ask in C++ for a backend below the group, of which there is none. And who asks for a future in C++ may want
tensors in it, where a future of Python has an object.
"""

# TorchScript takes a comment about a type for one of its own, so mypy is told here.
# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, List

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _len_torch_dispatch_stack, _pop_torch_dispatch_stack, _push_on_torch_dispatch_stack
from torch._C._distributed_c10d import ProcessGroup, _register_work
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import graph
from torch.autograd.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# The calls that pass the dispatcher, as a profile shows them, and the older names of some.
SHOWN = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "broadcast": "broadcast", "reduce": "reduce", "allgather": "all_gather",
    "allgather_coalesced": "all_gather", "all_gather_single": "all_gather", "all_gather_single_coalesced": "all_gather", "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter", "reduce_scatter_single_coalesced": "reduce_scatter", "gather": "gather", "scatter": "scatter", "alltoall": "all_to_all",
    "all_to_all_single": "all_to_all", "barrier": "barrier",
}  # fmt: skip
OLDER = {"_allgather_base": "all_gather_single", "_reduce_scatter_base": "reduce_scatter_single"}


class Lowest(TorchDispatchMode):
    """Below all modes: what has passed them is done by the group."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call
        self.work: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace != "c10d":
            return func(*args, **(kwargs or {}))
        self.work = self._call()
        boxed = self.work.boxed()
        return boxed if len(func._schema.returns) == 1 else (args[0], boxed)

    def below_all(self, call: Callable[[], object]) -> None:
        others = [_pop_torch_dispatch_stack(None) for _ in range(_len_torch_dispatch_stack())]
        _push_on_torch_dispatch_stack(self)
        for other in reversed(others):
            _push_on_torch_dispatch_stack(other)
        try:
            call()
        finally:
            for _ in range(len(others) + 1):
                _pop_torch_dispatch_stack(None)
            for other in reversed(others):
                _push_on_torch_dispatch_stack(other)


def in_cpp(name: str) -> Callable[..., Any]:
    """The method as ProcessGroup has it, which goes to the dispatcher. pybind11 would come back to the group's own, but for a call that it believes to be
    that one's: of a function of its name, with the group as first argument."""

    def call(self: Any, *given: Any, **named: Any) -> Any:
        return getattr(ProcessGroup, name)(self, *given, **named)

    code = call.__code__.replace(co_name=name)
    return types.FunctionType(code, call.__globals__, name, None, call.__closure__)


def seen(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The group's call, past whatever looks at this thread."""
    newest = OLDER.get(name, name)
    if newest not in SHOWN:
        return call
    of_torch, shown = in_cpp(newest), f"paceline:{SHOWN[newest]}"

    @functools.wraps(call)
    def past(self: Any, *given: Any, **named: Any) -> Any:
        if not _len_torch_dispatch_stack() and not torch._C._autograd._profiler_enabled():
            return call(self, *given, **named)
        if any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((given, named))):
            return of_torch(self, *given, **named)

        def shown_call() -> Any:
            with record_function(shown):
                return call(self, *given, **named)

        lowest = Lowest(shown_call)
        lowest.below_all(lambda: of_torch(self, *given, **named))
        return lowest.work

    return past


# ---- functional operations


def all_gather_into_tensor_out(tensor: Tensor, size: int, group: Any, *, out: Tensor) -> Tensor:
    _register_work(out, dist.all_gather_into_tensor(out, tensor, group=resolved(group), async_op=True))
    return out


def reduce_scatter_tensor_out(tensor: Tensor, op: str, size: int, group: Any, *, out: Tensor) -> Tensor:
    reduction = getattr(dist.ReduceOp, op.upper())
    _register_work(out, dist.reduce_scatter_tensor(out, tensor, op=reduction, group=resolved(group), async_op=True))
    return out


def resolved(group: Any) -> Any:
    return torch._C._distributed_c10d._resolve_process_group(group) if isinstance(group, str) else group  # type: ignore[arg-type]


@functools.cache
def register() -> torch.library.Library:
    """For groups of any backend: what they do for others is what these did."""
    library = torch.library.Library("_c10d_functional", "IMPL")
    for kernel in (all_gather_into_tensor_out, reduce_scatter_tensor_out):
        for key in ("CPU", "CUDA"):
            library.impl(kernel.__name__, kernel, key)
    return library


# ---- futures


def _when(done: torch.jit.Future[int], tensors: List[Tensor]) -> List[Tensor]:
    torch.jit.wait(done)
    return tensors


@functools.cache
def _forked() -> Callable[..., Any]:
    global _when
    _when = torch.jit.script(_when)

    def fork(done: torch.jit.Future[int], tensors: List[Tensor]) -> torch.jit.Future[List[Tensor]]:
        return torch.jit.fork(_when, done, tensors)

    return torch.jit.script(fork)


def is_asked_in_cpp() -> bool:
    """Whether no code of Python has called the caller, but C++ in the middle of a backward pass."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith("eval_frame.py"):  # of torch.compiler.disable
        frame = frame.f_back
    return frame is None or frame.f_code is graph._engine_run_backward.__code__


def with_tensors(future: torch.futures.Future[Any], tensors: list[Tensor]) -> torch.futures.Future[Any]:
    """A future that has them in it when the other one is over, as C++ knows tensors."""
    typed: torch.futures.Future[Any] = _forked()(future, tensors)
    return typed
