"""Joins the job that a launcher has started: rank 0 hosts the coordinator on a thread of the library and tells the others where.

A job without servers of its own has one in every worker's process. `paceline run` has started coordinator and servers already, for a script's
first job; what the script attaches besides meets as everywhere.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime
import ipaddress
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import launch
from paceline._addresses import bound
from paceline._errors import PacelineError
from paceline._node import Node, Place, State, TensorSpec
from paceline._waiting import apart
from paceline.launch import Launch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from paceline._library_node import Coordinator

MEETING = 300.0  # seconds within which all ranks must have come
FAILED, HEARD = "failed: ", 10.0  # what rank 0 tells instead of an address, and for how many seconds it stays to be heard
ELSEWHERE = "rank 0 hosts the coordinator of every job after a script's first, on its own host: give all ranks MASTER_ADDR, that host, and MASTER_PORT, a free port there, and they meet so"
_stores: dict[str, Store] = {}  # rank 0 serves one as long as its process lives
_attached = 0  # jobs of this process so far: each meets under a name of its own, in the same order on all ranks


class Hosting:
    """The first rank's member together with the coordinator that this process hosts."""

    def __init__(self, node: Node, coordinator: Coordinator) -> None:
        self._node = node
        self._coordinator = coordinator
        self.rank, self.workers, self.first_iteration = node.rank, node.workers, node.first_iteration
        self.value, self.tell_rates, self.gradient_ready, self.backward_done = node.value, node.tell_rates, node.gradient_ready, node.backward_done
        self.tell_left_out, self.tell_alike = node.tell_left_out, node.tell_alike
        self.wait_layer, self.wait_all, self.wait_verdict = node.wait_layer, node.wait_all, node.wait_verdict
        self.gather_state, self.updates, self.state = node.gather_state, node.updates, node.state
        self.set_order, self.step_done, self.fail, self.interrupt = node.set_order, node.step_done, node.fail, node.interrupt

    def finish(self, seconds: float) -> None:
        try:
            self._node.finish(seconds)
        except PacelineError as error:
            if error.kind == "cancelled":  # asked to stop: the coordinator has a report all the same
                self._coordinator.finish(seconds)
            raise
        self._coordinator.finish(seconds)

    def report(self) -> Mapping[str, Any] | None:
        told = self._coordinator.report()
        return told if isinstance(told, dict) else None

    def stop(self) -> None:
        self._coordinator.interrupt()

    def close(self, seconds: float) -> None:
        self._node.close(seconds)
        self._coordinator.close(seconds)


def join(tensors: Sequence[TensorSpec], initial: Sequence[int], settings: Mapping[str, str], place: Place, states: Mapping[int, State] | None = None) -> Node:
    """`_node.Join`. What `place` leaves open is as the launcher says."""
    from paceline import _library_node

    here = found()
    workers = place.workers or here.workers
    rank = here.rank if place.rank < 0 else place.rank
    started = here.servers if _attached == 0 and not place.coordinator else None
    servers = served(settings.get("collective", "none") != "none", place.servers or workers, started)
    role = "both" if servers and started is None else "worker"
    given, name = meeting(here, place.coordinator)
    tell_ready(False)
    bind = place.bind or bound(here, given)
    hosted: Coordinator | None = None
    try:
        if rank == 0 and started is None:
            try:
                check_told(bind, here)
                hosted = host_coordinator(workers, servers, given or launch.address(bind, 0), settings, place)
            except PacelineError as error:
                if not given and workers > 1:
                    tell_failure(here, name, error)
                if given and here.servers is not None and not place.coordinator:
                    raise PacelineError(f"{error.message}; {ELSEWHERE}", kind=error.kind, code=error.code, subject=error.subject, exit_code=error.exit_code) from None
                raise
        address = given or meet(here, name, hosted)
        own = dataclasses.replace(place, role=role, rank=rank, workers=workers, servers=servers, coordinator=address, bind=bind)
        node: Node = _library_node.join(tensors, initial, settings, own, states)
    except BaseException:
        if hosted is not None:
            with contextlib.suppress(PacelineError):
                hosted.close(1.0)
        raise
    tell_ready(True)
    return node if hosted is None else Hosting(node, hosted)


