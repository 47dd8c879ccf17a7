"""A lock that may be taken again by its owner, and that says whether the asking thread is the owner."""

from __future__ import annotations

import threading

Lock = threading.RLock


def is_mine(lock: threading.RLock) -> bool:
    return bool(lock._is_owned())  # type: ignore[attr-defined]
