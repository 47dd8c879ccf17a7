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

    def value_after(self, iteration, tensor, node):
        if (iteration, tensor) not in self.after:
            if self.servers is None:
                self.steps = Steps(node.settings)
                self.servers = [self.begun(values) for values in self.initial]
            self.update(iteration, tensor, node)
            self.after[iteration, tensor] = self.servers[tensor][0].clone()
        return self.after[iteration, tensor]

    def begun(self, values):
        value = torch.tensor(values.tolist(), dtype=torch.float32)
        return [value, [torch.zeros_like(value) for _ in range(self.steps.planes)], 0]

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

    def land(self, iteration, tensor):
        self.values[tensor][:] = array.array("f", self.world.value_after(iteration, tensor, self).tolist())

    def wait_verdict(self, iteration, seconds):
        raise AssertionError("servers that make the steps tell no verdict")


def run(workers, body, seed=0):
    return standin.run(workers, body, seed, ServerWorld)

