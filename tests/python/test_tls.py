"""Jobs with a key (docs/security.md), and who attacks them: real processes, and `openssl s_client` as a stranger who speaks TLS."""

import os
import re
import signal
import socket
import subprocess
import threading

import pytest
from jobs import PROGRAM, Coordinator, Job, Process, listening_ports, reference, train, wait_until
from protocol import COORDINATOR, REFUSED, SERVER, WORKER, connect, introduce
from relay import Relay
from test_outsiders import ENDLESS, expect_bits, hung_up, peak, task  # noqa: F401 (a fixture)
from test_strangers import TALK, Together, closed_by_the_other_side, member
from tls_peer import TlsPeer, derive, identity, offer


def make_key(folder, name="job.key"):
    file = folder / name
    done = subprocess.run([PROGRAM, "key", "new", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path)


def run(*arguments, prefix=()):
    done = subprocess.run([*prefix, PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


# ---- jobs


@pytest.mark.parametrize("way", [("--servers", 2), ("--role", "both"), ("--collective", "loop1")], ids=["servers", "both", "collective"])
def test_an_encrypted_job_has_the_bits_of_one_in_the_clear(task, way):
    report = train(*task, "--workers", 2, *way, "--iterations", 10, "--security", "psk")
    assert report["security"] == "psk"
    assert report["parameters_hash"] == reference(*task, "--iterations", 10, "--workers", 2)["parameters_hash"]
    assert train(*task, "--workers", 2, *way, "--iterations", 10)["security"] == "none"


def test_a_job_is_put_together_by_hand_with_one_file_by_option_or_by_environment(task, key):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 1, "--job-key-file", key))
        members = [together.add(member(coordinator, role, *task, "--iterations", 10, "--job-key-file", key)) for role in ("server", "worker")]
        prefix = ("env", f"PACELINE_JOB_KEY_FILE={key}")
        words = ("train", "--join", coordinator.address, "--role", "worker", *task, "--iterations", 10)
        members.append(together.add(Process(*words, prefix=prefix)))
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        assert coordinator.report()["security"] == "psk"
        expect_bits(coordinator.report(), task, 2)


def test_who_has_no_key_or_another_one_is_refused_in_words_on_both_sides_and_harms_nobody(task, key, tmp_path):
    other = make_key(tmp_path, "other.key")
    wrong = {
        "plain": ((), "speaks TLS", "it talks in the clear"),
        "another key": (("--job-key-file", other), "it refused this process's job key", "it offers another job key"),
    }
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, "--job-key-file", key))
        for what, (options, said, _) in wrong.items():
            for role in ("server", "worker"):
                with member(coordinator, role, *task, "--iterations", 10, *options) as process:
                    assert process.finish() == 2, (what, process.err)
                    assert said in process.the_error() and "--job-key-file" in process.the_error(), process.err
                    assert coordinator.address in process.the_error(), process.err
        members = [together.add(member(coordinator, role, *task, "--iterations", 10, "--job-key-file", key)) for role in ("server", "worker")]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        for what, (_, _, heard) in wrong.items():
            assert heard in coordinator.err, (what, coordinator.err)
        expect_bits(coordinator.report(), task, 1)


def test_who_has_a_key_finds_no_job_that_talks_in_the_clear(task, key):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1))
        for role in ("server", "worker"):
            with member(coordinator, role, *task, "--iterations", 10, "--job-key-file", key) as process:
                assert process.finish() == 2, process.err
                assert "it talks in the clear" in process.the_error() and coordinator.address in process.the_error(), process.err
        members = [together.add(member(coordinator, role, *task, "--iterations", 10)) for role in ("server", "worker")]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        assert "the peer speaks TLS" in coordinator.err


# ---- strangers


NOT_THE_KEY = {
    "no key": lambda key: (),
    "another key": lambda key: offer(os.urandom(32)),
    "the name without the key": lambda key: ("-psk", os.urandom(32).hex(), "-psk_identity", identity(key)),
    "a key for something else": lambda key: ("-psk", derive(key, b"paceline checkpoint 1").hex(), "-psk_identity", identity(key)),
    "the key itself": lambda key: ("-psk", key.hex(), "-psk_identity", identity(key)),
    "zeros": lambda key: ("-psk", bytes(32).hex(), "-psk_identity", identity(key)),
    "an older version": lambda key: ("-no_tls1_3", *offer(key)),
    "another cipher": lambda key: ("-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", *offer(key)),
    "no common group": lambda key: ("-groups", "P-521", "-allow_no_dhe_kex", *offer(key)),
}


def test_strangers_of_every_kind_find_no_way_in_and_the_job_does_not_notice(tmp_path, task, key):
    secret = key.read_bytes()
    with Job(tmp_path, *task, *ENDLESS, "--workers", 2, "--servers", 2, "--job-key-file", key) as job:
        job.wait_for_iterations(2)
        before = {name: peak(pid) for name, pid in job.children().items()}
        ports = [port for pid in job.children().values() for port in listening_ports(pid)]
        assert len(ports) == 5  # those of workers only say that they live
        kept = []

        def visit(port):
            for what, talk in TALK.items():
                with connect(port, None) as stranger:
                    try:
                        stranger.sendall(talk)
                        assert closed_by_the_other_side(stranger), what
                    except ConnectionError:
                        pass
            for what, options in NOT_THE_KEY.items():
                with TlsPeer(port, *options(secret)) as stranger:
                    assert stranger.recv(1000) == b"", what
            kept.append(port)

        visitors = [threading.Thread(target=visit, args=(port,)) for port in ports]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()
        assert sorted(kept) == sorted(ports)
        # Whoever holds the key and is no member, with a TLS that is not ours, gets exactly the protocol's refusal.
        for name, pid in job.children().items():
            for port in [] if name.startswith("worker") else listening_ports(pid):
                to = (COORDINATOR, 0) if name == "coordinator" else (SERVER, int(name.split()[1]))
                outsider, reply = introduce(lambda at: TlsPeer(at, *offer(secret)), port, (WORKER, 7), to)
                with outsider:
                    assert reply.verdict == REFUSED and reply.reason, reply
                    assert hung_up(outsider)
        job.wait_for_iterations(job.iterations() + 2)
        for name, pid in job.children().items():
            assert peak(pid) - before[name] < 16 << 20 or name.startswith("worker"), name
        job.signal(signal.SIGTERM)
        assert job.finish() == 130, job.err
        assert "interrupted by the user" in job.the_error()
        assert "closed a connection of a stranger" in job.err
        expect_bits(job.report(), task, 2)


