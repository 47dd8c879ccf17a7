"""Updates that a step has asked for and that layers still wait for: each is applied once, when its means are there and somebody needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from paceline.torch.attached import refusals
from paceline.torch.attached.account import Account
from paceline.torch.attached.alike import Alike
from paceline.torch.attached.clipping import Clip
from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.ledger import Ledger
from paceline.torch.attached.lifetime import sentence
from paceline.torch.attached.separable import SPLIT, Stepping
from paceline.torch.attached.stepping import Arguments, Stepper, outside_of_forward, refuse_arguments
from paceline.torch.attached.table import Entry, Table
from paceline.torch.attached.waiting import WaitingGrad

Grad = Tensor | None


class _References:
    """How many references an object has that nobody else holds; interpreters count differently."""

    def passed(self, thing: object) -> int:
        return sys.getrefcount(thing)

    def passed_by_variable(self) -> int:
        thing = object()
        return self.passed(thing)

    def in_variable(self) -> int:
        thing = object()
        return sys.getrefcount(thing)


PASSED = _References().passed(object())  # to the method that counts
PASSED_BY_VARIABLE = _References().passed_by_variable()
IN_VARIABLE = _References().in_variable()


class Pending:
    """One step of the script."""

    def __init__(self, iteration: int, grads: list[Grad], unused: set[int], clip: Clip | None) -> None:
        self.iteration = iteration
        self.grads = grads  # of each parameter, as the script left it: waiting, its own, or none; taken out as it is used
        self.unused = unused  # by this rank
        self.clip = clip


def is_clipped(pending: Pending, given: Grad) -> bool:
    """Whether the script has seen it clipped, or has put it there after clipping."""
    if isinstance(given, WaitingGrad):
        return given.scaled
    return given is not None and pending.clip is not None and pending.clip.by_script


class Updates:
    def __init__(
        self, table: Table, exchange: Exchange, stepper: Stepper, ledger: Ledger, account: Account, after: Callable[[int], Iterable[int]], alike: Alike | None = None
    ) -> None:
        """`after`: the layers that are needed after one, in that order. `alike`: tells what other ranks must have alike."""
        self.table = table
        self.exchange = exchange
        self.stepper = stepper
        self.ledger = ledger
        self.account = account
        self.pending: Pending | None = None
        self.on_applied: list[Callable[[], None]] = []  # all layers have their update
        self.after = after
        self.alike = alike
        self._free: dict[int, WaitingGrad] = {}  # by parameter: those that nobody can look at any more
        self._applying = False
        self._ended_by = ""  # rank and exception that broke an update off

    def on_finished(self) -> None:
        """The job is over for everybody."""

    def on_touched(self, parameter: object) -> None:
        """Its memory is given away: somebody may write there unnoticed."""
        if self.alike is not None:
            self.alike.on_touched(parameter)

    def on_end(self, watched: bool) -> None:
        """This rank makes no more steps, and has applied all. `watched`: writes by `.data` were seen."""
        if self.alike is not None:
            self.alike.on_end(self.ledger.iteration - 1, watched)

    def on_failed(self) -> None:
        """The job is over, and what it has not brought does not come."""

    def refuse_load(self) -> None:
        """The script is about to load a state into its optimizer, which is its own."""

    def take(self, arguments: Arguments) -> None:
        """What the script gives its step, beside a closure."""
        if self.stepper.stepping is not Stepping.AT_STEP:
            refuse_arguments(self.stepper.kind, arguments, "and layers are stepped later, without it; attach(..., apply='at-step') passes it on")
        self.stepper.arguments = arguments

    def waiting(self, entry: Entry, source: Callable[[WaitingGrad], Tensor], local: Grad, sent: bool) -> WaitingGrad:
        grad = self._free.pop(entry.index, None)
        if grad is None:
            return WaitingGrad(entry, source, local, sent)
        grad.begin(local, sent)
        return grad

    def begin(self, pending: Pending) -> None:
        self.pending = pending
        self.stepper.freeze()
        if self.alike is not None:
            self.alike.on_step()
        self.ledger.step()

    def apply(self, layers: Iterable[int], reason: str) -> None:
        """Those of `layers` that are due; all that are due if the optimizer is stepped as a whole."""
        due = [layer for layer in dict.fromkeys(layers) if layer in self.ledger.due]
        if not due or self._applying:  # what the optimizer reads while it is stepped is its own
            return
        if self._ended_by:
            raise refusals.broken_off(self._ended_by)
        if self.stepper.stepping is not Stepping.SPLIT:
            together = sorted(self.ledger.due)
            self._wait_for(together, reason)
            self._apply(together, reason)
            return
        while due:
            together = self._together(due[0], reason)
            self._apply(together, reason)
            due = [layer for layer in due if layer in self.ledger.due]

    def _together(self, needed: int, reason: str) -> list[int]:
        """The layer, and those needed next whose means are there too: the optimizer is called once for all of them, and as much is computed."""
        assert self.pending is not None
        iteration = self.pending.iteration
        self._wait_for([needed], reason)
        together = [needed]
        for layer in self.after(needed):
            if layer in self.ledger.due:
                if not self.exchange.layer_is_there(layer, iteration):
                    break
                together.append(layer)
        return together

    def _wait_for(self, layers: Iterable[int], reason: str) -> None:
        assert self.pending is not None
        with self.account.timed(reason):
            for layer in layers:
                self.exchange.wait_layer(layer, self.pending.iteration)

    def _apply(self, layers: list[int], reason: str) -> None:
        """Their means are there."""
        pending = self.pending
        assert pending is not None
        with self.account.timed(reason):
            coefficient = pending.clip.coefficient() if pending.clip else 1.0
            entries = [entry for layer in layers for entry in self.table.layers[layer] if entry.index not in self.exchange.frozen]
            left = {entry.index for entry in entries if self._left_alone(pending, entry)} if pending.unused else frozenset()
        self._applying = True
        try:
            with outside_of_forward():
                with torch.no_grad():
                    after = [self._put(pending, entry, coefficient, entry.index in left) for entry in entries]
                try:
                    self.stepper.step(layers)
                finally:  # also where it raises: a mean may stand where the next one comes, in memory that goes with the job
                    for entry, grad in zip(entries, after):
                        entry.parameter.grad = grad
        except BaseException as error:  # nobody knows how much of it was done: neither again nor left out would be what the others have
            self._ended_by = sentence(self.exchange.node.rank, error)
            self.exchange.node.fail(refusals.broken_off(self._ended_by).message)
            raise
        finally:
            self._applying = False
        if self.alike is not None and self.stepper.stepping is Stepping.SPLIT:
            self.alike.on_stepped(entries)
        self._opened(layers)

    def _opened(self, layers: list[int]) -> None:
        self.ledger.opened(layers)
        if not self.ledger.due:
            self.pending = None
            self.stepper.finish()
            for tell in self.on_applied:
                tell()
            if self.alike is not None:
                if self.stepper.stepping is not Stepping.SPLIT:  # hooks after the step may have written
                    self.alike.on_stepped(self.table.entries)
                self.alike.on_all_stepped(self.ledger.iteration - 1)

    def _left_alone(self, pending: Pending, entry: Entry) -> bool:
        """Whether no rank has used it: then the optimizer sees no gradient, as in one process."""
        grad = pending.grads[entry.index]
        if entry.index not in pending.unused or not (grad is None or isinstance(grad, WaitingGrad)):
            return False
        if grad is None and not entry.parameter.requires_grad:  # frozen since before its backward pass; one frozen later has a gradient that waits
            return True
        return self.exchange.nobody_used(entry.index, pending.iteration)

    def _put(self, pending: Pending, entry: Entry, coefficient: float, left: bool) -> Grad:
        """Puts the gradient that the step is to use in place; returns what the script shall see as `.grad` afterwards."""
        parameter, given = entry.parameter, pending.grads[entry.index]
        pending.grads[entry.index] = None
        shown = parameter.grad
        kept = shown is given
        parameter.grad = None
        if left or (given is None and entry.index not in pending.unused):  # used by nobody, or taken away by the script
            return None if kept else shown
        grad = given
        if given is None or isinstance(given, WaitingGrad):
            grad = self._mean(pending, entry, given, kept)
        assert grad is not None
        if coefficient != 1.0 and not is_clipped(pending, given):
            grad.mul_(coefficient)
        if isinstance(given, WaitingGrad) and not kept and given.arrived is None and sys.getrefcount(given) == IN_VARIABLE:
            self._free[entry.index] = given
        parameter.grad = grad
        return grad if kept else shown

    def _mean(self, pending: Pending, entry: Entry, given: WaitingGrad | None, kept: bool) -> Tensor:
        """Where it came, unless somebody may look at it later: the next iteration's mean comes to the same place."""
        if given is not None and given.arrived is not None:
            return given.arrived
        held = given is not None and sys.getrefcount(given) > PASSED_BY_VARIABLE + 1  # one more: _put has it twice
        grad = self.exchange.mean(entry, pending.iteration, own=kept or held or self.stepper.kind not in SPLIT)
        if given is not None and (kept or held):
            given.arrived = grad
        return grad
