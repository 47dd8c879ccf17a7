"""Why a process leaves the others: what they hear instead of that it has finished."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

MOST = 800  # letters of a sentence; the reason stands at its end as often as at its beginning
_asked: SystemExit | None = None


def on_its_way() -> str:
    """The exception whose `finally` or `except` runs now, in a sentence. "": none, or an exit in order."""
    return sentence(sys.exc_info()[1])


def uncaught() -> str:
    """While the interpreter ends: the exception that ends it, or the exit that was asked for."""
    return "" if hasattr(sys, "ps1") else sentence(getattr(sys, "last_value", None) or _asked)


def sentence(error: BaseException | None) -> str:
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"


def asked() -> SystemExit | None:
    """By sys.exit, exit or quit on the main thread, with a status that says that something is wrong; the script may have caught it."""
    return _asked


def going_on() -> None:
    """The script does: an exit that it has asked for was caught."""
    global _asked
    _asked = None


@functools.cache
def watch_exits() -> None:
    """From now on: the interpreter does not tell who ends with it that it was an exit, nor with which status."""
    sys.exit = _watched(sys.exit)
    if "_sitebuiltins" in sys.modules:  # of exit and quit
        kind = sys.modules["_sitebuiltins"].Quitter
        kind.__call__ = _watched(kind.__call__)


def _watched(leave: Callable[..., Any]) -> Any:
    @functools.wraps(leave)
    def exit(*given: Any, **named: Any) -> Any:
        global _asked
        status = next((one for one in (*given, *named.values()) if type(one).__name__ != "Quitter"), None)
        if threading.current_thread() is threading.main_thread():  # any other ends alone
            _asked = SystemExit(status) if status and not hasattr(sys, "ps1") else None  # a prompt catches it
        return leave(*given, **named)

    return exit
