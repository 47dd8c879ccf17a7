"""Waits that Ctrl-C ends: in slices, between which Python looks for signals, or on a thread of their own. A wait that is long says for what."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
SLICE = 0.05  # seconds
PATIENCE = 5.0  # seconds, after which somebody at a terminal asks what is going on


class Says:
    """One line on standard error once a wait has lasted."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._at = time.monotonic() + PATIENCE

    def look(self) -> None:
        if self._sentence and time.monotonic() >= self._at:
            print(f"paceline: {self._sentence}", file=sys.stderr, flush=True)
            self._sentence = ""


def wait(over: Callable[[float], bool], seconds: float = math.inf, sentence: str = "") -> bool:
    """`over(limit)` until it is true, or for so long: then False. `sentence`: what it waits for, said once if that is long."""
    end = time.monotonic() + seconds
    if over(max(0.0, min(SLICE, seconds))):  # as most are
        return True
    says = Says(sentence)
    while (left := end - time.monotonic()) > 0:
        if over(min(SLICE, left)):
            return True
        says.look()
    return False


def apart(call: Callable[[], Result], sentence: str) -> Result:
    """`call()`, which waits where nobody looks for signals. Ctrl-C ends this wait, not the call: the process is to end then."""
    returned: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001  of who waits
            raised.append(error)

    thread = threading.Thread(target=run, name="paceline meets", daemon=True)
    thread.start()
    says = Says(sentence)
    while thread.is_alive():
        thread.join(SLICE)
        says.look()
    if raised:
        raise raised[0]
    return returned[0]
