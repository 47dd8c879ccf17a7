"""Where this rank waited for the exchange: seconds by reason."""

from __future__ import annotations

import collections
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.torch.attached.phases import Phases

FIRST = 1  # iterations that no report counts: the order of need is not known yet


class Account:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._depth = 0
        self._iterations = 0
        self._begin = clock()
        self._end: float | None = None
        self.max_norm: float | None = None  # that the script clips by
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self._waited = 0.0  # since the beginning, by any reason
        self.phases = Phases(clock, lambda: self._waited)

    def ended(self) -> None:
        """What comes now is no longer training."""
        self._end = self._end or self._clock()

    @contextmanager
    def timed(self, reason: str) -> Iterator[None]:
        """Counts the outermost wait only."""
        begin = self._clock()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                waited = self._clock() - begin
                self.seconds[reason] += waited
                self._waited += waited

    def stepped(self) -> None:
        self._iterations += 1
        if self._iterations == FIRST:
            self.seconds.clear()
            self._begin = self._clock()

    def report(self) -> dict[str, float]:
        """iterations, seconds of one, of those the seconds waited, by reason as "waited: REASON" and all together as "exposed", and "computing", the rest."""
        counted = max(0, self._iterations - FIRST)
        if counted == 0:
            return {"iterations": 0.0}
        seconds = (self._end or self._clock()) - self._begin
        waited = sum(self.seconds.values())
        lines = {"iterations": float(counted), "seconds": seconds / counted, "computing": (seconds - waited) / counted, "exposed": waited / counted}
        lines.update({f"waited: {reason}": seconds / counted for reason, seconds in sorted(self.seconds.items())})
        return lines

    def reader(self) -> str:
        """Who reads a gradient, by the names that the report knows."""
        frame: types.FrameType | None = sys._getframe(1)
        for _ in range(24):
            if frame is None:
                break
            name = frame.f_code.co_name
            if name in ("clip_grad_norm_", "unscale_", "clip_grad_value_"):
                if isinstance(norm := frame.f_locals.get("max_norm"), (int, float)):
                    self.max_norm = norm
                return name
            frame = frame.f_back
        return "a gradient read"
