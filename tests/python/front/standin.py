"""Members of a job in one process, ranks as threads: sums in rank order, means delivered as late as possible and in seeded random order.

A mean reaches a rank's value arena only while that rank waits, or at random in one of its other calls: whatever is read without a wait is
old. What a rank waits for is delivered after a random part of everything else that could be.
"""

import array
import ctypes
import dataclasses
import math
import random
import threading

from alike_twin import Alike
from paceline._errors import PacelineError
from paceline._node import Verdict

PATIENCE = 60.0  # seconds that no rank made progress: a test that hangs fails instead


class World:
    def __init__(self, workers, seed=0):
        self.workers = workers
        self.seed = seed
        self.node_type = StandIn
        self.condition = threading.Condition()
        self.tables = {}
        self.nodes = {}
        self.initial = None
        self.failure = None
        self.pushed = {}  # (iteration, tensor) -> {rank: array or None}
        self.done = {}  # iteration -> set of ranks
        self.verdicts = {}
        self.orders = []
        self.finished = set()
        self.alike = Alike(self)
        self.waits = 0  # that did not find what they asked for

    def join_as(self, rank):
        def join(tensors, initial, settings, place, states=None):
            node = self.node_type(self, rank, tensors)
            node.settings = dict(settings)
            mine = [floats_at(pointer, node.counts[t], tensors[t].dtype) for t, pointer in enumerate(initial)]
            with self.condition:
                if rank == 0:
                    self.initial = mine
                    self.begin_with({t: (state.updates, [floats_at(array, node.counts[t], "float32") for array in state.arrays]) for t, state in (states or {}).items()})
                self.tables[rank] = list(tensors)
                self.nodes[rank] = node
                self.condition.notify_all()
                self.until(lambda: len(self.tables) == self.workers)
                self.refuse_difference(rank)
                for t, values in enumerate(self.initial):
                    node.values[t][:] = values
            return node

        return join

    def refuse_difference(self, rank):
        for t, (a, b) in enumerate(zip(self.tables[0], self.tables[rank])):
            if dataclasses.replace(a, dtype=b.dtype) != b:  # the type is a rank's own business
                raise PacelineError(f"workers 0 and {rank} disagree on tensor {t}: {a} against {b}; start every worker from the same model")
        if len(self.tables[0]) != len(self.tables[rank]):
            raise PacelineError(f"workers 0 and {rank} disagree on the number of tensors: {len(self.tables[0])} against {len(self.tables[rank])}")

    def begin_with(self, states):
        assert not states, "nobody takes the optimizer's state"

    def until(self, there):
        """Within the condition."""
        while not there():
            if self.failure:
                raise self.failure
            if not self.condition.wait(PATIENCE):
                raise AssertionError("the ranks wait for each other")

    def forget(self, iteration):
        """No rank can ask for it any more: all of it has landed everywhere before anything of the next but one could be sent."""
        for key in [key for key in self.pushed if key[0] < iteration]:
            del self.pushed[key]

    def complete(self, iteration, tensor):
        return len(self.pushed.get((iteration, tensor), {})) == self.workers


def floats_at(pointer, count, kind):
    if kind == "float32":
        return array.array("f", ctypes.string_at(pointer, 4 * count))
    import torch

    halves = torch.frombuffer(bytearray(ctypes.string_at(pointer, 2 * count)), dtype=getattr(torch, kind))
    return array.array("f", halves.to(torch.float32).numpy().tobytes())


def rounded(value):
    return ctypes.c_float(value).value