def test_an_honest_member_joins_while_strangers_hold_all_places(task, key):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, "--job-key-file", key))
        port = coordinator.address_pair()[1]
        over = threading.Event()

        def crowd():
            """Sixty-four half-open connections, and another one for each that is closed."""
            half = [connect(port, None) for _ in range(64)]
            while not over.is_set():
                for i, one in enumerate(half):
                    one.setblocking(False)
                    try:
                        gone = one.recv(1) == b""
                    except BlockingIOError:
                        gone = False
                    except OSError:
                        gone = True
                    if gone and not over.is_set():
                        one.close()
                        try:
                            half[i] = connect(port, None)
                        except OSError:
                            return  # the job is over
                over.wait(0.01)
            for one in half:
                one.close()

        strangers = threading.Thread(target=crowd)
        strangers.start()
        try:
            members = [together.add(member(coordinator, role, *task, "--iterations", 10, "--job-key-file", key)) for role in ("server", "worker")]
            for process in (*members, coordinator):
                assert process.finish() == 0, process.err
        finally:
            over.set()
            strangers.join()
        expect_bits(coordinator.report(), task, 1)


# ---- in the middle


class HandMade:
    """A coordinator, a server and a worker, which reaches the coordinator through `relay`."""

    def __init__(self, together, task, key, meddle=lambda number, offset, data: data, *limits):
        limits = (*limits, "--job-key-file", key)
        self.coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, *limits))
        self.relay = Relay(self.coordinator.address_pair()[1], meddle)
        options = (*task, "--iterations", 150, "--metrics", "/dev/null", *limits)
        self.server = together.add(member(self.coordinator, "server", *limits))
        self.worker = together.add(member(self.relay, "worker", *options))
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.coordinator.process.stdout))
        self.reader.start()

    def finish(self):
        for process in (self.worker, self.server):
            assert process.finish() == 0, process.err
        self.reader.join()
        self.coordinator.out, self.coordinator.err = "".join(self.lines), self.coordinator.process.stderr.read()
        assert self.coordinator.process.wait(timeout=60) == 0, self.coordinator.err
        return self.coordinator.report()


def test_somebody_in_the_middle_who_only_hands_on_is_not_noticed_and_reads_nothing(task, key):
    with Together() as together:
        job = HandMade(together, task, key)
        with job.relay:
            expect_bits(job.finish(), task, 1)
        assert len(job.relay.said) == 1
        for word in (b"PLN1", b"replay", b"momentum", b"layer0"):
            assert word not in job.relay.said[0], word


def test_flipped_bits_and_cuts_anywhere_end_a_connection_and_never_the_job(task, key):
    """The first connections are damaged, each a little later than the one before: in the handshake, in the hello, in the midst of the job.
    Every other one is cut off instead."""
    at = [0, 5, 60, 250, 290, 500, 700, 1000, 1500, 2300, 2500, 3000]

    def meddle(number, offset, data):
        if number >= len(at) or not offset <= at[number] < offset + len(data):
            return data
        if number % 2:
            return None
        place = at[number] - offset
        return data[:place] + bytes([data[place] ^ (1 << number % 8)]) + data[place + 1 :]

    with Together() as together:
        job = HandMade(together, task, key, meddle, "--deadline", "4s")  # a damaged length makes a side wait for a part of that
        with job.relay:
            expect_bits(job.finish(), task, 1)
            assert len(job.relay.said) > 6


def test_somebody_in_the_middle_who_swaps_two_destinations_is_found_out(task, key):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, "--job-key-file", key))
        server = together.add(member(coordinator, "server", "--job-key-file", key))
        (port,) = wait_until("the server listens", lambda: listening_ports(server.pid))
        with Relay(port) as relay:
            with member(relay, "worker", *task, "--iterations", 10, "--job-key-file", key) as worker:
                assert worker.finish() == 2, worker.err
                assert re.search(r"coordinator .*refused: .* is server without a rank yet, not coordinator", worker.the_error()), worker.err
        honest = together.add(member(coordinator, "worker", *task, "--iterations", 10, "--job-key-file", key))
        for process in (honest, server, coordinator):
            assert process.finish() == 0, process.err
        expect_bits(coordinator.report(), task, 1)


def test_a_whole_connection_that_was_recorded_opens_nothing(task, key):
    with Together() as together:
        job = HandMade(together, task, key)
        with job.relay:
            wait_until("the worker has joined", lambda: job.lines)
            recorded = job.relay.said[0]
            for said in (recorded, recorded[:300], recorded[300:]):
                with connect(job.coordinator.address_pair()[1]) as thief:
                    try:
                        thief.sendall(said)
                        thief.shutdown(socket.SHUT_WR)
                    except OSError:
                        pass
                    assert hung_up(thief)
            expect_bits(job.finish(), task, 1)
