"""What the script holds of the job."""

from __future__ import annotations

import math
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, overload

import torch
from torch import Tensor
from torch.utils.data import Dataset, DistributedSampler

from paceline import _ending
from paceline._errors import PacelineError
from paceline._node import Node, Place
from paceline.torch.attached import lifetime, summary
from paceline.torch.attached.clipping import Norm, clip_by_script
from paceline.torch.attached.front import Front
from paceline.torch.attached.gates import Gates, attached_to
from paceline.torch.attached.others import Others
from paceline.torch.attached.sampler import Sampler
from paceline.torch.attached.swapped import restore

LEAVE = 1.0  # seconds to say goodbye


class Job:
    """One attached model and optimizer. A context manager: leaving it ends this rank's part, and an exception ends the job for all."""

    def __init__(self, front: Front, gates: Gates, node: Node, place: Place = Place()) -> None:
        self._front = front
        self._gates = gates
        self._node = node
        self._others = Others(place, node.rank, node.workers)
        self._told: summary.Exchanged | None = None
        self._loss = math.nan
        self._asked_to_stop = False
        self._stopped: int | None = None  # the iteration after which the job was asked to stop
        self._heeded = False  # the script looks whether it was
        front.on_iteration.append(self._iteration_done)
        front.on_due += [front.account.stepped, self._stop_who_does_not_look]
        self._name = lifetime.register(self, type(gates.model).__name__)

    def __repr__(self) -> str:
        return f"<Job: rank {self.rank} of {self.workers}, {'closed' if self._front.inert else f'iteration {self.iteration}'}, {self.stepping}>"

    @property
    def rank(self) -> int:
        return self._node.rank

    @property
    def workers(self) -> int:
        return self._node.workers

    @property
    def iteration(self) -> int:
        """The one whose gradients are being computed."""
        return self._front.ledger.iteration

    @property
    def stopping(self) -> bool:
        """Somebody asked the job to stop (Ctrl-C in `paceline run`): leave the loop, after the same iteration on all ranks. A script that never looks here
        gets KeyboardInterrupt from its next step(), on all ranks in the same one."""
        self._heeded = True
        return self._stopped is not None

    @property
    def stepping(self) -> str:
        """How the optimizer is stepped, and why so."""
        return f"{self._front.stepper.kind.__name__}: stepped {self._front.stepper.stepping.value}"

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here add to this rank's gradients and send nothing."""
        before, self._front.paused = self._front.paused, True
        try:
            yield
        finally:
            self._front.paused = before

    def samples(self, count: int) -> None:
        """How many samples the next backward pass stands for, before it. With attach(average="samples") gradients are weighted by it, accumulated ones
        by the sum of their passes; otherwise it is only counted, for the job's report."""
        self._front.exchange.samples.tell(count)

    def loss(self, value: float) -> None:
        """The loss of this iteration, for progress and report."""
        self._loss = float(value)

    def stop(self) -> None:
        """Asks the job to stop: `job.stopping` becomes true after the same iteration on all ranks, which then save, and close. Rank 0's word counts, others'
        does nothing; so all ranks may call it that a launcher has sent a signal, from its handler too."""
        if self._stopped is None and not self._asked_to_stop:
            self._asked_to_stop = True  # twice means: at once
            self._node.stop()

    def synchronize(self) -> None:
        """Applies every update that is still due."""
        with self._front.lock:
            self._front.synchronize("synchronize")
            self._front.buffers.adopt(self.workers)

    @overload
    def mean(self, value: float) -> float: ...
    @overload
    def mean(self, value: Tensor) -> Tensor: ...
    def mean(self, value: float | Tensor) -> float | Tensor:
        """The mean over all ranks of a number, or of a tensor element by element, such as a validation loss or counts of what was right. All ranks call it,
        with tensors of one shape; for ranks with other numbers of samples take means of sums, and divide. It is added in float64 in the order of ranks:
        the same bits on all. A tensor of whole numbers gives one of torch's default type."""
        self._check_open()
        mean = self._others.mean(torch.as_tensor(value))
        if not isinstance(value, Tensor):
            return mean.item()
        return mean.to(value.device, value.dtype if value.is_floating_point() else torch.get_default_dtype())

    def barrier(self) -> None:
        """Returns when all ranks have called it: for what rank 0 alone prepares, and the others read then."""
        self._check_open()
        self._others.barrier()

    def _check_open(self) -> None:
        if self._front.inert:
            raise PacelineError("the job is closed: its ranks do not hear of each other any more", subject="job")

    def sampler(self, dataset: Dataset[Any], **options: Any) -> DistributedSampler[Any]:
        """This rank's share of a data set, as DistributedSampler cuts it, with its options: shuffle, seed, drop_last. Each pass has a new order, that of
        epoch 0, 1, and so on; one in which nothing was trained does not count. After set_epoch(epoch) the script sets it for each pass, as when it resumes."""
        return Sampler(dataset, self.workers, self.rank, lambda: self._front.passes.count, **options)

    def clip_grad_norm_(self, max_norm: float) -> Norm:
        """Between backward() and step(): clips this iteration's means by their norm. Nothing waits until the norm is looked at or needed, but for a second
        call before the same step()."""
        return clip_by_script(self._front, max_norm, self._front.table.entries)

    def report(self) -> dict[str, float]:
        """Iterations after the first, and of one of them: seconds, computing, exposed (waited by this rank), and what was waited by reason. On
        rank 0 after close() also hidden (seconds of the exchange behind computing, mean of all ranks), link (that its bytes need there) and bound."""
        return summary.complete(self._front.account.report(), self._told)

    def advice(self) -> str:
        """One sentence on what would save most waiting, "" if nothing is worth it."""
        return summary.advice(self.report(), self._front.account.max_norm, is_narrow=self._front.exchange.is_narrow, told=self._told)

    def close(self) -> None:
        """Applies what is due, tells the others that this rank is done, and gives model and optimizer back as they were, also if the job has failed.
        Gradients that were sent and not stepped become their means, as a skipped step leaves them; with update="server" they are an error."""
        if self._front.inert:
            return
        try:
            self.synchronize()
            self._finish()
            self._front.updates.on_finished()
            self._summarize()
        except Exception as error:  # not KeyboardInterrupt, after which it may be closed again
            self.fail(lifetime.sentence(self.rank, error))
            raise
        self._give_back()

    def _finish(self) -> None:
        try:
            with self._front.lock:
                if self._front.ledger.told:  # without a step: an iteration that has begun for the others has to end, or they are told that ranks differ
                    self._front.drop("close")
                    self._front.buffers.adopt(self.workers)
                self._front.updates.on_end(self._gates.window.is_open)
            self._front.account.ended()
            self._node.finish(math.inf)  # the others may be behind; the job's own limits end a wait for one that is gone
        except PacelineError as error:
            if not (self._stopped is not None and error.kind == "cancelled"):  # that somebody asked it to stop is how it was to end
                raise

    def _summarize(self) -> None:
        """At the job's end, by the rank that has heard of all."""
        told = self._node.report()
        if told is None or self.workers == 1:
            return
        self._told = summary.exchanged(told)
        lines = self.report()
        if "seconds" in lines:
            name = f"{own}: " if (own := self._name()) else ""
            for said in filter(None, (summary.sentence(lines, self.workers), self.advice())):
                print(f"paceline: {name}{said}", file=sys.stderr)

    def fail(self, reason: str) -> None:
        """Ends the job for all ranks with `reason`, and gives model and optimizer back as they are: a layer whose update was due has not had it."""
        if not self._front.inert:
            self._front.inert = True
            self._node.fail(reason)
            self._front.updates.on_failed()
            self._give_back()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if error is None or isinstance(error, lifetime.Stopped) or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close()
        else:
            if 0 < (late := len(self._front.ledger.due)) < len(self._front.table.layers):
                warnings.warn(f"{late} of {len(self._front.table.layers)} layers have not had the update that the others have; go on from a checkpoint", stacklevel=2)
            self.fail(lifetime.sentence(self.rank, error))

    def _holds(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> bool:
        return self._front.stepper.optimizer is optimizer or self._front in attached_to(model)

    def _leave(self) -> None:
        """Closes, also a job that has failed."""
        try:
            self.close()
        except PacelineError as error:
            warnings.warn(f"the job that was left had failed: {error}", stacklevel=5)

    def _give_back(self) -> None:
        with self._front.lock:
            self._front.inert = True
            self._gates.remove()
            restore(self._front.stepper.optimizer)
        self._others.close(LEAVE)
        self._front.exchange.release()
        self._node.close(LEAVE)
        self._front.exchange.close()

    def _iteration_done(self) -> None:
        _ending.going_on()
        if self._node.step_done(self._front.exchange.samples.total, self._loss, self._front.account.phases.taken()) and self._stopped is None:
            self._stopped = self.iteration
        self._loss = math.nan

    def _stop_who_does_not_look(self) -> None:
        """After a step. One iteration is left to a script that will look."""
        if self._stopped is not None and not self._heeded and self.iteration > self._stopped + 1:
            raise lifetime.Stopped(self.rank, self.iteration - 1)

    def _settle_before_fork(self) -> None:
        if not self._front.inert:
            self.synchronize()

    def _become_inert(self) -> None:
        self._front.inert = True


def clip_grad_norm_(model: torch.nn.Module, max_norm: float) -> Norm:
    """torch.nn.utils.clip_grad_norm_ for an attached model, without waiting for all gradients: the norm is known earlier. For part of a model, it waits
    for the gradients."""
    fronts = set(attached_to(model))
    if not fronts:
        raise PacelineError("clip_grad_norm_ of paceline.torch takes a model that is attached; torch.nn.utils.clip_grad_norm_ clips any other")
    front = fronts.pop()
    found = [front.table.of(parameter) for parameter in model.parameters()]
    entries = [entry for entry in found if entry is not None]
    if len(entries) < len(found):
        raise PacelineError(
            f"clip_grad_norm_: {len(found) - len(entries)} parameters of the {type(model).__name__} are not in the job of the others, which does not know their norm; "
            f"give each attached model by itself, or all to torch.nn.utils.clip_grad_norm_, which waits for their gradients",
            subject="clip_grad_norm_",
        )
    return clip_by_script(front, max_norm, entries)


