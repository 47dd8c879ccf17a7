"""monitored_barrier: a barrier that says which ranks did not come. It goes through the store alone, so the group is unharmed when it fails.

Rank 0 waits for all, then tells what it found. Sentences begin as PyTorch's do, for which scripts look.
"""

from __future__ import annotations

import contextlib
import datetime
import time

from torch._C._distributed_c10d import Store

from paceline._errors import PacelineError


class MonitoredBarrier:
    """Of one group; called by all its ranks equally often."""

    def __init__(self, store: Store, rank: int, ranks: int) -> None:
        self._store = store
        self._rank, self._ranks = rank, ranks
        self._calls = 0

    def __call__(self, seconds: float, wait_all_ranks: bool) -> None:
        """wait_all_ranks: rank 0 names all that are missing, not only the first."""
        self._calls += 1
        self._forget(self._calls - 2)
        if self._rank == 0:
            said = self._missing(seconds, wait_all_ranks)
            self._store.set(self._verdict(self._calls), said)
            if said:
                raise PacelineError(said, kind="deadline", subject="monitored_barrier")
            return
        self._store.set(self._came(self._rank, self._calls), "")
        if not self._is_there(self._verdict(self._calls), seconds):
            why = f"which has told nothing for {seconds:g} s"
        elif said := self._store.get(self._verdict(self._calls)).decode():
            why = f"rank 0 says: {said}"
        else:
            return
        words = f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0; {why}"
        raise PacelineError(words, kind="deadline", subject="monitored_barrier")

    def _missing(self, seconds: float, wait_all_ranks: bool) -> str:
        """A sentence about the ranks that have not come, or nothing."""
        end = time.monotonic() + seconds
        missing: list[int] = []
        for rank in range(1, self._ranks):
            left = end - time.monotonic()
            if left <= 0 and not wait_all_ranks:
                return f"Rank 0 timed out in monitoredBarrier after {seconds:g} s, not having heard of ranks {rank} to {self._ranks - 1}"
            if not self._is_there(self._came(rank, self._calls), left):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        who = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {', '.join(map(str, missing))}"
        return f"{who} failed to pass monitoredBarrier in {seconds:g} s" if missing else ""

    def _is_there(self, key: str, seconds: float) -> bool:
        with contextlib.suppress(RuntimeError):  # that the time is over
            self._store.wait([key], datetime.timedelta(seconds=max(0.001, seconds)))
        return self._store.check([key])

    def _forget(self, call: int) -> None:
        """Of a call that everybody has left: all have come to the one after it."""
        if call > 0:
            self._store.delete_key(self._verdict(call) if self._rank == 0 else self._came(self._rank, call))

    @staticmethod
    def _came(rank: int, call: int) -> str:
        return f"monitored {call} {rank}"

    @staticmethod
    def _verdict(call: int) -> str:
        return f"monitored {call} verdict"
