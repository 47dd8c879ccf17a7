"""`torch.distributed.init_process_group("paceline")`: the backend, and how its groups find each other.

A script that uses DistributedDataParallel, FSDP or the functions of torch.distributed runs on Paceline's collective operations by this one word
(_backend.py; where the package is not installed but only found, after `import paceline.torch`). Ranks that call different operations, or with other elements, counts or roots, all fail with a sentence
that names two of them and what each has called.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroup, Store

from paceline import _addresses, _joining, launch
from paceline._backend import looks_up
from paceline._errors import PacelineError
from paceline.communicator import Communicator
from paceline.torch import lists
from paceline.torch.collectives import Collectives
from paceline.torch.forms import both
from paceline.torch.hosted import Hosted
from paceline.torch.in_flight import InFlight, all_of
from paceline.torch.lists import op_of
from paceline.torch.monitored import MonitoredBarrier
from paceline.torch.point_to_point import PointToPoint, tell_sources
from paceline.torch.work import Completer, Limit, Operation, seconds_of

NAME = "paceline"
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


_world: Group | None = None  # whose ranks later groups are some of
_made: Counter[str] = Counter()  # later groups so far, by name
_worlds = 0  # first groups of this process so far: what one has told in the store is none of the next one's business


# PyTorch 2.14 has Python backends below groups of its own, one for each kind of device; before, the group itself is ours.
_Base: Any = Backend if looks_up() else ProcessGroup


class Group(_Base):  # type: ignore[misc]
    """Ranks that are connected. Made by torch.distributed."""

    def __init__(
        self, rank: int, size: int, communicator: Communicator, store: Store, members: Sequence[int], own: GroupOptions, timeout: datetime.timedelta, first: bool
    ) -> None:
        super().__init__(rank, size)
        self.communicator = communicator
        self.store = store
        self.members = list(members)  # of the first group, by rank of this one
        self.own = own
        self._completer = Completer()
        self._rank, self._size, self._name = rank, size, ""
        self._sequence = 0  # collective operations begun
        self._limit = Limit(rank, timeout.total_seconds(), by_core=first)
        self._most: float = timeout.total_seconds() if _world is None else _world._most
        self._calls = Hosted(Collectives(communicator, WIRES[own.wire], own.rank_order))
        self._point_to_point = PointToPoint(rank, size, store, self._two)
        self._monitored_barrier = MonitoredBarrier(store, rank, size)

    # ---- who it is

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def getBackendName(self) -> str:
        return NAME

    name = getBackendName

    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    setGroupName = _set_group_name

    def getGroupName(self) -> str:
        return self._name

    def _get_backend(self, device: torch.device) -> Any:
        return self  # of a ProcessGroup: it is one itself

    @property
    def options(self) -> Backend.Options:
        return Backend.Options(NAME, datetime.timedelta(seconds=self._limit.seconds))

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Of what begins from now on. No longer than the first group's at its beginning, at which the library ends what waits."""
        if (seconds := timeout.total_seconds()) > self._most:
            raise PacelineError(f"set_timeout({seconds:g} s): init_process_group was given {self._most:g} s, and nothing waits longer; give it more", subject="timeout")
        self._limit = Limit(self._rank, seconds, by_core=False)

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        global _world
        self._completer.end(LEAVE)
        self._calls.end(LEAVE)
        self._point_to_point.close(LEAVE)
        self.communicator.close(LEAVE)
        if _world is self:
            _world = None

    abort = shutdown

    def _two(self, name: str, ranks: Sequence[int]) -> Communicator:
        assert _world is not None
        return _world.communicator.group(number(self.store, name), sorted(_world.members.index(self.members[rank]) for rank in ranks))

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to agree on: all ranks count from 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _begun(self, pending: InFlight, result: Sequence[Any]) -> Operation:
        self._sequence += 1  # which sends and receives do not, as not all ranks call them
        return Operation(pending, result, self._completer, self._limit)

    def _each(self, tensors: Sequence[Tensor], begin: Callable[[Tensor], InFlight]) -> Operation:
        return Operation(all_of([begin(tensor) for tensor in tensors]), tensors, self._completer, self._limit)

    # ---- operations, as torch calls them

    def barrier(self, opts: Any = None) -> Operation:
        asked = seconds_of(opts.timeout if opts is not None else None)
        limit = self._limit if asked == math.inf else Limit(self._rank, asked, by_core=False)
        return Operation(self._calls.barrier(), [], self._completer, limit)

    def monitored_barrier(self, timeout: datetime.timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """torch.distributed.monitored_barrier asks for gloo by name; this does the same."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        self._monitored_barrier(self._limit.seconds if seconds is None else seconds, wait_all_ranks)

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(lists.allreduce(self._calls, tensors, opts), tensors)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(lists.allreduce_coalesced(self._calls, tensors, opts), tensors)

    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(lists.broadcast(self._calls, tensors, opts), tensors)

    def reduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(lists.reduce(self._calls, tensors, opts), tensors)

    def allgather(self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(lists.allgather(self._calls, outputs, tensors), outputs[0] if len(outputs) == 1 else outputs)

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        """`outputs`: of each rank, of each tensor."""
        begun = lists.allgather_coalesced(self._calls, outputs, tensors)
        return self._begun(all_of(begun), [tensor for output in outputs for tensor in output])

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Operation:
        return self._begun(self._calls.allgather_flat(output, tensor), [output])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        begun = [self._calls.allgather_flat(output, tensor) for output, tensor in zip(outputs, tensors, strict=True)]
        return self._begun(all_of(begun), outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any = None) -> Operation:
        begun = [lists.reduce_scatter(self._calls, output, given, opts) for output, given in zip(outputs, inputs, strict=True)]
        return self._begun(all_of(begun), outputs)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Operation:
        return self._begun(self._calls.reduce_scatter_flat(output, tensor, op_of(opts)), [output])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        begun = [self._calls.reduce_scatter_flat(output, tensor, op_of(opts)) for output, tensor in zip(outputs, tensors, strict=True)]
        return self._begun(all_of(begun), outputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def gather(self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(lists.gather(self._calls, outputs, tensors, opts), outputs[0] if outputs else [])

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any = None) -> Operation:
        return self._begun(lists.scatter(self._calls, outputs, inputs, opts), outputs)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(self._calls.alltoall(outputs, inputs), outputs)

    def all_to_all_single(self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any = None) -> Operation:
        """Splits are lengths of the first dimension; none: equal parts."""
        return self._begun(self._calls.alltoall(lists.parts_of(output, output_splits, self._size), lists.parts_of(tensor, input_splits, self._size)), [output])

    alltoall_base = all_to_all_single

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> Operation:
        return self._each(tensors, lambda tensor: self._point_to_point.send(tensor, to, tag))

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> Operation:
        return self._each(tensors, lambda tensor: self._point_to_point.recv(tensor, source, tag))

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Operation:
        found = self._point_to_point.recv_from_anybody(tensors[0], tag)
        limit = dataclasses.replace(self._limit, by_core=False)  # which knows of nothing before somebody has sent
        return Operation(InFlight(found), tensors, self._completer, limit, lambda: found.source)


# torch.compile would trace into what C++ calls here in the middle of a compiled module.
for _name in (
    "barrier", "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced", "all_gather_single", "_allgather_base", "all_gather_single_coalesced",
    "allgather_into_tensor_coalesced", "reduce_scatter", "reduce_scatter_single", "_reduce_scatter_base", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "gather",
    "scatter", "alltoall", "all_to_all_single", "alltoall_base", "send", "recv", "recv_anysource",
):  # fmt: skip
    setattr(Group, _name, torch.compiler.disable(both(_name, getattr(Group, _name))))  # type: ignore[no-untyped-call]


if looks_up():
    tell_sources(Group)


def number(store: Store, name: str) -> int:
    """Of a group: used once among the ranks of the first one. Who comes first chooses, the others hear of it."""
    assert _world is not None
    if store.add(f"{name}, asked", 1) == 1:
        store.set(name, str(_world.store.add("groups", 1)))
    return int(store.get(name))


def create(options: Any, own: Any) -> Group:
    """As torch.distributed asks for it."""
    global _world, _worlds
    rank, size = options.group_rank, options.group_size
    members = list(options.global_ranks_in_group) or list(range(size))
    if own is not None and not isinstance(own, GroupOptions):
        raise PacelineError(f"pg_options={own!r}: the backend \"paceline\" takes paceline.torch.GroupOptions", subject="pg_options")
    if _world is None:
        _worlds += 1
        _made.clear()
        own = own or GroupOptions()
        if own.wire not in WIRES:
            raise PacelineError(f"GroupOptions(wire={own.wire!r}); legal: {', '.join(WIRES)}", subject="wire")
        store = PrefixStore(f"paceline {_worlds}", options.store)
        _world = Group(rank, size, opened(rank, size, store, options.timeout, own), store, members, own, options.timeout, first=True)
        return _world
    _made[options.group_id] += 1  # groups of the same ranks may have one name, one after the other (use_local_synchronization)
    store = PrefixStore(f"paceline {_worlds} {_made[options.group_id]}", options.store)
    if own is not None:
        raise PacelineError("pg_options of a later group: it has those of the first one, init_process_group's", subject="pg_options")
    if members != sorted(members):
        raise PacelineError(f"a group of the ranks {members}: Paceline's groups are in ascending order", subject="ranks")
    inner = [_world.members.index(member) for member in members if member in _world.members]
    if len(inner) != size:
        raise PacelineError(f"a group of the ranks {members}: not all of them are in the first group, {_world.members}", subject="ranks")
    communicator = _world.communicator.group(number(store, "group"), inner)
    return Group(rank, size, communicator, store, members, _world.own, options.timeout, first=False)


def opened(rank: int, size: int, store: Store, timeout: datetime.timedelta, own: GroupOptions) -> Communicator:
    """Rank 0 listens where it is reached, and tells the others in the store."""
    here = launch.launched()
    bind = _addresses.bound(_joining.of_store(rank, size, store) if here.launcher == "nobody" else here, here.coordinator) or "127.0.0.1"
    limit = min(timeout.total_seconds(), LONGEST)
    with _addresses.told(rank, store, bind) as coordinator:
        return Communicator(rank, coordinator=coordinator, ranks=size, bind=bind, rank_order=own.rank_order, stall_seconds=limit, job_key_file=own.job_key_file, security=own.security)
