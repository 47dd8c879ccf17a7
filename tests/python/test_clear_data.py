"""Jobs with a key whose data are in the clear (docs/security.md)."""

import ctypes
import socket
import struct
import threading

import pytest
from jobs import Coordinator, listening_ports, reference, train, wait_until
from protocol import connect
from test_outsiders import expect_bits, task  # noqa: F401 (a fixture)
from test_strangers import TALK, Together, closed_by_the_other_side, member
from test_tls import key, run  # noqa: F401 (a fixture)
from tls_peer import TlsPeer


class Tap:
    """What passes over the loopback to and from one port of TCP, until it is closed. The kernel picks the packets, so that nothing else
    that passes meanwhile can crowd them out."""

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)  # hears nothing before `bind`
        operations = (
            (0x30, 0, 0, 9),  # the protocol
            (0x15, 0, 6, socket.IPPROTO_TCP),
            (0xB1, 0, 0, 0),  # x = the length of the header of IP
            (0x48, 0, 0, 0),  # the source port
            (0x15, 2, 0, port),
            (0x48, 0, 0, 2),  # the destination port
            (0x15, 0, 1, port),
            (0x06, 0, 0, 0xFFFFFFFF),  # all of the packet
            (0x06, 0, 0, 0),  # nothing of it
        )
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *operation) for operation in operations))
        self.socket.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", len(operations), ctypes.addressof(code)))  # SO_ATTACH_FILTER
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.socket.bind(("lo", 0x0800))  # IP
        self.socket.settimeout(0.1)
        self.heard = {}  # by (source port, destination port)
        self.over = threading.Event()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while True:
            try:
                packet = self.socket.recv(1 << 17)
            except TimeoutError:
                if self.over.is_set():
                    return
                continue
            tcp = packet[4 * (packet[0] & 15) :]
            self.heard.setdefault(tcp[:4], []).append(tcp[4 * (tcp[12] >> 4) :])

    def __exit__(self, *_):
        self.over.set()
        self.reader.join()
        _, self.lost = struct.unpack("II", self.socket.getsockopt(263, 6, 8))  # SOL_PACKET, PACKET_STATISTICS
        self.socket.close()

    def says(self, word):
        """Whether `word` came from there or went there."""
        assert self.lost == 0
        return any(word in b"".join(said) for said in self.heard.values())


@pytest.mark.parametrize("way", [("--servers", 2), ("--role", "both"), ("--collective", "loop1")], ids=["servers", "both", "collective"])
def test_data_in_the_clear_have_the_same_bits_and_the_report_says_so(task, way):
    report = train(*task, "--workers", 2, *way, "--iterations", 10, "--security", "psk", "--allow-clear-data")
    assert report["security"] == "psk, data in the clear"
    assert report["parameters_hash"] == reference(*task, "--iterations", 10, "--workers", 2)["parameters_hash"]


def test_with_clear_data_only_those_are_in_the_clear_and_without_the_key_nobody_gets_in(task, key):
    frame = b"PLN1"
    for clear in ((), ("--allow-clear-data",)):
        options = ("--job-key-file", key, *clear)
        with Together() as together:
            coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, *options))
            control = together.add(Tap(coordinator.address_pair()[1]))
            server = together.add(member(coordinator, "server", *options))
            (port,) = wait_until("the server listens", lambda: listening_ports(server.pid))
            data = together.add(Tap(port))
            with TlsPeer(port) as stranger:
                assert stranger.recv(1000) == b""
            with connect(port, None) as stranger:
                stranger.sendall(TALK["HTTP"])
                assert closed_by_the_other_side(stranger)
            worker = together.add(member(coordinator, "worker", *task, "--iterations", 10, *options))
            for process in (worker, server, coordinator):
                assert process.finish() == 0, process.err
            expect_bits(coordinator.report(), task, 1)
            assert coordinator.report()["strangers"] == 2
        assert control.says(b"paceline") and not control.says(frame)
        assert data.says(b"paceline") and data.says(frame) == bool(clear)


def test_who_sends_data_in_the_clear_and_who_does_not_refuse_each_other_and_nobody_is_harmed(task, key):
    for all_clear in (False, True):
        options, other = (("--job-key-file", key, *clear) for clear in ((("--allow-clear-data",), ()) if all_clear else ((), ("--allow-clear-data",))))
        with Together() as together:
            coordinator = together.add(Coordinator("--workers", 1, "--servers", 1, *options))
            for role in ("server", "worker"):
                with member(coordinator, role, *task, "--iterations", 10, *other) as process:
                    assert process.finish() == 2, process.err
                    assert "give --allow-clear-data to all processes of the job or to none" in process.the_error(), process.err
            members = [together.add(member(coordinator, role, *task, "--iterations", 10, *options)) for role in ("server", "worker")]
            for process in (*members, coordinator):
                assert process.finish() == 0, process.err
            assert "give --allow-clear-data to all processes" in coordinator.err, coordinator.err
            expect_bits(coordinator.report(), task, 1)


@pytest.mark.parametrize("options", [(), ("--security", "none"), ("--security", "auto")])
def test_there_are_no_clear_data_without_a_key(task, options):
    code, said = run("train", *task, "--allow-clear-data", *options)
    assert code == 2 and "--allow-clear-data is for jobs with a key" in said and "paceline key new" in said, said
