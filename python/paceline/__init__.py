"""Paceline: data-parallel training whose transfers are scheduled by when the next iteration needs them.

`paceline.torch` is the front end for PyTorch; `Communicator` reduces arrays between processes; `paceline.plan` answers what to do, from
numbers; `read_report`, `read_metrics`, `read_trace` (`paceline.report`) and `paceline.profile` read what jobs and measurements wrote. `new_key` makes
the key of a job. `python -m paceline` is the program.
Nothing is imported before it is used.
"""

from __future__ import annotations

import importlib
import typing

from paceline._errors import PacelineError

if typing.TYPE_CHECKING:
    from paceline import plan, profile, report
    from paceline._interface import RELEASE as __version__
    from paceline._key import new_key
    from paceline.communicator import Communicator
    from paceline.report import read_metrics, read_report, read_trace

__all__ = ["Communicator", "PacelineError", "new_key", "plan", "profile", "read_metrics", "read_report", "read_trace", "report"]

_HOMES = {"Communicator": "communicator", "new_key": "_key", "read_metrics": "report", "read_report": "report", "read_trace": "report"}


def __getattr__(name: str) -> object:
    if name in ("plan", "profile", "report"):
        return importlib.import_module(f"paceline.{name}")
    if name == "__version__":
        return importlib.import_module("paceline._interface").RELEASE
    if name in _HOMES:
        return getattr(importlib.import_module(f"paceline.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'paceline' has no attribute '{name}'")
