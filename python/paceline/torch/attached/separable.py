"""Whether an optimizer may be stepped layer by layer: tried on twins of a few numbers, since no flag of an optimizer says it.

The twin has the optimizer's class and settings and parameters of three elements a side. One is stepped as a whole, the other one parameter
at a time, last first; only if all bits agree, and no step has drawn random numbers, may the real one be split. Gradients are tiny, large and
not finite in turn: an optimizer may clip above a limit, or leave out a step, for all parameters at once.
"""

from __future__ import annotations

import collections
import copy
import enum
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from paceline._errors import PacelineError

SEED = 20
STEPS = (1e-6, 1.0, 1e3, 1e6, math.inf, math.nan)  # how large the gradients of each are; at the end one parameter's are not finite
LARGE = 1e6  # the others' then: whether such a step moves them must be seen

# Of torch.optim, element-wise or by tensor, with hyperparameters that a step does not change. Exact classes: a subclass is another optimizer.
SPLIT = frozenset(
    getattr(torch.optim, name)
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adafactor", "Muon")
    if hasattr(torch.optim, name)
)
# A schedule sets these between two steps, so a step that sets them too has to come first.
SCHEDULED = frozenset(("lr", "momentum", "betas", "weight_decay"))
OPTIONAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Stepping(enum.Enum):
    SPLIT = "layer by layer, each before it is read next"
    WHOLE = "as a whole before the next forward pass, since it uses all parameters together"
    HOOKED = "as a whole before the next forward pass, since a hook after its step may write to any parameter"
    AT_STEP = "as a whole inside step()"


def hyperparameters(group: dict[str, Any]) -> dict[str, Any]:
    """A copy that later changes, also those in place, do not reach."""
    return {name: frozen(value) for name, value in group.items() if name != "params"}


