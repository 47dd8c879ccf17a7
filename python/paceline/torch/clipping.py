"""Clipping by the norm of all means, known from the verdict while means still travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from paceline._errors import PacelineError
from paceline.torch.norms import is_looked_at

if TYPE_CHECKING:
    from paceline.torch.front import Front

EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_


class Clip:
    """One iteration's clipping. The norm is asked for when the first layer is stepped, or somebody looks at it."""

    def __init__(self, max_norm: float, norm: Callable[[], float]) -> None:
        self.max_norm = max_norm
        self._ask = norm
        self._norm: float | None = None

    def norm(self) -> float:
        if self._norm is None:
            self._norm = norm = self._ask()
            self._ask = lambda: norm  # lets go of the gradients
        return self._norm

    def coefficient(self) -> float:
        return min(1.0, self.max_norm / (self.norm() + EPSILON)) if self.norm() == self.norm() else self.norm()


class Norm:
    """What `clip_grad_norm_` returns: a number that waits when it is looked at."""

    def __init__(self, clip: Clip) -> None:
        self._clip = clip

    def item(self) -> float:
        return self._clip.norm()

    def __float__(self) -> float:
        return self._clip.norm()

    def __repr__(self) -> str:
        return f"Norm({self._clip.norm()})"

    def __format__(self, spec: str) -> str:
        return format(self._clip.norm(), spec)

    def __lt__(self, other: float) -> bool:
        return self._clip.norm() < other

    def __gt__(self, other: float) -> bool:
        return self._clip.norm() > other


def clip_by_script(front: Front, max_norm: float) -> Norm:
    """Clips this iteration's means by their norm, as they are used; at once, if the script has looked at some."""
    with front.lock, torch.no_grad():
        if front.clip_norm is not None:
            raise PacelineError(f"attach(clip_norm={front.clip_norm}) clips already; remove one of the two", subject="clip_norm")
        front.conclude()
        grads = front.gradients()
        clip = Clip(max_norm, front.norm(front.ledger.iteration, grads))
        if any(is_looked_at(grad, index, front.idle) for index, grad in enumerate(grads)):
            for grad in grads:
                if grad is not None:
                    grad.mul_(clip.coefficient())
        else:
            front.clip = clip
        return Norm(clip)
