"""The package is typed: mypy --strict finds nothing in it, and finds what a user's script gets wrong."""

import re
import subprocess
import sys

from binding import ROOT

SCRIPT = """
import contextlib

import torch
from torch.utils.data import DataLoader, TensorDataset

import paceline
import paceline.torch as pt


def train(model: torch.nn.Module, data: TensorDataset) -> dict[str, float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with pt.attach(model, optimizer, buffers="broadcast", settings={"schedule": "p3"}) as job:
        for number, (x, y) in enumerate(DataLoader(data, 32, sampler=job.sampler(data))):
            with job.no_sync() if number % 2 else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()  # type: ignore[no-untyped-call]  # as PyTorch declares it
            norm = job.clip_grad_norm_(1.0)
            optimizer.step()
            job.loss(loss.item())
            if job.stopping or norm.item() > 1e3:
                break
        place: tuple[int, int] = (job.rank, job.workers)
        print(place, job.advice())
        return job.report()


def total(numbers: memoryview) -> None:
    try:
        with paceline.Communicator(0, ["127.0.0.1:4711"]) as everybody:
            everybody.start("allreduce", numbers).wait()
    except paceline.PacelineError as error:
        raise SystemExit(error.exit_code) from None
"""
WRONG = """
import torch

import paceline.torch as pt

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters())
pt.attach(model)
job = pt.attach(model, optimizer, clip_norm="1.0")
job.rank.upper()
job.sinchronize()
"""


def test_mypy_strict_on_the_package_and_on_scripts_that_use_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    # Frames are for those who have pandas, and it is not needed to develop this; Accelerate has no types, Ray is in an environment of its own, and
    # to read Lightning takes longer than all the rest.
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-pandas.*,accelerate.*,ray.*]\nignore_missing_imports = True\n[mypy-lightning.*]\nfollow_imports = skip\n")
    command = [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", "--strict", "--no-error-summary", "--cache-dir", tmp_path / "cache", "-p", "paceline", "-m", "script", "-m", "wrong"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": f"{ROOT / 'python'}:{tmp_path}", "PATH": "/usr/bin:/bin"})
    found = re.findall(r"^(\S+?):(\d+): error: .*\[([\w-]+)\]$", done.stdout, flags=re.M)
    assert found == [("wrong.py", "8", "call-arg"), ("wrong.py", "9", "arg-type"), ("wrong.py", "10", "attr-defined"), ("wrong.py", "11", "attr-defined")], done.stdout + done.stderr
