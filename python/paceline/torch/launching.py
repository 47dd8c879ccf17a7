"""Ranks started from a prompt or a notebook: forks of this process, so that a function typed there is theirs too."""

from __future__ import annotations

import dataclasses
import multiprocessing
import multiprocessing.process
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from paceline import _joining
from paceline._addresses import reserved_port
from paceline._errors import PacelineError
from paceline.launch import LAUNCHERS
from paceline.torch.attached import lifetime

LOCAL = "127.0.0.1"
GRACE = 30.0  # seconds that ranks have to hear that one of them has failed, and to end


@dataclasses.dataclass(frozen=True)
class Told:
    """By a rank to its parent: what its function returned, or why it failed."""

    value: Any
    failed: bool = False
    repeats: bool = False  # another rank's failure, perhaps


def launch(function: Callable[..., Any], ranks: int, *arguments: Any) -> list[Any]:
    """Runs `function(*arguments)` on `ranks` processes of this machine, forks of this one, and returns what each has returned, by rank. The function makes
    its model, attaches and trains, as a script that torchrun has started. Each rank computes with one thread, for a fork cannot use its parent's.

    Raises PacelineError when a rank fails, with its exception's text, and where this process is a rank itself or has used a GPU, which no fork can.
    """
    if ranks < 1:
        raise PacelineError(f"launch(function, {ranks}): legal: 1 and more ranks", subject="ranks")
    if given := next((name for _, *names in LAUNCHERS[:2] for name in names if name in os.environ), None):
        raise PacelineError(f"{given}={os.environ[given]}: a launcher has started this process as a rank; call the function itself, or unset {given}", code="contradiction", subject=given)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise PacelineError("this process has used a GPU, and a fork of it cannot; launch before that, or start a script by torchrun", subject="device")
    context = multiprocessing.get_context("fork")
    started: list[tuple[multiprocessing.process.BaseProcess, Connection]] = []
    sys.stdout.flush()
    with reserved_port(LOCAL) as port:
        try:
            for rank in range(ranks):
                hears, tells = context.Pipe(duplex=False)
                process: multiprocessing.process.BaseProcess = context.Process(target=_be, args=(rank, ranks, port, tells, function, arguments))
                process.start()
                tells.close()
                started.append((process, hears))
            return _results(started)
        finally:
            for process, _ in started:
                process.kill()
                process.join()


def _results(started: list[tuple[multiprocessing.process.BaseProcess, Connection]]) -> list[Any]:
    """Of all ranks. A failure is the reason of those that follow: who only repeats another rank's is not the one to name."""
    told: dict[int, Told] = {}
    while len(told) < len(started):
        waiting = [hears for rank, (_, hears) in enumerate(started) if rank not in told]
        ready = wait(waiting, GRACE if any(one.failed for one in told.values()) else None)
        if not ready:
            break
        for rank, (process, hears) in enumerate(started):
            if hears in ready:
                try:
                    told[rank] = hears.recv()
                except EOFError:
                    process.join()
                    told[rank] = Told(f"its process ended with code {process.exitcode}", failed=True)
    failed = [rank for rank, one in told.items() if one.failed]
    if failed:
        rank = min(failed, key=lambda one: (told[one].repeats, one))
        raise PacelineError(f"rank {rank}: {told[rank].value}", kind="peer-lost", code="program-failed", subject=f"rank {rank}")
    return [told[rank].value for rank in range(len(started))]


def _be(rank: int, ranks: int, port: int, tells: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """A rank, from its fork to its end."""
    torch.set_num_threads(1)
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
    os.environ.update({"MASTER_ADDR": LOCAL, **{name: str(value) for name, value in numbers.items()}})
    _joining._attached = 0  # jobs and stores so far are the parent's
    _joining._stores.clear()
    error: BaseException | None = None
    try:
        told = Told(function(*arguments))
    except BaseException as caught:  # noqa: BLE001  told to the parent
        error = caught
        told = Told(lifetime.sentence(rank, caught).partition(": ")[2], failed=True, repeats=isinstance(caught, PacelineError))
        if not isinstance(caught, PacelineError):
            traceback.print_exc()
    status = lifetime.end(error)
    try:
        tells.send(told if told.failed or status == 0 else Told("its job failed while it was left", failed=True, repeats=True))
    except Exception as unsent:  # noqa: BLE001  what cannot be pickled
        tells.send(Told(f"what the function returned cannot be sent to the parent: {unsent}", failed=True))
    sys.stdout.flush()