def meeting(here: Launch, given: str = "") -> tuple[str, str]:
    """Of what this process's ranks meet for next: where, if it is given or the launcher says it, and its name in the store."""
    global _attached
    found = given or named(here, _attached), f"paceline/{here.attempt}/{_attached}"
    _attached += 1
    return found


def check_told(bind: str, here: Launch) -> None:
    """Rank 0 tells the others where its coordinator listens: on other machines such an address leads each to itself."""
    with contextlib.suppress(ValueError):
        if not here.one_machine and ipaddress.ip_address(bind.strip("[]")).is_unspecified:
            raise PacelineError(f"bind={bind!r} names no host that the other ranks can connect to; give this machine's address, or leave it out", code="address", subject="bind")


def tell_ready(joined: bool) -> None:
    """PACELINE_READY_FILE is there from when this process has joined until it begins to join again: for who watches it from outside."""
    if file := os.environ.get("PACELINE_READY_FILE"):
        Path(file).touch() if joined else Path(file).unlink(missing_ok=True)


def served(collective: bool, wanted: int, started: int | None) -> int:
    """How many servers the job has: as many as are wanted, or as the launcher has started."""
    if started is None:
        return 0 if collective else wanted
    if collective and started > 0:
        raise PacelineError(
            f"a job by collectives has no servers, and {started} of this one run already; start it without, as 'paceline run --servers 0' does", code="contradiction", subject="collective"
        )
    if not collective and started == 0:
        raise PacelineError("'paceline run --servers 0' starts jobs by collectives; give it servers, or attach settings={\"collective\": \"loop3-overlap\"}", code="contradiction", subject="servers")
    return started


def found() -> Launch:
    """As the launcher says; where there is none, as the script's process group does."""
    here = launch.launched()
    group = sys.modules.get("torch.distributed")
    if group is None or not group.is_available() or not group.is_initialized():
        if here.launcher == "nobody":
            launch.check_alone()
        return here
    rank, workers = group.get_rank(), group.get_world_size()
    if here.launcher == "nobody":
        return of_store(rank, workers, group.distributed_c10d._get_default_store())
    if (here.rank, here.workers) != (rank, workers):
        raise PacelineError(
            f"this is rank {here.rank} of {here.workers} by {here.launcher}'s variables and rank {rank} of {workers} in the script's process group; start ranks by one of the two, or unset the variables",
            code="contradiction",
            subject="rank",
        )
    return here


def of_store(rank: int, workers: int, store: Store) -> Launch:
    """By the store in which the ranks of a process group have met."""
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        return Launch("torch.distributed", rank, workers, store=f"{store.host}:{store.port}", one_machine=launch.is_loopback(store.host))
    return Launch("torch.distributed", rank, workers, store="torch.distributed")


def named(here: Launch, job: int) -> str:
    """Where the coordinator of this process's next job is, as the launcher says. "": rank 0 tells it in the store. One that the launcher has started
    need not be on rank 0's host, and rank 0 hosts those of the jobs after the first, whose ports nobody has set aside."""
    if job and here.servers is not None and has_store(here) and not launch.is_file(here.coordinator):
        return ""
    return nth(here.coordinator, job)


def has_store(here: Launch) -> bool:
    group = sys.modules.get("torch.distributed")
    return bool(here.store) or (group is not None and group.is_available() and group.is_initialized())


def nth(coordinator: str, job: int) -> str:
    """Where the coordinator of this process's next job listens: jobs that run side by side have ports of their own, in a row, or files. Members listen at
    names with a dot and a number, and those of the job before may not have left yet."""
    if launch.is_file(coordinator):
        return f"{coordinator}-{job}" if job else coordinator
    host, _, port = coordinator.rpartition(":")
    if coordinator and int(port) + job > 65535:
        raise PacelineError(f"PACELINE_COORDINATOR={coordinator} leaves no port for job {job + 1} of this script; each takes the next one", subject="PACELINE_COORDINATOR")
    return f"{host}:{int(port) + job}" if coordinator else ""


