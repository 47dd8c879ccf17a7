"""The user's own optimizer object, stepped part by part with the hyperparameters it had at the user's `step()`.

No copy of any arithmetic: the class's own `step` runs, while `param_groups` holds a part of the parameters. State, schedules and
`state_dict` stay the user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from paceline._errors import PacelineError
from paceline.torch.separable import Stepping, changes, hyperparameters, raw_step, same, stepping_of

Groups = list[dict[str, Any]]


class Stepper:
    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.kind = type(optimizer)
        self.stepping = stepping_of(optimizer)
        self._raw = raw_step(self.kind)
        self._frozen: Groups = []
        self._changed: list[dict[str, Any] | None] = []

    def parameters(self) -> Iterable[Tensor]:
        return chain.from_iterable(group["params"] for group in self.optimizer.param_groups)

    def freeze(self) -> None:
        """From here until finish(), parts are stepped with the hyperparameters of this moment."""
        self._frozen = [hyperparameters(group) for group in self.optimizer.param_groups]
        self._changed = [None] * len(self._frozen)

    def step(self, members: set[Tensor]) -> None:
        """Steps `members`, whose gradients are in place."""
        if self.stepping is Stepping.AT_STEP:  # what is nested may hold the groups too: they stay as they are
            self._raw(self.optimizer)
            return
        parts: list[tuple[int, dict[str, Any]]] = []
        for index, (before, group) in enumerate(zip(self._frozen, self.optimizer.param_groups)):
            mine = [parameter for parameter in group["params"] if parameter in members]
            if mine:  # some optimizers cannot bear an empty group
                parts.append((index, {**hyperparameters(before), "params": mine}))
        if not parts:
            return
        groups = self.optimizer.param_groups
        self.optimizer.param_groups = [part for _, part in parts]
        try:
            self._raw(self.optimizer)
        finally:
            self.optimizer.param_groups = groups
        for index, part in parts:
            self._note(index, changes(self._frozen[index], part))

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


def run_hooks(optimizer: Optimizer, before: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The step hooks of the optimizer and of all optimizers, as the wrapper of torch runs them."""
    if before:
        for hook in chain(_global_optimizer_pre_hooks.values(), optimizer._optimizer_step_pre_hooks.values()):
            result = hook(optimizer, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise PacelineError(f"a step pre-hook returned {result!r}; it must return None or a tuple of arguments and keyword arguments")
                args, kwargs = result
    else:
        for after in chain(optimizer._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
            after(optimizer, args, kwargs)
    return args, kwargs


class outside_of_forward:
    """What a step finds when the loop calls it, though a gate opens inside somebody's forward pass: gradients on, no autocast, no inference mode."""

    def __enter__(self) -> None:
        self._modes = (torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False))
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *error: object) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(None, None, None)
