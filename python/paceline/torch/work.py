"""What torch.distributed is given of an operation in flight: to be waited for, or a future."""

from __future__ import annotations

import atexit
import datetime
import queue
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work

from paceline._errors import PacelineError
from paceline.torch.in_flight import InFlight


_open: weakref.WeakSet[Completer] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """Of a script that has not destroyed its groups."""
    for completer in list(_open):
        completer.end(1.0)


class Completer:
    """Completes futures, whom nobody waits for in Python. What follows a future may wait for a later one, so a thread that is about to complete
    one leaves the others to another thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[InFlight, torch.futures.Future[Any], list[Tensor]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        _open.add(self)
        self._free = 0  # of them: not inside of a future, so that what comes next is seen to

    def add(self, pending: InFlight, future: torch.futures.Future[Any], result: list[Tensor]) -> None:
        self._queue.put((pending, future, result))
        self._need_one()

    def end(self, seconds: float) -> None:
        """Nothing follows. A thread that is inside of torch when the interpreter ends would end the process."""
        self._queue.put(None)
        _open.discard(self)
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(seconds)

    def _need_one(self) -> None:
        with self._lock:
            if self._free == 0:
                self._free += 1
                self._threads.append(threading.Thread(target=self._run, name="paceline futures", daemon=True))
                self._threads[-1].start()

    def _run(self) -> None:
        while (taken := self._queue.get()) is not None:
            pending, future, result = taken
            error: Exception | None = None
            try:
                pending.wait()
            except Exception as raised:
                error = raised
            with self._lock:
                self._free -= 1
            self._need_one()
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
            with self._lock:
                self._free += 1
        self._queue.put(None)  # for the other threads


class Operation(Work):
    """What torch knows of an operation in flight."""

    def __init__(self, pending: InFlight, result: Sequence[Tensor], completer: Completer, rank: int) -> None:
        super().__init__()
        self._pending = pending
        self._result = list(result)
        self._completer = completer
        self._rank = rank
        self._future: torch.futures.Future[Any] | None = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        limit = timeout.total_seconds() if timeout is not None else 0.0
        if not self._pending.wait(limit if limit > 0 else float("inf")):
            raise PacelineError(f"an operation of rank {self._rank} was not over after {limit:g} s; the others may not have begun it", kind="deadline")
        return True

    def is_completed(self) -> bool:
        """Goes on with what is left to do, so that a script may ask until it is over. Of a Backend (PyTorch 2.14) PyTorch does not ask."""
        return self._pending.poll()

    def is_success(self) -> bool:
        return self._pending.poll() and self._pending.error is None

    def exception(self) -> BaseException | None:
        return self._pending.error

    def result(self) -> list[Tensor]:
        return self._result

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def get_future(self) -> torch.futures.Future[Any]:
        if self._future is None:
            self._future = torch.futures.Future()
            self._completer.add(self._pending, self._future, self._result)
        return self._future
