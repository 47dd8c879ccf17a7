"""Paceline: data-parallel training whose transfers are scheduled by when the next iteration needs them.

`paceline.torch` is the front end for PyTorch; `Communicator` reduces arrays between processes. Neither is imported before it is used.
"""

from __future__ import annotations

import typing

from paceline._errors import PacelineError

if typing.TYPE_CHECKING:
    from paceline.communicator import Communicator

__all__ = ["Communicator", "PacelineError"]


def __getattr__(name: str) -> object:
    if name == "Communicator":
        from paceline.communicator import Communicator

        return Communicator
    raise AttributeError(f"module 'paceline' has no attribute '{name}'")
