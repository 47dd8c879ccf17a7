"""The stand-in of the core with servers that make the steps, in bsp: what lands late and in random order are parameters."""

import array

import standin
import torch
from paceline._errors import PacelineError
from steps import Steps


class ServerWorld(standin.World):
    def __init__(self, workers, seed=0):
        super().__init__(workers, seed)
        self.node_type = ServerNode
        self.rates = {}  # iteration -> {rank: rates}
        self.servers = None  # tensor -> [value, planes, steps]
        self.after = {}  # (iteration, tensor) -> value
        self.given = {}  # tensor -> (steps, planes)
        self.gathered = 0

    def begin_with(self, states):
        self.given = states

    def start(self, node):
        if self.servers is None:
            self.steps = Steps(node.settings)
            self.servers = [self.begun(tensor, values) for tensor, values in enumerate(self.initial)]

    def value_after(self, iteration, tensor, node):
        if (iteration, tensor) not in self.after:
            self.start(node)
            self.update(iteration, tensor, node)
            self.after[iteration, tensor] = self.servers[tensor][0].clone()
        return self.after[iteration, tensor]

    def begun(self, tensor, values):
        value = torch.tensor(values.tolist(), dtype=torch.float32)
        steps, planes = self.given.get(tensor, (0, [[0.0] * len(values)] * self.steps.planes))
        assert len(planes) == self.steps.planes
        return [value, [torch.tensor(list(plane), dtype=torch.float32) for plane in planes], steps]

    def update(self, iteration, tensor, node):
        ranks = self.pushed[iteration, tensor]
        if all(values is None for values in ranks.values()):
            return
        mean = torch.tensor(node.mean(ranks, node.counts[tensor]).tolist(), dtype=torch.float32)
        held = self.servers[tensor]
        held[2] += 1
        rate, decay = self.rates[iteration][0][node.tensors[tensor].group]
        self.steps.step(held[0], mean, held[1], held[2], rate, decay)


class ServerNode(standin.StandIn):
    def tell_rates(self, iteration, rates):
        assert iteration == self.iteration
        with self.world.condition:
            told = self.world.rates.setdefault(iteration, {})
            assert self.rank not in told, f"rates of iteration {iteration} were told twice"
            for other, theirs in told.items():
                if theirs != list(rates):
                    raise PacelineError(f"worker {self.rank} has the learning rate {rates[0][0]} in iteration {iteration}, worker {other} has {theirs[0][0]}")
            told[self.rank] = list(rates)

    def gradient_ready(self, tensor, pointer):
        assert self.rank in self.world.rates.get(self.iteration, {}), "a gradient came before the rates"
        super().gradient_ready(tensor, pointer)

    def gather_state(self, seconds):
        """Of all updates that this rank has given a gradient for; the others' next ones cannot be made before its own."""
        assert self.rank not in self.world.rates.get(self.iteration, {}), "gradients of the next iteration are on the way"
        with self.world.condition:
            self.world.start(self)
            self.world.gathered += 1
            moving = [t for t, tensor in enumerate(self.tensors) if not tensor.frozen]
            if self.iteration > self.first_iteration:
                before = self.iteration - 1
                self.world.until(lambda: all(self.world.complete(before, t) or (before, t) in self.world.after for t in moving))
                for t in moving:
                    self.world.value_after(before, t, self)
            self.state_of = {t: (self.world.servers[t][2], [array.array("f", plane.tolist()) for plane in self.world.servers[t][1]]) for t in moving}
        return True

    def updates(self, tensor):
        return self.state_of[tensor][0]

    def state(self, tensor, number):
        return memoryview(self.state_of[tensor][1][number])

    def land(self, iteration, tensor):
        self.values[tensor][:] = array.array("f", self.world.value_after(iteration, tensor, self).tolist())

    def wait_verdict(self, iteration, seconds):
        raise AssertionError("servers that make the steps tell no verdict")


def run(workers, body, seed=0):
    return standin.run(workers, body, seed, ServerWorld)

