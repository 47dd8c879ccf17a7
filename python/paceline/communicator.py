"""Collective operations between processes, on arrays of any maker.

    import paceline
    all = paceline.Communicator(rank, addresses=["10.0.0.1:4200", "10.0.0.2:4200"])
    all.allreduce(gradient, reduction="mean")           # in place
    request = all.start("broadcast", weights, root=0)   # and something else meanwhile
    request.wait()

All ranks call the same operations in the same order with the same type, count, reduction and root; otherwise all of them fail with the
same sentence. After a failure every further call fails with the same reason. Any thread may call; where several do at a time, give each a
group(), so that the order is the same on all ranks. A wait can be interrupted by Ctrl-C, and asked again.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import math
import weakref
from collections.abc import Sequence
from types import TracebackType

from paceline import _ending, _interface, _library, _library_ranks
from paceline._arrays import Elements, elements
from paceline._errors import PacelineError
from paceline._waiting import wait

_OPERATIONS = {
    "broadcast": _interface.BROADCAST,
    "reduce": _interface.REDUCE,
    "allreduce": _interface.ALLREDUCE,
    "reduce-scatter": _interface.REDUCE_SCATTER,
    "allgather": _interface.ALLGATHER,
    "barrier": _interface.BARRIER,
}
_REDUCTIONS = {"sum": _interface.SUM, "max": _interface.MAX, "min": _interface.MIN, "mean": _interface.MEAN}
_ALGORITHMS = {
    "best": _interface.BEST,
    "lp": _interface.LINEAR_PIPELINE,
    "mst": _interface.MINIMUM_SPANNING_TREE,
    "be": _interface.BIDIRECTIONAL_EXCHANGE,
    "ring": _interface.RING,
    "direct": _interface.DIRECT,
}


@dataclasses.dataclass(frozen=True)
class Link:
    """A message of n bytes takes alpha + beta * n seconds, and gamma * n more to be added to something. `residual`: of the fit to what
    was measured, 0 when it was given."""

    alpha: float
    beta: float
    gamma: float
    residual: float = 0.0


def part(count: int, ranks: int, rank: int) -> slice:
    """The elements of a message of `count` that belong to `rank` in reduce-scatter and allgather."""
    first, length = _library_ranks.part(count, ranks, rank)
    return slice(first, first + length)


class Request:
    """An operation in flight. Its arrays belong to it until wait() has returned."""

    def __init__(self, handle: int, arrays: Sequence[object]) -> None:
        self._handle = handle
        self._arrays = arrays

    def wait(self, seconds: float = math.inf) -> bool:
        """True: the operation is over and the arrays are the caller's again. False: `seconds` have passed. Raises why it failed."""
        return wait(lambda limit: _library_ranks.wait(self._handle, limit), seconds)

    def choice(self) -> str:
        """How it runs: "lp with blocks of 65536 bytes, predicted 0.0086 s"."""
        return _library_ranks.request_choice(self._handle)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            try:
                _library.close(self._handle, 0)  # waits: the arrays are in use
            except PacelineError:
                pass  # of a parent process


_open: weakref.WeakSet[Communicator] = weakref.WeakSet()


