"""What torch.distributed is given of an operation in flight: to be waited for, or a future."""

from __future__ import annotations

import atexit
import collections
import dataclasses
import datetime
import math
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.utils._pytree import tree_leaves

from paceline._backend import looks_up
from paceline._errors import PacelineError
from paceline.torch.backend import dispatched
from paceline.torch.backend.in_flight import Awaited, InFlight


Completion = tuple[Awaited, "torch.futures.Future[Any]", list[Any]]
KEPT, SMALL = 256, 64  # operations that nobody has waited for, and how many elements such a one may have
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
        self._queue: queue.SimpleQueue[Completion | None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # an operation that nobody holds any more may be added from anywhere
        self._threads: list[threading.Thread] = []
        _open.add(self)
        self._free = 0  # of them: not inside of a future, so that what comes next is seen to
        self.kept: collections.deque[Operation] = collections.deque(maxlen=KEPT)
        self._ended = False

    def add(self, pending: Awaited, future: torch.futures.Future[Any], result: list[Any]) -> None:
        self._queue.put((pending, future, result))
        if not self._ended:
            self._need_one()

    def end(self, seconds: float) -> None:
        """Nothing follows. A thread that is inside of torch when the interpreter ends would end the process."""
        self._ended = True
        self._queue.put(None)
        self.kept.clear()
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
                pending.wait(math.inf)
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


@dataclasses.dataclass(frozen=True)
class Limit:
    """How long an operation may take, as its group was given it."""

    rank: int
    seconds: float
    by_core: bool  # which then knows more of why, and fails by itself

    def over(self, pending: InFlight, asked: float = math.inf) -> bool:
        """`asked`: by who waits, instead of the group's."""
        own = math.inf if self.by_core else self.seconds
        try:
            if pending.wait(min(asked, own)):
                return True
        except PacelineError as error:
            if error.kind != "deadline" or error.code == "timeout":
                raise
            sentence = f"{error.message}; the timeout of the group is {self.seconds:g} s"
            raise PacelineError(sentence, kind=error.kind, code="timeout", subject=error.subject, exit_code=error.exit_code) from None
        passed = asked if asked < own else self.seconds
        sentence = f"an operation of rank {self.rank} was not over within its timeout of {passed:g} s; the others may not have begun it"
        raise PacelineError(sentence, kind="deadline", code="timeout")


@dataclasses.dataclass(frozen=True)
class Limited:
    pending: InFlight
    limit: Limit

    def wait(self, seconds: float = math.inf) -> bool:
        return self.limit.over(self.pending, seconds)


def seconds_of(timeout: datetime.timedelta | None) -> float:
    """None, and what torch has for none, which is negative: no limit."""
    given = timeout.total_seconds() if timeout is not None else 0.0
    return given if given > 0 else math.inf


def is_tensor_of(what: object, kind: torch.dtype) -> bool:
    return isinstance(what, Tensor) and what.dtype is kind


class Operation(Work):
    """What torch knows of an operation in flight."""

    def __init__(
        self, pending: InFlight, result: Sequence[Any], completer: Completer, limit: Limit, source: Callable[[], int] = lambda: -1
    ) -> None:
        """`result`: tensors, or lists of them. `source`: the rank that has sent, of a receive that is over."""
        super().__init__()
        self._pending = pending
        self._result = list(result)
        self._completer = completer
        self._limit = limit
        self._source = source
        self._future: torch.futures.Future[Any] | None = None
        self._waited = False

    def __del__(self) -> None:
        """Nobody waits, and its tensors get their values all the same. Torch may hold its half of the object, and wait by it: DistributedDataParallel
        does, for the number of ranks that are left within join(divide_by_initial_world_size=False). Without this half that wait has no end."""
        if self._waited:
            return
        if sum(tensor.numel() for tensor in tree_leaves(self._result)) <= SMALL:
            self._completer.kept.append(self)
        if not self._pending.over:
            self._completer.add(Limited(self._pending, self._limit), torch.futures.Future(), [])

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        self._waited = True
        return self._limit.over(self._pending, seconds_of(timeout))

    def _source_rank(self) -> int:
        return self._source()

    source_rank = _source_rank

    def is_completed(self) -> bool:
        """Goes on with what is left to do, so that a script may ask until it is over. Of a Backend (PyTorch 2.14) PyTorch does not ask."""
        return self._pending.poll()

    def is_success(self) -> bool:
        return self._pending.poll() and self._pending.error is None

    def exception(self) -> BaseException | None:
        return self._pending.error

    def result(self) -> list[Any]:
        return self._result

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def get_future(self) -> torch.futures.Future[Any]:
        self._waited = True
        if self._future is None:
            self._future = torch.futures.Future()
            if self._pending.over and self._pending.error is None:
                self._future.set_result(self._result)  # who has waited may look at once, as DistributedDataParallel does
            else:
                self._completer.add(Limited(self._pending, self._limit), self._future, self._result)
        # DistributedDataParallel's built-in hooks: the one that rounds to 16 bits wants tensors, the plain one takes a list of Python too.
        if self._result and is_tensor_of(self._result[0], torch.float16) and not looks_up() and dispatched.is_asked_in_cpp():
            return dispatched.with_tensors(self._future, self._result)
        return self._future
