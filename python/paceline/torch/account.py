"""Where this rank waited for the exchange: seconds by reason, and what the report says about them."""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST = 1  # iterations that no report counts: the order of need is not known yet
WORTH = 0.02  # of the time: less is not worth a hint


class Account:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._depth = 0
        self._iterations = 0
        self._begin = clock()
        self.seconds: dict[str, float] = collections.defaultdict(float)

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
                self.seconds[reason] += self._clock() - begin

    def stepped(self) -> None:
        self._iterations += 1
        if self._iterations == FIRST:
            self.seconds.clear()
            self._begin = self._clock()

    def report(self) -> dict[str, float]:
        """iterations, seconds of one, and of those the seconds waited, by reason as "waited: REASON"."""
        counted = max(0, self._iterations - FIRST)
        if counted == 0:
            return {"iterations": 0.0}
        lines = {"iterations": float(counted), "seconds": (self._clock() - self._begin) / counted}
        lines.update({f"waited: {reason}": seconds / counted for reason, seconds in sorted(self.seconds.items())})
        return lines

    def hint(self) -> str:
        """One sentence on what would help most, or ""."""
        lines = self.report()
        for reason, remedy in HINTS.items():
            waited = lines.get(f"waited: {reason}", 0.0)
            if waited > WORTH * lines.get("seconds", 0.0):
                return f"{reason} waited {1e3 * waited:.1f} ms in each iteration for all gradients; {remedy}"
        return ""


HINTS = {
    "clip_grad_norm_": "attach(clip_norm=...) needs their norm only, which is known while they still travel",
    "parameters()": "the script goes through all parameters right after step(); do that before step(), or less often",
    "state_dict": "the script asks for a state dict right after step(); do that less often",
}


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
