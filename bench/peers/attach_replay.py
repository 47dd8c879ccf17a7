"""paceline.torch.attach, replaying a table of layers in Python: what a PyTorch user gets, which `paceline bench schedules` measures beside.

Computing is slept (replayed.py); everything else is attach as it comes, with `--schedule p3`. Slices are divided by the scale like all other
bytes. What a layer waits for at its gate, and the optimizer's step there, make the iteration longer.
"""

import os
import sys
import time

import replayed

arguments = replayed.parsed(__doc__.splitlines()[0])
os.environ |= {"PACELINE_RANK": str(arguments.rank), "PACELINE_WORKERS": str(arguments.hosts)}
os.environ |= {"PACELINE_COORDINATOR": f"{arguments.master}:4170", "PACELINE_INTERFACE": arguments.interface}

import torch  # noqa: E402  (the environment must be set before)

try:
    import paceline.torch as pt
except ImportError as error:
    raise SystemExit(f"{error}: pip install . into this interpreter, or set PYTHONPATH and PACELINE_LIBRARY") from None

SLICE_ELEMENTS = 50_000  # P3's own


class Stepping:
    """Takes the time of what torch.optim.SGD computes; a class derived from it would be another optimizer to attach."""

    def __init__(self):
        module = sys.modules["torch.optim.sgd"]
        self.seconds, self._plain = 0.0, module.sgd
        module.sgd = self

    def __call__(self, *arguments, **more):
        begin = time.monotonic()
        self._plain(*arguments, **more)
        self.seconds += time.monotonic() - begin


class Beside:
    """Seconds of the forward pass that are no computing: waits, by attach's own account, and the optimizer's."""

    def __init__(self, stepping):
        self.stepping, self.job, self.before = stepping, None, 0.0

    def __call__(self):
        report = self.job.report()
        waited = report.get("exposed", 0.0) * report["iterations"]
        before, self.before = self.before, waited + self.stepping.seconds
        return max(0.0, self.before - before)  # the account forgets its first iteration


def main():
    replay = replayed.Replay(arguments)
    model = torch.nn.Sequential(*replay.layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    stepping = Stepping()
    replay.beside = Beside(stepping)
    settings = {"schedule": "p3", "slice": str(round(SLICE_ELEMENTS / arguments.scale))}
    job = pt.attach(model, optimizer, clip_norm=1e30 if arguments.clip else None, settings=settings, security="none")
    replay.beside.job = job
    replay.train(model, optimizer, optimizer.step)
    job.close()
    if stepping.seconds == 0.0:
        raise SystemExit("this PyTorch's SGD does not step by torch.optim.sgd.sgd, whose time is taken")
    replay.report(attach=job.report(), step_s=stepping.seconds / arguments.iterations)


main()
