"""How groups of the backend "paceline" find each other: ranks that are connected, and the groups that are some of them.

torch's own first group connects its ranks, and later groups are some of those. A group whose ranks are not connected yet, as in a world of another
backend, connects its own.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from paceline import _addresses, _joining, launch
from paceline._errors import PacelineError
from paceline._waiting import apart
from paceline.communicator import Communicator
from paceline.launch import Launch

LEAVE = 10.0  # seconds, for what is still on its way
LONGEST = 1e6  # seconds that the library waits for a rank: 11 days
WIRES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclasses.dataclass(frozen=True)
class GroupOptions:
    """Of init_process_group("paceline", pg_options=GroupOptions(...)), the same on all ranks; later groups have them too.

    rank_order: sums are taken in the order of the ranks, the same bits whatever the size of a message and its algorithm; less fast.
    wire: "bfloat16" or "float16" has all_reduce add up float32 tensors (sum and mean) as such: half the bytes, for gradients that can bear it.
    job_key_file: of the key that all ranks share ("": what PACELINE_JOB_KEY_FILE names); every connection is TLS then. Without a key only the
    loopback is allowed, unless security="none".
    """

    rank_order: bool = False
    wire: str = "float32"
    job_key_file: str = ""
    security: str = "auto"


@dataclasses.dataclass(frozen=True)
class Connected:
    """Ranks that are connected with each other."""

    communicator: Communicator
    members: list[int]  # by torch's number, in the order of the communicator's ranks
    own: GroupOptions
    seconds: float  # at which the library ends what waits
    meeting: str  # what no other meeting is called
    made: Counter[str] = dataclasses.field(default_factory=Counter)  # later groups so far, by name

    def group(self, name: str, members: Sequence[int]) -> Communicator:
        """`name`: used once."""
        number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1
        return self.communicator.group(max(1, number), [self.members.index(member) for member in members])


@dataclasses.dataclass(frozen=True)
class Place:
    """Of a group: where it talks."""

    rank: int
    size: int
    members: list[int]
    name: str
    store: Store
    connected: Connected
    communicator: Communicator
    timeout: datetime.timedelta
    first: bool  # its communicator connects the ranks


_first: Connected | None = None  # of torch's own first group, while there is one


def found(options: Any, own: Any) -> Place:
    """For a group that torch asks for."""
    global _first
    rank, size = options.group_rank, options.group_size
    members = list(options.global_ranks_in_group) or list(range(size))
    if own is not None and not isinstance(own, GroupOptions):
        raise PacelineError(f"pg_options={own!r}: the backend \"paceline\" takes paceline.torch.GroupOptions", subject="pg_options")
    if members != sorted(members):
        raise PacelineError(f"a group of the ranks {members}: Paceline's groups are in ascending order", subject="ranks")
    if _first is None or not set(members) <= set(_first.members):
        connected = connect(rank, size, members, options.store, options.timeout, own or GroupOptions())
        if not dist.is_initialized():
            _first = connected
        store = PrefixStore(f"paceline {connected.meeting}", options.store)
        return Place(rank, size, members, "", store, connected, connected.communicator, options.timeout, first=True)
    if own is not None:
        raise PacelineError("pg_options of a later group: it has those of the first one, init_process_group's", subject="pg_options")
    _first.made[options.group_id] += 1  # groups of the same ranks may have one name, one after the other (use_local_synchronization)
    name = f"{options.group_id}, {_first.made[options.group_id]}"
    store = PrefixStore(f"paceline {_first.meeting} {name}", options.store)
    return Place(rank, size, members, name, store, _first, _first.group(name, members), options.timeout, first=False)


def left(connected: Connected) -> None:
    """Its first group is over."""
    global _first
    if _first is connected:
        _first = None


def connect(rank: int, size: int, members: list[int], store: Store, timeout: datetime.timedelta, own: GroupOptions) -> Connected:
    """Rank 0 listens where it is reached, and tells the others in the store. Returns when all ranks are there, or raises at the timeout."""
    if own.wire not in WIRES:
        raise PacelineError(f"GroupOptions(wire={own.wire!r}); legal: {', '.join(WIRES)}", subject="wire")
    seconds = min(timeout.total_seconds(), LONGEST)
    here = launcher_of(rank, size, store)
    bind = _addresses.bound(here, here.coordinator) or "127.0.0.1"

    def opened() -> Connected:
        with _addresses.told(rank, store, bind, seconds) as (meeting, coordinator):
            communicator = Communicator(
                rank, coordinator=coordinator, ranks=size, bind=bind, rank_order=own.rank_order, connect_seconds=seconds, stall_seconds=seconds,
                job_key_file=own.job_key_file, security=own.security,
            )  # fmt: skip
        return Connected(communicator, members, own, seconds, meeting)

    return apart(opened, f"rank {rank} of {size} waits for the others, at most {seconds:g} s")


def launcher_of(rank: int, size: int, store: Store) -> Launch:
    """Who knows by which address the ranks reach each other. torch has said rank and size: a launcher counts if it says the same, and what is left over
    of another one, or lacks what Paceline's own jobs need, is nobody's business."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of two launchers that contradict each other
            here = launch.launched()
    except PacelineError:
        here = None
    if here is not None and here.launcher != "nobody" and (here.rank, here.workers) == (rank, size):
        return here
    return _joining.of_store(rank, size, store)
