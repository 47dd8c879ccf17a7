"""Collective operations on tensors of a device: through pinned memory of the host, copied on a stream beside the one that computes.

An operation begins when its tensors are in the host's memory, and some when the other ranks have said how much they send. A thread waits for
that, so that the script, or autograd in the middle of a backward pass, goes on. All ranks begin operations in one order: others queue up behind.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from paceline._errors import PacelineError
from paceline.torch.backend.collectives import Collectives
from paceline.torch.backend.in_flight import InFlight
from paceline.torch.backend.reductions import Op
from paceline.torch.transfers import Streams


class Begins:
    """An operation that will begin, to be waited for as one that has."""

    def __init__(self, begin: Callable[[], InFlight]) -> None:
        self._begin = begin
        self._begun = threading.Event()
        self._pending = InFlight(None)
        self._error: Exception | None = None

    def begin(self) -> None:
        try:
            self._pending = self._begin()
        except Exception as error:  # noqa: BLE001  of who waits
            self._error = error
        self._begin = lambda: self._pending  # which lets go of what it held
        self._begun.set()

    def wait(self, seconds: float = math.inf) -> bool:
        end = time.monotonic() + seconds
        if not self._begun.wait(None if seconds == math.inf else seconds):
            return False
        if self._error is not None:
            raise self._error
        return self._pending.wait(max(0.0, end - time.monotonic()))


class Hosted:
    """The operations of one group's Collectives, begun in the order of these calls."""

    def __init__(
        self, calls: Collectives, streams_of: Callable[[torch.device], Streams] = Streams, is_hosts: Callable[[Tensor], bool] = lambda tensor: tensor.is_cpu
    ) -> None:
        self.rank, self.ranks = calls.rank, calls.ranks
        self._calls = calls
        self._streams_of = streams_of
        self._is_hosts = is_hosts
        self._used: dict[torch.device, tuple[Streams, Any]] = {}  # with the stream of the copies
        self._queue: queue.SimpleQueue[Begins | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._left = 0  # that have not begun
        self._thread: threading.Thread | None = None

    # ---- the operations

    def barrier(self) -> InFlight:
        return self._call(lambda nothing: self._calls.barrier(), ())

    def allreduce(self, tensor: Tensor, op: Op) -> InFlight:
        return self._call(self._calls.allreduce, tensor, op, reads=True, asks=tensor.layout is not torch.strided)

    def reduce(self, tensor: Tensor, root: int, op: Op) -> InFlight:
        return self._call(self._calls.reduce, tensor, root, op, reads=True, writes=self.rank == root)

    def broadcast(self, tensor: Tensor, root: int) -> InFlight:
        return self._call(self._calls.broadcast, tensor, root, reads=self.rank == root, writes=self.rank != root)

    def allgather(self, outputs: Sequence[Tensor], tensor: Tensor) -> InFlight:
        return self._call(self._calls.allgather, outputs, tensor)

    def allgather_flat(self, output: Tensor, tensor: Tensor) -> InFlight:
        return self._call(self._calls.allgather_flat, output, tensor)

    def reduce_scatter_flat(self, output: Tensor, tensor: Tensor, op: Op) -> InFlight:
        return self._call(self._calls.reduce_scatter_flat, output, tensor, op)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: Op) -> InFlight:
        return self._call(self._calls.reduce_scatter, output, inputs, op)

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int) -> InFlight:
        return self._call(self._calls.gather, outputs, tensor, root)

    def scatter(self, output: Tensor, inputs: Sequence[Tensor], root: int) -> InFlight:
        return self._call(self._calls.scatter, output, inputs, root)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> InFlight:
        return self._call(self._calls.alltoall, outputs, inputs)

    def alltoall_flat(self, output: Tensor, tensor: Tensor, takes: Sequence[int], gives: Sequence[int]) -> InFlight:
        return self._call(self._calls.alltoall_flat, output, tensor, takes, gives)

    # ---- how they are begun

    def _call(self, operation: Callable[..., InFlight], *arguments: Any, reads: bool = False, writes: bool = True, asks: bool = False) -> InFlight:
        """Whether the first argument is read, and written; the others are read. `asks`: whether `operation` waits for the other ranks."""
        if not asks and all(map(self._is_hosts, tensors_of(arguments))):
            with self._lock:
                if self._left == 0:
                    return operation(*arguments)
        leaves, shape = tree_flatten(list(arguments))
        first = len(tree_flatten(arguments[0])[0])
        copies = [self._copy(leaf, reads or index >= first, writes and index < first) for index, leaf in enumerate(leaves)]
        given = tree_unflatten([leaf if copy is None else copy.host for leaf, copy in zip(leaves, copies)], shape)
        copied = [copy for copy in copies if copy is not None]
        with self._lock:
            self._left += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="paceline copies", daemon=True)
                self._thread.start()

        def copied_and_begun() -> InFlight:
            for copy in copied:
                copy.event.synchronize()
            return operation(*given)

        begins = Begins(copied_and_begun)
        self._queue.put(begins)
        return InFlight(begins, lambda: bring_back([copy for copy in copied if copy.written]))

    def _copy(self, leaf: object, reads: bool, written: bool) -> Copy | None:
        if not isinstance(leaf, Tensor) or self._is_hosts(leaf) or leaf.layout is not torch.strided:
            return None
        return Copy(*self._on(leaf.device), leaf, reads, written)

    def settle(self, tensor: Tensor) -> None:
        """Returns when what this thread has asked the tensor's device for is done."""
        if not self._is_hosts(tensor):
            self._on(tensor.device)[0].current().synchronize()

    def end(self, seconds: float) -> None:
        """Nothing follows."""
        self._queue.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _on(self, device: torch.device) -> tuple[Streams, Any]:
        if device not in self._used:
            try:
                streams = self._streams_of(device)
                self._used[device] = (streams, streams.new())
            except (AttributeError, RuntimeError) as error:
                raise PacelineError(f'a tensor is on {device}; the backend "paceline" takes those in the host\'s memory and on a GPU', subject="device") from error
        return self._used[device]

    def _work(self) -> None:
        while (begins := self._queue.get()) is not None:
            begins.begin()
            del begins
            with self._lock:
                self._left -= 1


def tensors_of(arguments: Sequence[Any]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from tensors_of(argument)


class Copy:
    """Of one tensor, in the host's memory."""

    def __init__(self, streams: Streams, stream: Any, tensor: Tensor, reads: bool, written: bool) -> None:
        self.streams, self.stream, self.tensor, self.written = streams, stream, tensor.detach(), written
        self.host = streams.pinned(tensor.numel(), tensor.dtype).view(tensor.shape)
        stream.wait_stream(streams.current())  # until then its numbers are not there, and what reads it is not over
        if reads:
            with streams.on(stream):
                streams.copy(self.host, self.tensor)
        self.event = stream.record_event()


def bring_back(copies: Sequence[Copy]) -> None:
    for copy in copies:
        with copy.streams.on(copy.stream):
            copy.streams.copy(copy.tensor, copy.host)
    for copy in copies:
        copy.stream.synchronize()
