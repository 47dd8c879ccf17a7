"""Strangers in numbers: handshakes without end, and more connections than a process may have open."""

import socket
import threading

import pytest
from jobs import Coordinator, Job, full, listening_ports, wait_until
from protocol import connect
from relay import Relay
from test_outsiders import ENDLESS, expect_bits, peak, task  # noqa: F401 (a fixture)
from test_strangers import Together, member
from test_tls import key  # noqa: F401 (a fixture)


@pytest.fixture
def first_words(task, key):
    """What a member of another job with the same key says first: a handshake that goes on until the listening side has done its part."""
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, "--job-key-file", key))
        with Relay(coordinator.address_pair()[1]) as relay:
            members = [together.add(member(at, role, *task, "--iterations", 5, "--job-key-file", key)) for at, role in ((coordinator, "server"), (relay, "worker"))]
            for process in (*members, coordinator):
                assert process.finish() == 0, process.err
            said = relay.said[0]
    record = 5 + int.from_bytes(said[3:5], "big")
    assert said[0] == 22 and record < 1000, "a ClientHello"
    return said[:record]


@pytest.mark.parametrize("seconds", [2, full(30)])
def test_handshakes_without_end_cost_no_bit_and_no_memory(tmp_path, task, key, first_words, seconds):
    with Job(tmp_path, *task, *ENDLESS, "--workers", 2, "--servers", 2, "--job-key-file", key) as job:
        job.wait_for_iterations(2)
        children = {name: pid for name, pid in job.children().items() if not name.startswith("worker")}
        before = {name: peak(pid) for name, pid in children.items()}
        over = threading.Event()
        ports = [port for pid in children.values() for port in listening_ports(pid)]
        begun = dict.fromkeys(ports, 0)  # handshakes

        def flood(port):
            while not over.is_set():
                try:
                    with connect(port, None) as stranger:
                        stranger.sendall(first_words)
                        begun[port] += 1
                except OSError:
                    continue  # hung up on already

        threads = [threading.Thread(target=flood, args=(port,)) for port in ports]
        for thread in threads:
            thread.start()
        over.wait(seconds)
        wait_until("hundreds of handshakes at each port", lambda: min(begun.values()) > 300)
        began = job.iterations()
        job.wait_for_iterations(began + 2)
        over.set()
        for thread in threads:
            thread.join()
        for name, pid in children.items():
            assert peak(pid) - before[name] < 16 << 20, name
        job.signal(15)
        assert job.finish() == 130, job.err
        expect_bits(job.report(), task, 2)


def test_more_connections_than_a_process_may_have_open_keep_no_member_out_for_ever(task):
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, prefix=("prlimit", "--nofile=40")))
        crowd = []
        for _ in range(100):
            stranger = socket.socket()
            stranger.setblocking(False)
            stranger.connect_ex(coordinator.address_pair())
            crowd.append(stranger)
        members = [together.add(member(coordinator, role, *task, "--iterations", 10)) for role in ("server", "worker")]
        for process in (*members, coordinator):
            assert process.finish() == 0, process.err
        for stranger in crowd:
            stranger.close()
        assert "refusing connections: Too many open files; existing ones go on" in coordinator.err, coordinator.err
        expect_bits(coordinator.report(), task, 1)
