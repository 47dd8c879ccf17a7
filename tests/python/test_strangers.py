"""Strangers at the ports of a job, and members that do not belong to it."""

import os
import re
import signal
import socket
import struct
import threading
import time

import pytest

from jobs import LENET, SLACK, Coordinator, Job, Process, keep_port, listening_ports, reference, wait_until
from protocol import MAGIC, header

noise = bytes((i * i * 7919 + i // 3) % 256 for i in range(100_000))

TALK = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + noise[:500],
    "random bytes": noise,
    "a length of 2^62": MAGIC + b"\1\0\0\0" + struct.pack("<QQ", 2**62, 2**62) + b"\xff" * 24,
    "a payload of 4 GB": header(payload_bytes=2**32 - 1),
    "a body of 4 GB": header(body_bytes=2**32 - 1),
    "another version": header(major=99, body=b"x" * 40),
    "an unknown kind": header(kind=200),
    "flags": header(flags=255),
    "a hello of noise": header(body=noise[:60]),
    "a hello without a body": header(),
    "a chunk before the hello": header(kind=2, sequence=1, body=noise[:40]),
    "a goodbye before the hello": header(kind=6),
    "zeros": bytes(4096),
    "silence": b"",
    "half a header": header()[:24],
    "the magic only": MAGIC,
}


def connect(port):
    stranger = socket.create_connection(("127.0.0.1", port), timeout=5)
    stranger.settimeout(10 + SLACK)
    return stranger


def closed_by_the_other_side(stranger):
    """Reads to the end; the other side may send a refusal first."""
    try:
        while stranger.recv(4096):
            pass
    except ConnectionError:
        pass
    except socket.timeout:
        return False
    return True


def say(port, talk):
    with connect(port) as stranger:
        try:
            stranger.sendall(talk)
        except ConnectionError:
            return True
        return closed_by_the_other_side(stranger)


TASK = (*LENET, "--iterations", 100)


@pytest.fixture
def job(tmp_path):
    """A job in the middle of its training; it has to end well, with the bits of an undisturbed one."""
    with Job(tmp_path, *TASK, "--workers", 2, "--servers", 2) as job:
        job.wait_for_iterations(2)
        job.member_ports = [port for name, pid in job.children().items() if not name.startswith("worker") for port in listening_ports(pid)]
        assert len(job.member_ports) == 3
        job.turned_away = 0  # at least
        yield job
        assert job.finish() == 0, job.err
        assert job.report()["strangers"] >= job.turned_away
        # Each process says sixteen at once, and then one a minute.
        said = sum("turned away so far" in line for line in job.err.splitlines())
        assert min(job.turned_away, 16) <= said <= 3 * (17 + (time.monotonic() - job.began) // 60)
        assert job.errors() == []
        assert job.report()["parameters_hash"] == reference(*TASK, "--workers", 2)["parameters_hash"]


def test_strangers_change_nothing(job):
    """Each talks to each port of the job at the same time, and is sent away."""
    refused = {}
    threads = []
    for what, talk in TALK.items():
        for port in job.member_ports:

            def visit(what=what, talk=talk, port=port):
                refused[what, port] = say(port, talk)

            threads.append(threading.Thread(target=visit))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == len(TALK) * 3
    assert all(refused.values()), [what for what, well in refused.items() if not well]
    job.turned_away = len(refused)


@pytest.mark.full
def test_two_hundred_connections_at_once_change_nothing(job):
    crowd = []
    try:
        for i in range(200):
            crowd.append(connect(job.member_ports[i % 3]))
        wait_until("iterations go on", lambda before=job.iterations(): job.process.poll() is not None or job.iterations() > before)
    finally:
        for stranger in crowd:
            stranger.close()


@pytest.mark.full
def test_the_memory_that_strangers_take_is_small(job):
    pids = {name: pid for name, pid in job.children().items() if not name.startswith("worker")}
    peak = lambda pid: int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) * 1024
    before = {name: peak(pid) for name, pid in pids.items()}
    crowd = [connect(port) for port in job.member_ports for _ in range(60)]
    for stranger in crowd:
        try:
            stranger.sendall(header(payload_bytes=4096) + noise)
        except ConnectionError:
            pass
    for name, pid in pids.items():
        try:
            grown = peak(pid) - before[name]
        except OSError:
            continue  # the job was faster
        assert grown < 8 << 20, (name, grown)
    for stranger in crowd:
        stranger.close()


# ---- joining by hand


def member(coordinator, role, *arguments):
    return Process("train", "--join", coordinator.address, "--role", role, *arguments)


SHORT = (*LENET, "--iterations", 10)


class Together:
    """Leaves no process behind, whatever a test does."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def add(self, process):
        self.processes.append(process)
        return process

    def __exit__(self, *_):
        for process in self.processes:
            process.__exit__()


def test_a_job_can_be_put_together_by_hand():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1))
        members = [together.add(member(coordinator, role, *SHORT)) for role in ("server", "worker", "worker")]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        assert coordinator.report()["parameters_hash"] == reference(*SHORT, "--workers", 2)["parameters_hash"]


def test_ranks_can_be_chosen_by_hand_and_members_can_come_before_anybody_trains():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 2))
        members = [together.add(member(coordinator, "worker", *SHORT, "--rank", rank, "--workers", 2)) for rank in (1, 0)]
        members += [together.add(member(coordinator, "server", "--rank", rank)) for rank in (1, 0)]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        assert coordinator.report()["parameters_hash"] == reference(*SHORT, "--workers", 2)["parameters_hash"]


def test_processes_of_one_role_and_of_both_make_one_job():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 3, "--servers", 2))
        # Whoever names no rank could be given the one that another names.
        roles = (("both", 1), ("worker", 0), ("server", 0), ("worker", 2))
        members = [together.add(member(coordinator, role, *SHORT, "--schedule", "p3", "--clip-norm", 0.5, "--rank", rank)) for role, rank in roles]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        report = coordinator.report()
        assert report["role"] == "mixed"
        assert report["parameters_hash"] == reference(*SHORT, "--clip-norm", 0.5, "--workers", 3)["parameters_hash"]


def test_an_honest_member_joins_during_a_flood():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1))
        crowd = []
        try:
            for _ in range(200):
                crowd.append(connect(coordinator.address_pair()[1]))
            members = [together.add(member(coordinator, role, *SHORT)) for role in ("server", "worker")]
            for process in (*members, coordinator):
                assert process.finish() == 0, process.err
        finally:
            for stranger in crowd:
                stranger.close()
        assert coordinator.report()["parameters_hash"] == reference(*SHORT, "--workers", 1)["parameters_hash"]


@pytest.mark.parametrize(
    "option, values",
    [
        ("model", ("lenet", "mlp")),
        ("optimizer", ("sgd", "adam")),
        ("mini-batch", (16, 17)),
        ("seed", (1, 2)),
        ("learning-rate", ("0.1", "0.2")),
        ("schedule", ("p3", "default")),
        ("wire", ("bfloat16", "float16")),
    ],
)
def test_workers_that_disagree_are_refused_with_the_same_words(option, values):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1))
        processes = [coordinator, together.add(member(coordinator, "server"))]
        for rank, value in enumerate(values):
            processes.append(together.add(member(coordinator, "worker", "--dataset", "mnist-5k", "--iterations", 10, "--rank", rank, f"--{option}", value)))
        messages = set()
        for process in processes:
            assert process.finish() == 2, process.err
            messages.add(process.the_error())
        assert len(messages) == 1, messages
        message = messages.pop()
        assert re.search(r"\bworkers 0 \(.*\) and 1 \(", message), message
        for word in (option, *map(str, values)):
            assert word in message, message


def waiting_worker(together, coordinator, *arguments):
    """A worker that has joined, as one that is refused would end."""
    worker = together.add(member(coordinator, "worker", *SHORT, *arguments))
    wait_until("it is connected", lambda: established(worker.pid) >= 1)
    return worker


def established(pid):
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    with open("/proc/net/tcp") as table:
        return sum(1 for line in table if line.split()[3] == "01" and line.split()[9] in inodes)


def finish_the_job(together, coordinator, worker, *others):
    """The refused member did no harm."""
    members = [together.add(member(coordinator, role, *arguments)) for role, arguments in others]
    for process in (*members, worker, coordinator):
        assert process.finish() == 0, process.err


def test_the_second_of_two_workers_with_one_rank_is_refused():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1))
        first = waiting_worker(together, coordinator, "--rank", 0)
        second = together.add(member(coordinator, "worker", *SHORT, "--rank", 0))
        assert second.finish() == 2, second.err
        message = second.the_error()
        assert "wants rank 0" in message and "worker 0 at 127.0.0.1:" in message, message
        finish_the_job(together, coordinator, first, ("server", ()), ("worker", (*SHORT, "--rank", 1)))
        assert "coordinator warning: turned away: a worker (127.0.0.1:" in coordinator.err, "who sits there sees it too"


def test_a_worker_too_many_is_refused():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1))
        first = waiting_worker(together, coordinator)
        second = together.add(member(coordinator, "worker", *SHORT))
        assert second.finish() == 2, second.err
        assert "one too many" in second.the_error()
        finish_the_job(together, coordinator, first, ("server", ()))


def test_a_server_too_many_is_refused():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1))
        worker = waiting_worker(together, coordinator)
        wrong = together.add(member(coordinator, "server", "--rank", 3))
        assert wrong.finish() == 2, wrong.err
        assert "wants rank 3" in wrong.the_error() and "0..0" in wrong.the_error()
        finish_the_job(together, coordinator, worker, ("server", ()))


def test_a_worker_that_expects_another_world_is_refused():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1))
        wrong = together.add(member(coordinator, "worker", *SHORT, "--workers", 3))
        assert wrong.finish() == 2, wrong.err
        assert "expects 3 workers" in wrong.the_error() and "started for 1" in wrong.the_error()
        worker = together.add(member(coordinator, "worker", *SHORT, "--workers", 1))
        finish_the_job(together, coordinator, worker, ("server", ()))


def test_a_worker_whose_share_of_the_data_is_too_small_stops_everybody():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1))
        members = [together.add(member(coordinator, role, "--mini-batch", 3000, "--iterations", 5)) for role in ("server", "worker", "worker")]
        for process in (coordinator, *members):
            assert process.finish() == 2, process.err
            assert "4000 samples" in process.the_error() and "3000" in process.the_error()


@pytest.mark.parametrize("role", ["server", "worker"])
def test_a_coordinator_that_nobody_can_reach_is_named(role):
    with keep_port() as nobody, Process("train", "--join", f"127.0.0.1:{nobody.getsockname()[1]}", "--role", role, *SHORT, "--deadline", "1s") as process:
        assert process.finish(1 + 4 + SLACK) == 1, process.err
        message = process.the_error()
        assert f"127.0.0.1:{nobody.getsockname()[1]}" in message and "coordinator" in message and "could not be reached" in message, message


@pytest.mark.parametrize("role", ["server", "worker"])
def test_a_coordinator_that_says_nothing_is_named(role):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with Process("train", "--join", f"127.0.0.1:{port}", "--role", role, *SHORT, "--deadline", "1s") as process:
            assert process.finish(1 + 4 + SLACK) == 1, process.err
            message = process.the_error()
            assert f"127.0.0.1:{port}" in message and "coordinator" in message, message


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Process("coordinator", "--port", port) as process:
            assert process.finish(5 + SLACK) == 1, process.err
            message = process.the_error()
            assert f"127.0.0.1:{port}" in message and "in use" in message, message


@pytest.mark.parametrize("address", ["192.0.2.1", "nobody.invalid"])
def test_an_address_that_is_not_this_machines_is_refused(address):
    with Coordinator("--workers", 1, "--servers", 1) as coordinator:
        commands = (
            ("coordinator",),
            ("train", "--join", coordinator.address, "--role", "server"),
            ("train", "--join", coordinator.address, "--role", "both", *SHORT),
            ("train", *SHORT),
        )
        for command in commands:
            with Process(*command, "--bind", address, "--security", "none") as process:
                assert process.finish(30 + SLACK) == 2, (command, process.err)
                assert address in process.the_error(), process.err


def test_a_coordinator_gives_up_waiting_and_says_who_is_missing():
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1, "--stall-deadline", "3s"))
        server = together.add(member(coordinator, "server"))
        for process in (coordinator, server):
            assert process.finish(30) == 1, process.err
            assert "0 of 2 workers and 1 of 1 servers" in process.the_error()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_members_that_were_started_by_hand_end_when_asked(number):
    """A worker and a server of their own, before the job is complete; a coordinator too."""
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 2))
        server = together.add(member(coordinator, "server"))
        worker = waiting_worker(together, coordinator)
        wait_until("it is connected", lambda: established(server.pid) >= 1)
        for process in (server, worker, coordinator):
            process.signal(number)
            assert process.finish(3 + SLACK) == 130, (process.arguments, process.err)
            process.the_error()


def test_a_worker_that_is_interrupted_in_the_middle_tells_everybody():
    endless = (*LENET, "--iterations", 1_000_000, "--deadline", "2s")
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1, "--deadline", "2s"))
        server, worker, other = (together.add(member(coordinator, role, *endless)) for role in ("server", "worker", "worker"))
        line = coordinator.process.stdout.readline()  # progress: it trains
        assert "progress" in line
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        for process in (worker, other, server, coordinator):
            assert process.finish(3 + SLACK) == 130, (process.arguments, process.err)
            assert re.search(r"worker [01] was asked to end by a signal", process.the_error())
        assert time.monotonic() - began < 3 + SLACK
