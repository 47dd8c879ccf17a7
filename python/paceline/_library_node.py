"""A member of a job, by libpaceline: what `_node.Node` asks for. And the other two parts of a job, which a program may host too."""

from __future__ import annotations

import atexit
import contextlib
import socket
import weakref
from collections.abc import Iterator, Mapping, Sequence

from paceline import _interface, _library, _library_alike, _library_state
from paceline._errors import PacelineError
from paceline._node import Place, State, TensorSpec, Verdict, texts
from paceline._waiting import wait
from paceline.launch import is_file

_PHASES = ("load", "preprocess", "transfer", "forward", "backward")
_open: weakref.WeakSet[_Hosted] = weakref.WeakSet()


class _Hosted:
    """A node and its end."""

    _closed = True  # of one that was never made

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._closed = False
        _open.add(self)

    def finish(self, seconds: float) -> None:
        """Returns when the job is over for everybody; raises why it failed."""
        if not wait(lambda limit: _library.finish(self._handle, limit), seconds):
            raise PacelineError(f"the job was not over after {seconds:g} s; the others may still be training", kind="deadline")

    def fail(self, reason: str) -> None:
        """Ends the job for everybody with `reason`."""
        _library.fail(self._handle, _interface.PEER_LOST, reason)

    def interrupt(self) -> None:
        _library.interrupt(self._handle)

    def close(self, seconds: float) -> None:
        """Any number of times."""
        if not self._closed:
            self._closed = True
            _library.close(self._handle, seconds)

    def __del__(self) -> None:
        if not self._closed:
            with contextlib.suppress(PacelineError):  # of a parent process
                self.close(1)


class Coordinator(_Hosted):
    """The coordinator of a job, on a thread of libpaceline."""

    def __init__(self, workers: int, servers: int, *, listen: str = "127.0.0.1:0", settings: Mapping[str, str | float] | None = None, key: Place = Place()) -> None:
        """`settings`: of them the time limits count; of `key` the job's key and security. Raises PacelineError when the address cannot be had."""
        where = _library.place(workers=workers, servers=servers, coordinator=listen, job_key_file=key.job_key_file, security=key.security)
        with _job(settings or {}) as job:
            super().__init__(_library.coordinate(job, where))
        self.address = _library.node_address(self._handle)

    def report(self) -> object:
        """After finish(): the job's report as JSON, parsed; None when a worker has not reported."""
        return _library.node_report(self._handle)


class Server(_Hosted):
    """A server of a job, on a thread of libpaceline; it joins meanwhile."""

    def __init__(self, place: Place, *, settings: Mapping[str, str | float] | None = None) -> None:
        with _job(settings or {}) as job:
            super().__init__(_library.serve(job, _place(place)))


