"""The calls of alike.h, as _library.py has those of paceline.h."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_char_p

from paceline._library import Handle, _call


def tell_left_out(node: Handle, iteration: int) -> None:
    _call("paceline_tell_left_out", node, iteration)


def tell_alike(node: Handle, iteration: int, what: Sequence[tuple[str, str]]) -> None:
    """(name, how it is here)."""
    texts = c_char_p * len(what)
    names, values = texts(*(name.encode() for name, _ in what)), texts(*(value.encode() for _, value in what))
    _call("paceline_tell_alike", node, iteration, names, values, len(what))
