"""What one rank sends to another: each direction, and each tag, has a group of two ranks of its own.

So what a rank sends and what it receives need not be called in one order, nor what has different tags. A send also tells the store how many
went this way, without waiting for an answer; only a receive from anybody looks there, as no group of two can say that it is the one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup, Store

from paceline._errors import PacelineError
from paceline._waiting import wait
from paceline.communicator import Communicator
from paceline.torch.collectives import Collectives, refuse
from paceline.torch.hosted import Hosted
from paceline.torch.in_flight import InFlight

PAUSE = 0.001  # seconds between two looks into the store
Way = tuple[int, int, int]  # from, to, tag


class PointToPoint:
    """Of one group. `two`: makes a group of two of its ranks, by a name that is used once."""

    def __init__(self, rank: int, ranks: int, store: Store, two: Callable[[str, Sequence[int]], Communicator]) -> None:
        self._rank, self._ranks = rank, ranks
        self._store = store
        self._two = two
        self._calls: dict[Way, tuple[Communicator, Hosted]] = {}
        self._begun: dict[Way, int] = {}
        self._lock = threading.Lock()

    def send(self, tensor: Tensor, to: int, tag: int) -> InFlight:
        way = self._way("send", tensor, self._rank, to, tag)
        with self._lock:
            begun = self._begin(tensor.detach(), way)
            self._store.set(name_of(way), str(self._begun[way]))
        return begun

    def recv(self, tensor: Tensor, source: int, tag: int) -> InFlight:
        way = self._way("recv", tensor, source, self._rank, tag)
        with self._lock:
            return self._begin(tensor, way)

    def recv_from_anybody(self, tensor: Tensor, tag: int) -> FromAnybody:
        refuse("recv", [tensor])
        return FromAnybody(lambda: self._recv_what_was_sent(tensor, tag))

    def close(self, seconds: float) -> None:
        for two, calls in self._calls.values():
            calls.end(seconds)
            two.close(seconds)

    def _recv_what_was_sent(self, tensor: Tensor, tag: int) -> tuple[int, InFlight] | None:
        """From the rank that has sent and waits, of several the one from which least came so far."""
        with self._lock:
            ways = [(source, self._rank, tag) for source in range(self._ranks) if source != self._rank]
            for way in sorted(ways, key=lambda way: self._begun.get(way, 0)):
                name = name_of(way)
                if self._store.check([name]) and int(self._store.get(name)) > self._begun.get(way, 0):
                    return way[0], self._begin(tensor, way)
        return None

    def _begin(self, tensor: Tensor, way: Way) -> InFlight:
        source, to, _ = way
        if way not in self._calls:
            two = self._two(f"pair {name_of(way)}", sorted((source, to)))
            self._calls[way] = two, Hosted(Collectives(two))
        self._begun[way] = self._begun.get(way, 0) + 1
        return self._calls[way][1].broadcast(tensor, 0 if source < to else 1)

    def _way(self, call: str, tensor: Tensor, source: int, to: int, tag: int) -> Way:
        refuse(call, [tensor])
        if source == to or not (0 <= source < self._ranks and 0 <= to < self._ranks):
            raise PacelineError(f"{call}: from rank {source} to rank {to} of {self._ranks}", subject=call)
        return source, to, tag


class FromAnybody:
    """A receive that begins when somebody has sent. It is waited for as a request is."""

    def __init__(self, begin: Callable[[], tuple[int, InFlight] | None]) -> None:
        self._begin = begin
        self._begun: InFlight | None = None
        self.source = -1  # so far

    def wait(self, seconds: float) -> bool:
        return wait(self._over, seconds)

    def _over(self, limit: float) -> bool:
        if self._begun is None and (found := self._begin()) is not None:
            self.source, self._begun = found
        if self._begun is not None:
            return self._begun.wait(limit)
        time.sleep(min(limit, PAUSE))
        return False


def name_of(way: Way) -> str:
    return f"sent from {way[0]} to {way[1]}, tag {way[2]}"


def tell_sources(kind: type[Any]) -> None:
    """recv(source=None) comes to backends of this kind past PyTorch 2.14's holder of a Python backend's work, which raises when it is asked who has sent."""
    of_torch = ProcessGroup.recv_anysource

    def recv_anysource(group: ProcessGroup, tensors: list[Tensor], tag: int) -> Any:
        backend: Any = group._get_backend(tensors[0].device)
        return backend.recv_anysource(tensors, tag) if isinstance(backend, kind) else of_torch(group, tensors, tag)

    ProcessGroup.recv_anysource = recv_anysource  # type: ignore[method-assign, assignment]
