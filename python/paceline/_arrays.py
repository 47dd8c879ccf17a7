"""Where an array's elements stand, whoever made it: anything with the buffer protocol (bytearray, array, NumPy) or DLPack (PyTorch, JAX, CuPy
on the processor). Imports none of them."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object

from paceline import _interface
from paceline._errors import PacelineError

_FORMATS = {"f": _interface.FLOAT32, "d": _interface.FLOAT64, "i": _interface.INT32, "e": _interface.FLOAT16}
_CPU = 1
# (code, bits) of DLPack: 0 signed, 2 float, 4 bfloat.
_TYPES = {(2, 32): _interface.FLOAT32, (2, 64): _interface.FLOAT64, (0, 32): _interface.INT32, (2, 16): _interface.FLOAT16, (4, 16): _interface.BFLOAT16}
_LEGAL = "float32, float64, int32, float16, bfloat16"


@dataclasses.dataclass(frozen=True)
class Elements:
    """`owner` keeps the memory alive."""

    pointer: int
    count: int
    type: int
    writable: bool
    owner: object


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("dimensions", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_pointer_of = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def elements(array: object, what: str) -> Elements:
    """`what` names the argument in errors. Raises PacelineError for an array that is not dense, on another device, or of another type."""
    if isinstance(array, Elements):
        return array
    problem = ""
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        try:
            return _from_dlpack(array, what)
        except (BufferError, RuntimeError, TypeError) as refusal:
            if isinstance(refusal, PacelineError):
                raise
            problem = f": {refusal}"  # a NumPy array that is read only has no DLPack, but a buffer
    return _from_buffer(array, what, problem)


def _refused(what: str, why: str) -> PacelineError:
    return PacelineError(f"{what} {why}", code="illegal", subject=what)


def _from_buffer(array: object, what: str, problem: str) -> Elements:
    try:
        view = memoryview(array)  # type: ignore[arg-type]
    except TypeError:
        raise _refused(what, f"is a {type(array).__name__}; give an array with the buffer protocol or DLPack{problem}") from None
    # Those of ctypes say the order of their bytes.
    kind = view.format[1:] if view.format[:1] in ("@", "=", "<" if sys.byteorder == "little" else ">") else view.format
    if kind not in _FORMATS:
        raise _refused(what, f"has elements of format '{view.format}'; legal: {_LEGAL}")
    if not view.c_contiguous:
        raise _refused(what, "is not dense; give a contiguous copy")
    count = view.nbytes // view.itemsize
    return Elements(_address(view), count, _FORMATS[kind], not view.readonly, view)


class _Buffer(ctypes.Structure):  # Py_buffer
    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


def _address(view: memoryview) -> int:
    """Also of what is read only, of which ctypes makes no array. The view holds the memory."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(py_object(view), ctypes.byref(buffer), 0)
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return int(address or 0)


def _from_dlpack(array: object, what: str) -> Elements:
    device = array.__dlpack_device__()  # type: ignore[attr-defined]
    if int(device[0]) != _CPU:
        raise _refused(what, "is not in this machine's memory; copy it there first")
    capsule = array.__dlpack__()  # type: ignore[attr-defined]
    tensor = ctypes.cast(_pointer_of(capsule, b"dltensor"), POINTER(_Tensor)).contents
    shape = [tensor.shape[i] for i in range(tensor.dimensions)]
    count = 1
    for length in shape:
        count *= length
    element_type = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if element_type is None:
        raise _refused(what, f"has elements of {tensor.bits} bits and DLPack's type {tensor.code}; legal: {_LEGAL}")
    if tensor.strides and count > 0:
        dense = 1
        for i in reversed(range(tensor.dimensions)):
            if shape[i] != 1 and tensor.strides[i] != dense:
                raise _refused(what, "is not dense; give a contiguous copy")
            dense *= shape[i]
    pointer = (tensor.data or 0) + int(tensor.byte_offset)
    return Elements(pointer, count, element_type, True, (array, capsule))
