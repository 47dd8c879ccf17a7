"""libpaceline (paceline.h) through ctypes: a class for each struct, a function for each function, and errors as exceptions.

Handles are numbers. A call that waits releases Python's lock; waits return False when their limit has passed, and are asked again. The
library is found in the environment variable PACELINE_LIBRARY (its path), else in the folder `lib` of this package, else where the system
looks. It is loaded by the first call.
"""

from __future__ import annotations

import ctypes
import functools
import json as _json
import os
import pathlib
import threading
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p

from paceline._errors import KINDS, PacelineError

RELEASE = "0.1.0"  # of the header that this module follows

# Kinds.
DONE, BAD_REQUEST, PEER_LOST, DEADLINE, CANCELLED, OVERLOADED, CORRUPT, IO, AGAIN = range(9)
# Element types.
FLOAT32, FLOAT64, INT32, FLOAT16, BFLOAT16 = range(5)
# Roles.
COORDINATOR, SERVER, WORKER, BOTH = range(1, 5)
# Phases of a step.
LOAD, PREPROCESS, TRANSFER, FORWARD, BACKWARD, PHASES = range(6)
# Collective operations, reductions, algorithms.
BROADCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BARRIER = range(1, 7)
SUM, MAX, MIN, MEAN = range(4)
BEST, LINEAR_PIPELINE, MINIMUM_SPANNING_TREE, BIDIRECTIONAL_EXCHANGE, RING, DIRECT = range(6)

Handle = int


class Error(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int32), ("code", c_char * 16), ("subject", c_char * 64), ("message", c_char * 1024)]
    kind: int
    code: bytes
    subject: bytes
    message: bytes


class Tensor(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("shape", POINTER(c_int64)),
        ("dimensions", c_size_t),
        ("type", c_int32),
        ("layer", c_int32),
        ("value", c_void_p),
    ]


class Place(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("role", c_int32),
        ("rank", c_int32),
        ("workers", c_int32),
        ("servers", c_int32),
        ("coordinator", c_char_p),
        ("bind", c_char_p),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("role", c_int32),
        ("rank", c_int32),
        ("workers", c_int32),
        ("servers", c_int32),
        ("first_iteration", c_int64),
        ("elements", c_int64),
    ]
    role: int
    rank: int
    workers: int
    servers: int
    first_iteration: int
    elements: int


class Step(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("samples", c_int64), ("loss", c_double), ("phase_seconds", POINTER(c_double)), ("phases", c_size_t)]


class Link(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("alpha", c_double), ("beta", c_double), ("gamma", c_double), ("residual", c_double)]


class CommunicatorOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("ranks", c_int32),
        ("addresses", POINTER(c_char_p)),
        ("address_count", c_size_t),
        ("coordinator", c_char_p),
        ("bind", c_char_p),
        ("link", POINTER(Link)),
        ("rank_order", c_int32),
        ("unconfirmed", c_int32),
        ("connect_seconds", c_double),
        ("silence_seconds", c_double),
        ("stall_seconds", c_double),
        ("spin_seconds", c_double),
    ]


class CommunicatorInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("ranks", c_int32),
        ("alpha", c_double),
        ("beta", c_double),
        ("gamma", c_double),
        ("residual", c_double),
    ]
    rank: int
    ranks: int
    alpha: float
    beta: float
    gamma: float
    residual: float


class Call(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("operation", c_int32),
        ("type", c_int32),
        ("reduction", c_int32),
        ("root", c_int32),
        ("priority", c_int32),
        ("algorithm", c_int32),
        ("block_bytes", c_int64),
        ("count", c_int64),
        ("input", c_void_p),
        ("output", c_void_p),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "paceline_error": Error,
    "paceline_tensor": Tensor,
    "paceline_place": Place,
    "paceline_info": Info,
    "paceline_step": Step,
    "paceline_link": Link,
    "paceline_communicator_options": CommunicatorOptions,
    "paceline_communicator_info": CommunicatorInfo,
    "paceline_call": Call,
}

_HANDLE = POINTER(c_void_p)  # where a handle is given back
_ERROR = POINTER(Error)

