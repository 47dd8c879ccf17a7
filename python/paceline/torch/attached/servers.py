"""Server mode: the servers make the steps, and what comes back are parameters.

The life of an iteration is that of the other mode; gates, hooks and the deferring step are the same. A gradient is this rank's until it is
sent, and then nobody's: its mean is known to the servers alone, so whoever looks at it is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from paceline._errors import PacelineError
from paceline.torch import memory
from paceline.torch.attached import server_rules, server_state
from paceline.torch.attached.front import Front
from paceline.torch.attached.table import Entry, Table
from paceline.torch.attached.updates import Grad, Pending, Updates
from paceline.torch.attached.waiting import WaitingGrad

OWN = ("optimizer", "told-rates", "learning-rate", "momentum", "weight-decay", "adam-beta1", "adam-beta2", "adam-epsilon", "parameter-groups")
SYNC = ("bsp", "asp", "ssp", "elastic-bsp")


def refuse_model(table: Table, optimizer: Optimizer, frozen: set[int]) -> None:
    stepped = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if table.device.type != "cpu":
        raise PacelineError(f"update='server': the parameters are on {table.device}, and servers' parameters come into the host's memory; {server_rules.WORKER}", subject="update")
    for entry in table.entries:
        if entry.index in frozen:
            continue
        if entry.dtype is not torch.float32:
            kind = str(entry.dtype).removeprefix("torch.")
            raise PacelineError(f"update='server': parameter {entry.name} is {kind}, and servers step float32; {server_rules.WORKER}", subject=entry.name)
        if entry.parameter.requires_grad and id(entry.parameter) not in stepped:
            raise PacelineError(
                f"update='server': parameter {entry.name} learns and is in no group of the optimizer; add it, or parameter.requires_grad_(False), or, for another optimizer, attach(..., update='worker')", subject=entry.name
            )


def groups_of(table: Table, optimizer: Optimizer) -> dict[int, int]:
    """Parameter -> its group."""
    groups = {}
    for number, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            entry = table.of(parameter)
            assert entry is not None  # others are refused before
            groups[entry.index] = number
    return groups


def settings(optimizer: Optimizer, clip_norm: float | None, sync: str, staleness: int | None) -> dict[str, str]:
    made = {**server_rules.settings_of(optimizer), "told-rates": "1", "sync": sync}
    if clip_norm is not None:
        made["clip-norm"] = repr(float(clip_norm))
    if staleness is not None:
        made["staleness"] = str(staleness)
    return made


class ServerFront(Front):
    shows_means = False

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        groups = self.stepper.optimizer.param_groups
        self._kept = server_rules.kept(self.stepper.kind, groups)
        self._groups = len(groups)
        self._state = server_state.Gathering(self.exchange, self.stepper.optimizer, self.stepper.kind)
        self.on_state_read = self._gather
        self._told: list[tuple[float, float]] | None = None  # with which the open iteration is applied
        self.updates = Adoption(self._state, self.table, self.exchange, self.stepper, self.ledger, self.account, self.order.after)

    def _gather(self) -> None:
        if self.inert:  # this is a child of fork
            if self._state.end(self.ledger.iteration):
                warnings.warn(server_state.GONE, stacklevel=4)
            return
        with self.lock:
            if self._told is not None:
                raise PacelineError(
                    f"update='server': gradients of iteration {self.ledger.iteration} have been sent, and servers are applying them; look at the optimizer's state before backward() or after step()",
                    subject="state_dict",
                )
            self._state.gather(self.ledger.iteration)

    def _tell_rates(self) -> None:
        if self._told is None:
            self._told = self._rates()
            self.exchange.node.tell_rates(self.ledger.iteration, self._told)

    def _send(self, entry: Entry, content: Tensor) -> None:
        self._tell_rates()
        super()._send(entry, content)

    def conclude(self) -> None:
        if not self.ledger.concluded:
            self._tell_rates()
        super().conclude()

    def on_backward_end(self) -> None:
        self.account.phases.backward_ended()
        if not self.inert and not self.paused:
            self.synchronize("backward")  # layers that this forward pass did not read

    def _conclude_entry(self, entry: Entry) -> None:
        grad = entry.parameter.grad
        if isinstance(grad, WaitingGrad) and grad.sent and not self.is_open(grad):
            raise PacelineError(
                f"update='server': the gradient of {entry.name} is the one that the last step has used, and servers apply a gradient once: a second step() needs a backward() "
                f"before it, and optimizer.zero_grad() clears what no backward() finishes again. {server_rules.WORKER}",
                subject=entry.name,
            )
        super()._conclude_entry(entry)
        if not self.ledger.sent[entry.index] and self._waiting.pop(entry.index, None) is not None:
            entry.parameter.grad = None  # no mean comes for a gradient that this rank has not got

    def settle(self, grad: WaitingGrad) -> Tensor:
        raise PacelineError(
            f"update='server': the gradient of {grad.entry.name} has been sent, and servers alone know its mean; clip with attach(clip_norm=...), keep gradients "
            f"to yourself with job.no_sync(), and call optimizer.zero_grad() after optimizer.step(). {server_rules.WORKER} and shows the mean",
            subject=grad.entry.name,
        )

    def drop(self, why: str) -> None:
        raise PacelineError(
            f"update='server': gradients of iteration {self.ledger.iteration} have been sent, and servers apply them; call optimizer.step() before {why}. A step "
            f"that is to be left out must be known before backward()",
            subject="step",
        )

    def zero_grad(self, clear: Callable[[], None], set_to_none: bool) -> None:
        """What the last step has left in `.grad` has no numbers that could be set to zero."""
        with self.lock:
            for entry, grad in () if set_to_none else zip(self.table.entries, self.gradients()):
                if isinstance(grad, WaitingGrad) and grad.sent and grad is not self._waiting.get(entry.index):
                    entry.parameter.grad = torch.zeros_like(entry.parameter)
            super().zero_grad(clear, set_to_none)

    def step(self) -> None:
        with self.lock:
            if hasattr(self.stepper.optimizer, "grad_scale"):
                raise PacelineError(f"update='server': a GradScaler needs the means, which servers alone know; {server_rules.WORKER}", subject="GradScaler")
            self.conclude()
            self._check_gradients()
            self._check_rates()
        super().step()
        self._told = None

    def _check_gradients(self) -> None:
        for entry, grad in zip(self.table.entries, self.gradients()):
            if self.ledger.sent[entry.index] and grad is not self._waiting.get(entry.index):
                raise PacelineError(
                    f"update='server': the gradient of {entry.name} was {'taken away' if grad is None else 'replaced'} after it had been sent, and servers apply what was sent; {server_rules.WORKER}",
                    subject=entry.name,
                )

    def _rates(self) -> list[tuple[float, float]]:
        groups = self.stepper.optimizer.param_groups
        server_rules.check_kept(self.stepper.kind, groups, self._kept, self._groups)
        return server_rules.rates_of(groups)

    def _check_rates(self) -> None:
        assert self._told is not None
        for number, (told, now) in enumerate(zip(self._told, self._rates())):
            for name, before, after in zip(("lr", "weight_decay"), told, now):
                if before != after:
                    raise PacelineError(
                        f"update='server': {name} of group {number} was {before} in backward(), when it left with the gradients, and is {after} in step(); set it before backward()",
                        subject=name,
                    )


class Adoption(Updates):
    """Values that came are copied into the parameters. Whoever else writes there would be overwritten, and so is refused."""

    def __init__(self, state: server_state.Gathering, *parts: Any) -> None:
        super().__init__(*parts)
        self._state = state
        self._marks = {entry.index: memory.mark_of(entry.parameter) for entry in self.table.entries if entry.index not in self.exchange.frozen}  # as they were adopted

    def begin(self, pending: Pending) -> None:
        self.pending = pending
        self.stepper.decide()
        self.ledger.step()

    def _apply(self, layers: list[int], reason: str) -> None:
        assert self.pending is not None
        self.adopt(entry for layer in layers for entry in self.table.layers[layer])
        self._opened(layers)

    def on_finished(self) -> None:
        """Where ranks were apart, the last values have all gradients in them, and everybody has the same."""
        self.adopt(self.table.entries)
        self._state.end(self.ledger.iteration)

    def on_failed(self) -> None:
        self._state.end(self.ledger.iteration)

    def refuse_load(self) -> None:
        raise PacelineError("update='server': the servers have the optimizer's state from attach on; load a state dict before", subject="load_state_dict")

    def adopt(self, entries: Iterable[Entry]) -> None:
        with torch.inference_mode(False), torch.no_grad(), torch._C.DisableTorchFunction():
            for entry in entries:
                if entry.index not in self.exchange.frozen:
                    self._adopt(entry)

    def _adopt(self, entry: Entry) -> None:
        parameter = entry.parameter
        if memory.mark_of(parameter) != self._marks[entry.index]:
            raise PacelineError(
                f"update='server': somebody has written to parameter {entry.name} since attach or its last update; its value is the servers', and such a change would be lost. "
                f"Change it before attach. {server_rules.WORKER}",
                subject=entry.name,
            )
        parameter.copy_(self.exchange.stands(entry))
        self._marks[entry.index] = memory.mark_of(parameter)
