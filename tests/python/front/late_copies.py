"""A device for collective operations whose copies happen as late as they may. Its memory is the host's; what a copy brings is a mark until the copy
happens: when somebody waits for it, or by chance. A copy that did not wait for what computes, or whose source nobody has kept, brings the mark for good.
"""

import contextlib
import functools
import random
import threading
import weakref

import torch

WAITS = ("of a copy out for what computes", "of the thread for a copy out", "of who waits for the copies in")


def mark(tensor):
    tensor.fill_(float("nan") if tensor.is_floating_point() else 1)


class Event:
    def __init__(self, stream, wait):
        self.stream, self.position, self.wait = stream, stream.asked, wait

    def synchronize(self):
        self.stream.run(self.position, self.wait)


class Stream:
    def __init__(self, device):
        self.device = device
        self.copies = []
        self.asked = 0
        self.waited = False

    def wait_stream(self, computing):
        if WAITS[0] not in self.device.without:
            computing()
            self.waited = True

    def record_event(self):
        return Event(self, WAITS[1])

    def synchronize(self):
        self.run(self.asked, WAITS[2])

    def ask(self, to, source, out):
        with self.device.lock:
            mark(to)
            self.copies.append((to, weakref.ref(source) if not out or self.waited else lambda: None))
            self.asked += 1

    def run(self, position, wait=""):
        if wait in self.device.without:
            return
        with self.device.lock:
            while self.asked - len(self.copies) < position:
                to, kept = self.copies.pop(0)
                if (source := kept()) is not None:
                    to.copy_(source)


class Late:
    """As transfers.Streams."""

    def __init__(self, seed=0, without=(), computing=lambda: None):
        self.random = random.Random(seed)
        self.without = without
        self.lock = threading.RLock()
        self.computing = computing  # makes what was asked of the device
        self.host = set()

    def new(self):
        self.stream = Stream(self)
        return self.stream

    def current(self):
        with self.lock:
            if self.random.random() < 0.2 and not self.without:
                self.stream.run(self.random.randint(self.stream.asked - len(self.stream.copies), self.stream.asked))
        return self.computing

    def on(self, stream):
        assert stream is self.stream
        return contextlib.nullcontext()

    def pinned(self, count, kind):
        held = torch.empty(count, dtype=kind)
        mark(held)
        self.host.add(held.untyped_storage().data_ptr())
        weakref.finalize(held.untyped_storage(), self.host.discard, held.untyped_storage().data_ptr())
        return held

    def copy(self, to, source):
        self.stream.ask(to, source, out=to.untyped_storage().data_ptr() in self.host)


def every_group_copies_late():
    """Whatever the tensors of later groups are, they are taken for such a device's."""
    from paceline.torch.backend import process_group

    process_group.Hosted = functools.partial(process_group.Hosted, streams_of=lambda device: Late(), is_hosts=lambda tensor: False)
