"""Gradients and means of a device with memory of its own: copies through pinned memory of the host, on streams beside the one that computes.

Out: the hook of a gradient records where the computing stream is; a stream of its own waits for that and copies. A thread waits for each copy in
turn, so that autograd's thread goes on, and announces it to the core, which takes it from the host's memory. In: a mean is copied on
another stream beside what is computed, into memory that belongs to that stream. What is computed from there on waits for it, the processor does not.
It is read where the core has put it, if that memory could be pinned; if not, it is copied to pinned memory first.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

Announce = Callable[[int, int], None]  # a tensor's number, the address of its gradient


class Streams:
    """What is asked of the device, as torch.cuda has it; a test has another, whose copies happen late."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module: Any = torch.get_device_module(device)

    def new(self) -> Any:
        return self._module.Stream(self._device)

    def current(self) -> Any:
        return self._module.current_stream(self._device)

    def on(self, stream: Any) -> AbstractContextManager[object]:
        return self._module.stream(stream)  # type: ignore[no-any-return]

    def pin(self, values: Sequence[Tensor]) -> bool:
        """Whether copies may read this memory of the host as it stands, until unpin(): arrays that fill one piece of memory."""
        first = min(array.data_ptr() for array in values)
        size = sum(array.nbytes for array in values)
        if first + size != max(array.data_ptr() + array.nbytes for array in values) or not hasattr(self._module, "cudart"):
            return False
        if int(self._module.cudart().cudaHostRegister(first, size, 0)) != 0:
            with contextlib.suppress(RuntimeError):  # the refusal is the next call's error too
                torch.zeros(1, device=self._device)
            return False
        self._pinned_at = first
        return True

    def unpin(self) -> None:
        self._module.cudart().cudaHostUnregister(self._pinned_at)

    def pinned(self, count: int, kind: torch.dtype) -> Tensor:
        """In the host's memory. PyTorch gives it to somebody else only when copies that use it are over."""
        return torch.empty(count, dtype=kind, device="cpu", pin_memory=True)

    def empty(self, count: int) -> Tensor:
        """Memory of the stream that on() has chosen: only that stream's work is known to be over with it."""
        return torch.empty(count, device=self._device)

    def keep(self, tensor: Tensor, stream: Any) -> None:
        """Its memory is given to nobody before `stream` is over with it too."""
        tensor.record_stream(stream)

    def copy(self, to: Tensor, source: Tensor) -> None:
        """On the stream that on() has chosen; returns at once."""
        to.copy_(source, non_blocking=True)


class Transfers:
    """Belongs to the thread that trains, autograd's threads included, of which one calls at a time."""

    def __init__(self, streams: Streams, announce: Announce, values: Sequence[Tensor]) -> None:
        """`values`: the memory that means come to, until release()."""
        self._streams = streams
        self._in_place = bool(values) and streams.pin(values)
        self._announce = announce
        self._out, self._in = streams.new(), streams.new()
        self._leaving: queue.SimpleQueue[tuple[Any, int, Tensor, Tensor] | None] = queue.SimpleQueue()
        self._idle = threading.Condition()
        self._sent = self._announced = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="paceline transfers", daemon=True)
        self._thread.start()

    def send(self, number: int, flat: Tensor) -> None:
        """The tensor's gradient, flat on the device, will be announced. Raises what an earlier one has ended with."""
        self._raise()
        staged = self._streams.pinned(flat.numel(), flat.dtype)
        self._out.wait_stream(self._streams.current())  # until then its numbers are not there
        with self._streams.on(self._out):
            self._streams.copy(staged, flat)
        self._sent += 1
        self._leaving.put((self._out.record_event(), number, staged, flat))  # which keeps its memory until it is copied

    def finish(self) -> None:
        """Returns when all that was sent is announced, and means may be overwritten; raises what one has ended with."""
        with self._idle:
            self._idle.wait_for(lambda: self._announced == self._sent)
        if self._in_place:  # a mean that no gradient of this rank depends on may still be read
            self._in.synchronize()
        self._raise()

    def fetch(self, values: Tensor) -> Tensor:
        """A copy of flat float32 `values` of the host, on the device: what is asked of the device from here on finds its numbers."""
        current = self._streams.current()
        with self._streams.on(self._in):
            fetched = self._streams.empty(values.numel())
            self._streams.copy(fetched, values if self._in_place else self._staged(values))
        self._streams.keep(fetched, current)
        current.wait_event(self._in.record_event())
        return fetched

    def _staged(self, values: Tensor) -> Tensor:
        return self._streams.pinned(values.numel(), values.dtype).copy_(values)

    def close(self) -> None:
        """What is on its way is announced first, unless the job has failed."""
        self.release()
        self._leaving.put(None)
        self._thread.join()

    def release(self) -> None:
        """From here on the memory that means come to may go away: nothing of the device reads it."""
        if self._in_place:
            self._in_place = False
            self._in.synchronize()
            self._streams.unpin()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (leaving := self._leaving.get()) is not None:
            copied, number, staged, _ = leaving
            try:
                if self._error is None:
                    copied.synchronize()
                    self._announce(number, staged.data_ptr())
            except BaseException as error:  # for the thread that trains
                self._error = error
            del leaving, _
            with self._idle:
                self._announced += 1
                self._idle.notify_all()


def of(device: torch.device, announce: Announce, values: Sequence[Tensor]) -> Transfers | None:
    """Nothing for parameters in the host's memory, which the core reads and writes where they stand."""
    return None if device.type == "cpu" else Transfers(Streams(device), announce, values)
