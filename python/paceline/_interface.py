"""What paceline.h and the headers that come with it declare, for ctypes: constants, structs, and the arguments of every call. A test compares it
with the headers, name by name."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_void_p

RELEASE = "0.1.0"  # of the header that this module follows

# Kinds.
DONE, BAD_REQUEST, PEER_LOST, DEADLINE, CANCELLED, OVERLOADED, CORRUPT, IO, AGAIN = range(9)
# Element types.
FLOAT32, FLOAT64, INT32, FLOAT16, BFLOAT16 = range(5)
# Those that collective operations only move.
(INT64, INT16, INT8, UINT8, BOOL, UINT16, UINT32, UINT64, COMPLEX32, COMPLEX64, COMPLEX128, FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E5M2, FLOAT8_E5M2FNUZ,
 FLOAT8_E8M0FNU) = range(5, 21)  # fmt: skip
# Roles.
COORDINATOR, SERVER, WORKER, BOTH = range(1, 5)
# Phases of a step.
LOAD, PREPROCESS, TRANSFER, FORWARD, BACKWARD, PHASES = range(6)
# Collective operations, reductions, algorithms.
BROADCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BARRIER, ALLTOALL, GATHER, SCATTER = range(1, 10)
SUM, MAX, MIN, MEAN = range(4)
BEST, LINEAR_PIPELINE, MINIMUM_SPANNING_TREE, BIDIRECTIONAL_EXCHANGE, RING, DIRECT = range(6)

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
        ("frozen", c_int32),
        ("group", c_int32),
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
        ("job_key_file", c_char_p),
        ("security", c_char_p),
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


class Verdict(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("square_sum", c_double),
        ("non_finite_tensor", c_int32),
        ("non_finite_rank", c_int32),
        ("unused", POINTER(c_uint8)),
        ("tensors", c_size_t),
    ]
    square_sum: float
    non_finite_tensor: int
    non_finite_rank: int


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
        ("job_key_file", c_char_p),
        ("security", c_char_p),
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
        ("gives", POINTER(c_int64)),
        ("takes", POINTER(c_int64)),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "paceline_error": Error,
    "paceline_tensor": Tensor,
    "paceline_place": Place,
    "paceline_info": Info,
    "paceline_verdict": Verdict,
    "paceline_step": Step,
    "paceline_link": Link,
    "paceline_communicator_options": CommunicatorOptions,
    "paceline_communicator_info": CommunicatorInfo,
    "paceline_call": Call,
}

_HANDLE = POINTER(c_void_p)  # where a handle is given back
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
    "paceline_set_order": (c_void_p, POINTER(c_int32), c_size_t),
    "paceline_tell_rates": (c_void_p, c_int64, POINTER(c_double), POINTER(c_double), c_size_t),
    "paceline_tell_left_out": (c_void_p, c_int64),
    "paceline_tell_alike": (c_void_p, c_int64, POINTER(c_char_p), POINTER(c_char_p), c_size_t),
    "paceline_gradient_ready": (c_void_p, c_uint32, c_void_p),
    "paceline_backward_done": (c_void_p, c_int64, POINTER(c_uint32), c_size_t),
    "paceline_wait_verdict": (c_void_p, c_int64, c_double, POINTER(Verdict)),
    "paceline_step_done": (c_void_p, POINTER(Step), POINTER(c_int32)),
    "paceline_job_set_state": (c_void_p, c_uint32, POINTER(POINTER(c_float)), c_size_t, c_int64),
    "paceline_gather_state": (c_void_p, c_double),
    "paceline_tensor_state": (c_void_p, c_uint32, c_size_t, POINTER(POINTER(c_float)), POINTER(c_int64), POINTER(c_int64)),
    "paceline_communicator_open": (POINTER(CommunicatorOptions), _HANDLE),
    "paceline_communicator_group": (c_void_p, c_int64, POINTER(c_int32), c_size_t, _HANDLE),
    "paceline_communicator_gone": (c_void_p, POINTER(c_uint8), c_size_t),
    "paceline_communicator_awaited": (c_void_p, POINTER(c_int32)),
    "paceline_communicator_fail": (c_void_p, c_char_p),
    "paceline_communicator_describe": (c_void_p, POINTER(CommunicatorInfo)),
    "paceline_collective": (c_void_p, POINTER(Call), _HANDLE),
    "paceline_wait": (c_void_p, c_double),
    "paceline_request_choice": (c_void_p, _HANDLE),
    "paceline_part": (c_int64, c_int32, c_int32, POINTER(c_int64), POINTER(c_int64)),
    "paceline_ask": (c_char_p, c_char_p, _HANDLE),
}
