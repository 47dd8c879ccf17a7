"""What the coordinator makes of what ranks tell of each other's steps (src/membership/alike_ledger.h), plain: all is kept, and looked at each time."""

from paceline._errors import PacelineError


class Alike:
    """Of a world of the stand-in, within its condition."""

    def __init__(self, world):
        self.world = world
        self.left_out = {}  # iteration -> ranks
        self.told = {}  # iteration -> {rank: what it told}
        self.passed = {}  # rank -> the last iteration that it has told of

    def on_left_out(self, rank, iteration):
        self.left_out.setdefault(iteration, set()).add(rank)
        self.on_passed(rank, iteration)

    def on_told(self, rank, iteration, what):
        told = self.told.setdefault(iteration, {})
        assert rank not in told and len(dict(what)) == len(what), f"rank {rank} told twice of iteration {iteration}"
        told[rank] = dict(what)
        self.on_passed(rank, iteration)

    def on_passed(self, rank, iteration):
        self.passed[rank] = max(iteration, self.passed.get(rank, -1))
        for left_out, ranks in self.left_out.items():
            for other in sorted(self.passed):
                if self.passed[other] >= left_out and other not in ranks:
                    self.part(f"rank {min(ranks)} left out the step of iteration {left_out}, and rank {other} made it")
        for after, told in self.told.items():
            (one, first), *others = told.items()
            for other, second in others:
                for name in {**first, **second}:
                    here, there = first.get(name, "not there"), second.get(name, "not there")
                    if here and there and here != there:
                        self.part(f"ranks {one} and {other} train apart: after iteration {after} {name} is {here} on rank {one} and {there} on rank {other}")

    def part(self, sentence):
        self.world.failure = self.world.failure or PacelineError(sentence, code="parted", exit_code=2)
        self.world.condition.notify_all()