class Communicator:
    """Ranks that are connected with each other. Usable as a context manager, which closes it."""

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str] = (),
        *,
        coordinator: str | None = None,
        ranks: int = 0,
        bind: str | None = None,
        rank_order: bool = False,
        confirm: bool = True,
        link: Link | None = None,
        connect_seconds: float = 30.0,
        silence_seconds: float = 10.0,
        stall_seconds: float = 600.0,
        job_key_file: str = "",
        security: str = "auto",
    ) -> None:
        """Either the addresses at which the ranks listen, by rank, or the `coordinator` at which rank 0 listens and tells the others of
        each other, the number of `ranks`, and the host `bind` by which the others reach this process. Returns when all are connected and
        the links are measured. rank_order: adds in rank order, the same bits whatever the algorithm. job_key_file: of the key that all
        ranks share ("": what PACELINE_JOB_KEY_FILE names); every connection is TLS then. Without a key only the loopback is allowed,
        unless security is "none". See paceline/communicator.h."""
        given = (ctypes.c_char_p * len(addresses))(*(address.encode() for address in addresses))
        model = None if link is None else _interface.Link(ctypes.sizeof(_interface.Link), link.alpha, link.beta, link.gamma, 0.0)
        options = _interface.CommunicatorOptions(
            rank=rank,
            ranks=ranks,
            addresses=given,
            address_count=len(addresses),
            coordinator=None if coordinator is None else coordinator.encode(),
            bind=None if bind is None else bind.encode(),
            link=None if model is None else ctypes.pointer(model),
            rank_order=int(rank_order),
            unconfirmed=int(not confirm),
            connect_seconds=connect_seconds,
            silence_seconds=silence_seconds,
            stall_seconds=stall_seconds,
            job_key_file=job_key_file.encode(),
            security=security.encode(),
        )
        self._describe(_library_ranks.communicator_open(options), is_group=False)
        _ending.watch_exits()

    def _describe(self, handle: int, is_group: bool) -> None:
        self._open_handle: int | None = handle
        self._is_group = is_group
        _open.add(self)
        info = _library_ranks.communicator_describe(handle)
        self.rank, self.ranks = info.rank, info.ranks
        self.link = Link(info.alpha, info.beta, info.gamma, info.residual)

    def group(self, number: int, ranks: Sequence[int]) -> Communicator:
        """Some of the ranks, ascending and with this one among them. `number`: above 0, the same on all of them, used once. Ranks that give it
        different lists all fail with a sentence that names two of them and their lists, and so does who calls something there after another
        of its ranks has closed it. At most 16254 are open at a time."""
        made = Communicator.__new__(Communicator)
        made._describe(_library_ranks.communicator_group(self._handle, number, ranks), is_group=True)
        return made

    def gone(self) -> list[int]:
        """The ranks that have left or are lost."""
        return _library_ranks.communicator_gone(self._handle, self.ranks)

    def is_awaited(self) -> bool:
        """Whether another rank has begun the operation that comes next here, as far as this one has heard."""
        return _library_ranks.communicator_awaited(self._handle)

    @property
    def _handle(self) -> int:
        handle: int | None = getattr(self, "_open_handle", None)
        if handle is None:
            raise PacelineError("the communicator is closed already", code="handle", subject="communicator")
        return handle

    def start(
        self,
        operation: str,
        array: object = None,
        output: object = None,
        *,
        reduction: str = "sum",
        root: int = 0,
        priority: int = 0,
        algorithm: str = "best",
        block_bytes: int = 0,
    ) -> Request:
        """Begins "broadcast", "reduce", "allreduce", "reduce-scatter", "allgather" or "barrier". `output` None: in place, where for
        reduce-scatter and allgather the rank's own part is part() of the whole array. `priority`: lower leaves first."""
        number = _named(_OPERATIONS, operation, "operation")
        arrays: list[Elements] = []
        call = _interface.Call(
            operation=number,
            reduction=_named(_REDUCTIONS, reduction, "reduction"),
            root=root,
            priority=priority,
            algorithm=_named(_ALGORITHMS, algorithm, "algorithm"),
            block_bytes=block_bytes,
        )
        if number != _interface.BARRIER:
            arrays = self._arrays(call, number, root, array, output)
        return self._begin(call, arrays)

    def _begin(self, call: _interface.Call, arrays: Sequence[object]) -> Request:
        """`arrays`: what the call reads and writes, kept until its end."""
        return Request(_library_ranks.collective(self._handle, call), arrays)

    def _arrays(self, call: _interface.Call, operation: int, root: int, array: object, output: object) -> list[Elements]:
        given = elements(array, "array")
        result = given if output is None else elements(output, "output")
        whole = result if operation == _interface.ALLGATHER else given
        own = part(whole.count, self.ranks, self.rank)
        size = {_interface.FLOAT64: 8, _interface.FLOAT16: 2, _interface.BFLOAT16: 2}.get(whole.type, 4)
        start, stop = own.start * size, own.stop - own.start
        if given.type != result.type:
            raise PacelineError("array and output have elements of different types; give the same", code="illegal", subject="output")
        call.type, call.count, call.input, call.output = given.type, whole.count, given.pointer, result.pointer
        # The counts that both have: of a part where the operation takes or gives one.
        expected = {_interface.REDUCE_SCATTER: (whole.count, stop), _interface.ALLGATHER: (stop, whole.count)}.get(operation, (whole.count, whole.count))
        if output is None and operation == _interface.REDUCE_SCATTER:
            call.output = given.pointer + start
        elif output is None and operation == _interface.ALLGATHER:
            call.input = given.pointer + start
        elif (given.count, result.count) != expected:
            raise PacelineError(
                f"an array of {given.count} elements and an output of {result.count}; legal: {expected[0]} and {expected[1]}",
                code="illegal",
                subject="output",
            )
        if not result.writable and not (operation == _interface.REDUCE and root != self.rank):
            raise PacelineError("the output is read only", code="illegal", subject="output")
        return [given, result]

    def broadcast(self, array: object, *, root: int = 0, algorithm: str = "best", block_bytes: int = 0) -> None:
        """The root's elements to all."""
        self.start("broadcast", array, root=root, algorithm=algorithm, block_bytes=block_bytes).wait()

    def reduce(self, array: object, output: object = None, *, root: int = 0, reduction: str = "sum", algorithm: str = "best", block_bytes: int = 0) -> None:
        """All ranks' elements, reduced, to the root. In place on another rank: undefined afterwards."""
        self.start("reduce", array, output, root=root, reduction=reduction, algorithm=algorithm, block_bytes=block_bytes).wait()

    def allreduce(self, array: object, output: object = None, *, reduction: str = "sum", algorithm: str = "best", block_bytes: int = 0) -> None:
        """All ranks' elements, reduced, to all."""
        self.start("allreduce", array, output, reduction=reduction, algorithm=algorithm, block_bytes=block_bytes).wait()

    def reduce_scatter(self, array: object, output: object = None, *, reduction: str = "sum", algorithm: str = "best", block_bytes: int = 0) -> None:
        """To each rank its part of the reduced elements."""
        self.start("reduce-scatter", array, output, reduction=reduction, algorithm=algorithm, block_bytes=block_bytes).wait()

    def allgather(self, array: object, output: object = None, *, algorithm: str = "best", block_bytes: int = 0) -> None:
        """Each rank's part to all."""
        self.start("allgather", array, output, algorithm=algorithm, block_bytes=block_bytes).wait()

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        self.start("barrier").wait()

    def close(self, seconds: float = 10.0) -> None:
        """Leaves, once its groups and requests are gone too. Any number of times. While an exception is on its way the others hear that this rank has
        failed, and why, instead of that it has finished."""
        self._close(seconds, _ending.on_its_way())

    def _close(self, seconds: float, failure: str) -> None:
        handle = self.__dict__.pop("_open_handle", None)
        if handle is not None:
            if failure and not self._is_group:
                _library_ranks.communicator_fail(handle, failure)
            _library.close(handle, seconds)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self._close(10.0, "")
        except PacelineError:
            pass  # of a parent process


def _named(table: dict[str, int], name: str, what: str) -> int:
    if name in table:
        return table[name]
    raise PacelineError(f"'{name}' is no {what}; legal: {', '.join(table)}", code="illegal", subject=what)


@atexit.register
def _leave() -> None:
    """Of a script that has closed none: what runs on threads of the library must not outlive what it uses."""
    for communicator in list(_open):
        with contextlib.suppress(PacelineError):
            communicator._close(1.0, _ending.uncaught())
