"""Waits that Ctrl-C ends: in slices, between which Python looks for signals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

SLICE = 0.05  # seconds


def wait(over: Callable[[float], bool], seconds: float = math.inf) -> bool:
    """`over(limit)` until it is true, or for so long: then False."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if over(max(0.0, min(SLICE, left))):
            return True
        if left <= 0:
            return False