def host_coordinator(workers: int, servers: int, listen: str, settings: Mapping[str, str], key: Place) -> Coordinator:
    from paceline import _library_node

    return _library_node.Coordinator(workers, servers, listen=listen, settings=settings, key=key)


def meet(here: Launch, name: str, hosted: Coordinator | None) -> str:
    """The coordinator's address, told by rank 0."""
    if hosted is not None and here.workers == 1:
        return hosted.address
    began = time.monotonic()

    def heard() -> str:
        store = store_of(here, name)
        if hosted is not None:
            store.set("coordinator", hosted.address)
            return hosted.address
        address: str = store.get("coordinator").decode()
        store.set(f"heard by {here.rank}", "")
        return address

    try:
        address = apart(heard, f"rank {here.rank} waits for rank 0 at {here.store}")
        if hosted is not None:
            return address
    except RuntimeError as error:
        passed, first = time.monotonic() - began, str(error).splitlines()[0]
        said = f"rank {here.rank} has not heard of rank 0 at {here.store} within {passed:.0f} s" if here.rank else f"rank 0 cannot tell the others at {here.store} where it is"
        raise PacelineError(f"{said}: {first}", kind="deadline", code="absent", subject=here.store) from None
    if address.startswith(FAILED):
        atexit.unregister(remove_file)  # others may not have read it yet; rank 0 waits for them
        said = json.loads(address.removeprefix(FAILED))
        raise PacelineError(f"rank 0 could not start the job: {said.pop('message')}", **said)
    return address


def tell_failure(here: Launch, name: str, error: PacelineError) -> None:
    """By rank 0, which hosts no coordinator and ends: the others would wait for it as for one that has not come yet. It waits until they have heard, since
    with it may go the store."""
    with contextlib.suppress(RuntimeError):
        store = store_of(here, name)
        told = {word: getattr(error, word) for word in ("message", "kind", "code", "subject", "exit_code")}
        store.set("coordinator", FAILED + json.dumps(told))
        store.wait([f"heard by {rank}" for rank in range(1, here.workers)], datetime.timedelta(seconds=HEARD))


def remove_file(path: str) -> None:
    """Of a FileStore. PyTorch removes it when the last rank has let go of it, and a rank that is killed never does."""
    _stores.pop(path, None)
    Path(path).unlink(missing_ok=True)


def make_own(path: str) -> None:
    """In a folder where everybody may write, the name may be somebody else's, who would tell the ranks where to go."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PacelineError(f"{path}, where the ranks meet, cannot be opened: {error.strerror}; set TMPDIR, or PACELINE_COORDINATOR=HOST:PORT", code="illegal", subject="TMPDIR") from None
    owner = os.fstat(descriptor).st_uid
    os.close(descriptor)
    if owner != os.getuid():
        raise PacelineError(f"{path}, where the ranks meet, is another user's; set TMPDIR, or PACELINE_COORDINATOR=HOST:PORT", code="illegal", subject="TMPDIR")


def store_of(here: Launch, name: str, seconds: float | None = None) -> Store:
    """The script's own process group has one already, or torchrun's agent, or rank 0 opens one."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore, PrefixStore, TCPStore

    limit = datetime.timedelta(seconds=MEETING if seconds is None else seconds)
    store = _stores.get(here.store)
    if store is not None:
        pass
    elif here.store.startswith("/"):
        for file in launch.left_behind(os.path.dirname(here.store)):
            file.unlink(missing_ok=True)
        make_own(here.store)
        store = FileStore(here.store, here.workers)
        atexit.register(remove_file, here.store)
    elif dist.is_initialized():
        return PrefixStore(name, dist.distributed_c10d._get_default_store())
    else:
        host, _, port = here.store.rpartition(":")
        agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        serves = here.rank == 0 and not agent
        store = TCPStore(host, int(port), here.workers, is_master=serves, timeout=limit, wait_for_workers=False, multi_tenant=True)
    _stores[here.store] = store
    store.set_timeout(limit)
    return PrefixStore(name, store)


