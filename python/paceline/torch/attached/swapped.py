"""The user's optimizer object, made a subclass of its own class whose `step` defers and whose `zero_grad` knows what is due.

Schedulers work in either order: one that is there has put a counting wrapper into the object, which is put over the new step; one that
comes later wraps it itself. Copies and pickles of the optimizer have the class it came with.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from paceline.torch import copies
from paceline.torch.attached.front import Front
from paceline.torch.attached.separable import needs_closure
from paceline.torch.attached.stepping import apart, outside_of_forward, post_hooks, run_pre_hooks

Closure = Any
not_traced: Any = functools.partial(torch.compiler.disable, reason="the optimizer is attached: each layer is stepped just before it is read next, by code that is not traced; leave fullgraph=True out")


def swap(optimizer: Optimizer, front: Front) -> None:
    kind = type(optimizer)
    asked: list[type[Optimizer]] = []  # by a pickle
    following: list[Callable[[], None]] = []  # hooks of the step that was asked for last

    @not_traced  # type: ignore[untyped-decorator]
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if front.inert:
            return kind.step(self, *args, **kwargs)
        with torch.profiler.record_function(f"Optimizer.step#{kind.__name__}.step"):
            (_, *args_after), kwargs = run_pre_hooks(self, (self, *args), kwargs)
            closure, arguments = apart(kind, tuple(args_after), kwargs)
            front.updates.take(arguments)
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            following[:] = [functools.partial(hook, self, (self, *args_after), kwargs) for hook in post_hooks(self)]
            try:
                front.step()
            except (TypeError, AssertionError) as error:  # of one that is stepped here, and that no trial has found: it holds another optimizer
                if closure is None:
                    raise
                raise needs_closure(optimizer) from error
        return loss

    step.hooked = True  # torch would wrap it in its own runner of hooks

    def stepped() -> None:
        with outside_of_forward():
            for hook in following:
                hook()

    @not_traced  # type: ignore[untyped-decorator]
    def zero_grad(self: Optimizer, set_to_none: bool = True) -> None:
        if front.inert:
            kind.zero_grad(self, set_to_none)
        else:
            front.zero_grad(lambda: kind.zero_grad(self, set_to_none), set_to_none)

    def reduce_ex(self: Optimizer, protocol: Any) -> Any:
        state_of(self)  # which is up to date then
        asked[:] = [] if sys._getframe(1).f_code in (copy.copy.__code__, copy.deepcopy.__code__) else [kind]
        return copies.reduced_as(kind, self, protocol)

    def class_of(self: Optimizer) -> type[Optimizer]:
        """A pickle that has just been told the class that the optimizer came with compares it with this one; anybody else, Dynamo too, is told the truth."""
        return asked.pop() if asked else type(self)

    def state_of(self: Optimizer) -> Any:
        if front.ledger.due:
            front.synchronize("optimizer.state")
        front.on_state_read()
        return vars(self)["state"] if "state" in vars(self) else getattr(kind, "state").__get__(self)

    def set_state(self: Optimizer, value: Any) -> None:
        vars(self)["state"] = value

    counted = vars(optimizer).pop("step", None)
    members = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__class__": property(class_of, become),
        "__reduce_ex__": reduce_ex,
        "step": step,
        "zero_grad": zero_grad,
        "state": property(state_of, set_state),
    }
    become(optimizer, type(kind.__name__, (kind,), members))
    front.updates.on_applied.append(stepped)
    if counted is not None:
        count_calls(optimizer)


def is_swapped(optimizer: Optimizer) -> bool:
    return isinstance(vars(type(optimizer)).get("__class__"), property)


def become(optimizer: Optimizer, kind: type[Optimizer]) -> None:
    """Also where the class has a `__class__` of its own."""
    vars(object)["__class__"].__set__(optimizer, kind)


def count_calls(optimizer: Optimizer) -> None:
    """What a scheduler puts over `step`: it warns when it is stepped before the optimizer ever was."""
    swapped = type(optimizer)

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True  # type: ignore[attr-defined]
        return swapped.step(optimizer, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]


def restore(optimizer: Optimizer) -> None:
    if is_swapped(optimizer):
        counted = vars(optimizer).pop("step", None)
        become(optimizer, type(optimizer).__mro__[1])
        if counted is not None:
            count_calls(optimizer)
