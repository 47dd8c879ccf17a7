"""Operations in flight, and what is left to do when each is over."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from paceline._errors import PacelineError
from paceline._waiting import SLICE

Finish = Callable[[], object]


class Awaited(Protocol):
    """What an operation waits for: a request of the core, or what stands in its place."""

    def wait(self, seconds: float) -> bool: ...


class InFlight:
    """Any number of threads may wait; what is left to do is done once, by one of them, and in order. An error is everybody's."""

    def __init__(self, request: Awaited | None, finish: Finish | None = None) -> None:
        self._stages: list[tuple[Awaited | None, Finish | None]] = [(request, finish)]
        self._done = 0  # stages
        self.error: Exception | None = None  # why it failed
        self._lock = threading.Lock()
        self._late = False

    def __del__(self) -> None:
        if self._late and not self.over and not sys.is_finalizing():  # then no thread begins, and who starts one waits for ever
            self._give_up()

    def then(self, request: Awaited | None, finish: Finish | None = None) -> InFlight:
        """Before anybody waits. The request has begun already."""
        self._stages.append((request, finish))
        return self

    @property
    def over(self) -> bool:
        return self.error is not None or self._done == len(self._stages)

    def wait(self, seconds: float = math.inf) -> bool:
        """False: `seconds` have passed. Raises why it failed, each time."""
        end = time.monotonic() + seconds
        while not self.over:
            left = end - time.monotonic()
            if self._lock.acquire(False) or self._lock.acquire(timeout=max(0.0, min(SLICE, left))):  # another thread may be waiting: signals are heard in between
                try:
                    self._go_on(end)
                finally:
                    self._lock.release()
            if left <= 0 and not self.over:
                self._late = self._late or seconds > 0
                return False
        if self.error is not None:
            raise self.error
        return True

    def poll(self) -> bool:
        """Whether it is over, well or not, now that somebody has asked."""
        try:
            return self.wait(0)
        except Exception:  # noqa: BLE001  # told to who waits
            return True

    def _go_on(self, end: float) -> None:
        while self._done < len(self._stages) and self.error is None:
            request, finish = self._stages[self._done]
            try:
                if request is not None and not request.wait(max(0.0, end - time.monotonic())):
                    return
                self._stages[self._done] = (None, finish)
                request = None  # what is over holds its group open no longer, whoever keeps this object, or the error of what follows
                if finish is not None:
                    finish()
            except Exception as error:  # not KeyboardInterrupt, after which the wait may be asked again
                self.error = error.with_traceback(None) if isinstance(error, PacelineError) else error
                request = finish = None
                self._give_up()
                return
            self._done += 1

    def _give_up(self) -> None:
        """What is still on its way uses its arrays until the other ranks have failed too: nobody who is told of the error waits for that."""
        rest, self._stages = self._stages[self._done :], []
        if rest:
            threading.Thread(target=rest.clear, name="paceline requests", daemon=True).start()


def all_of(begun: Sequence[InFlight]) -> InFlight:
    whole = InFlight(None)
    for pending in begun:
        whole.then(pending)
    return whole
