"""Why a process leaves the others: what they hear instead of that it has finished."""

from __future__ import annotations

import sys

MOST = 800  # letters of a sentence; the reason stands at its end as often as at its beginning


def on_its_way() -> str:
    """The exception whose `finally` or `except` runs now, in a sentence. "": none, or an exit in order."""
    return sentence(sys.exc_info()[1])


def uncaught() -> str:
    """While the interpreter ends: the exception that ends it."""
    return "" if hasattr(sys, "ps1") else sentence(getattr(sys, "last_value", None))


def sentence(error: BaseException | None) -> str:
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"
