"""Which optimizers servers have, under which name, and what of their settings may change from one iteration to the next.

Exact classes: a subclass is another optimizer (AdamW is one of Adam's in PyTorch 2.13). Learning rate and weight decay of each group travel
with every iteration; everything else is the job's, the same for all groups and all iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from paceline._errors import PacelineError

Groups = list[dict[str, Any]]

WORKER = "attach(..., update='worker') takes any optimizer"


@dataclasses.dataclass(frozen=True)
class Rule:
    job: tuple[str, ...]  # keys of a group that the job is made with
    legal: Mapping[str, Any]  # keys of a group that have only this value on servers
    state: tuple[str, ...]  # names of what servers keep of each parameter, in their order
    counts: bool = True  # whether PyTorch's state has a count of steps
    from_start: bool = False  # whether it is there before the first step


ADAM = Rule(("betas", "eps", "decoupled_weight_decay"), {"amsgrad": False, "maximize": False, "differentiable": False}, ("exp_avg", "exp_avg_sq"))
RULES: dict[type[Optimizer], Rule] = {
    torch.optim.SGD: Rule(("momentum", "nesterov"), {"dampening": 0, "maximize": False, "differentiable": False}, ("momentum_buffer",), counts=False),
    torch.optim.Adam: ADAM,
    torch.optim.AdamW: ADAM,
    torch.optim.Adagrad: Rule(("eps",), {"lr_decay": 0, "maximize": False, "differentiable": False}, ("sum",), from_start=True),
}


def rule_of(kind: type[Optimizer]) -> Rule:
    rule = RULES.get(kind)
    if rule is None:
        names = ", ".join(known.__name__ for known in RULES)
        raise PacelineError(
            f"update='server': servers have no {kind.__name__}, only exactly {names} of torch.optim; {WORKER}", subject="update"
        )
    return rule


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.item()
    return tuple(plain(part) for part in value) if isinstance(value, (tuple, list)) else value


def kept(kind: type[Optimizer], groups: Groups) -> dict[str, Any]:
    """What all groups must have, now and later; refuses what servers do not have."""
    rule = rule_of(kind)
    for number, group in enumerate(groups):
        for name, legal in rule.legal.items():
            if plain(group.get(name, legal)) != legal:
                raise PacelineError(f"update='server': servers have {kind.__name__} only with {name}={legal}, and group {number} has {plain(group[name])}; {WORKER}", subject=name)
        for name in rule.job:
            if plain(group.get(name)) != plain(groups[0].get(name)):
                raise PacelineError(
                    f"update='server': groups 0 and {number} have {name} {plain(groups[0].get(name))} and {plain(group.get(name))}; on servers groups differ in lr and weight_decay only. {WORKER}",
                    subject=name,
                )
    return {name: plain(groups[0].get(name)) for name in rule.job}


def arrays_of(kind: type[Optimizer], groups: Groups) -> tuple[str, ...]:
    """Names of what servers keep of each parameter, in their order."""
    stateless = kind is torch.optim.SGD and not plain(groups[0]["momentum"])
    return () if stateless else rule_of(kind).state


def settings_of(optimizer: Optimizer) -> dict[str, str]:
    """As options of the job; before attach has made another class of it."""
    values = kept(type(optimizer), optimizer.param_groups)
    if isinstance(optimizer, torch.optim.SGD):
        if not values["momentum"]:
            return {"optimizer": "sgd"}
        return {"optimizer": "nesterov" if values["nesterov"] else "momentum", "momentum": repr(float(values["momentum"]))}
    if isinstance(optimizer, torch.optim.Adagrad):
        return {"optimizer": "adagrad", "adam-epsilon": repr(float(values["eps"]))}
    return {
        "optimizer": "adamw" if values["decoupled_weight_decay"] else "adam",
        "adam-beta1": repr(float(values["betas"][0])),
        "adam-beta2": repr(float(values["betas"][1])),
        "adam-epsilon": repr(float(values["eps"])),
    }


def rates_of(groups: Groups) -> list[tuple[float, float]]:
    """(learning rate, weight decay) of each group, as the script has set them."""
    return [(float(group["lr"]), float(group["weight_decay"])) for group in groups]


def check_kept(kind: type[Optimizer], now: Groups, before: Mapping[str, Any], groups: int) -> None:
    if len(now) != groups:
        raise PacelineError(
            f"update='server': the optimizer had {groups} groups when attach ran and has {len(now)} now; add groups before attach. {WORKER}", subject="param_groups"
        )
    for name, value in kept(kind, now).items():
        if value != before[name]:
            raise PacelineError(
                f"update='server': {name} was {before[name]} when attach ran and is {value} now; on servers only lr and weight_decay may change. "
                f"A scheduler leaves it alone with cycle_momentum=False. {WORKER}",
                subject=name,
            )
