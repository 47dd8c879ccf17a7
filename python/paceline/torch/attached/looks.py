"""What a look at `.grad` is to show while the script may still run backward passes: this rank's own, or the mean of all ranks.

A gradient that backward() has finished waits for its mean by itself (waiting.py). Here are those that it has not: a rank whose loss reached no
parameter has none, and one whose last passes ran within no_sync() has its own. Whoever clips or unscales runs no further pass, so the mean is due.
Of another reader that is known once a backward pass is over; else the look is kept, and step() refuses it if the mean turns out to be another.
"""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING

from torch import Tensor

from paceline.torch.attached import refusals
from paceline.torch.attached.table import Entry
from paceline.torch.attached.waiting import WaitingGrad, in_backward

if TYPE_CHECKING:
    from paceline.torch.attached.front import Front

Grad = Tensor | None
LAST = ("torch.nn.utils.clip_grad", "torch.amp.grad_scaler")


class Reader(enum.Enum):
    LAST = "clips or unscales what all backward passes have made"
    CLEARS = "throws gradients away"
    OTHER = "any other"


def reader_of(frame: types.FrameType) -> Reader:
    """Who reads `.grad` in this frame."""
    if frame.f_globals.get("__name__") in LAST:
        return Reader.LAST
    return Reader.CLEARS if frame.f_code.co_name == "zero_grad" else Reader.OTHER


class Passes:
    """The open iteration's backward passes, and what the script has seen since the last. Decides only."""

    def __init__(self) -> None:
        self.count = 0  # of gradients and passes so far, in all iterations: another number means that one came
        self.over = False  # one has ended, and has left no gradient that waits for its mean
        self.shown: dict[int, Grad] = {}  # by parameter: what `.grad` was, though it may not have been the mean

    def next(self) -> None:
        """An iteration begins, or a pass whose gradients wait for their means: what was seen before is no look at their result."""
        self.count += 1
        self.over = False
        self.shown.clear()

    def on_local(self) -> None:
        """One has finished a gradient within no_sync()."""
        self.next()
        self.over = True

    def mean_is_due(self, index: int, grad: Grad, reader: Reader) -> bool:
        """Whether no backward pass follows this look. `grad`: of this rank alone."""
        if reader is Reader.LAST or (self.over and reader is not Reader.CLEARS):
            return True
        if reader is Reader.OTHER:
            self.shown[index] = grad
        return False

    def on_sent(self, index: int, content: Tensor) -> None:
        """By conclude(): what another object than the one that was seen has put there is the script's own."""
        if self.shown.get(index) is not content:
            self.shown.pop(index, None)


def seen(front: Front, entry: Entry, grad: Grad, reader: Reader) -> Grad:
    """What `.grad` is to show: nothing, if no rank has used the parameter."""
    with front.lock:
        if not isinstance(grad, WaitingGrad):
            closed = front.ledger.concluded or front.ledger.sent[entry.index] or front.paused or in_backward() or entry.index in front.exchange.frozen
            if closed or not front.passes.mean_is_due(entry.index, grad, reader):
                return grad
            grad = due_mean(front, entry, grad)
        if not isinstance(grad, WaitingGrad) or grad.source != front.settle or grad.sent or in_backward():
            return grad
        is_open = front.is_open(grad)
        if is_open and front.paused and grad.arrived is None:
            return grad.local
        if grad.content() is not None:
            return grad
        if front.is_pending(grad):
            front.open([entry.layer], "a gradient read")
        elif is_open:
            with front.account.timed(front.account.reader()):
                front.conclude()
                if front.exchange.nobody_used(entry.index, front.ledger.iteration):
                    entry.parameter.grad = None
        return entry.parameter.grad


def due_mean(front: Front, entry: Entry, own: Grad) -> Grad:
    """What stands for the mean of a gradient of which this rank has `own`, and makes no more."""
    if own is not None:
        refusals.check_gradient(entry, own)
        entry.parameter.grad = front.wait_for(entry, own, sent=False)
    elif front.shows_means:
        with front.account.timed(front.account.reader()):
            front.conclude()
    return entry.parameter.grad


def check(front: Front) -> None:
    """By step(), after conclude(): that nobody has acted on what only this rank had, where the mean is another."""
    for index, shown in front.passes.shown.items() if front.shows_means else ():
        entry = front.table.entries[index]
        if shown is None:
            differs = index in front.unused and not front.exchange.nobody_used(index, front.ledger.iteration)
        elif differs := not bool(shown.any()):  # zeros, which zero_grad(set_to_none=False) has left
            front.exchange.wait_layer(entry.layer, front.ledger.iteration)
            differs = bool(front.exchange.stands(entry).any())
        if differs:
            raise refusals.saw_nothing(entry, front.ledger.iteration)
