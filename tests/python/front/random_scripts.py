"""Training loops drawn from a seed, in which one rank does something that the others do not: a rank of many of them, one after the other.

    torchrun ... random_scripts.py FOLDER SEEDS odd|even

Writes FOLDER/RANK: a line for each seed, how its script has ended on this rank. "odd": one rank differs. "even": the same scripts without that.
"""

import contextlib
import copy
import dataclasses
import json
import pathlib
import random
import sys


import paceline
import paceline.torch as pt
import torch
import torch.nn.functional as F
from loops import bits
from paceline.torch.attached import lifetime
from torch import nn, optim

torch.set_num_threads(1)


class Full(torch.autograd.Function):
    """A layer whose backward pass runs out of memory."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("out of memory (made up)")


class Net(nn.Module):
    def __init__(self, tied, norm):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.tied = tied

    def forward(self, x, full=False):
        x = torch.tanh(self.one(x))
        x = Full.apply(x) if full else x
        x = torch.tanh(self.norm(self.two(x)))
        return self.three(self.two(x) if self.tied else x)


OPTIMIZERS = {
    "sgd": lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9),
    "plain": lambda p, lr: optim.SGD(p, lr=lr),
    "adam": lambda p, lr: optim.Adam(p, lr=lr / 10),
    "adamw": lambda p, lr: optim.AdamW(p, lr=lr / 10, weight_decay=0.1),
    "rmsprop": lambda p, lr: optim.RMSprop(p, lr=lr / 10),
    "nadam": lambda p, lr: optim.NAdam(p, lr=lr / 10),
}
ON_SERVERS = ("sgd", "plain", "adam", "adamw")
DIFFERENCES = (
    "leaves the step out", "leaves out mini-batch and step", "catches an exception of backward", "catches an exception of forward", "a picture", "zero_grad before the step",
    "two steps", "a mini-batch more", "another rate", "another setting", "parameters", "parameters by data", "a state dict", "state of the optimizer", "an early end", "clips",
    "scales gradients", "takes a gradient away", "freezes", "begins with another rate", "begins with another setting", "begins with state", "closes early", "raises",
)  # fmt: skip
OVERFLOW = 2  # iteration of a loss scaler's loop whose step all ranks leave out
AFTER_A_STEP = ("parameters", "parameters by data", "a state dict", "state of the optimizer", "freezes")
INNOCENT = ("evaluates", "reads state dicts", "reads parameters", "looks at gradients", "synchronizes", "copies the model", "nothing", "nothing", "swaps and puts back")


@dataclasses.dataclass
class Script:
    seed: int
    workers: int

    def __post_init__(self):
        draw = random.Random(self.seed)
        self.draw = draw
        self.steps = draw.randint(2, 9)
        self.update = draw.choice(("worker", "worker", "worker", "server"))
        self.optimizer = draw.choice(ON_SERVERS if self.update == "server" else tuple(OPTIMIZERS))
        self.tied, self.norm, self.clear_first, self.to_none = (draw.random() < 0.4 for _ in range(4))
        self.accumulate = draw.choice((1, 1, 1, 2))
        self.schedule = draw.random() < 0.3
        self.groups = draw.random() < 0.3
        self.choices = {"update": self.update}
        if self.update == "worker":
            self.choices["apply"] = draw.choice(("at-gates", "at-step"))
            self.choices["buffers"] = draw.choice(("local", "broadcast", "mean"))
            self.clips = draw.random() < 0.25
            self.scaler = not self.clips and draw.random() < 0.15
            if draw.random() < 0.3:
                self.choices["settings"] = {"collective": "loop3-overlap"}
        else:
            self.clips = self.scaler = False
        if not self.clips and not self.scaler and draw.random() < 0.2:
            self.choices["clip_norm"] = 0.5
        self.rank = draw.randrange(self.workers)
        self.at = draw.randrange(self.steps)
        self.difference = draw.choice(DIFFERENCES)
        if self.difference in AFTER_A_STEP:
            made = [step for step in range(self.steps) if not (self.scaler and step == OVERFLOW)]
            self.at = draw.choice(made[:-1])  # what follows the last step is a rank's own affair
        self.innocent = draw.choice(INNOCENT)
        self.innocent_rank = draw.randrange(self.workers)
        self.which = draw.randrange(4)


class Loop:
    """One rank's run of a script."""

    def __init__(self, script, rank, odd, join):
        self.script, self.odd = script, odd and script.rank == rank
        self.wanted = rank
        torch.manual_seed(script.seed)
        self.model = Net(script.tied, script.norm)
        parts = [{"params": [*self.model.one.parameters()]}, {"params": [*self.model.two.parameters(), *self.model.norm.parameters(), *self.model.three.parameters()], "lr": 0.05}]
        rate = 0.2 if self.is_odd("begins with another rate") else 0.1
        self.optimizer = OPTIMIZERS[script.optimizer](parts if script.groups else self.model.parameters(), rate)
        if self.is_odd("begins with another setting"):
            self.optimizer.param_groups[0]["weight_decay"] += 0.25
        if self.is_odd("begins with state"):
            self.model(torch.randn(5, 4)).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5) if script.schedule else None
        self.job = pt.attach(self.model, self.optimizer, **({} if join is None else {"join": join}), **script.choices)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2) if script.scaler else None
        torch.manual_seed(1000 * script.seed + rank)

    def is_odd(self, what, step=None):
        return self.odd and self.script.difference == what and (step is None or step == self.script.at)

    def run(self):
        for step in range(self.script.steps):
            if self.is_odd("an early end", step) and step > 0:
                break
            if self.is_odd("closes early", step) and step > 0:
                self.job.close()
                return
            self.step(step)
        self.job.close()

    def step(self, step):
        if self.script.clear_first:
            self.clear()
        self.before(step)
        if self.is_odd("leaves out mini-batch and step", step):
            return
        try:
            self.passes(step)
        except RuntimeError as error:
            if "made up" not in str(error):
                raise
            if not self.script.clear_first:
                self.clear()
            return
        if self.is_odd("leaves the step out", step):
            if not self.script.clear_first:
                self.clear()
            return
        self.between(step)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.is_odd("two steps", step):
            self.optimizer.step()
        if self.scheduler:
            self.scheduler.step()
        if not self.script.clear_first:
            self.clear()
        self.after(step)

    def clear(self):
        self.optimizer.zero_grad(set_to_none=self.script.to_none or self.script.update == "server")

    def passes(self, step):
        x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
        for part in range(self.script.accumulate):
            last = part == self.script.accumulate - 1
            if last and self.is_odd("catches an exception of forward", step):
                raise RuntimeError("no such picture (made up)")
            with contextlib.nullcontext() if last else self.job.no_sync():
                loss = F.cross_entropy(self.model(x, last and self.is_odd("catches an exception of backward", step)), y) / self.script.accumulate
                if self.scaler and step == OVERFLOW:
                    loss = loss * float("inf")  # of all ranks: they leave the step out together
                (self.scaler.scale(loss) if self.scaler else loss).backward()

    def before(self, step):
        group = self.optimizer.param_groups[-1]
        if self.is_odd("another rate", step):
            group["lr"] *= 2
        if self.is_odd("another setting", step):
            group["weight_decay"] += 0.25

    def between(self, step):
        parameters = list(self.model.parameters())
        if self.script.clips or self.is_odd("clips", step):
            torch.nn.utils.clip_grad_norm_(parameters, 0.01)
        if self.is_odd("zero_grad before the step", step):
            self.optimizer.zero_grad()
        if self.is_odd("scales gradients", step):
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(3)
        if self.is_odd("takes a gradient away", step):
            parameters[self.script.which].grad = None
        if self.is_odd("raises", step):
            raise ValueError("no such number")
        if self.script.innocent == "looks at gradients" and self.script.update == "worker" and self.wanted == self.script.innocent_rank and parameters[0].grad is not None:
            float(parameters[0].grad.sum())

    def after(self, step):
        parameter = list(self.model.parameters())[self.script.which]
        if self.is_odd("a picture", step):
            self.model(torch.randn(2, 4)).sum().backward()
            self.optimizer.zero_grad()
        if self.is_odd("a mini-batch more", step):
            self.passes(step)
            self.optimizer.step()
        if self.is_odd("parameters", step):
            with torch.no_grad():
                parameter.add_(0.5)
        if self.is_odd("parameters by data", step):
            parameter.data.add_(0.5)
        if self.is_odd("a state dict", step):
            self.model.load_state_dict({name: torch.ones_like(tensor) for name, tensor in self.model.state_dict().items()})
        if self.is_odd("state of the optimizer", step):
            self.optimizer.state.clear()
        if self.is_odd("freezes", step):
            parameter.requires_grad_(False)
        if self.wanted == self.script.innocent_rank:
            getattr(self, self.script.innocent.replace(" ", "_"), lambda: None)()

    def evaluates(self):
        self.model.eval()
        with torch.no_grad():
            self.model(torch.randn(3, 4))
        self.model.train()

    def reads_state_dicts(self):
        self.model.state_dict(), self.optimizer.state_dict()

    def reads_parameters(self):
        sum(float(parameter.detach().sum()) for parameter in self.model.parameters())

    def synchronizes(self):
        self.job.synchronize()

    def copies_the_model(self):
        copy.deepcopy(self.model)

    def swaps_and_puts_back(self):
        if self.script.update == "server":
            return
        kept = [parameter.detach().clone() for parameter in self.model.parameters()]
        for parameter in self.model.parameters():
            parameter.data.zero_()
        for parameter, value in zip(self.model.parameters(), kept):
            parameter.data.copy_(value)


def outcome(script, rank, odd, join=None):
    """(whether it ended well, bits of the parameters or the error's sentence)"""
    loop = None
    try:
        loop = Loop(script, rank, odd, join)
        loop.run()
        return True, bits([parameter.detach() for parameter in loop.model.parameters()])
    except Exception as error:  # would end the script
        if loop is not None:
            loop.job.fail(lifetime.sentence(rank, error))
        return False, error.message if isinstance(error, paceline.PacelineError) else lifetime.sentence(rank, error)
    finally:
        if loop is not None:
            with contextlib.suppress(paceline.PacelineError):
                loop.job.close()


def main(folder, seeds, how):
    from paceline import launch

    here = launch.launched()
    first, last = map(int, seeds.split("-"))
    with open(pathlib.Path(folder) / str(here.rank), "w") as file:
        for seed in range(first, last):
            well, said = outcome(Script(seed, here.workers), here.rank, how == "odd")
            file.write(json.dumps([seed, well, said]) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
