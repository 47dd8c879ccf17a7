"""The shorter forms of a group's calls, as PyTorch's own groups have them in C++: tensors where lists are, and `root`, `op` and `timeout` in
the place of options. `group.allreduce(tensor)`, `group.broadcast(tensor, root=1)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions, GatherOptions, ReduceOptions, ReduceScatterOptions, ScatterOptions

CHOICES = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}
FORMS: dict[str, tuple[int, Any, tuple[str, ...]]] = {  # how many arguments are tensors, the options of the long form, and what the short one has for them
    "barrier": (0, BarrierOptions, ("timeout",)),
    "broadcast": (1, BroadcastOptions, ("root", "timeout")),
    "allreduce": (1, AllreduceOptions, ("op", "timeout")),
    "reduce": (1, ReduceOptions, ("root", "op", "timeout")),
    "allgather": (2, AllgatherOptions, ("timeout",)),
    "gather": (2, GatherOptions, ("root", "timeout")),
    "scatter": (2, ScatterOptions, ("root", "timeout")),
    "reduce_scatter": (2, ReduceScatterOptions, ("op", "timeout")),
    "alltoall": (2, AllToAllOptions, ("timeout",)),
}


def both(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call in its long form, the one that torch itself uses, and in the shorter one, if it has one."""
    if name not in FORMS:
        return call
    tensors, kind, choices = FORMS[name]

    @functools.wraps(call)
    def either(self: Any, *given: Any, **named: Any) -> Any:
        if not named and len(given) == tensors + 1 and isinstance(given[-1], kind) and all(type(one) is list for one in given[:-1]):
            return call(self, *given)  # as torch's own functions do
        lists, rest = given[:tensors], given[tensors:]
        lifted = any(isinstance(one, Tensor) for one in lists)
        if not lifted and not (named.keys() & CHOICES.keys()) and (not rest or rest[0] is None or isinstance(rest[0], kind)):
            return call(self, *given, **named)
        opts = kind()
        chosen = dict(zip(choices, rest), **{word: named.pop(word) for word in choices if word in named})
        for word, value in chosen.items():
            if value is not None:
                setattr(opts, CHOICES[word], value)
        if lifted:
            lists = tuple([one] if isinstance(one, Tensor) or len(one) else [] for one in lists)
        return call(self, *lists, opts, **named)

    return either
