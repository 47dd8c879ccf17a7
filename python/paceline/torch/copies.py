"""What a copy or a pickle of an attached model or optimizer holds: what one of a plain one holds, so that it is read where this package is not.

Modules are asked through `copyreg`, by class: that reaches copies too, of which one that its class makes by itself (`__deepcopy__`) has hooks of ours
that do nothing. A shallow copy shares the parameters, and so keeps its gates.
"""

from __future__ import annotations

import copy
import copyreg
import sys
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer

PROTOCOL = 2  # of what an object says for pickles; later ones take it too
_known: set[type[nn.Module]] = set()  # classes that are asked


class Hook:
    """What attach registers with a module or an optimizer."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Inert, ()


class Inert(Hook):
    """What a hook is in a copy that a class has made by itself."""

    def __call__(self, *args: object, **kwargs: object) -> None:
        return None


class Gated(dict[str, Any]):
    """What stands in the place of `module._parameters`; copies are plain dictionaries."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(self.copy(), memo)


def watch(model: nn.Module) -> None:
    """From here on copies and pickles of it, and of other modules of its classes, are plain."""
    for kind in {type(module) for module in model.modules()} - _known:
        _known.add(kind)
        copyreg.pickle(kind, plainly(copyreg.dispatch_table.get(kind)))


def plainly(before: Callable[[Any], Any] | None) -> Callable[[nn.Module], Any]:
    """`before`: what the script itself has registered for the class."""

    def reduced(module: nn.Module) -> Any:
        made = before(module) if before else module.__reduce_ex__(PROTOCOL)
        return made if sys._getframe(1).f_code is copy.copy.__code__ else plain(made)

    return reduced


def plain(part: Any) -> Any:
    """What an object says of itself for a copy, without what is ours."""
    if type(part) is tuple:
        return tuple(map(plain, part))
    if type(part) is not dict:
        return part
    own = {key for held in part.values() if isinstance(held, dict) for key, value in dict.items(held) if isinstance(value, Hook)}
    return {name: without(held, own) if own or isinstance(held, Gated) else held for name, held in part.items()}


def without(held: Any, own: set[Any]) -> Any:
    """`own`: numbers of hooks, by which the module has flags of some too."""
    if isinstance(held, Gated):
        return held.copy()
    if not isinstance(held, dict) or not any(key in own and (value is True or isinstance(value, Hook)) for key, value in held.items()):
        return held
    return type(held)((key, value) for key, value in held.items() if key not in own)


def reduced_as(kind: type[Optimizer], optimizer: Optimizer, protocol: int) -> Any:
    """Of an optimizer, in whose class `kind` has been replaced."""
    made = kind.__reduce_ex__(optimizer, max(protocol, PROTOCOL))
    if type(made) is not tuple:
        return made
    function, arguments, *rest = made
    return function, tuple(kind if one is type(optimizer) else one for one in arguments), *map(plain, rest)
