"""One attached model and optimizer: what happens when a gradient is finished, a step is asked for, a layer is about to be read.

Effects only: the ledger decides what is due, the exchange moves bytes, the stepper runs the optimizer. Everything is behind one lock, so
that another thread may read the model (inference) while updates are due.
"""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from paceline._errors import PacelineError
from paceline.torch.account import Account
from paceline.torch.buffers import Buffers
from paceline.torch.clipping import Clip
from paceline.torch.exchange import Exchange
from paceline.torch.ledger import COUNTED, Finish, Ledger, Order
from paceline.torch.separable import SPLIT, Stepping
from paceline.torch.stepping import Stepper, outside_of_forward
from paceline.torch.table import Entry, Table
from paceline.torch.waiting import WaitingGrad, in_backward

Grad = Tensor | None
OURS = 3  # references to an object that a function was given and the caller holds no more: argument, caller's stack, getrefcount's argument


class Pending:
    """A step that the script has asked for and that layers still wait for."""

    def __init__(self, iteration: int, grads: list[Grad], unused: set[int], clip: Clip | None) -> None:
        self.iteration = iteration
        self.grads = grads  # of each parameter, as the script left it: waiting, its own, or none
        self.unused = unused  # by this rank
        self.clip = clip


class Front:
    def __init__(self, table: Table, exchange: Exchange, stepper: Stepper, buffers: Buffers, frozen: set[int], expected: int, clip_norm: float | None) -> None:
        self.table = table
        self.exchange = exchange
        self.stepper = stepper
        self.buffers = buffers
        self.frozen = frozen
        self.account = Account()
        self.clip_norm = clip_norm
        self.script_clip: Clip | None = None
        self.lock = threading.RLock()
        self.inert = False  # closed, or a child of fork
        self.paused = False  # within no_sync()
        self.ledger = Ledger([entry.layer for entry in table.entries], exchange.node.first_iteration, expected)
        self.order = Order(len(table.layers))
        self.pending: Pending | None = None
        self.on_due: list[Callable[[], None]] = []  # a step was asked for
        self.on_stepped: list[Callable[[], None]] = []  # all layers have their update
        self.adopt: Callable[[Entry], None] = lambda entry: None  # hooks a parameter that learns from here on
        self._expected = expected
        self._waiting: dict[int, WaitingGrad] = {}  # of the open iteration
        self._exchanged = {entry.layer for entry in table.entries if entry.index not in frozen}
        self._unused: set[int] = set()  # by this rank, of the concluded iteration
        self._task = -1
        self.stepping_now = False  # the optimizer is being stepped: what it reads is its own
        self._said_nothing_finished = False

    # --- backward

    def on_gradient(self, entry: Entry) -> None:
        if self.inert:
            return
        with self.lock, torch.no_grad():
            grad = entry.parameter.grad
            if grad is None:
                return
            if entry.layer in self.ledger.due:
                self._refuse_stale(entry)
            if self.paused:
                return
            self._check(entry, grad)
            fresh = not isinstance(grad, WaitingGrad)
            finish = self.ledger.finished(entry.index, fresh)
            if finish is Finish.RESTART:
                self.drop("a new backward pass without a step")
                grad, fresh = entry.parameter.grad, True
                finish = self.ledger.finished(entry.index, fresh)
            content = grad.content() if isinstance(grad, WaitingGrad) else grad
            assert content is not None
            if finish is Finish.SEND:
                self._send(entry, content)
            elif fresh:
                entry.parameter.grad = self._wait_for(entry, content, sent=False)
            self._watch_end_of_backward()

    def _watch_end_of_backward(self) -> None:
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._task = task
            torch.autograd.Variable._execution_engine.queue_callback(self.on_backward_end)

    def on_backward_end(self) -> None:
        """A parameter that this rank has not used has a mean all the same if others did: whoever collects gradients from here on must find one."""
        if self.inert or self.paused:
            return
        with self.lock:
            self.synchronize("backward")  # layers that this forward pass did not read
            for index in self.ledger.unsent():
                entry = self.table.entries[index]
                if entry.parameter.grad is None and entry.parameter.requires_grad and index not in self.frozen:
                    entry.parameter.grad = self._wait_for(entry, None, sent=False)

    def _send(self, entry: Entry, content: Tensor) -> None:
        if not self.exchange.counted:
            raise PacelineError("attach(average='samples') weights gradients by samples: call job.samples(len(x)) before backward()", subject="samples")
        self.exchange.send(entry, content)
        self.ledger.on_sent(entry.index)
        grad = entry.parameter.grad
        if isinstance(grad, WaitingGrad) and grad is self._waiting.get(entry.index):
            grad.sent, grad.local = True, None
        else:
            entry.parameter.grad = self._wait_for(entry, None, sent=True)

    def _wait_for(self, entry: Entry, content: Grad, sent: bool) -> WaitingGrad:
        grad = self._waiting[entry.index] = WaitingGrad(entry, self.settle, content, sent)
        return grad

    def _check(self, entry: Entry, grad: Tensor) -> None:
        if grad.dtype != entry.parameter.dtype or tuple(grad.shape) != tuple(entry.parameter.shape):
            raise PacelineError(f"the gradient of {entry.name} is {grad.dtype} {tuple(grad.shape)}, the parameter {entry.parameter.dtype} {tuple(entry.parameter.shape)}")

    def _refuse_stale(self, entry: Entry) -> None:
        raise PacelineError(
            f"parameter {entry.name} was used in this forward pass before its update was applied: something reads it past the module that owns it, by a "
            f"reference of its own or in a graph compiled before attach. Read it as an attribute of its module, compile after attach, or use attach(..., apply='at-step')",
            subject=entry.name,
        )

    # --- gradients that somebody looks at

    def settle(self, grad: WaitingGrad) -> Tensor:
        """The mean that `grad` stands for, in memory of its own."""
        with self.lock:
            entry = grad.entry
            pending = self.pending
            if pending is not None and pending.grads[entry.index] is grad:
                self.open([entry.layer], "a gradient read")
                return grad.arrived if grad.arrived is not None else torch.zeros_like(entry.parameter)  # used by nobody
            if self._waiting.get(entry.index) is not grad:
                raise PacelineError(f"the gradient of {entry.name} belongs to an iteration that has ended", subject=entry.name)
            if in_backward():
                raise PacelineError(
                    f"the gradient of {entry.name} was touched in backward() after it had been sent: a second backward pass before optimizer.step(), or a hook "
                    f"that reads .grad. Put all backward passes but the last into `with job.no_sync():`, or use attach(..., accumulate=N) or attach(..., expect='counted')",
                    subject=entry.name,
                )
            with self.account.timed(reader()):
                self.conclude()
                return self._mean_of(grad)

    def _mean_of(self, grad: WaitingGrad) -> Tensor:
        entry, iteration = grad.entry, self.ledger.iteration
        self.exchange.wait_layer(entry.layer, iteration)
        with torch.inference_mode(False), torch.no_grad():
            if not grad.sent and self._nobody_used(entry.index, iteration):
                return torch.zeros_like(entry.parameter)
            mean = self.exchange.mean(entry, iteration, own=True)
            if self.script_clip is not None:
                mean.mul_(self.script_clip.coefficient())
                grad.scaled = True
            return mean

    def _nobody_used(self, index: int, iteration: int) -> bool:
        return index in self.exchange.verdict(iteration).unused_by_all

    # --- the end of an iteration

    def conclude(self) -> None:
        """No more gradients of this iteration come from this rank."""
        ledger = self.ledger
        if ledger.concluded:
            return
        self.synchronize("step")
        if (tensor := ledger.miscounted()) is not None and ledger.expected is not None:
            name = self.table.entries[tensor].name
            raise PacelineError(
                f"the gradient of {name} was finished {ledger.finishes[tensor]} times in this iteration and {ledger.expected[tensor]} times in the first; "
                f"attach(..., expect='counted') needs the same number in every iteration",
                subject=name,
            )
        self._unused.clear()
        with torch.no_grad():
            for index in ledger.unsent():
                self._conclude_entry(self.table.entries[index])
        if not any(ledger.sent) and not self._said_nothing_finished:
            self._said_nothing_finished = True
            warnings.warn(
                "no gradient was finished before optimizer.step(): backward() did not reach a parameter of the attached model. A loop that uses "
                "torch.autograd.grad must store its result in parameter.grad",
                stacklevel=4,
            )
        if not self.exchange.counted:
            raise PacelineError("attach(average='samples') weights gradients by samples: call job.samples(len(x)) before step()", subject="samples")
        if self.buffers.send(self.exchange.node.rank):
            self.buffers.due = ledger.iteration
        self.exchange.conclude(ledger.iteration, sorted(self._unused))
        ledger.conclude()

    def _conclude_entry(self, entry: Entry) -> None:
        grad = entry.parameter.grad
        if entry.index in self.frozen:
            if entry.parameter.requires_grad or grad is not None:
                raise PacelineError(
                    f"parameter {entry.name} was frozen and in no optimizer when attach ran, and learns now; attach(..., may_thaw=True) keeps a place for it", subject=entry.name
                )
            return
        self.adopt(entry)
        content = grad.content() if isinstance(grad, WaitingGrad) else grad
        if content is None:
            self._unused.add(entry.index)
            if grad is None and entry.parameter.requires_grad:
                entry.parameter.grad = self._wait_for(entry, None, sent=False)
        else:
            self._send(entry, content)  # it was set by hand, or accumulated and not finished in the last pass

    def step(self) -> None:
        """The script's optimizer.step(): from here on layers are updated when they are needed."""
        with self.lock:
            self._refuse_replaced()
            self.conclude()
            iteration = self.ledger.iteration
            for member in self.stepper.parameters():
                if self.table.of(member) is None:
                    raise PacelineError("the optimizer has a parameter that the attached model had not when attach ran; attach a model that holds it")
            grads: list[Grad] = [entry.parameter.grad for entry in self.table.entries]
            clip = self.script_clip
            if self.clip_norm is not None:
                clip = Clip(self.clip_norm, self._norm_of(iteration, grads))
            self.script_clip = None
            self.pending = Pending(iteration, grads, set(self._unused), clip)
            self.stepper.freeze()
            self._waiting = {}
            self.ledger.step()
            if (order := self.order.stepped()) is not None:
                self.exchange.set_order(order)
            for tell in self.on_due:
                tell()
            if self.stepper.stepping is Stepping.AT_STEP or hasattr(self.stepper.optimizer, "grad_scale"):
                self.synchronize("step")  # a loss scaler's attributes last as long as its call

    def drop(self, why: str) -> None:
        """Ends an iteration without a step: gradients that somebody may still look at become what they would be, the mean."""
        if self.ledger.concluded or any(self.ledger.sent) or self._waiting:
            with self.account.timed(why):
                self.conclude()
                self.exchange.wait_all(self.ledger.iteration)
            for index in list(self._waiting):
                self._drop_gradient(self._waiting.pop(index))
            self.script_clip = None
            self.ledger.drop()

    def _drop_gradient(self, grad: WaitingGrad) -> None:
        parameter = grad.entry.parameter
        shown = parameter.grad is grad
        if grad.arrived is None and (shown or sys.getrefcount(grad) > OURS):
            grad.arrived = self._mean_of(grad)
        if shown:
            nobody = not grad.sent and self._nobody_used(grad.entry.index, self.ledger.iteration)
            parameter.grad = None if nobody else grad.arrived

    def zero_grad(self, clear: Callable[[], None], set_to_none: bool) -> None:
        """The optimizer's zero_grad. Gradients whose layer is due are the step's already: the script's view of them is cleared."""
        with self.lock:
            if self.pending is None:
                if any(self.ledger.sent) or self.ledger.concluded:
                    self.drop("zero_grad")
                for index, grad in self._waiting.items():  # accumulated and not sent
                    if (parameter := self.table.entries[index].parameter).grad is grad:
                        parameter.grad = grad.content()
                self._waiting = {}
                clear()
                return
            for parameter in self.stepper.parameters():
                if set_to_none or parameter.grad is None:
                    parameter.grad = None
                elif (entry := self.table.of(parameter)) is not None and entry.layer in self.ledger.due:
                    parameter.grad = torch.zeros_like(parameter)
                else:
                    parameter.grad.detach_().zero_()

    def _refuse_replaced(self) -> None:
        for entry in self.table.entries:
            if dict.get(entry.owner._parameters, entry.key) is not entry.parameter:
                raise PacelineError(
                    f"parameter {entry.name} is another object than when attach ran (load_state_dict(assign=True), a parametrization, or an assignment); "
                    f"change the model first, then make the optimizer, then attach",
                    subject=entry.name,
                )

    # --- layers that are needed

    def passed(self, layers: Iterable[int], reason: str) -> None:
        """Somebody is about to read these layers."""
        if self.order.watching:
            for layer in layers:
                self.order.passed(layer)
        if self.ledger.due:
            self.open(layers, reason)

    def open(self, layers: Iterable[int], reason: str) -> None:
        if self.inert:
            return
        with self.lock:
            if self.stepping_now:
                return
            due = [layer for layer in layers if layer in self.ledger.due]
            if not due:
                return
            if self.stepper.stepping is not Stepping.SPLIT:
                due = sorted(self.ledger.due)
                self._update(due, reason)
                return
            for layer in due:
                self._update([layer], reason)

    def synchronize(self, reason: str) -> None:
        self.open(self.order.current, reason)

    def _update(self, layers: list[int], reason: str) -> None:
        pending = self.pending
        assert pending is not None
        with self.account.timed(reason), torch.inference_mode(False):
            for layer in layers:
                if layer in self._exchanged:
                    self.exchange.wait_layer(layer, pending.iteration)
            coefficient = pending.clip.coefficient() if pending.clip else 1.0
            entries = [entry for layer in layers for entry in self.table.layers[layer] if entry.index not in self.frozen]
            left = {e.index for e in entries if self._left_alone(pending, e)}
        self.stepping_now = True
        try:
            with outside_of_forward():
                shown = [(entry, entry.parameter.grad) for entry in entries]
                with torch.no_grad():
                    after = [self._put(pending, entry, grad, coefficient, entry.index in left) for entry, grad in shown]
                self.stepper.step({entry.parameter for entry in entries})
                for entry, grad in zip(entries, after):
                    entry.parameter.grad = grad
        finally:
            self.stepping_now = False
        self.ledger.opened(layers)
        if not self.ledger.due:
            self.pending = None
            self.stepper.finish()
            for tell in self.on_stepped:
                tell()

    def _left_alone(self, pending: Pending, entry: Entry) -> bool:
        """Whether no rank has used it: then the optimizer sees no gradient, as in one process."""
        grad = pending.grads[entry.index]
        if entry.index not in pending.unused or not (grad is None or isinstance(grad, WaitingGrad)):
            return False
        return not entry.parameter.requires_grad or self._nobody_used(entry.index, pending.iteration)

    def _put(self, pending: Pending, entry: Entry, shown: Grad, coefficient: float, left: bool) -> Grad:
        """Puts the gradient that the step is to use in place; returns what the script shall see as `.grad` afterwards."""
        given = pending.grads[entry.index]
        pending.grads[entry.index] = None
        kept = shown is given
        parameter = entry.parameter
        if left or (given is None and entry.index not in pending.unused):
            parameter.grad = None  # used by nobody, or taken away by the script
            return None if kept or isinstance(shown, WaitingGrad) else shown
        scaled = False
        if given is None or (isinstance(given, WaitingGrad) and given.arrived is None):
            parameter.grad = None
            held = given is not None and (kept or sys.getrefcount(given) > OURS - 1)
            own = held or kept or self.stepper.kind not in SPLIT
            grad = self.exchange.mean(entry, pending.iteration, own)
            if held and isinstance(given, WaitingGrad):
                given.arrived = grad
        elif isinstance(given, WaitingGrad):
            assert given.arrived is not None
            grad, scaled = given.arrived, given.scaled
        else:
            grad = given
        if coefficient != 1.0 and not scaled:
            grad.mul_(coefficient)
        parameter.grad = grad
        return grad if kept else shown

    # --- the norm

    def clip_by_script(self, max_norm: float) -> Clip:
        """Clips this iteration's means by their norm, as they are used."""
        with self.lock:
            if self.clip_norm is not None:
                raise PacelineError(f"attach(clip_norm={self.clip_norm}) clips already; remove one of the two", subject="clip_norm")
            self.conclude()
            grads: list[Grad] = [entry.parameter.grad for entry in self.table.entries]
            clip = Clip(max_norm, self._norm_of(self.ledger.iteration, grads))
            looked_at = any(grad is not None and not (isinstance(grad, WaitingGrad) and grad.arrived is None) for grad in grads)
            if looked_at:
                with torch.no_grad():
                    for grad in grads:
                        if grad is not None:
                            grad.mul_(clip.coefficient())
            else:
                self.script_clip = clip
            return clip

    def _norm_of(self, iteration: int, grads: list[Grad]) -> Callable[[], float]:
        """By verdict, unless the script has changed gradients or other tensors travel beside them: then from the numbers themselves."""
        untouched = all(grad is None and i in self._unused | self.frozen or isinstance(grad, WaitingGrad) and grad.arrived is None for i, grad in enumerate(grads))
        alone = all(row.frozen for row in self.exchange.rows)

        def by_verdict() -> float:
            with self.account.timed("clip_norm"):
                return math.sqrt(self.exchange.verdict(iteration).square_sum)

        def by_numbers() -> float:
            with self.account.timed("clip_norm"), torch.inference_mode(False), torch.no_grad():
                self.exchange.wait_all(iteration)
                total = 0.0
                for index, grad in enumerate(grads):
                    value = grad.arrived if isinstance(grad, WaitingGrad) and grad.arrived is not None else grad
                    if isinstance(value, WaitingGrad) or value is None and index in self._unused:
                        if not self._nobody_used(index, iteration) and index not in self.frozen:
                            entry = self.table.entries[index]
                            value = self.exchange.mean(entry, iteration, own=True)
                            if isinstance(grad, WaitingGrad):
                                grad.arrived = value
                        else:
                            value = None
                    if value is not None:
                        total += float(value.double().square().sum())
                return math.sqrt(total)

        return by_verdict if untouched and alone else by_numbers

    @property
    def learning_counts(self) -> bool:
        return self._expected == COUNTED and self.ledger.expected is None


def reader() -> str:
    """Who reads a gradient, by the names that the report's hint knows."""
    frame = sys._getframe(1)
    for _ in range(24):
        name = frame.f_code.co_name
        if name in ("clip_grad_norm_", "unscale_", "clip_grad_value_"):
            return name
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "a gradient read"
