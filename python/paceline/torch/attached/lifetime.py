"""Ends of a process that the script does not spell out: a fork, the interpreter's exit, an exception that nobody caught, sys.exit with a status."""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from paceline import _ending
from paceline._errors import PacelineError
from paceline.torch.attached import summary

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from paceline.torch.attached.job import Job
    from paceline.torch.attached.table import Table

INTERRUPTED = 130  # the exit code of a program that Ctrl-C has ended
_jobs: weakref.WeakValueDictionary[int, Job] = weakref.WeakValueDictionary()  # in the order of attach, which is that of all ranks
_models: list[str] = []  # of all jobs so far: the class
_installed = False
_failure: BaseException | None = None  # that ends this process
_status = 0  # of this process, by a job that failed while it was left


class Stopped(KeyboardInterrupt):
    """The job was asked to stop, and the script does not look at `job.stopping`. It ends in order, on all ranks after the same iteration."""

    def __init__(self, rank: int, iteration: int) -> None:
        super().__init__(f"stopped after iteration {iteration}, as the job was asked to; a script that looks at job.stopping leaves its loop by itself, and can save")
        self.rank = rank


def register(job: Job, model: str) -> Callable[[], str]:
    """`model`: its class. Returns what tells the job's name, as long as there are several."""
    number = len(_models)
    _models.append(model)
    _jobs[number] = job
    install()
    return lambda: summary.name_of(_models, number)


def sentence(rank: int, error: BaseException) -> str:
    # In one line: a terminal shows the last line last, and there the rank belongs.
    text = " | ".join(filter(None, map(str.strip, str(error).splitlines())))
    return f"rank {rank}: {type(error).__name__}{': ' if text else ''}{text}"


def install() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    # What a child reads of the model is what this process would read; nothing of the job is the child's.
    os.register_at_fork(before=before_fork, after_in_child=after_fork)
    atexit.register(at_exit)
    _ending.watch_exits()
    before = sys.excepthook

    def remember(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        global _failure
        _failure = error
        if not isinstance(error, Stopped):
            before(kind, error, trace)
        elif error.rank == 0:
            print(f"paceline: {error}", file=sys.stderr)

    sys.excepthook = remember


def leave(model: nn.Module, optimizer: Optimizer) -> None:
    """Whatever job the model or the optimizer is in."""
    for number, job in list(_jobs.items()):
        if job._holds(model, optimizer):
            del _jobs[number]
            job._leave()


def attached() -> Iterator[Table]:
    """The parameters of every job that has not ended."""
    return (job._front.table for job in list(_jobs.values()) if not job._front.inert)


def before_fork() -> None:
    for job in list(_jobs.values()):
        job._settle_before_fork()


def after_fork() -> None:
    for job in list(_jobs.values()):
        job._become_inert()
    _jobs.clear()


def at_exit() -> None:
    """The others must not wait for this rank: it is done, or it has failed and they shall say why. A job is done when all ranks are, so each of several
    is closed in the same order everywhere."""
    global _status
    failure = _failure or _ending.asked()
    stopped = isinstance(failure, Stopped)
    _status = INTERRUPTED if stopped else 0
    for job in list(_jobs.values()):
        try:
            if failure is not None and not stopped:
                job.fail(sentence(job.rank, failure))
            else:
                job.close()
        except PacelineError as error:
            _status = error.exit_code
            print(f"paceline: error: {error} [paceline help {error.page}]", file=sys.stderr)


def end(error: BaseException | None) -> int:
    """Of a rank whose interpreter does not exit: leaves every job, as with `error`; its status."""
    global _failure
    _failure = error
    at_exit()
    return _status


@atexit.register  # with this import, so that it runs after what a script registers
def tell_status() -> None:
    """A script that is over before its job fails has ended in order, as far as the interpreter knows; whoever started it must hear otherwise."""
    if _status:
        for child in multiprocessing.active_children():
            child.terminate()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status)
