"""Finds libpaceline: in the environment variable PACELINE_LIBRARY (its path), else in the folder `lib` of this package, else where the
system looks."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, c_char_p, c_int32, c_size_t

from paceline._errors import PacelineError
from paceline._interface import CALLS, RELEASE, STRUCTS, Error


def _path() -> str:
    given = os.environ.get("PACELINE_LIBRARY")
    if given:
        return given
    own = pathlib.Path(__file__).parent / "lib" / "libpaceline.so.0"
    return str(own) if own.exists() else "libpaceline.so.0"


@functools.cache
def load() -> ctypes.CDLL:
    """The library; the same one ever after. Raises PacelineError when it is not there or of another release."""
    path = _path()
    try:
        loaded = ctypes.CDLL(path)
        version = loaded.paceline_version
    except (OSError, AttributeError) as problem:
        raise PacelineError(
            f"libpaceline cannot be loaded: {problem}; build it, and set PACELINE_LIBRARY to its path, e.g. build/release/src/library/libpaceline.so.0",
            kind="io",
            code="not-installed",
            subject="PACELINE_LIBRARY",
        ) from None
    version.restype = c_char_p
    version.argtypes = ()
    release = version().decode()
    if release != RELEASE:
        raise PacelineError(
            f"{path} is of release {release}, this package of {RELEASE}; install both of one release", code="release", subject="PACELINE_LIBRARY"
        )
    loaded.paceline_struct_size.restype = c_size_t
    loaded.paceline_struct_size.argtypes = (c_char_p,)
    loaded.paceline_after_fork.restype = None
    loaded.paceline_after_fork.argtypes = ()
    for name, arguments in CALLS.items():
        function = getattr(loaded, name)
        function.restype = c_int32
        function.argtypes = (*arguments, POINTER(Error))
    for name, struct in STRUCTS.items():
        if loaded.paceline_struct_size(name.encode()) != ctypes.sizeof(struct):
            raise PacelineError(f"{path} has another {name} than this package; install both of one build", code="release", subject="PACELINE_LIBRARY")
    return loaded