# Of every function that gives a kind and fills an error: its arguments before that.
CALLS: dict[str, Sequence[object]] = {
    "paceline_close": (c_void_p, c_double),
    "paceline_text_bytes": (c_void_p, POINTER(c_char_p), POINTER(c_size_t)),
    "paceline_job_new": (_HANDLE,),
    "paceline_job_set": (c_void_p, c_char_p, c_char_p),
    "paceline_job_get": (c_void_p, c_char_p, _HANDLE),
    "paceline_job_add_tensor": (c_void_p, POINTER(Tensor), POINTER(c_uint32)),
    "paceline_coordinate": (c_void_p, POINTER(Place), _HANDLE),
    "paceline_serve": (c_void_p, POINTER(Place), _HANDLE),
    "paceline_join": (c_void_p, POINTER(Place), _HANDLE),
    "paceline_wait_joined": (c_void_p, c_double),
    "paceline_node_info": (c_void_p, POINTER(Info)),
    "paceline_node_address": (c_void_p, _HANDLE),
    "paceline_node_report": (c_void_p, _HANDLE),
    "paceline_finish": (c_void_p, c_double),
    "paceline_fail": (c_void_p, c_int32, c_char_p),
    "paceline_interrupt": (c_void_p,),
    "paceline_tensor_value": (c_void_p, c_uint32, POINTER(POINTER(c_float)), POINTER(c_int64)),
    "paceline_tensor_gradient": (c_void_p, c_uint32, POINTER(POINTER(c_float)), POINTER(c_int64)),
    "paceline_wait_layer": (c_void_p, c_int32, c_int64, c_double),
    "paceline_wait_all": (c_void_p, c_int64, c_double),
    "paceline_wait_free": (c_void_p, c_int32, c_double),
    "paceline_gradient_ready": (c_void_p, c_uint32, c_void_p),
    "paceline_backward_done": (c_void_p, c_int64, POINTER(c_uint32), c_size_t),
    "paceline_step_done": (c_void_p, POINTER(Step), POINTER(c_int32)),
    "paceline_communicator_open": (POINTER(CommunicatorOptions), _HANDLE),
    "paceline_communicator_group": (c_void_p, c_int32, POINTER(c_int32), c_size_t, _HANDLE),
    "paceline_communicator_describe": (c_void_p, POINTER(CommunicatorInfo)),
    "paceline_collective": (c_void_p, POINTER(Call), _HANDLE),
    "paceline_wait": (c_void_p, c_double),
    "paceline_request_choice": (c_void_p, _HANDLE),
    "paceline_part": (c_int64, c_int32, c_int32, POINTER(c_int64), POINTER(c_int64)),
    "paceline_ask": (c_char_p, c_char_p, _HANDLE),
}


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
            f"libpaceline cannot be loaded: {problem}; build it, and set PACELINE_LIBRARY to its path", kind="io", subject="PACELINE_LIBRARY"
        ) from None
    version.restype = c_char_p
    version.argtypes = ()
    release = version().decode()
    if release != RELEASE:
        raise PacelineError(
            f"{path} is of release {release}, this package of {RELEASE}; install both of one release", subject="PACELINE_LIBRARY"
        )
    loaded.paceline_struct_size.restype = c_size_t
    loaded.paceline_struct_size.argtypes = (c_char_p,)
    loaded.paceline_after_fork.restype = None
    loaded.paceline_after_fork.argtypes = ()
    for name, arguments in CALLS.items():
        function = getattr(loaded, name)
        function.restype = c_int32
        function.argtypes = (*arguments, _ERROR)
    for name, struct in STRUCTS.items():
        if loaded.paceline_struct_size(name.encode()) != ctypes.sizeof(struct):
            raise PacelineError(f"{path} has another {name} than this package; install both of one build", subject="PACELINE_LIBRARY")
    return loaded


class _Errors(threading.local):
    """One for each thread, so that a call allocates none."""

    def __init__(self) -> None:
        self.error = Error(size=ctypes.sizeof(Error))
        self.reference = byref(self.error)


_errors = _Errors()


def _failure(error: Error) -> PacelineError:
    kind = KINDS[error.kind - 1]
    code, subject, message = (text.decode(errors="replace") for text in (error.code, error.subject, error.message))
    exit_code = {BAD_REQUEST: 2, CANCELLED: 130}.get(error.kind, 1)
    return PacelineError(message, kind=kind, code=code, subject=subject, exit_code=exit_code)


def _call(name: str, *arguments: object) -> bool:
    """False: the call's limit has passed. Raises PacelineError."""
    kind: int = getattr(load(), name)(*arguments, _errors.reference)
    if kind == DONE:
        return True
    if kind == AGAIN:
        return False
    raise _failure(_errors.error)


def _made(name: str, *arguments: object) -> Handle:
    handle = c_void_p()
    _call(name, *arguments, byref(handle))
    assert handle.value is not None
    return handle.value


def _text(name: str, *arguments: object) -> str:
    text = _made(name, *arguments)
    try:
        start, count = c_char_p(), c_size_t()
        _call("paceline_text_bytes", text, byref(start), byref(count))
        return (start.value or b"").decode()
    finally:
        close(text, 0)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


# ---- any handle


def close(handle: Handle, seconds: float) -> None:
    _call("paceline_close", handle, seconds)


def after_fork() -> None:
    load().paceline_after_fork()


def version() -> str:
    return RELEASE if load() else ""


def ask(question: str, settings: Mapping[str, object] | None = None) -> object:
    """The answer, parsed."""
    given = None if settings is None else _json.dumps(settings)
    return _json.loads(_text("paceline_ask", question.encode(), _encoded(given)))


# ---- jobs


def job_new() -> Handle:
    return _made("paceline_job_new")


