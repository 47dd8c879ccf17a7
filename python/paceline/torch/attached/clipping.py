"""Clipping by the norm of all means, known from the verdict while means still travel; of some of them, or once more, by their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim import Optimizer

from paceline._errors import PacelineError
from paceline.torch.attached import norms
from paceline.torch.attached.looks import Grad, Reader, seen
from paceline.torch.attached.norms import is_looked_at
from paceline.torch.attached.table import Entry
from paceline.torch.attached.waiting import Waiting, WaitingGrad

if TYPE_CHECKING:
    from paceline.torch.attached.front import Front

EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_


class Clip:
    """One iteration's clipping. The norm is asked for when the first layer is stepped, or somebody looks at it."""

    def __init__(self, max_norm: float, norm: Callable[[], float], scale: float = 1.0) -> None:
        """`scale`: by which a loss scaler has made the gradients larger, and has left it to the optimizer to undo."""
        self.max_norm = max_norm
        self.scale = scale
        self.by_script = False  # what the script puts in the place of a gradient afterwards is not clipped
        self._ask = norm
        self._norm: float | None = None

    def norm(self) -> float:
        if self._norm is None:
            self._norm = norm = self._ask() / self.scale
            self._ask = lambda: norm  # lets go of the gradients
        return self._norm

    def coefficient(self) -> float:
        return min(1.0, self.max_norm / (self.norm() + EPSILON)) if self.norm() == self.norm() else self.norm()


class Norm(Waiting):
    """What `clip_grad_norm_` returns: a tensor of one float64 in the host's memory, which waits when it is looked at."""

    @staticmethod
    def __new__(cls, clip: Clip) -> Norm:
        norm: Norm = torch.Tensor._make_wrapper_subclass(cls, (), dtype=torch.float64, device=torch.device("cpu"))
        return norm

    def __init__(self, clip: Clip) -> None:
        self._clip = clip
        self._number: Tensor | None = None

    def settled(self) -> Tensor:
        if self._number is None:
            self._number = torch.tensor(self._clip.norm(), dtype=torch.float64, device="cpu")
        return self._number


def clip_by_script(front: Front, max_norm: float, entries: Sequence[Entry]) -> Norm:
    """Clips this iteration's means by their norm, as they are used; at once, if the script has looked at some, or has clipped, or clips not all of them."""
    with front.lock, torch.no_grad():
        if front.clip_norm is not None:
            raise PacelineError(f"attach(clip_norm={front.clip_norm}) clips already; remove one of the two", subject="clip_norm")
        if not front.shows_means:
            raise PacelineError("update='server': servers alone know the means; clip with attach(clip_norm=...)", subject="clip_norm")
        return Norm(clipped(front, max_norm, entries))


def clip_for_another(front: Front, optimizer: Optimizer) -> None:
    """In front of the step of an optimizer that is not attached, and steps parameters of the same model: attach's clip_norm is for its gradients too."""
    own = [entry for group in optimizer.param_groups for parameter in group["params"] if (entry := front.table.of(parameter)) is not None]
    if not own:  # another thread's, it may be, which must not wait for this one
        return
    with front.lock, torch.no_grad():
        grads = front.gradients()
        begun = front.ledger.told or front.passes.over or any(isinstance(grad := grads[entry.index], WaitingGrad) and front.is_open(grad) for entry in own)
        if not begun or front.clip is not None or front.clip_norm is None:
            return  # the attached one has asked for its step before, which clips all
        clip = clipped(front, front.clip_norm, front.table.entries)
        if front.clip is None:  # by their numbers, as somebody has looked at some
            front.clip, clip.by_script = clip, True
            for grad in front.gradients():
                if isinstance(grad, WaitingGrad):
                    grad.scaled = True


def clipped(front: Front, max_norm: float, entries: Sequence[Entry]) -> Clip:
    front.conclude()
    grads = front.gradients()
    idle = front.idle(grads)
    left_out = {entry.index for entry in front.table.entries} - {entry.index for entry in entries} - front.exchange.frozen
    if front.clip is None and not left_out and not any(is_looked_at(grad, index, idle) for index, grad in enumerate(grads)):
        front.clip = Clip(max_norm, norm_of(front, front.ledger.iteration, grads))
        front.clip.by_script = True
        return front.clip
    shown = [seen(front, entry, grads[entry.index], Reader.LAST) for entry in entries]
    return clipped_now(max_norm, [grad for grad in shown if grad is not None])


def norm_of(front: Front, iteration: int, grads: list[Grad]) -> Callable[[], float]:
    """Of the means that the script's `grads` stand for; asks for it when it is called."""
    idle = front.idle(grads)

    def ask() -> float:
        with front.lock, front.account.timed("clip_norm"):
            return norms.norm_of(front.table, front.exchange, iteration, grads, idle)

    return ask


def clipped_now(max_norm: float, grads: Sequence[Tensor]) -> Clip:
    norm = math.sqrt(sum(float(grad.double().square().sum()) for grad in grads))
    clip = Clip(max_norm, lambda: norm)
    for grad in grads:
        grad.mul_(clip.coefficient())
    return clip