def frozen(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return copy.copy(value) if isinstance(value, (list, dict, set)) else value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    return bool(one is other or one == other)


def changes(before: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """What a step has set in its group."""
    absent = object()
    return {name: value for name, value in group.items() if value is not (old := before.get(name, absent)) and name != "params" and (old is absent or not same(value, old))}


def raw_step(kind: type[Optimizer]) -> Any:
    """The class's own step, below the wrapper that runs hooks and the profiler."""
    step = kind.step
    return getattr(step, "__wrapped__", step)


def nested(optimizer: Optimizer) -> bool:
    return any(isinstance(value, Optimizer) for value in vars(optimizer).values())


def holds_parameters(optimizer: Optimizer) -> bool:
    """Whether it reaches its parameters by another way than its groups: a twin would move the real ones."""
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}

    def reaches(value: Any, depth: int) -> bool:
        if isinstance(value, nn.Module) or isinstance(value, Tensor) and value in own:
            return True
        if depth == 0 or not isinstance(value, (list, tuple, dict, set)):
            return False
        return any(reaches(part, depth - 1) for part in (value.values() if isinstance(value, dict) else value))

    return any(reaches(value, 2) for name, value in vars(optimizer).items() if name not in ("param_groups", "state"))


def refuse(optimizer: Optimizer) -> None:
    if not isinstance(optimizer, Optimizer):
        raise PacelineError(f"attach takes a torch.optim.Optimizer, and was given a {type(optimizer).__name__}")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise PacelineError("LBFGS calls its closure many times in a step, and each rank would end elsewhere; attach needs an optimizer of one step for one backward pass")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise PacelineError("SparseAdam takes sparse gradients only, and means are dense; use Adam, with Embedding(sparse=False)")
    step = vars(optimizer).get("step")
    if step is not None and not hasattr(step, "_wrapped_by_lr_sched"):
        raise PacelineError(f"somebody has replaced {type(optimizer).__name__}.step by a function of their own; attach before that")
    needed = [given for given in list(inspect.signature(raw_step(type(optimizer))).parameters.values())[1:] if given.default is given.empty and given.kind not in OPTIONAL]
    if needed:
        raise needs_closure(optimizer, needed[0].name)


def complete(optimizer: Optimizer) -> None:
    """What Optimizer.__init__ makes, for a class that does not call it, as some that hold another optimizer do not."""
    if not hasattr(optimizer, "param_groups"):
        raise PacelineError(f"the {type(optimizer).__name__} has no param_groups; attach takes an optimizer that has them, as torch.optim.Optimizer does")
    for name in vars(torch.optim.SGD([nn.Parameter(torch.zeros(1, device="cpu"))], lr=0.1)):
        if name.endswith("_hooks"):  # not by __setstate__, which changes the class, and with it other optimizers
            vars(optimizer).setdefault(name, collections.OrderedDict())


def needs_closure(optimizer: Optimizer, name: str = "closure") -> PacelineError:
    return PacelineError(
        f"{type(optimizer).__name__}.step needs its {name}: it computes gradients within a step, and attach exchanges those of one backward pass before it. A closure that is given "
        f"is run once, before the step; attach an optimizer that steps without it",
        subject="step",
    )


def stepping_of(optimizer: Optimizer) -> Stepping:
    kind = type(optimizer)
    if nested(optimizer) or any(group.get("differentiable") for group in optimizer.param_groups):
        return Stepping.AT_STEP
    if kind in SPLIT:
        return Stepping.SPLIT
    if holds_parameters(optimizer):
        return Stepping.AT_STEP
    state = torch.get_rng_state()
    try:
        with torch.device("cpu"):  # whatever the script's default device is
            whole, set_by_step = trial(optimizer, split=False)
            drew = not torch.equal(state, torch.get_rng_state())
            if drew or set_by_step & SCHEDULED:
                return Stepping.AT_STEP
            apart, _ = trial(optimizer, split=True)
    except Exception as error:
        if steps_with_closure(optimizer):
            raise needs_closure(optimizer) from error
        return Stepping.AT_STEP  # an optimizer that refuses its twin may do anything: nothing is assumed of it
    finally:
        torch.set_rng_state(state)
    if whole is None:
        return Stepping.AT_STEP
    return Stepping.SPLIT if apart is not None and all(map(alike, whole, apart)) else Stepping.WHOLE


def steps_with_closure(optimizer: Optimizer) -> bool:
    try:
        with torch.device("cpu"):
            trial(optimizer, False, lambda: torch.zeros(()))
        return True
    except Exception:
        return False


def alike(one: Tensor, other: Tensor) -> bool:
    """The same numbers, and none in the same places."""
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def twin(optimizer: Optimizer) -> Optimizer:
    """Not by copy.copy, which goes through __getstate__ and loses attributes. Its numbers are small, so that a tiny gradient moves them.

    It shares nothing that a step may write to. What cannot be copied raises, and then the optimizer is not tried."""
    generator = torch.Generator().manual_seed(SEED)
    made: Optimizer = object.__new__(type(optimizer))
    memo: dict[int, Any] = {id(optimizer): made}  # its own methods, kept in attributes, become the twin's
    for name, value in vars(optimizer).items():
        if name.startswith("_optimizer_") and name.endswith("_hooks"):
            made.__dict__[name] = collections.OrderedDict()  # the script's are not for it
        elif name not in ("step", "state", "param_groups"):
            made.__dict__[name] = copy.deepcopy(value, memo)
    made.state = collections.defaultdict(dict)
    made.param_groups = []
    for group in optimizer.param_groups:
        shapes = sorted({parameter.dim() for parameter in group["params"]})
        small = [nn.Parameter(torch.randn([3] * dims, generator=generator) * 1e-3) for dims in shapes for _ in range(3)]
        made.param_groups.append({**copy.deepcopy(hyperparameters(group), memo), "params": small})
    if callable(train := getattr(made, "train", None)):  # Schedule-Free: a script may call it only after attach
        train()
    return made


def trial(optimizer: Optimizer, split: bool, *closure: Callable[[], Tensor]) -> tuple[list[Tensor] | None, set[str]]:
    """The twin's parameters after each of STEPS, None if they did not move or parts disagree about their group; what steps set in groups."""
    made, step = twin(optimizer), raw_step(type(optimizer))
    generator = torch.Generator().manual_seed(SEED + 1)
    groups = made.param_groups
    parameters = [parameter for group in groups for parameter in group["params"]]
    begin = [parameter.detach().clone() for parameter in parameters]
    seen: list[Tensor] = []
    names: set[str] = set()
    for size in STEPS:
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator) * (size if math.isfinite(size) else LARGE)
        if not math.isfinite(size):
            parameters[0].grad = torch.full_like(parameters[0], size)
        before = [hyperparameters(group) for group in groups]
        parts = [[(index, parameter)] for index, group in enumerate(groups) for parameter in group["params"]] if split else [whole_of(groups)]
        set_in: list[dict[str, Any] | None] = [None] * len(groups)
        for part in reversed(parts):
            members = sorted({index for index, _ in part})
            made.param_groups = [{**hyperparameters(before[i]), "params": [p for j, p in part if j == i]} for i in members]
            step(made, *closure)
            for i, group in zip(members, made.param_groups):
                changed = changes(before[i], group)
                known = set_in[i]
                if known is not None and (known.keys() != changed.keys() or not all(same(known[name], changed[name]) for name in known)):
                    return None, names
                set_in[i] = changed
        for group, changed_keys in zip(groups, set_in):
            names |= set(changed_keys or {})
            group.update(changed_keys or {})
        made.param_groups = groups
        seen += [parameter.detach().clone() for parameter in parameters]  # what a tiny gradient moves is lost in what a large one does
    return None if all(map(torch.equal, begin, parameters)) else seen, names


def whole_of(groups: list[dict[str, Any]]) -> list[tuple[int, Tensor]]:
    return [(index, parameter) for index, group in enumerate(groups) for parameter in group["params"]]
