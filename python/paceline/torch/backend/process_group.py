"""`torch.distributed.init_process_group("paceline")`: the backend, and what torch asks of its groups.

A script that uses DistributedDataParallel, FSDP or the functions of torch.distributed runs on Paceline's collective operations by this one word
(_backend.py; where the package is not installed but only found, after `import paceline.torch`). Ranks that call different operations, or with other elements, counts or roots, all fail with a sentence
that names two of them and what each has called.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Backend, ProcessGroup

from paceline._backend import looks_up
from paceline._errors import PacelineError
from paceline.communicator import Communicator
from paceline.torch.backend import connected, dispatched, lists
from paceline.torch.backend.collectives import Collectives
from paceline.torch.backend.connected import LEAVE, WIRES, Place
from paceline.torch.backend.forms import both
from paceline.torch.backend.hosted import Hosted
from paceline.torch.backend.in_flight import InFlight, all_of
from paceline.torch.backend.monitored import MonitoredBarrier
from paceline.torch.backend.point_to_point import PointToPoint, tell_sources
from paceline.torch.backend.work import Completer, Limit, Operation, seconds_of

NAME = "paceline"

# PyTorch 2.14 has Python backends below groups of its own, one for each kind of device; before, the group itself is ours.
_Base: Any = Backend if looks_up() else ProcessGroup


class Group(_Base):  # type: ignore[misc]
    """Ranks that are connected. Made by torch.distributed."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.rank, place.size)
        if not looks_up():
            dispatched.register()
        self.communicator, self.connected, self.members = place.communicator, place.connected, place.members
        self.own = place.connected.own
        self._place = place
        self._completer = Completer()
        self._rank, self._size, self._name = place.rank, place.size, ""
        self._sequence = 0  # collective operations begun
        self._limit = Limit(place.rank, place.timeout.total_seconds(), by_core=place.first)
        self._calls = Hosted(Collectives(place.communicator, WIRES[self.own.wire], self.own.rank_order))
        self._point_to_point = PointToPoint(place.rank, place.size, self._two, place.communicator.gone)
        self._monitored_barrier = MonitoredBarrier(place.store, place.rank, place.size)

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
    def _device_types(self) -> list[torch.device]:
        """Whose tensors it takes. Where PyTorch has to choose one, it takes the processor."""
        return [torch.device("cpu"), torch.device("cuda")]

    @property
    def options(self) -> Backend.Options:
        return Backend.Options(NAME, datetime.timedelta(seconds=self._limit.seconds))

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Of what begins from now on. No longer than the first group's at its beginning, at which the library ends what waits."""
        self._limit = self._limit_of("set_timeout", timeout.total_seconds())

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        self._completer.end(LEAVE)
        self._calls.end(LEAVE)
        self._point_to_point.close(LEAVE)
        self.communicator.close(LEAVE)
        if self._place.first:
            connected.left(self.connected)

    abort = shutdown

    def _two(self, name: str, ranks: Sequence[int]) -> Communicator:
        return self.connected.group(f"{self._place.name} {name}", [self.members[rank] for rank in sorted(ranks)])

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to agree on: all ranks count from 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    # ---- how operations are begun

    def _limit_of(self, call: str, seconds: float) -> Limit:
        if seconds > self.connected.seconds:
            said = f"{call}: a timeout of {seconds:g} s; init_process_group was given {self.connected.seconds:g} s, and nothing waits longer; give it more"
            raise PacelineError(said, subject="timeout")
        return Limit(self._rank, seconds, by_core=False)

    def _begun(self, opts: Any, begin: Callable[[], InFlight], result: Sequence[Any]) -> Operation:
        """`opts`: with the timeout of this operation, if it has one of its own."""
        asked = math.inf if opts is None else seconds_of(opts.timeout)
        limit = self._limit if asked == math.inf else self._limit_of("an operation", asked)
        pending = begin()
        self._sequence += 1  # which sends and receives do not, as not all ranks call them
        return Operation(pending, result, self._completer, limit)

    def _each(self, tensors: Sequence[Tensor], begin: Callable[[Tensor], InFlight]) -> Operation:
        pending = begin(tensors[0]) if len(tensors) == 1 else all_of([begin(tensor) for tensor in tensors])
        return Operation(pending, tensors, self._completer, self._limit)

    # ---- operations, as torch calls them

    def barrier(self, opts: Any = None) -> Operation:
        return self._begun(opts, self._calls.barrier, [])

    def monitored_barrier(self, timeout: datetime.timedelta | float | None = None, wait_all_ranks: bool = False) -> None:
        """torch.distributed.monitored_barrier asks for gloo by name; this does the same."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        self._monitored_barrier(self._limit.seconds if seconds is None else seconds, wait_all_ranks)

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.allreduce(self._calls, tensors, opts), tensors)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.allreduce_coalesced(self._calls, tensors, opts), tensors)

    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.broadcast(self._calls, tensors, opts), tensors)

    def reduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.reduce(self._calls, tensors, opts), tensors)

    def allgather(self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.allgather(self._calls, outputs, tensors), outputs[0] if len(outputs) == 1 else outputs)

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        """`outputs`: of each rank, of each tensor."""
        return self._begun(opts, lambda: all_of(lists.allgather_coalesced(self._calls, outputs, tensors)), [tensor for output in outputs for tensor in output])

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Operation:
        return self._begun(opts, lambda: self._calls.allgather_flat(output, tensor), [output])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: all_of([self._calls.allgather_flat(output, tensor) for output, tensor in zip(outputs, tensors, strict=True)]), outputs)

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: all_of([lists.reduce_scatter(self._calls, output, given, opts) for output, given in zip(outputs, inputs, strict=True)]), outputs)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.reduce_scatter_flat(self._calls, output, tensor, opts), [output])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: all_of([lists.reduce_scatter_flat(self._calls, output, tensor, opts) for output, tensor in zip(outputs, tensors, strict=True)]), outputs)

    def gather(self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.gather(self._calls, outputs, tensors, opts), outputs[0] if outputs else [])

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.scatter(self._calls, outputs, inputs, opts), outputs)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Operation:
        return self._begun(opts, lambda: lists.alltoall(self._calls, outputs, inputs), outputs)

    def all_to_all_single(self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any = None) -> Operation:
        """Splits are lengths of the first dimension; none: equal parts."""
        return self._begun(opts, lambda: lists.alltoall_flat(self._calls, output, tensor, output_splits, input_splits), [output])

    if looks_up():  # PyTorch 2.13 comes from the older names of these to the newer ones, and back if there is an older one
        allgather_into_tensor_coalesced = all_gather_single_coalesced
        reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
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
    if (_call := vars(Group).get(_name)) is not None:
        setattr(Group, _name, torch.compiler.disable(both(_name, _call if looks_up() else dispatched.seen(_name, _call))))  # type: ignore[no-untyped-call]

if looks_up():
    tell_sources(Group)


def create(options: Any, own: Any) -> Group:
    """As torch.distributed asks for it."""
    return Group(connected.found(options, own))