class StandIn:
    first_iteration = 0

    def __init__(self, world, rank, tensors):
        self.world = world
        self.rank = rank
        self.workers = world.workers
        self.tensors = list(tensors)
        self.counts = [math.prod(spec.shape) for spec in tensors]
        self.values = [array.array("f", bytes(4 * count)) for count in self.counts]
        self.random = random.Random(f"{world.seed} {rank}")
        self.landed = set()  # (iteration, tensor)
        self.iteration = 0
        self.passed = []
        self.steps = []
        self.closed = False
        self.waited = {spec.layer: -1 for spec in tensors}  # last iteration, of each layer
        frozen = [spec.frozen for spec in tensors]
        assert frozen == sorted(frozen) and not {spec.layer for spec in tensors if spec.frozen} & {spec.layer for spec in tensors if not spec.frozen}
        assert all(after.layer - before.layer in (0, 1) for before, after in zip(tensors, tensors[1:]))

    def value(self, tensor):
        return memoryview(self.values[tensor])

    def gradient_ready(self, tensor, pointer):
        assert not self.tensors[tensor].frozen
        assert self.waited[self.tensors[tensor].layer] == self.iteration - 1, f"{self.tensors[tensor].name} was sent before its last mean was waited for"
        values = floats_at(pointer, self.counts[tensor], self.tensors[tensor].dtype)
        with self.world.condition:
            self.refuse_failed()
            ranks = self.world.pushed.setdefault((self.iteration, tensor), {})
            assert self.rank not in ranks, f"{self.tensors[tensor].name} was sent twice in iteration {self.iteration}"
            ranks[self.rank] = values
            self.deliver(self.random.random() * 0.3)
            self.world.condition.notify_all()

    def backward_done(self, iteration, unused):
        assert iteration == self.iteration == len(self.steps), (iteration, self.iteration, len(self.steps))
        with self.world.condition:
            self.refuse_failed()
            for tensor in unused:
                ranks = self.world.pushed.setdefault((iteration, tensor), {})
                assert self.rank not in ranks and not self.tensors[tensor].frozen
                ranks[self.rank] = None
            for tensor, spec in enumerate(self.tensors):
                assert spec.frozen or self.rank in self.world.pushed.get((iteration, tensor), {}), f"{spec.name} was neither sent nor unused"
            self.world.done.setdefault(iteration, set()).add(self.rank)
            self.world.alike.on_passed(self.rank, iteration - 1)
            self.iteration += 1
            self.world.forget(iteration - 2)
            self.landed = {key for key in self.landed if key[0] >= iteration - 2}
            self.deliver(self.random.random() * 0.3)
            self.world.condition.notify_all()

    def tell_left_out(self, iteration):
        assert iteration == self.iteration - 1 == len(self.steps) - 1
        with self.world.condition:
            self.world.alike.on_left_out(self.rank, iteration)

    def tell_alike(self, iteration, what):
        assert iteration == self.iteration - 1
        with self.world.condition:
            self.world.alike.on_told(self.rank, iteration, what)

    def deliver(self, share, must=()):
        """Lets some means that are complete land here; `must` last of all."""
        ready = [key for key in self.world.pushed if key not in self.landed and self.world.complete(*key)]
        self.random.shuffle(ready)
        chosen = [key for key in ready if key not in must and self.random.random() < share]
        for iteration, tensor in [*chosen, *(key for key in ready if key in must)]:
            self.landed.add((iteration, tensor))
            self.land(iteration, tensor)

    def land(self, iteration, tensor):
        ranks = self.world.pushed[iteration, tensor]
        if any(values is not None for values in ranks.values()):
            self.values[tensor][:] = self.mean(ranks, self.counts[tensor])

    def mean(self, ranks, count):
        """In rank order, as float32, times float32(1/W)."""
        import torch

        total = torch.zeros(count)
        for rank in range(self.workers):
            if ranks[rank] is not None:
                total += torch.frombuffer(ranks[rank], dtype=torch.float32) if count else 0
        return array.array("f", (total * rounded(1.0 / self.workers)).numpy().tobytes())

    def wait(self, keys, there):
        with self.world.condition:
            if not there():
                self.world.waits += 1
            self.world.until(there)
            self.deliver(self.random.random(), keys)
        return True

    def wait_layer(self, layer, iteration, seconds):
        keys = {(iteration, t) for t, spec in enumerate(self.tensors) if spec.layer == layer and not spec.frozen}
        if seconds == 0 and not self.happens_to_be_there(keys):
            return False
        self.passed.append((iteration, layer))
        self.waited[layer] = iteration
        return self.wait(keys, lambda: all(self.world.complete(*key) for key in keys))

    def happens_to_be_there(self, keys):
        with self.world.condition:
            return all(self.world.complete(*key) for key in keys) and self.random.random() < 0.5

    def wait_all(self, iteration, seconds):
        keys = {(iteration, t) for t, spec in enumerate(self.tensors) if not spec.frozen}
        return self.wait(keys, lambda: all(self.world.complete(*key) for key in keys))

    def wait_verdict(self, iteration, seconds):
        with self.world.condition:
            self.world.until(lambda: len(self.world.done.get(iteration, ())) == self.workers)
            if iteration not in self.world.verdicts:
                self.world.verdicts[iteration] = self.verdict(iteration)
            return self.world.verdicts[iteration]

    def verdict(self, iteration):
        squares, unused, non_finite = [], set(), None
        for tensor, spec in enumerate(self.tensors):
            if spec.frozen:
                continue
            ranks = self.world.pushed[iteration, tensor]
            if all(values is None for values in ranks.values()):
                unused.add(tensor)
                continue
            for rank in range(self.workers):
                if non_finite is None and ranks[rank] is not None and not all(map(math.isfinite, ranks[rank])):
                    non_finite = (rank, tensor)
            squares += [value * value for value in self.mean(ranks, self.counts[tensor])]
        return Verdict(math.fsum(squares) if all(map(math.isfinite, squares)) else math.inf, non_finite, frozenset(unused))

    def set_order(self, layers):
        assert sorted(layers) == sorted({spec.layer for spec in self.tensors})
        self.order = list(layers)

    def step_done(self, samples, loss, phases):
        assert len(self.steps) == self.iteration - 1
        self.steps.append((samples, loss))
        return False

    def refuse_failed(self):
        if self.world.failure:
            raise self.world.failure

    def finish(self, seconds):
        with self.world.condition:
            self.refuse_failed()
            begun = [self.tensors[t].name for (iteration, t), ranks in self.world.pushed.items() if iteration == self.iteration and self.rank in ranks]
            assert not begun, f"{begun} of iteration {self.iteration} were sent, and it has not ended"
            self.world.alike.on_passed(self.rank, self.iteration - 1)
            self.world.finished.add(self.rank)
            self.world.condition.notify_all()

    def report(self):
        return None

    def fail(self, reason):
        with self.world.condition:
            self.world.failure = self.world.failure or PacelineError(reason, kind="cancelled")
            self.world.condition.notify_all()

    def interrupt(self):
        self.fail("interrupted")

    def stop(self):
        """As of a rank that hosts no coordinator."""

    def close(self, seconds):
        self.closed = True


def run(workers, body, seed=0, kind=World):
    """body(rank, join) on a thread for each rank; their results in rank order. The first error that a test would want to see is raised."""
    world = run.world = kind(workers, seed)
    results, errors = [None] * workers, []

    def one(rank):
        try:
            results[rank] = body(rank, world.join_as(rank))
        except BaseException as error:
            errors.append(error)
            with world.condition:
                world.failure = world.failure or PacelineError(f"rank {rank}: {error}", kind="peer-lost")
                world.condition.notify_all()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    if world.failure and world.failure.code == "parted":  # the last to end hears of it, and all who have not ended
        raise world.failure
    return results
