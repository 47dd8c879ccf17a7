"""`paceline doctor HOST` where something is wrong on the way: the fault is what it finds first."""

import json
import socket
import struct
import subprocess
import threading

import pytest
from chaos_hosts import Hosts
from jobs import PROGRAM, wait_until
from protocol import HEADER, header, read_exactly
from test_doctor_and_bench import refused, run, served  # noqa: F401 (a fixture)
from test_lab import rights

PORT = 4170
AHEAD = 3.0  # seconds
REPLY_KIND = 5
ANSWER = struct.Struct("<Iqqqq")  # as apps/doctor/echo.cc writes it; the release follows


class Pair:
    """Two hosts with links of 100 Mb/s, and a doctor on the second one."""

    def __init__(self):
        self.hosts = Hosts(2, "100mbit")
        self.there = self.hosts.addresses[1]
        self.doctor = subprocess.Popen([*map(str, self.hosts.at(1)), PROGRAM, "doctor", "--serve", str(PORT), "--bind", self.there], stderr=subprocess.DEVNULL)
        wait_until("the doctor answers", lambda: f":{PORT}" in self.shell(1, "ss -ltn"))

    def shell(self, host, command):
        return subprocess.run([*map(str, self.hosts.at(host)), "sh", "-c", command], check=True, capture_output=True, text=True).stdout

    def examined_until(self, found, *options, port=PORT):
        """A machine that is busy with other things holds measurements up: three of them."""
        for _ in range(3):
            host = self.examined(*options, port=port)
            if found(host["findings"]):
                break
        return host

    def examined(self, *options, port=PORT):
        done = subprocess.run([*map(str, self.hosts.at(0)), PROGRAM, "doctor", f"{self.there}:{port}", "--json", *options], capture_output=True, text=True, timeout=120)
        report = json.loads(done.stdout)
        (host,) = report["hosts"]
        assert [(one["text"], one["remedy"]) for one in report["findings"]] == [(f"{host['host']} {one['what']}", one["remedy"]) for one in host["findings"]]
        assert all(one["code"] for one in report["findings"])
        ways = [(link["from"], link["to"], link["rate"]) for link in report["links"]]
        if host["reachable"]:
            own = host["way"]["address"]
            assert ways == [(own, host["host"], host["bytes_per_second"]), (host["host"], own, host["bytes_per_second_back"])]
        else:
            assert ways == [] and done.stderr.startswith(f"paceline: error: {host['host']}: "), done.stderr
        assert done.returncode == (0 if host["reachable"] else 1), done.stderr
        return host


@pytest.fixture(scope="module")
def pair():
    if not rights():
        yield None  # test_lab holds how a lab is refused
        return
    pair = Pair()
    yield pair
    pair.doctor.kill()
    pair.doctor.wait()
    pair.hosts.__exit__()


