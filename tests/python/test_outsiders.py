"""Strangers who speak the protocol, to its last byte, but are no members of the job: they are refused, and change nothing. In the clear,
and in jobs with a key that the strangers hold too."""

import json
import os
import re
import signal
import struct
import threading

import pytest

from jobs import Coordinator, Job, listening_ports, reference
from protocol import ACCEPTED, BOTH, COORDINATOR, HEARTBEAT_KIND, REFUSED, SERVER, WORKER, chunk, connect, greet, header, introduce
from relay import Relay
from test_strangers import Together, member
from tls_peer import TlsPeer, offer

JOIN, PROGRESS, PUSH, FAILED = 0, 4, 33, 7
NOBODY = [(WORKER, 7), (SERVER, 9), (BOTH, 1), (WORKER, 2**31 - 1), (SERVER, 2**31 - 1), (WORKER, 0), (SERVER, 0), (WORKER, -1), (COORDINATOR, 0)]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A job without end, whose workers check every value."""
    file = tmp_path_factory.mktemp("replay") / "small.json"
    layers = [{"name": f"layer{i}", "parameters": 1000 * (i + 1), "forward_s": 0.002, "backward_s": 0.002} for i in range(3)]
    file.write_text(json.dumps({"layers": layers}))
    return ("--model", f"replay:{file}")


ENDLESS = ("--iterations", 1_000_000)


class Clear:
    """How the job talks, and how a stranger reaches it."""

    options = ()
    connect = staticmethod(connect)


class Encrypted:
    def __init__(self, folder):
        key = os.urandom(32)
        file = folder / "stranger.key"
        file.touch(0o600)
        file.write_bytes(key)
        self.options = ("--job-key-file", file)
        self.connect = lambda port: TlsPeer(port, *offer(key))


@pytest.fixture(params=["clear", "encrypted"])
def talk(request, tmp_path):
    return Clear() if request.param == "clear" else Encrypted(tmp_path)


def expect_bits(report, task, workers):
    """Those of as many iterations without strangers."""
    assert report["parameters_hash"] == reference(*task, "--iterations", report["iterations"], "--workers", workers)["parameters_hash"]


def hung_up(peer):
    try:
        while peer.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) * 1024


@pytest.mark.parametrize("way", [("--servers", 2), ("--collective", "loop1")], ids=["servers", "collective"])
def test_who_is_no_member_is_refused_by_everybody_and_the_job_does_not_notice(tmp_path, task, talk, way):
    with Job(tmp_path, *task, *ENDLESS, "--workers", 2, *way, *talk.options) as job:
        job.wait_for_iterations(2)
        before = {name: peak(pid) for name, pid in job.children().items()}
        ports = {name: listening_ports(pid) for name, pid in job.children().items()}
        if "--servers" in way:  # workers hear nobody: their port only says that they live
            ports = {name: found for name, found in ports.items() if not name.startswith("worker")}
        reasons = []
        for name, (port,) in ((name, port) for name, port in ports.items() if port):
            role = {"coordinator": COORDINATOR, "server": SERVER, "worker": WORKER}[name.split()[0]]
            for stranger in NOBODY:
                for rank in (int(name.split()[1]) if " " in name else 0, -1):
                    peer, reply = introduce(talk.connect, port, stranger, (role, rank))
                    with peer:
                        assert reply.verdict == REFUSED, (name, stranger, reply)
                        reasons.append(reply.reason)
                        peer.sendall(chunk(1, PUSH, b"x" * 100) + chunk(2, FAILED))  # all the same
        for name, pid in job.children().items():
            assert peak(pid) - before[name] < 16 << 20 or name.startswith("worker"), name
        job.wait_for_iterations(job.iterations() + 2)
        job.signal(signal.SIGTERM)
        assert job.finish() == 130, job.err
        assert "interrupted by the user" in job.the_error()
        assert any("worker came too late" in reason for reason in reasons), reasons
        assert any("does not take part in this job" in reason for reason in reasons), reasons
        assert any("is already in this job at 127.0.0.1:" in reason for reason in reasons), reasons
        expect_bits(job.report(), task, 2)


def test_what_was_recorded_opens_nothing(task):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1))
        port = coordinator.address_pair()[1]
        recorder = together.add(Relay(port))
        members = [together.add(member(at, role, *task, *ENDLESS)) for at, role in ((coordinator, "server"), (recorder, "worker"), (coordinator, "worker"))]
        while "progress" not in (line := coordinator.process.stdout.readline()):
            assert line, coordinator.process.communicate()
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(coordinator.process.stdout))
        reader.start()
        session, attempt = (struct.unpack_from(form, recorder.said[0], 48 + at)[0] for form, at in (("<Q", 0), ("<I", 28)))
        with connect(port) as thief:
            thief.sendall(recorder.said[0])
            assert hung_up(thief)
        for resume in (0, 1):
            with connect(port) as liar:
                reply = greet(liar, (WORKER, -1), (COORDINATOR, 0), session=session, attempt=attempt + 5, resume=resume)
                assert reply.verdict == REFUSED and "does not know the secret" in reply.reason, reply
        coordinator.signal(signal.SIGTERM)
        for process in members:
            assert process.finish() == 130, process.err
        reader.join()
        coordinator.out, coordinator.err = "".join(lines), coordinator.process.stderr.read()
        assert coordinator.process.wait(timeout=60) == 130, coordinator.err
        expect_bits(coordinator.report(), task, 2)


def test_who_has_not_joined_can_only_join_and_takes_no_memory(task, talk):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, *talk.options))
        port = coordinator.address_pair()[1]
        before = peak(coordinator.pid)
        crowd = []

        def joiner():
            peer, reply = introduce(talk.connect, port, (WORKER, -1), (COORDINATOR, 0))
            crowd.append(peer)
            assert reply.verdict == ACCEPTED
            return peer

        try:
            for said in (
                chunk(1, PROGRESS, b"[" * 30_000),
                chunk(1, PROGRESS),
                chunk(1, FAILED, b"\2\0\0\0\0\0"),
                chunk(1, PUSH, b"x" * 100),
                chunk(1, JOIN),
                chunk(1, JOIN, b"x", announced=64 << 20),
            ):
                peer = joiner()
                peer.sendall(said)
                assert hung_up(peer)
            peer, reply = introduce(talk.connect, port, (WORKER, 0), (COORDINATOR, 0))
            with peer:
                assert reply.verdict == REFUSED and "has a rank already" in reply.reason, reply
            for _ in range(100):  # more than are listened to at a time
                joiner().sendall(chunk(1, JOIN, b"x" * 97, announced=16 << 20))
            silent = joiner()
            silent.settimeout(2)
            try:
                for _ in range(20_000):  # it never reads the answers
                    silent.sendall(header(kind=HEARTBEAT_KIND, body=bytes(8)))
            except OSError:
                pass
            assert peak(coordinator.pid) - before < 16 << 20
            options = (*task, "--iterations", 10, *talk.options)
            members = [together.add(member(coordinator, role, *options)) for role in ("server", "worker")]
            for process in (*members, coordinator):
                assert process.finish() == 0, process.err
        finally:
            for peer in crowd:
                peer.close()
        expect_bits(coordinator.report(), task, 1)
