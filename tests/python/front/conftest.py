"""Tests of the PyTorch front end, without the core: a stand-in delivers means late and in random order (standin.py)."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_job_left():
    """A job that a test leaves in an error would fail again at the interpreter's exit, and give pytest its exit code."""
    yield
    if lifetime := sys.modules.get("paceline.torch.attached.lifetime"):
        lifetime.after_fork()  # as a child of fork leaves its parent's jobs