FAULTS = {  # what is done on which host, how it is undone, options, what the first finding says
    "a tenth of the label": ((), (), ("--label", "1gbit"), "of the 125.0 MB/s of --label"),
    "one side's MTU": ((1, "ip link set eth0 mtu 500"), (1, "ip link set eth0 mtu 1500"), (), "an MTU of about 500 at one end or between; here eth0 has 1500"),
    "one direction": (
        (1, "tc qdisc change dev eth0 root tbf rate 10mbit burst 16kb latency 20ms"),
        (1, "tc qdisc change dev eth0 root tbf rate 100mbit burst 96kb latency 10ms"),
        (),
        "is slow in one direction: 1.",
    ),
    "a wrong route": ((0, "ip route add {there}/32 via {gateway} onlink dev eth0"), (0, "ip route del {there}/32"), (), "packets leave by eth0 ({here}) through {gateway}"),
    "a firewall that drops": (
        (1, f"nft add table inet wall && nft add chain inet wall into '{{{{ type filter hook input priority 0; }}}}' && nft add rule inet wall into tcp dport {PORT} drop"),
        (1, "nft delete table inet wall"),
        (),
        "Connection timed out; packets leave by eth0 ({here})",
    ),
    "a closed port": ((), (), 4171, "Connection refused; packets leave by eth0 ({here})"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_found_first(pair, fault):
    if pair is None:
        return
    make, mend, options, said = FAULTS[fault]
    here = pair.hosts.addresses[0]
    names = {"there": pair.there, "here": here, "gateway": here.rpartition(".")[0] + ".99"}
    port = options if isinstance(options, int) else PORT
    if make:
        pair.shell(make[0], make[1].format(**names))
    try:
        host = pair.examined_until(lambda findings: findings and said.format(**names) in findings[0]["what"], *(options if port == PORT else ()), port=port)
    finally:
        if mend:
            pair.shell(mend[0], mend[1].format(**names))
    assert said.format(**names) in host["findings"][0]["what"], host
    assert host["findings"][0]["remedy"]
    assert host["way"]["interface"] == "eth0" and host["way"]["address"] == here


def test_a_healthy_way_has_nothing_to_be_found(pair):
    if pair is None:
        return
    host = pair.examined_until(lambda findings: not findings, "--label", "100mbit")
    assert host["findings"] == [] and host["way"]["segment_bytes"] == 1448 and host["way"]["mtu"] == 1500
    for rate in ("bytes_per_second", "bytes_per_second_back", "bytes_per_second_of_several"):
        assert 1e6 < host[rate] < 60e6, host


def forward(source, target, change):
    """Frames from `source` to `target`, each as `change` makes it of its head and what follows."""
    try:
        while True:
            head = read_exactly(source, HEADER.size + 4)
            fields = HEADER.unpack(head[: HEADER.size])
            rest = read_exactly(source, fields[8] + fields[9])
            target.sendall(change(fields, head, rest))
    except (ConnectionError, OSError):
        for end in (source, target):
            end.close()


def later(fields, head, rest):
    if fields[3] != REPLY_KIND:
        return head + rest
    mark, asked, came, left, wanted = ANSWER.unpack(rest[: ANSWER.size])
    nanoseconds = int(AHEAD * 1e9)
    return header(kind=REPLY_KIND, sequence=fields[5], body=ANSWER.pack(mark, asked, came + nanoseconds, left + nanoseconds, wanted) + rest[ANSWER.size :])


def test_a_clock_that_is_off_is_found(served):  # noqa: F811
    """Nobody may set a host's clock alone, so what stands between adds to what the doctor says."""
    host, port = served.rsplit(":", 1)
    with socket.create_server(("127.0.0.1", 0)) as between:

        def serve():
            while True:
                try:
                    asker = between.accept()[0]
                except OSError:
                    return
                doctor = socket.create_connection((host, int(port)))
                for way in ((asker, doctor, lambda _, head, rest: head + rest), (doctor, asker, later)):
                    threading.Thread(target=forward, args=way, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        done = run("doctor", f"127.0.0.1:{between.getsockname()[1]}", "--json")
        between.shutdown(socket.SHUT_RDWR)
    (found,) = json.loads(done.stdout)["hosts"]
    assert any(one["what"] == "has a clock that is 3.0 s ahead" and "chrony" in one["remedy"] for one in found["findings"]), found


def test_what_would_be_without_effect_is_refused():
    refused("doctor", "--label", "fast", "127.0.0.1", names=["--label 'fast' is not a rate"])
    refused("doctor", "--label", "1gbit", names=["--label is for the way to hosts"])
    refused("doctor", "--start", names=["--start is for the way to hosts"])
    refused("doctor", "--remote", "x", "127.0.0.1", names=["--remote is for --start"])
    refused("doctor", "--ssh", "ssh", "127.0.0.1", names=["--ssh is for --start"])
    refused("doctor", "--serve", "0", "--label", "1gbit", names=["--label is for the way to hosts"])
