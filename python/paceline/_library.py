"""libpaceline (paceline.h) through ctypes: a function for each of its functions, and errors as exceptions.

Handles are numbers. A call that waits releases Python's lock; waits return False when their limit has passed, and are asked again. The
library is loaded by the first call (_loading.py).
"""

from __future__ import annotations

import ctypes
import json as _json
import threading
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_void_p

from paceline._errors import KINDS, PacelineError, in_a_script
from paceline._interface import (
    AGAIN, BAD_REQUEST, CANCELLED, DONE, FLOAT32, RELEASE, WORKER,
    Error, Info, Place, Step, Tensor, Verdict,
)
from paceline._loading import load

Handle = int


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
    return PacelineError(in_a_script(message), kind=kind, code=code, subject=subject, exit_code=exit_code)


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


def ask(question: str, settings: object = None) -> object:
    """The answer, parsed. `settings`: what JSON can hold, and arrays of NumPy; None: none."""
    given = None if settings is None else _json.dumps(settings, default=lambda array: array.tolist())
    return _json.loads(_text("paceline_ask", question.encode(), _encoded(given)))


# ---- jobs


def job_new() -> Handle:
    return _made("paceline_job_new")


def job_set(job: Handle, option: str, value: str) -> None:
    _call("paceline_job_set", job, option.encode(), value.encode())


def job_get(job: Handle, option: str) -> str:
    return _text("paceline_job_get", job, option.encode())


def job_add_tensor(job: Handle, name: str, shape: Sequence[int], layer: int, value: int = 0, type: int = FLOAT32, frozen: bool = False, group: int = 0) -> int:
    """`value`: the address of the initial values, 0 for zeros. Returns the tensor's number."""
    lengths = (c_int64 * len(shape))(*shape)
    number = c_uint32()
    tensor = Tensor(
        size=ctypes.sizeof(Tensor), name=name.encode(), shape=lengths, dimensions=len(shape), type=type, layer=layer, value=value or None,
        frozen=int(frozen), group=group,
    )
    _call("paceline_job_add_tensor", job, byref(tensor), byref(number))
    return number.value


# ---- nodes


def place(
    role: int = WORKER,
    rank: int = -1,
    workers: int = 0,
    servers: int = 0,
    coordinator: str | None = None,
    bind: str | None = None,
    job_key_file: str = "",
    security: str = "auto",
) -> Place:
    return Place(
        size=ctypes.sizeof(Place),
        role=role,
        rank=rank,
        workers=workers,
        servers=servers,
        coordinator=_encoded(coordinator),
        bind=_encoded(bind),
        job_key_file=_encoded(job_key_file),
        security=_encoded(security),
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
    return floats(first, count)


def floats(first: ctypes._Pointer[c_float], count: c_int64) -> memoryview:
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


def set_order(node: Handle, layers: Sequence[int]) -> None:
    _call("paceline_set_order", node, (c_int32 * len(layers))(*layers), len(layers))


def tell_rates(node: Handle, iteration: int, rates: Sequence[tuple[float, float]]) -> None:
    """(learning rate, weight decay) of each group."""
    numbers = c_double * len(rates)
    learning_rates, weight_decays = numbers(*(rate for rate, _ in rates)), numbers(*(decay for _, decay in rates))
    _call("paceline_tell_rates", node, iteration, learning_rates, weight_decays, len(rates))


def gradient_ready(node: Handle, tensor: int, pointer: int | None) -> None:
    _call("paceline_gradient_ready", node, tensor, pointer)


def backward_done(node: Handle, iteration: int, unused: Sequence[int]) -> None:
    names = (c_uint32 * len(unused))(*unused)
    _call("paceline_backward_done", node, iteration, names, len(unused))


def wait_verdict(node: Handle, iteration: int, seconds: float, tensors: int) -> tuple[Verdict, list[int]] | None:
    """With the numbers of the tensors that nobody used. None: not yet."""
    unused = (c_uint8 * tensors)()
    verdict = Verdict(size=ctypes.sizeof(Verdict), unused=unused, tensors=tensors)
    if not _call("paceline_wait_verdict", node, iteration, seconds, byref(verdict)):
        return None
    return verdict, [tensor for tensor in range(tensors) if unused[tensor]]


def step_done(node: Handle, samples: int, loss: float, phase_seconds: Sequence[float] | None = None) -> bool:
    """True: the job is to stop."""
    phases = None if phase_seconds is None else (c_double * len(phase_seconds))(*phase_seconds)
    step = Step(size=ctypes.sizeof(Step), samples=samples, loss=loss, phase_seconds=phases, phases=len(phase_seconds or ()))
    stopping = c_int32()
    _call("paceline_step_done", node, byref(step), byref(stopping))
    return stopping.value != 0
