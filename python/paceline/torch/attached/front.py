"""One attached model and optimizer: what happens when a gradient is finished, one is looked at, a step is asked for, a layer is needed.

Effects only: the ledger decides what is due, the exchange moves bytes, updates are applied by the stepper. Everything is behind one lock, so
that another thread may read the model (inference) while updates are due.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from paceline._errors import PacelineError
from paceline.torch.attached import looks, refusals
from paceline.torch.attached.account import Account
from paceline.torch.attached.alike import Alike
from paceline.torch.attached.buffers import Buffers
from paceline.torch.attached.clipping import Clip, norm_of
from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.ledger import Finish, Ledger, Order
from paceline.torch.attached.lock import Lock
from paceline.torch.attached.separable import Stepping
from paceline.torch.attached.stepping import Stepper
from paceline.torch.attached.table import Entry, Table
from paceline.torch.attached.updates import PASSED, Grad, Pending, Updates
from paceline.torch.attached.waiting import WaitingGrad, in_backward


class Front:
    shows_means = True  # to the script, as gradients

    def __init__(
        self, table: Table, exchange: Exchange, stepper: Stepper, buffers: Buffers, expected: int, clip_norm: float | None, alike: Alike | None = None
    ) -> None:
        self.table = table
        self.exchange = exchange
        self.stepper = stepper
        self.buffers = buffers
        self.clip_norm = clip_norm
        self.account = Account()
        self.lock = Lock()
        self.ledger = Ledger([entry.layer for entry in table.entries], exchange.node.first_iteration, expected)
        self.order = Order(len(table.layers))
        self.updates = Updates(table, exchange, stepper, self.ledger, self.account, self.order.after, alike)
        self.inert, self.paused = False, False  # closed, or a child of fork; within no_sync()
        self.on_due: list[Callable[[], None]] = []  # a step was asked for
        self.on_iteration: list[Callable[[], None]] = []  # one has ended at this rank, with a step or without
        self.on_state_read: Callable[[], None] = lambda: None  # the script looks at the optimizer's state
        self.adopt: Callable[[Entry], None] = lambda entry: None  # hooks a parameter that learns from here on
        self.clip: Clip | None = None  # asked for by the script in the open iteration
        self.passes = looks.Passes()
        self.unused: set[int] = set()  # by this rank, of the concluded iteration
        self._waiting: dict[int, WaitingGrad] = {}  # of the open iteration
        self._task = -1  # of autograd, whose end is watched
        self._said_nothing_finished = False

    def on_gradient(self, entry: Entry) -> None:
        """Autograd has added to the parameter's gradient, for the last time in this backward pass. Gradients are off."""
        if self.inert:
            return
        with self.lock, torch._C.DisableTorchFunction():
            grad = entry.parameter.grad
            if grad is None:
                raise refusals.gone_in_backward(entry)
            if entry.layer in self.ledger.due:
                raise refusals.stale(entry)
            if self.paused:
                self.exchange.samples.on_gradient()
                self.passes.on_local()
                return
            refusals.check_gradient(entry, grad)
            fresh = not isinstance(grad, WaitingGrad)
            finish = self.ledger.finished(entry.index, fresh)
            if finish is Finish.RESTART:
                self._restart(entry)
                finish = self.ledger.finished(entry.index, True)
            self.exchange.samples.on_gradient()
            content = grad.content() if isinstance(grad, WaitingGrad) else grad
            assert content is not None
            if finish is Finish.SEND:
                self._send(entry, content)
            elif fresh:
                entry.parameter.grad = self.wait_for(entry, content, sent=False)
            self._watch_end_of_backward()

    def _restart(self, entry: Entry) -> None:
        """A gradient after the last: fine if the script has thrown the others away, as it does to skip a step."""
        if any(grad.entry.parameter.grad is grad for grad in self._waiting.values()):
            raise refusals.after_the_end(entry, self.ledger)
        self.drop("a new backward pass without a step")

    def _watch_end_of_backward(self) -> None:
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._task = task
            self.passes.next()
            torch.autograd.Variable._execution_engine.queue_callback(self.on_backward_end)

    def on_backward_end(self) -> None:
        """Whoever collects gradients from here on must find the means, also of what this pass has not finished but other ranks or earlier passes have."""
        self.account.phases.backward_ended()
        if self.inert or self.paused:
            return
        with self.lock:
            self.synchronize("backward")  # layers that this forward pass did not read
            for index in self.ledger.unsent():
                entry = self.table.entries[index]
                if entry.parameter.requires_grad and index not in self.exchange.frozen and not isinstance(grad := entry.parameter.grad, WaitingGrad):
                    self.adopt(entry)  # it may have begun to learn
                    entry.parameter.grad = self.wait_for(entry, grad, sent=False)

    def _send(self, entry: Entry, content: Tensor) -> None:
        self.exchange.check_samples()
        self.exchange.send(entry, content)
        self.ledger.on_sent(entry.index)
        grad = entry.parameter.grad
        if isinstance(grad, WaitingGrad) and grad is self._waiting.get(entry.index):
            grad.sent, grad.local = True, None
        else:
            entry.parameter.grad = self.wait_for(entry, None, sent=True)

    def wait_for(self, entry: Entry, content: Grad, sent: bool) -> WaitingGrad:
        grad = self._waiting[entry.index] = self.updates.waiting(entry, self.settle, content, sent)
        return grad

    # --- gradients that somebody looks at

    def settle(self, grad: WaitingGrad) -> Tensor:
        """The mean that `grad` stands for, in memory of its own."""
        with self.lock:
            entry = grad.entry
            if self.is_pending(grad):
                if in_backward():  # autograd adds to it: the parameter was read, and its update is still due
                    raise refusals.stale(entry)
                self.open([entry.layer], "a gradient read")
                return grad.arrived if grad.arrived is not None else torch.zeros_like(entry.parameter)  # used by nobody
            if not self.is_open(grad):
                raise PacelineError(f"the gradient of {entry.name} belongs to an iteration that has ended", subject=entry.name)
            if in_backward():
                raise refusals.touched_in_backward(entry, self.ledger)
            with self.account.timed(self.account.reader()):
                self.conclude()
                return self._mean_of(grad)

    def is_open(self, grad: WaitingGrad) -> bool:
        """Whether it stands for a gradient of the open iteration."""
        return self._waiting.get(grad.entry.index) is grad

    def is_pending(self, grad: WaitingGrad) -> bool:
        """Whether it is one that a step is to use that was asked for."""
        pending = self.updates.pending
        return pending is not None and pending.grads[grad.entry.index] is grad

    def _mean_of(self, grad: WaitingGrad) -> Tensor:
        entry, iteration = grad.entry, self.ledger.iteration
        self.exchange.wait_layer(entry.layer, iteration)
        with torch.inference_mode(False), torch.no_grad():
            if not grad.sent and self.exchange.nobody_used(entry.index, iteration):
                return torch.zeros_like(entry.parameter)
            mean = self.exchange.mean(entry, iteration, own=True)
            if self.clip is not None:
                mean.mul_(self.clip.coefficient())
                grad.scaled = True
            return mean

    # --- the end of an iteration

    def conclude(self) -> None:
        """No more gradients of this iteration come from this rank."""
        ledger = self.ledger
        if ledger.concluded:
            return
        self.synchronize("step")
        refusals.check_counts(self.table, ledger)
        self.unused = set()
        self.exchange.samples.conclude()
        with torch.no_grad():
            for index in ledger.unsent():
                self._conclude_entry(self.table.entries[index])
        if not any(ledger.sent) and not self._said_nothing_finished:
            self._said_nothing_finished = True
            warnings.warn(refusals.NOTHING_FINISHED, stacklevel=4)
        self.exchange.check_samples()
        self.buffers.adopt(self.exchange.node.workers)
        self.buffers.send(self.exchange.node.rank, ledger.iteration)
        self.exchange.conclude(ledger.iteration, sorted(self.unused))
        ledger.conclude()
        for tell in self.on_iteration:
            tell()

    def _conclude_entry(self, entry: Entry) -> None:
        grad = entry.parameter.grad
        if entry.index in self.exchange.frozen:
            if entry.parameter.requires_grad or grad is not None:
                raise refusals.thawed(entry)
            return
        self.adopt(entry)
        content = grad.content() if isinstance(grad, WaitingGrad) else grad
        if content is not None:
            self.passes.on_sent(entry.index, content)
            self._send(entry, content)  # it was set by hand, or accumulated and not finished in the last pass
            return
        self.unused.add(entry.index)
        if grad is None and entry.parameter.requires_grad and entry.index not in self._waiting:  # else the script has taken it away
            entry.parameter.grad = self.wait_for(entry, None, sent=False)

    def step(self) -> None:
        """The script's optimizer.step(): from here on layers are updated when they are needed."""
        with self.lock:
            refusals.check_parameters(self.table, self.stepper.parameters())
            self.conclude()
            looks.check(self)
            self.buffers.adopt_early(self.account, self.exchange.node.workers)
            iteration, grads = self.ledger.iteration, self.gradients()
            unused = self.idle(grads) - self.exchange.frozen
            clip = self.clip if self.clip is not None or self.clip_norm is None else Clip(self.clip_norm, norm_of(self, iteration, grads), self.stepper.scale())
            self.updates.begin(Pending(iteration, grads, unused, clip))
            self.clip, self._waiting = None, {}
            self.passes.next()
            if (order := self.order.stepped()) is not None:
                self.exchange.set_order(order)
            if self.stepper.stepping is Stepping.AT_STEP or hasattr(self.stepper.optimizer, "grad_scale"):
                self.synchronize("step")  # a loss scaler's attributes last as long as its call
        for tell in self.on_due:
            tell()

    def drop(self, why: str) -> None:
        """Ends an iteration without a step: gradients that somebody may still look at become what they would be, the mean."""
        with self.account.timed(why):
            self.conclude()
            self.exchange.node.tell_left_out(self.ledger.iteration)
            self.exchange.wait_all(self.ledger.iteration)
        for index in list(self._waiting):
            self._drop_gradient(self._waiting.pop(index))
        self.clip = None
        self.passes.next()
        self.ledger.drop()

    def _drop_gradient(self, grad: WaitingGrad) -> None:
        parameter = grad.entry.parameter
        shown = parameter.grad is grad
        if grad.arrived is None and (shown or sys.getrefcount(grad) > PASSED):
            grad.arrived = self._mean_of(grad)
        if shown:
            nobody = not grad.sent and self.exchange.nobody_used(grad.entry.index, self.ledger.iteration)
            parameter.grad = None if nobody else grad.arrived

    def zero_grad(self, clear: Callable[[], None], set_to_none: bool) -> None:
        """The optimizer's zero_grad. Gradients whose layer is due are the step's already: the script's view of them is cleared."""
        with self.lock:
            if self.ledger.told:
                self.drop("zero_grad")
            self.exchange.samples.forget()
            self.passes.next()
            for grad in self._waiting.values():  # accumulated and not sent
                if grad.entry.parameter.grad is grad:
                    grad.entry.parameter.grad = grad.content()
            self._waiting = {}
            if set_to_none or not self.ledger.due:
                with torch._C.DisableTorchFunction():
                    clear()
                return
            for tensor in self.stepper.parameters():
                entry = self.table.of(tensor)
                if entry is not None and entry.layer in self.ledger.due and tensor.grad is not None:
                    tensor.grad = torch.zeros_like(tensor)
                elif tensor.grad is not None:
                    tensor.grad.detach_().zero_()

    # --- layers that are needed

    def passed(self, layers: Iterable[int], reason: str) -> None:
        """Somebody is about to read these layers."""
        if self.order.watching:
            for layer in layers:
                self.order.passed(layer)
        if self.ledger.due:
            self.open(layers, reason)

    def open(self, layers: Iterable[int], reason: str) -> None:
        if not self.inert:
            with self.lock:
                self.updates.apply(layers, reason)

    def synchronize(self, reason: str) -> None:
        self.open(self.order.current, reason)

    def gradients(self) -> list[Grad]:
        """As the script would find them now; nothing waits."""
        with torch._C.DisableTorchFunction():
            return [entry.parameter.grad for entry in self.table.entries]

    def idle(self, grads: list[Grad]) -> set[int]:
        """Parameters without a gradient at this rank. One that the script has taken away is not idle: the others see that too."""
        return {index for index in self.unused if grads[index] is not None or index not in self._waiting} | self.exchange.frozen
