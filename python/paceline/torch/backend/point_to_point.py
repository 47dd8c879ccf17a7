"""What one rank sends to another: each direction, and each tag, has groups of two ranks of its own.

So what a rank sends and what it receives need not be called in one order, nor what has different tags. A receive from anybody looks for whose message
is there. A group of two serves some messages and is closed: the first few one each, since a tag may well be used once.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup

from paceline._errors import PacelineError
from paceline._waiting import wait
from paceline.communicator import Communicator
from paceline.torch.backend.collectives import Collectives, refuse
from paceline.torch.backend.hosted import Hosted
from paceline.torch.backend.in_flight import InFlight

PAUSE = 0.001  # seconds between two looks for a message
ONCE, LONG = 4, 4096  # messages that have a group each, and how many share one after those
Way = tuple[int, int, int]  # from, to, tag


def group_of(message: int) -> int:
    """Of the messages that go one way, from 1: by which group of two, from 1. Both ranks count alike."""
    return message if message <= ONCE else ONCE + 1 + (message - ONCE - 1) // LONG


def last_of(group: int) -> int:
    """The last message that goes by it."""
    return group if group <= ONCE else ONCE + (group - ONCE) * LONG


@dataclasses.dataclass(frozen=True)
class Pair:
    """A group of two, for one way. `last`: of its messages, among all that go this way."""

    last: int
    root: int
    communicator: Communicator
    calls: Hosted

    def close(self, seconds: float) -> None:
        self.calls.end(seconds)
        self.communicator.close(seconds)


class PointToPoint:
    """Of one group. `two`: makes a group of two of its ranks, by a name that is used once. `gone`: the ranks that have left."""

    def __init__(self, rank: int, ranks: int, two: Callable[[str, Sequence[int]], Communicator], gone: Callable[[], Sequence[int]]) -> None:
        self._rank, self._ranks = rank, ranks
        self._two, self._gone = two, gone
        self._pairs: dict[Way, Pair] = {}  # for the next message
        self._begun: dict[Way, int] = {}
        self._ending: set[Pair] = set()  # whose last message is on its way
        self._lock = threading.Lock()

    def send(self, tensor: Tensor, to: int, tag: int) -> InFlight:
        return self._next(tensor, self._way("send", tensor, self._rank, to, tag))

    def recv(self, tensor: Tensor, source: int, tag: int) -> InFlight:
        return self._next(tensor, self._way("recv", tensor, source, self._rank, tag))

    def recv_from_anybody(self, tensor: Tensor, tag: int) -> FromAnybody:
        refuse("recv", [tensor])
        return FromAnybody(lambda: self._recv_what_was_sent(tensor, tag))

    def close(self, seconds: float) -> None:
        for pair in [*self._pairs.values(), *self._ending]:
            pair.close(seconds)

    def _recv_what_was_sent(self, tensor: Tensor, tag: int) -> tuple[int, InFlight] | None:
        """From a rank that has sent, of several the one from which least came so far."""
        gone = self._gone()  # before the look for what they have sent
        with self._lock:
            ways = [(source, self._rank, tag) for source in range(self._ranks) if source != self._rank]
            for way in sorted(ways, key=lambda way: self._begun.get(way, 0)):
                if self._pair(way).communicator.is_awaited():
                    return way[0], self._begin(tensor, way)
        if len(gone) == len(ways):
            who = f"rank {gone[0]} has" if len(gone) == 1 else f"ranks {', '.join(map(str, gone))} have"
            raise PacelineError(f"recv from any rank, with tag {tag}: {who} left or failed, no other rank is there, and none has sent", kind="peer-lost", subject="recv")
        return None

    def _next(self, tensor: Tensor, way: Way) -> InFlight:
        with self._lock:
            return self._begin(tensor, way)

    def _pair(self, way: Way) -> Pair:
        """That the next message goes by."""
        pair = self._pairs.get(way)
        if pair is None:
            source, to, tag = way
            number = group_of(self._begun.get(way, 0) + 1)
            two = self._two(f"from {source} to {to}, tag {tag}, {number}", sorted((source, to)))
            pair = self._pairs[way] = Pair(last_of(number), 0 if source < to else 1, two, Hosted(Collectives(two)))
        return pair

    def _begin(self, tensor: Tensor, way: Way) -> InFlight:
        pair = self._pair(way)
        begun = pair.calls.broadcast(tensor, pair.root)
        self._begun[way] = message = self._begun.get(way, 0) + 1
        if message < pair.last:
            return begun
        self._ending.add(self._pairs.pop(way))
        return begun.then(None, lambda: self._end(pair))

    def _end(self, pair: Pair) -> None:
        self._ending.discard(pair)
        pair.close(0.0)

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


def tell_sources(kind: type[Any]) -> None:
    """recv(source=None) comes to backends of this kind past PyTorch 2.14's holder of a Python backend's work, which raises when it is asked who has sent."""
    of_torch = ProcessGroup.recv_anysource

    def recv_anysource(group: ProcessGroup, tensors: list[Tensor], tag: int) -> Any:
        backend: Any = group._get_backend(tensors[0].device)
        return backend.recv_anysource(tensors, tag) if isinstance(backend, kind) else of_torch(group, tensors, tag)

    ProcessGroup.recv_anysource = recv_anysource  # type: ignore[method-assign, assignment]
