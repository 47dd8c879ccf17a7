"""paceline.torch.attach, replaying a table of layers in Python: what a PyTorch user gets, which `paceline bench schedules` measures beside.

Computing is slept (replayed.py); everything else is attach as it comes, with `--schedule p3`. Slices are divided by the scale like all other
bytes. What Python and the optimizer need at the gates of the forward pass is not slept away: it makes the iteration longer.
"""

import os

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


def main():
    replay = replayed.Replay(arguments, gated=True)
    model = torch.nn.Sequential(*replay.layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    settings = {"schedule": "p3", "slice": str(round(SLICE_ELEMENTS / arguments.scale))}
    job = pt.attach(model, optimizer, clip_norm=1e30 if arguments.clip else None, settings=settings, security="none")
    replay.train(model, optimizer, optimizer.step)
    job.close()
    replay.report(attach=job.report())


main()
