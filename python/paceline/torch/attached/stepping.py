"""The user's own optimizer object, stepped part by part with the hyperparameters it had at the user's `step()`.

No copy of any arithmetic: the class's own `step` runs, while `param_groups` holds a part of the parameters. State, schedules and
`state_dict` stay the user's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from paceline._errors import PacelineError
from paceline.torch.attached.separable import Stepping, changes, hyperparameters, raw_step, same
from paceline.torch.attached.table import DEVICES, Table

Groups = list[dict[str, Any]]


Part = tuple[int, list[Tensor]]  # group, parameters of it
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Stepper:
    def __init__(self, optimizer: Optimizer, table: Table, stepping: Stepping) -> None:
        """`stepping`: as the optimizer may be stepped while no hook follows its step."""
        self.optimizer = optimizer
        self.kind = type(optimizer)
        self._bare = stepping
        self.table = table
        self._raw = raw_step(self.kind)
        self.arguments: Arguments = (), {}  # of the script's step
        self._frozen: Groups = []
        self._fixed: list[bool] = []  # whether a plain copy of a group's settings is one that nothing reaches
        self._changed: list[dict[str, Any] | None] = []
        self._parts: dict[int, list[Part]] = {}  # of each layer
        self._parts_of: list[object] = []  # what _parts was made from: how it is stepped, and the parameters of each group
        self.decide()

    def decide(self) -> None:
        """For the step that is asked for now. What hooks after it write must be there before anybody reads a parameter."""
        self.stepping = Stepping.HOOKED if self._bare is Stepping.SPLIT and post_hooks(self.optimizer) else self._bare

    def parameters(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.optimizer.param_groups)

    def scale(self) -> float:
        """Of the gradients, which the optimizer itself is to undo: for a fused one a loss scaler sets it, before each step."""
        scale = getattr(self.optimizer, "grad_scale", None)
        return 1.0 if scale is None else float(scale)

    @property
    def settings(self) -> Groups:
        """Of each group, with which the step is made that is going on: a copy of its own, which stays as it is."""
        return self._frozen

    def freeze(self) -> None:
        """From here until finish(), parts are stepped with the hyperparameters of this moment."""
        self.decide()
        groups = self.optimizer.param_groups
        self._frozen = [hyperparameters(group) for group in groups]
        self._fixed = [not any(isinstance(value, (Tensor, list, dict, set)) for value in group.values()) for group in self._frozen]
        self._changed = [None] * len(groups)
        known = [self.stepping, *(list(map(id, group["params"])) for group in groups)]
        if known != self._parts_of:
            self._parts_of = known
            self._parts = self._cut(groups)

    def _cut(self, groups: Groups) -> dict[int, list[Part]]:
        parts: dict[int, list[Part]] = {}
        for index, group in enumerate(groups):
            for parameter in group["params"]:
                entry = self.table.of(parameter)
                assert entry is not None  # others are refused before
                mine = parts.setdefault(entry.layer if self.stepping is Stepping.SPLIT else 0, [])
                if not mine or mine[-1][0] != index:
                    mine.append((index, []))
                mine[-1][1].append(parameter)
        return parts

    def step(self, layers: Sequence[int]) -> None:
        """Steps the layers' parameters, all of them if the optimizer is stepped as a whole. Their gradients are in place."""
        if self.stepping is Stepping.AT_STEP:  # what is nested may hold the groups too: they stay as they are
            (args, kwargs), self.arguments = self.arguments, ((), {})  # which may hold a graph
            self._raw(self.optimizer, *args, **kwargs)
            return
        parts: dict[int, list[Tensor]] = {}
        for layer in layers if self.stepping is Stepping.SPLIT else (0,):
            for index, parameters in self._parts.get(layer, ()):
                parts.setdefault(index, []).extend(parameters)
        if not parts:
            return
        given = [(index, {**self._settings(index), "params": parameters}) for index, parameters in parts.items()]
        groups = self.optimizer.param_groups
        self.optimizer.param_groups = [group for _, group in given]
        try:
            self._raw(self.optimizer)
        finally:
            self.optimizer.param_groups = groups
        for index, group in given:
            self._note(index, changes(self._frozen[index], group))

    def _settings(self, index: int) -> dict[str, Any]:
        return self._frozen[index] if self._fixed[index] else hyperparameters(self._frozen[index])

    def finish(self) -> None:
        """All parts are stepped: what the step has set in its groups becomes visible there, unless somebody has set it since."""
        for before, changed, group in zip(self._frozen, self._changed, self.optimizer.param_groups):
            for name, value in (changed or {}).items():
                if name not in group or name not in before or same(group[name], before[name]):
                    group[name] = value
        self._frozen = []

    def _note(self, index: int, changed: dict[str, Any]) -> None:
        known = self._changed[index]
        if known is not None and (known.keys() != changed.keys() or not all(same(known[name], changed[name]) for name in known)):
            names = ", ".join(sorted(known.keys() | changed.keys()))
            raise PacelineError(
                f"{self.kind.__name__} sets {names} from all parameters together, though a trial said otherwise; attach(..., apply='at-step') steps it as a whole"
            )
        self._changed[index] = changed


def apart(kind: type[Optimizer], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Arguments]:
    """The closure of a step, and its other arguments, which its class's own step takes."""
    if args or kwargs:
        inspect.signature(raw_step(kind)).bind(None, *args, **kwargs)
    if args and callable(args[0]):
        return args[0], ((None, *args[1:]), kwargs)
    return kwargs.get("closure"), (args, {name: value for name, value in kwargs.items() if name != "closure"})


def refuse_arguments(kind: type[Optimizer], arguments: Arguments, why: str) -> None:
    args, kwargs = arguments
    names = list(inspect.signature(raw_step(kind)).parameters)[1:]
    for name, value in [*zip(names, args), *kwargs.items()]:
        if value is not None:
            raise PacelineError(f"{kind.__name__}.step was given {name}, {why}", subject=name)


def run_pre_hooks(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The optimizer's and those of all optimizers, as the wrapper of torch runs them."""
    for hook in chain(_global_optimizer_pre_hooks.values(), optimizer._optimizer_step_pre_hooks.values()):
        result = hook(optimizer, args, kwargs)
        if result is not None:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise PacelineError(f"a step pre-hook returned {result!r}; it must return None or a tuple of arguments and keyword arguments")
            args, kwargs = result
    return args, kwargs


def post_hooks(optimizer: Optimizer) -> list[Callable[..., None]]:
    """What follows a step that is asked for now, in this order."""
    return [*optimizer._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()]


class outside_of_forward:
    """What a step finds when the loop calls it, though a gate opens inside somebody's forward pass: gradients on, no autocast, no inference mode."""

    def __enter__(self) -> None:
        self._modes: list[Any] = []
        if torch.is_inference_mode_enabled():
            self._modes.append(torch.inference_mode(False))
        if not torch.is_grad_enabled():
            self._modes.append(torch.enable_grad())
        for device in DEVICES:
            if torch.is_autocast_enabled(device):
                self._modes.append(torch.autocast(device, enabled=False))
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *error: object) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(None, None, None)
