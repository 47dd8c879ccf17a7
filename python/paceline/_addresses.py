"""By which address of this machine the others reach it, and where they hear of it."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paceline import launch
from paceline._errors import PacelineError
from paceline.launch import Launch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store


def bound(here: Launch, coordinator: str) -> str:
    """The address of this machine by which the others reach it."""
    if launch.is_file(coordinator):
        return ""  # the library listens beside it
    interface = os.environ.get("PACELINE_INTERFACE")
    if interface:
        return address_of(interface)
    if here.one_machine:
        return "127.0.0.1"
    return toward((coordinator or here.store or here.coordinator).rpartition(":")[0])


@contextlib.contextmanager
def reserved_port(host: str) -> Iterator[int]:
    """A port of `host` that the system gives nobody else meanwhile. Who listens there with SO_REUSEADDR, as the library does, may."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, 0))
        yield int(held.getsockname()[1])


@contextlib.contextmanager
def told(rank: int, store: Store, bind: str, seconds: float) -> Iterator[tuple[str, str]]:
    """What no other meeting is called, and where rank 0 listens in a moment, which the others hear of in the store. It stands there until all have come, or
    rank 0 has given up: the same ranks may meet there again."""
    if rank == 0:
        with reserved_port(bind) as port:
            meeting, address = secrets.token_hex(8), launch.address(bind, port)
            store.set("coordinator", f"{meeting} {address}")
            try:
                yield meeting, address
            finally:
                with contextlib.suppress(RuntimeError):
                    store.delete_key("coordinator")
    else:
        try:
            store.wait(["coordinator"], datetime.timedelta(seconds=seconds))
        except RuntimeError as error:
            first = str(error).splitlines()[0]
            raise PacelineError(f"rank {rank} has not heard of rank 0 within {seconds:g} s: {first}", kind="deadline", code="absent", subject="rank 0") from None
        meeting, _, address = store.get("coordinator").decode().partition(" ")
        yield meeting, address


def toward(host: str) -> str:
    """This machine's address on the way to `host`; no packet is sent. Never a host's name, which may mean another network."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise PacelineError(f"this machine has no way to {host}: {error}; set PACELINE_INTERFACE or PACELINE_COORDINATOR", code="unreachable", subject=host) from None


def address_of(interface: str) -> str:
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked.fileno(), 0x8915, struct.pack("256s", interface.encode()[:15]))  # SIOCGIFADDR
        except OSError as error:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise PacelineError(f"PACELINE_INTERFACE={interface}: {error.strerror}; there are {known}", subject="PACELINE_INTERFACE") from None
    return socket.inet_ntoa(answer[20:24])