class LibraryNode(_Hosted):
    """`_node.Node`. Made by join()."""

    def __init__(self, handle: int, tensors: int) -> None:
        super().__init__(handle)
        self._tensors = tensors
        info = _library.node_info(handle)
        self._rank, self._workers, self._first = info.rank, info.workers, info.first_iteration

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def workers(self) -> int:
        return self._workers

    @property
    def first_iteration(self) -> int:
        return self._first

    def value(self, tensor: int) -> memoryview:
        return _library.tensor_value(self._handle, tensor)

    def tell_rates(self, iteration: int, rates: Sequence[tuple[float, float]]) -> None:
        _library.tell_rates(self._handle, iteration, rates)

    def tell_left_out(self, iteration: int) -> None:
        _library_alike.tell_left_out(self._handle, iteration)

    def tell_alike(self, iteration: int, what: Sequence[tuple[str, str]]) -> None:
        _library_alike.tell_alike(self._handle, iteration, what)

    def gradient_ready(self, tensor: int, pointer: int) -> None:
        _library.gradient_ready(self._handle, tensor, pointer)

    def backward_done(self, iteration: int, unused: Sequence[int]) -> None:
        _library.backward_done(self._handle, iteration, unused)

    def wait_layer(self, layer: int, iteration: int, seconds: float) -> bool:
        # The library counts by the iteration that is computed with the values.
        return _library.wait_layer(self._handle, layer, iteration + 1, seconds)

    def wait_all(self, iteration: int, seconds: float) -> bool:
        return _library.wait_all(self._handle, iteration, seconds)

    def wait_verdict(self, iteration: int, seconds: float) -> Verdict | None:
        heard = _library.wait_verdict(self._handle, iteration, seconds, self._tensors)
        if heard is None:
            return None
        verdict, unused = heard
        non_finite = None if verdict.non_finite_tensor < 0 else (verdict.non_finite_rank, verdict.non_finite_tensor)
        return Verdict(verdict.square_sum, non_finite, frozenset(unused))

    def gather_state(self, seconds: float) -> bool:
        return _library_state.gather_state(self._handle, seconds)

    def updates(self, tensor: int) -> int:
        return _library_state.tensor_updates(self._handle, tensor)

    def state(self, tensor: int, number: int) -> memoryview:
        return _library_state.tensor_array(self._handle, tensor, number)

    def set_order(self, layers: Sequence[int]) -> None:
        _library.set_order(self._handle, layers)

    def report(self) -> None:
        """The coordinator has it."""

    def stop(self) -> None:
        if self._rank == 0:  # whose word counts, and who hosts no coordinator
            raise PacelineError("this job's coordinator is a process of its own ('paceline run' or 'paceline coordinator'), which stops it after an iteration when it is interrupted (Ctrl-C, or SIGINT by its pid)", subject="stop")

    def step_done(self, samples: int, loss: float, phases: Mapping[str, float]) -> bool:
        unknown = sorted(set(phases) - set(_PHASES))
        if unknown:
            raise PacelineError(f"'{unknown[0]}' is no phase of a step; legal: {', '.join(_PHASES)}", subject="phases")
        seconds = [phases.get(phase, 0.0) for phase in _PHASES] if phases else None
        return _library.step_done(self._handle, samples, loss, seconds)


_TYPES = {"float32": _interface.FLOAT32, "float16": _interface.FLOAT16, "bfloat16": _interface.BFLOAT16}


def join(
    tensors: Sequence[TensorSpec], initial: Sequence[int], settings: Mapping[str, str], place: Place, states: Mapping[int, State] | None = None
) -> LibraryNode:
    """`_node.Join`."""
    if len(initial) != len(tensors):
        raise PacelineError(f"{len(tensors)} tensors, but {len(initial)} addresses of initial values", subject="initial")
    with _job(settings) as job:
        for tensor, value in zip(tensors, initial, strict=True):
            if tensor.dtype not in _TYPES:
                raise PacelineError(f'tensor "{tensor.name}" is {tensor.dtype}; legal: {", ".join(_TYPES)}', subject="dtype")
            _library.job_add_tensor(job, tensor.name, tensor.shape, tensor.layer, value, _TYPES[tensor.dtype], tensor.frozen, tensor.group)
        for number, state in (states or {}).items():
            _library_state.job_set_state(job, number, state.arrays, state.updates)
        handle = _library.join(job, _place(place))
    try:
        wait(lambda limit: _library.wait_joined(handle, limit), sentence=f"rank {place.rank} waits for the other ranks to join" if place.rank == 0 else "")
        return LibraryNode(handle, len(tensors))
    except BaseException:
        _library.close(handle, 1)
        raise


@contextlib.contextmanager
def _job(settings: Mapping[str, str | float]) -> Iterator[int]:
    job = _library.job_new()
    try:
        for option, value in texts(settings).items():
            _library.job_set(job, option, value)
        yield job
    finally:
        _library.close(job, 0)


def _place(place: Place) -> _interface.Place:
    roles = {"worker": _interface.WORKER, "both": _interface.BOTH, "server": _interface.SERVER}
    if place.role not in roles:
        raise PacelineError(f"role '{place.role}'; legal: {', '.join(roles)}", subject="role")
    bind = place.bind or _own_address(place.coordinator)
    return _library.place(
        roles[place.role], place.rank, place.workers, place.servers, place.coordinator, bind, place.job_key_file, place.security
    )


def _own_address(coordinator: str) -> str | None:
    """Of this machine, by which it reaches the coordinator; no packet is sent."""
    if is_file(coordinator):
        return None  # the library listens beside it
    host, _, port = coordinator.rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError):
        return None  # the library names what is wrong with the address


@atexit.register
def _leave() -> None:
    """The others need not wait for the kernel to tell them that this process has gone."""
    for node in list(_open):
        with contextlib.suppress(PacelineError):
            node.close(1)