def job_set(job: Handle, option: str, value: str) -> None:
    _call("paceline_job_set", job, option.encode(), value.encode())


def job_get(job: Handle, option: str) -> str:
    return _text("paceline_job_get", job, option.encode())


def job_add_tensor(job: Handle, name: str, shape: Sequence[int], layer: int, value: int = 0, type: int = FLOAT32) -> int:
    """`value`: the address of the initial values, 0 for zeros. Returns the tensor's number."""
    lengths = (c_int64 * len(shape))(*shape)
    number = c_uint32()
    tensor = Tensor(
        size=ctypes.sizeof(Tensor), name=name.encode(), shape=lengths, dimensions=len(shape), type=type, layer=layer, value=value or None
    )
    _call("paceline_job_add_tensor", job, byref(tensor), byref(number))
    return number.value


# ---- nodes


def place(
    role: int = WORKER, rank: int = -1, workers: int = 0, servers: int = 0, coordinator: str | None = None, bind: str | None = None
) -> Place:
    return Place(
        size=ctypes.sizeof(Place),
        role=role,
        rank=rank,
        workers=workers,
        servers=servers,
        coordinator=_encoded(coordinator),
        bind=_encoded(bind),
    )


def coordinate(job: Handle | None, where: Place) -> Handle:
    return _made("paceline_coordinate", job, byref(where))


def serve(job: Handle | None, where: Place) -> Handle:
    return _made("paceline_serve", job, byref(where))


def join(job: Handle, where: Place) -> Handle:
    return _made("paceline_join", job, byref(where))


def wait_joined(node: Handle, seconds: float) -> bool:
    return _call("paceline_wait_joined", node, seconds)


def node_info(node: Handle) -> Info:
    info = Info(size=ctypes.sizeof(Info))
    _call("paceline_node_info", node, byref(info))
    return info


def node_address(node: Handle) -> str:
    return _text("paceline_node_address", node)


def node_report(node: Handle) -> object:
    """The report, parsed; None when a worker has not reported."""
    return _json.loads(_text("paceline_node_report", node))


def finish(node: Handle, seconds: float) -> bool:
    return _call("paceline_finish", node, seconds)


def fail(node: Handle, kind: int, message: str) -> None:
    _call("paceline_fail", node, kind, message.encode())


def interrupt(node: Handle) -> None:
    _call("paceline_interrupt", node)


# ---- training


def _memory(name: str, node: Handle, tensor: int) -> memoryview:
    """float32, flat and writable. Of an array of the library's: not to be used any more when the node is closed."""
    first, count = POINTER(c_float)(), c_int64()
    _call(name, node, tensor, byref(first), byref(count))
    memory = (c_float * count.value).from_address(ctypes.addressof(first.contents)) if count.value > 0 else bytearray()
    return memoryview(memory).cast("B").cast("f")  # type: ignore[return-value]  # of float, which Python 3.11 cannot say


def tensor_value(node: Handle, tensor: int) -> memoryview:
    return _memory("paceline_tensor_value", node, tensor)


def tensor_gradient(node: Handle, tensor: int) -> memoryview:
    return _memory("paceline_tensor_gradient", node, tensor)


def wait_layer(node: Handle, layer: int, iteration: int, seconds: float) -> bool:
    return _call("paceline_wait_layer", node, layer, iteration, seconds)


def wait_all(node: Handle, iteration: int, seconds: float) -> bool:
    return _call("paceline_wait_all", node, iteration, seconds)


def wait_free(node: Handle, layer: int, seconds: float) -> bool:
    return _call("paceline_wait_free", node, layer, seconds)


def gradient_ready(node: Handle, tensor: int, pointer: int | None) -> None:
    _call("paceline_gradient_ready", node, tensor, pointer)


def backward_done(node: Handle, iteration: int, unused: Sequence[int]) -> None:
    names = (c_uint32 * len(unused))(*unused)
    _call("paceline_backward_done", node, iteration, names, len(unused))


def step_done(node: Handle, samples: int, loss: float, phase_seconds: Sequence[float] | None = None) -> bool:
    """True: the job is to stop."""
    phases = None if phase_seconds is None else (c_double * len(phase_seconds))(*phase_seconds)
    step = Step(size=ctypes.sizeof(Step), samples=samples, loss=loss, phase_seconds=phases, phases=len(phase_seconds or ()))
    stopping = c_int32()
    _call("paceline_step_done", node, byref(step), byref(stopping))
    return stopping.value != 0


# ---- collective operations


def communicator_open(options: CommunicatorOptions) -> Handle:
    options.size = ctypes.sizeof(CommunicatorOptions)
    return _made("paceline_communicator_open", byref(options))


def communicator_group(parent: Handle, number: int, ranks: Sequence[int]) -> Handle:
    return _made("paceline_communicator_group", parent, number, (c_int32 * len(ranks))(*ranks), len(ranks))


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
