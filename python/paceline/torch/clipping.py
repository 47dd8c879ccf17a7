"""Clipping by the norm of all means, known from the verdict while means still travel."""

from __future__ import annotations

from collections.abc import Callable

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
