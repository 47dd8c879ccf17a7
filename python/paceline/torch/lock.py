"""A lock that may be taken again by its owner, and that says whether the asking thread is the owner."""

from __future__ import annotations

import threading


class Lock:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def mine(self) -> bool:
        return self._owner == threading.get_ident()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
        self._lock.release()
