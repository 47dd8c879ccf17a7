"""The calls of optimizer_state.h, as _library.py has those of paceline.h."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_float, c_int64

from paceline._library import Handle, _call, floats

_Array = POINTER(c_float)


def job_set_state(job: Handle, tensor: int, arrays: Sequence[int], updates: int) -> None:
    """`arrays`: addresses of as many float32 as the tensor has; they are copied."""
    given = (_Array * len(arrays))(*(ctypes.cast(address, _Array) for address in arrays))
    _call("paceline_job_set_state", job, tensor, given, len(arrays), updates)


def gather_state(node: Handle, seconds: float) -> bool:
    return _call("paceline_gather_state", node, seconds)


def tensor_updates(node: Handle, tensor: int) -> int:
    updates = c_int64()
    _call("paceline_tensor_state", node, tensor, 0, None, None, byref(updates))
    return updates.value


def tensor_array(node: Handle, tensor: int, number: int) -> memoryview:
    """float32, flat. Not to be used any more after the next gather_state, or when the node is closed."""
    first, count = _Array(), c_int64()
    _call("paceline_tensor_state", node, tensor, number, byref(first), byref(count), None)
    return floats(first, count)
