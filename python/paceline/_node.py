"""What a front end needs of the core: one member of one job, whose tensors' gradients are exchanged.

`Node` is met by the binding of libpaceline, and by a stand-in of the tests. Nothing here knows a framework.

Life of iteration i: `gradient_ready` for each tensor, in any order; `backward_done(i, unused)`; then `wait_layer(layer, i)` before the
next reader of that layer. Every wait takes a limit in seconds and may be asked again: False or None says that it is not there yet. A lost
peer, a mismatch and a cancelled job are exceptions (PacelineError), from whichever call meets them first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from paceline._errors import PacelineError


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A row of the table that all members must agree on. Tensors are numbered from 0 in the order of the table.

    Layers ascend by at most 1 from row to row. Frozen rows stand last, in layers of their own.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"  # of initial values and gradients as they are given, "float16" and "bfloat16" too; the value arena is float32
    layer: int = 0  # its gate: layer 0 is needed first by the next iteration
    frozen: bool = False  # never has a gradient: only its initial value travels
    group: int = 0  # of parameters, whose rates servers update it with (tell_rates)


def texts(settings: Mapping[str, str | float]) -> dict[str, str]:
    """Options of a job as the library takes them. Numbers are written as they are, True and False as 1 and 0."""
    for name, value in settings.items():
        if not isinstance(value, (str, int, float)):
            raise PacelineError(f"settings[{name!r}] is {value!r}; legal: a text, a number, True or False", subject=name)
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in settings.items()}


@dataclasses.dataclass(frozen=True)
class State:
    """What the servers' optimizer has of a tensor: how many updates it had, and arrays of float32 as large as the tensor."""

    updates: int
    arrays: tuple[int, ...]  # addresses


@dataclasses.dataclass(frozen=True)
class Place:
    """Where this process stands in the job, for attach(place=...).

    role: "worker", or "both": a server beside the worker.
    rank: -1: any that is free. workers, servers: 0: as the coordinator says.
    coordinator: its address, HOST:PORT or unix:/PATH. bind: HOST or HOST:PORT of this member ("": the address by which it reaches the
    coordinator).
    job_key_file: of the job's key ("": what PACELINE_JOB_KEY_FILE names, if it is set).
    security: as --security; with ",clear-data" behind it as --allow-clear-data.
    """

    role: str = "worker"
    rank: int = -1
    workers: int = 0
    servers: int = 0
    coordinator: str = ""
    bind: str = ""
    job_key_file: str = ""
    security: str = "auto"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is known of iteration i once the last gradient of it is in, while means still travel. Equal on all ranks."""

    square_sum: float  # of all means of the iteration: the exact sum, rounded once
    non_finite: tuple[int, int] | None = None  # first rank and tensor with an infinity or NaN
    unused_by_all: frozenset[int] = frozenset()  # tensors that every rank announced as unused: their means are left alone


class Node(Protocol):
    """One worker of a joined job. Callable from any thread."""

    @property
    def rank(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def first_iteration(self) -> int: ...

    def value(self, tensor: int) -> memoryview:
        """float32 of the tensor in the value arena, flat and writable: initial values after joining, means later. Stays where it is until close."""

    def tell_rates(self, iteration: int, rates: Sequence[tuple[float, float]]) -> None:
        """(learning rate, weight decay) of each group in `iteration`, once before its first gradient: with the option "told-rates", where servers make the steps."""

    def gradient_ready(self, tensor: int, pointer: int) -> None:
        """Copies the tensor's gradient, of its dtype, from `pointer` and announces it. Once an iteration, after the layer's means of the last were waited for."""

    def backward_done(self, iteration: int, unused: Sequence[int]) -> None:
        """Nothing more comes from this rank in `iteration`; the `unused` tensors had no gradient here."""

    def tell_left_out(self, iteration: int) -> None:
        """This rank goes on from `iteration`, the last one, without its step. All ranks do, or the job ends with a sentence that names two."""

    def tell_alike(self, iteration: int, what: Sequence[tuple[str, str]]) -> None:
        """What all ranks have alike after `iteration`, the last one: (what, how it is here); "" is compared with nothing. Waits for nobody: another rank that
        tells something else ends the job later, in finish() at the latest."""

    def wait_layer(self, layer: int, iteration: int, seconds: float) -> bool: ...
    def wait_all(self, iteration: int, seconds: float) -> bool: ...
    def wait_verdict(self, iteration: int, seconds: float) -> Verdict | None: ...

    def gather_state(self, seconds: float) -> bool:
        """Where servers make the steps, between backward_done and the next iteration's first gradient: True when the optimizer's state of all tensors is here."""

    def updates(self, tensor: int) -> int:
        """Of the state as it was gathered last."""

    def state(self, tensor: int, number: int) -> memoryview:
        """Of the same: that array, flat. It stays where it is until the next gather_state or until close."""

    def set_order(self, layers: Sequence[int]) -> None:
        """All layers, the one needed first in front, as forward passes were seen to need them: what is more urgent from here on. Bits do not depend on it."""

    def step_done(self, samples: int, loss: float, phases: Mapping[str, float]) -> bool:
        """Once after every backward_done: an iteration has ended here; samples seen, loss (NaN: unknown), seconds by phase. True: the job is to stop."""

    def finish(self, seconds: float) -> None:
        """This rank has no more iterations: reports, and waits for the others' verdict on the job."""

    def report(self) -> Mapping[str, Any] | None:
        """After finish(), where it is known: the job's report, as `paceline train --json` prints it (docs/reference/report.md)."""

    def fail(self, reason: str) -> None:
        """Ends the job for everybody with `reason`, which all ranks report."""

    def interrupt(self) -> None:
        """Ends every wait of this node with an error of kind "cancelled"."""

    def stop(self) -> None:
        """Asks the job to stop after an iteration, where this process hosts the coordinator: step_done() says so to all ranks, in the same one."""

    def close(self, seconds: float) -> None: ...


class Join(Protocol):
    """Joins a job and returns when the value arena holds rank 0's initial values. `initial`: an address for each tensor, of numbers of its dtype.
    `states`: by tensor, what the servers' optimizer begins with; rank 0's counts, and nothing is zeros."""

    def __call__(
        self, tensors: Sequence[TensorSpec], initial: Sequence[int], settings: Mapping[str, str], place: Place, states: Mapping[int, State] | None = None
    ) -> Node: ...
