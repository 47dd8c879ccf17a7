"""`paceline doctor` and `paceline bench`, asked from outside.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from protocol import HEARTBEAT_KIND, header

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=ROOT)


def refused(*arguments, names=()):
    done = run(*arguments)
    assert done.returncode == 2 and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1, done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)


@pytest.fixture
def served():
    process = subprocess.Popen([PROGRAM, "doctor", "--serve", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())["listening"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


def test_it_knows_this_machine():
    report = json.loads(run("doctor", "--json").stdout)
    assert report["program"]["version"] in run("--version").stdout
    assert report["program"]["wire_protocol"] == "2.0"
    assert report["machine"]["cores"] == os.cpu_count()
    assert report["machine"]["usable_cores"] == len(os.sched_getaffinity(0))
    total = int(next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")).split()[1]) * 1024
    assert report["machine"]["memory_bytes"] == total
    assert 0 < report["machine"]["available_bytes"] <= total
    addresses = {one["address"] for one in report["interfaces"]}
    assert "127.0.0.1" in addresses
    assert {one["name"] for one in report["interfaces"]} <= {name for _, name in socket.if_nameindex()}
    assert report["loopback"]["reachable"] and report["loopback"]["bytes_per_second"] > 1e6
    assert 0 < report["loopback"]["round_trip_seconds"]["min"] <= report["loopback"]["round_trip_seconds"]["median"] < 1
    assert isinstance(report["lab"]["namespaces"], bool) and report["lab"]["reason"]
    assert report["hosts"] == []


def question(wanted):
    """As apps/doctor/echo.cc reads it."""
    return header(kind=HEARTBEAT_KIND, body=struct.pack("<IqqqqI", 0x52544344, 0, 0, 0, wanted, 0))


def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) * 1024


def test_who_asks_without_reading_gets_no_memory_of_a_doctor_and_keeps_nobody_else_away():
    with subprocess.Popen([PROGRAM, "doctor", "--serve", "0", "--json"], stdout=subprocess.PIPE, text=True) as doctor:
        try:
            address = json.loads(doctor.stdout.readline())["listening"]
            host, port = address.rsplit(":", 1)
            assert run("doctor", address).returncode == 0
            before = peak(doctor.pid)
            crowd = [socket.create_connection((host, port)) for _ in range(100)]
            for i, asker in enumerate(crowd):
                try:
                    asker.sendall(question(1 << 26) * (1 if i % 2 else 1000))
                except ConnectionError:
                    pass  # it does not wait for answers, and was sent away
            assert run("doctor", address).returncode == 0
            assert peak(doctor.pid) - before < 24 << 20
            for asker in crowd:
                asker.close()
        finally:
            doctor.send_signal(signal.SIGTERM)
            assert doctor.wait(timeout=20) == 0


def test_it_measures_the_way_to_a_host(served):
    done = run("doctor", served, "--json")
    assert done.returncode == 0, done.stderr
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["host"] == served and host["reachable"] and host["reason"] is None
    assert host["version"] in run("--version").stdout
    # The same machine has the same clock.
    assert abs(host["clock_offset_seconds"]) <= host["clock_offset_error_seconds"] + 1e-6
    assert host["clock_offset_error_seconds"] == pytest.approx(host["round_trip_seconds"]["min"] / 2)
    assert host["bytes_per_second"] > 1e6
    text = run("doctor", served)
    assert text.returncode == 0 and served in text.stdout and "round trip" in text.stdout


def test_a_host_that_is_not_there_is_said_and_fails():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        done = run("doctor", address, "--json")
    assert done.returncode == 1
    (host,) = json.loads(done.stdout)["hosts"]
    assert not host["reachable"] and address in host["reason"] and host["round_trip_seconds"] is None


def test_something_that_is_no_doctor_is_told_apart(served):
    # A coordinator hangs up on a doctor, and a doctor on a worker.
    coordinator = subprocess.Popen([PROGRAM, "coordinator", "--events"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = json.loads(coordinator.stdout.readline())["listening"]
        done = run("doctor", address, "--json")
    finally:
        coordinator.kill()
        coordinator.wait()
    (host,) = json.loads(done.stdout)["hosts"]
    assert done.returncode == 1 and not host["reachable"] and "no doctor" in host["reason"], host
    with socket.create_connection(served.rsplit(":", 1)) as stranger:
        stranger.settimeout(20)
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + b" " * 64)
        try:
            assert stranger.recv(1) == b""
        except ConnectionResetError:
            pass
    assert run("doctor", served).returncode == 0  # it still answers


def test_wrong_requests():
    refused("doctor", "", names=["no host"])
    refused("doctor", "a:b", names=["a:b", "HOST:PORT"])
    refused("doctor", "a:0", names=["a:0"])
    refused("doctor", "--serve", "70000")
    refused("doctor", "--serve", "0", "somewhere", names=["--serve", "somewhere"])
    refused("bench", names=["transport, server"])
    refused("bench", "serve", names=["'server'"])


def check_spread(spread):
    assert 0 < spread["lowest"] <= spread["median"] <= spread["highest"]


def test_a_quick_benchmark_of_decisions_reports_nanoseconds():
    done = run("bench", "decisions", "--quick", "--json")
    if done.returncode == 2:
        assert "PACELINE_BENCH=ON" in done.stderr
        return
    report = json.loads(done.stdout)
    assert report["units"] == 1_000_000 and report["layers"] == 1000
    assert set(report["nanoseconds"]) == {"ready", "leave", "arrived", "work"}
    assert set(report["plan_nanoseconds"]) == {"exact", "ibatch"} and report["plans"] == 20
    for spread in [*report["nanoseconds"].values(), *report["plan_nanoseconds"].values()]:
        check_spread(spread)


def test_a_quick_benchmark_of_preemption_tells_which_windows_keep_the_limit():
    done = run("bench", "preemption", "--quick", "--json")
    if done.returncode == 2:
        lab = json.loads(run("doctor", "--json").stdout)["lab"]
        assert "PACELINE_BENCH=ON" in done.stderr or not (lab["namespaces"] and lab["ip"] and lab["tc"]), done.stderr
        return
    assert done.returncode == 0, done.stderr
    for link in json.loads(done.stdout)["links"]:
        assert link["limit_seconds"] == pytest.approx(2.4 * link["own_seconds"])
        by_window = {one["window"]: one for one in link["windows"]}
        assert by_window["auto"]["window_bytes"] >= 131_072 and by_window["none"]["window_bytes"] == 2**40
        # Without a window the urgent slice is behind everything that was ready before it.
        assert by_window["none"]["overtaken_by"] > by_window["131.1 kB"]["overtaken_by"]
        for one in link["windows"]:
            check_spread(one["urgent_seconds"])


@pytest.mark.parametrize("name", ["transport", "server"])
def test_a_quick_benchmark_reports_spreads_and_ratios(name):
    done = run("bench", name, "--quick", "--json")
    if done.returncode == 2:
        assert "PACELINE_BENCH=ON" in done.stderr  # a build without benchmarks says so
        return
    assert done.returncode == 0 and done.stderr == "", done.stderr
    report = json.loads(done.stdout)
    assert report["runs"] >= 3 and report["machine"]["cores"] >= 1
    if name == "transport":
        for contestant in ("plain", "plain_checked", "tcp"):
            for spread in report[contestant].values():
                check_spread(spread)
        assert report["stream_of_plain_checked"] > 0 and report["round_trip_of_plain_checked"] > 0
        lab = json.loads(run("doctor", "--json").stdout)["lab"]
        assert (report["shaped"] is not None) == (lab["namespaces"] and lab["ip"] is not None and lab["tc"] is not None)
        if report["shaped"]:
            check_spread(report["shaped"]["tcp_of_goodput"])
            # The link is the limit, and what is over 1 in a short run are the buckets' first bursts.
            assert report["shaped"]["goodput"]["median"] < 1.2 * report["shaped"]["link_bytes_per_second"] == 1.2 * 125e6
        assert (report["iperf3_bytes_per_second"] is not None) == os.access("/usr/bin/iperf3", os.X_OK)
    else:
        for contestant in ("copy", "sum", "update_sgd", "update_momentum"):
            check_spread(report[contestant])
        assert report["sum_of_copy"] > 0


def test_a_quick_benchmark_of_security_tells_what_encryption_costs():
    done = run("bench", "security", "--quick", "--json")
    if done.returncode == 2:
        assert "PACELINE_BENCH=ON" in done.stderr
        return
    report = json.loads(done.stdout)
    assert set(report["plain_tls"]) == {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"} and report["workers"] == 64
    for stream in [*report["plain_tls"].values(), *(report[name] for name in ("clear", "key", "clear_data", "clear_both_ways", "key_both_ways"))]:
        check_spread(stream["bytes_per_second"])
        check_spread(stream["cpu_seconds_per_gb"])
    for what in ("connect", "join"):
        check_spread(report[f"key_{what}_seconds"])
