"""The calls of communicator.h, as _library.py has those of paceline.h."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int32, c_int64, c_uint8

from paceline._interface import Call, CommunicatorInfo, CommunicatorOptions
from paceline._library import Handle, _call, _made, _text


def communicator_open(options: CommunicatorOptions) -> Handle:
    options.size = ctypes.sizeof(CommunicatorOptions)
    return _made("paceline_communicator_open", byref(options))


def communicator_group(parent: Handle, number: int, ranks: Sequence[int]) -> Handle:
    return _made("paceline_communicator_group", parent, number, (c_int32 * len(ranks))(*ranks), len(ranks))


def communicator_gone(communicator: Handle, ranks: int) -> list[int]:
    gone = (c_uint8 * ranks)()
    _call("paceline_communicator_gone", communicator, gone, ranks)
    return [rank for rank in range(ranks) if gone[rank]]


def communicator_awaited(communicator: Handle) -> bool:
    awaited = c_int32()
    _call("paceline_communicator_awaited", communicator, byref(awaited))
    return awaited.value != 0


def communicator_fail(communicator: Handle, why: str) -> None:
    _call("paceline_communicator_fail", communicator, why.encode(errors="replace"))


def communicator_describe(communicator: Handle) -> CommunicatorInfo:
    info = CommunicatorInfo(size=ctypes.sizeof(CommunicatorInfo))
    _call("paceline_communicator_describe", communicator, byref(info))
    return info


def collective(communicator: Handle, call: Call) -> Handle:
    call.size = ctypes.sizeof(Call)
    return _made("paceline_collective", communicator, byref(call))


def wait(request: Handle, seconds: float) -> bool:
    return _call("paceline_wait", request, seconds)


def request_choice(request: Handle) -> str:
    return _text("paceline_request_choice", request)


def part(count: int, ranks: int, rank: int) -> tuple[int, int]:
    """The first of the elements that belong to `rank`, and how many."""
    first, length = c_int64(), c_int64()
    _call("paceline_part", count, ranks, rank, byref(first), byref(length))
    return first.value, length.value
