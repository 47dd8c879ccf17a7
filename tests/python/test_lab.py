"""`paceline lab`: hosts with shaped links. Where this machine gives no right to make them, the tests see that it says so."""

import contextlib
import functools
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from jobs import PROGRAM, Process, wait_until

CGROUPS = Path("/sys/fs/cgroup/cpu") if Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists() else Path("/sys/fs/cgroup")
# Sends `bytes` to the next host and receives as much from the one before: python3 -c RING BYTES ADDRESS NEXT_ADDRESS
RING = """
import socket, sys, threading, time
count, own, to = int(sys.argv[1]), sys.argv[2], sys.argv[3]
listener = socket.create_server((own, 4170))
def receive():
    connection, left = listener.accept()[0], count
    while left:
        left -= len(connection.recv(1 << 20))
receiving = threading.Thread(target=receive)
receiving.start()
while True:
    try:
        sender = socket.create_connection((to, 4170))
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
sender.sendall(bytes(count))
receiving.join()
"""


@functools.lru_cache(maxsize=None)
def rights():
    """Whether a lab is possible here, as `paceline doctor` says."""
    lab = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, timeout=60).stdout)["lab"]
    return lab["namespaces"] and lab["ip"] is not None and lab["tc"] is not None


def lab(*arguments, code=0):
    """A lab that has to end with `code`: (standard output, standard error). Without rights: it has to be refused, and the answer is None."""
    with Process("lab", *arguments) as process:
        ended = process.finish()
        if not rights():
            assert ended == 2 and ("CAP_" in process.the_error() or "iproute2" in process.the_error()), (ended, process.err)
            return None
        assert ended == code, (ended, process.out, process.err)
        return process.out, process.err


def test_what_two_hosts_send_is_shaped_and_counted_and_nothing_else_is_there():
    # Slow enough that the shaper's burst makes up for the time in which a busy machine lets nobody run.
    count = 1_500_000
    done = lab("--hosts", 2, "--rate", "40mbit", "--json", "--each", f"python3 -c '{RING}' {count} {{address}} {{address:1}}",
               "--each", f"python3 -c '{RING}' {count} {{address}} {{address:0}}; ip -o link; cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l")  # fmt: skip
    if done is None:
        return
    report, lines = json.loads(done[0]), done[1]
    # 1448 bytes of data in each 1514 of a frame.
    assert report["goodput_bytes_per_second"] == pytest.approx(5e6 * 1448 / 1514, rel=0.04)
    for host in report["hosts"]:
        assert host["exit_code"] == 0 and host["goodput_bytes_per_second"] == report["goodput_bytes_per_second"]
        # The data, the headers around it (a large packet is counted before it is cut up, with one), acknowledgements of what came, and what a
        # full queue lost and was sent again.
        assert count < host["bytes_sent"] < count * 1.25, host
    for host, other in ((0, 1), (1, 0)):
        assert report["hosts"][host]["bytes_sent"] == pytest.approx(report["hosts"][other]["bytes_received"], rel=0.01)
    # 1.5 MB at 5 MB/s, of which a burst of 96 KiB may leave at once.
    assert report["hosts"][0]["seconds"] > (count - 2 * 98_304) / 5e6
    interfaces = re.findall(r"^host 1 \| \d+: (\w+)", lines, re.MULTILINE)
    assert sorted(interfaces) == ["eth0", "lo"], lines
    processes = int(lines.strip().splitlines()[-1].split("|")[1])
    assert processes < 10, lines  # its own, not the machine's


def test_every_one_of_many_hosts_is_counted():
    """Also those whose counters are not on the first page that the kernel gives."""
    done = lab("--hosts", 31, "--measure", "0s", "--json", "--", "bash", "-c", ": < /dev/tcp/{address:0}/9 || true")  # where nobody listens
    if done is None:
        return
    hosts = json.loads(done[0])["hosts"]
    assert len(hosts) == 31 and all(host["bytes_sent"] > 0 and host["bytes_received"] > 0 for host in hosts), hosts


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups")
def test_processors_of_each_host():
    busy = "python3 -c 'import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass'"
    done = lab("--hosts", 3, "--measure", "0s", "--cpu", "0,0.1,0.3", "--json", "--", "sh", "-c", busy)
    if done is None:
        return
    # No more than its share, but for one period of 10 ms more, and what starting takes.
    for host, share in ((1, 0.1), (2, 0.3)):
        found = json.loads(done[0])["hosts"][host]
        assert found["cpu_seconds"] < share * found["seconds"] * 1.2 + 0.03, found


def test_uneven_links_a_competitor_and_the_exit_code_of_the_first_that_fails():
    done = lab("--hosts", 3, "--rate", "40mbit,40mbit,20mbit", "--measure", "300ms", "--competing", "0:2:8mbit",
               "--each", "sleep 0.4; exit 5", "--each", "exit 3", "--each", "echo to standard output; echo to standard error >&2; sleep 0.5", code=3)  # fmt: skip
    if done is None:
        return
    out, err = done
    assert "host 2 | to standard output" in out and "host 2 | to standard error" in err
    assert "paceline: error: host 1: " in err and "code 3" in err
    done = lab("--hosts", 3, "--rate", "40mbit,40mbit,20mbit", "--measure", "300ms", "--competing", "0:2:8mbit", "--json", "--", "sleep", "0.6")
    report = json.loads(done[0])
    rates = [host["goodput_bytes_per_second"] for host in report["hosts"]]
    assert rates[0] == rates[1] == pytest.approx(5e6 * 0.956, rel=0.06) and rates[2] == pytest.approx(2.5e6 * 0.956, rel=0.08)
    assert report["competing"][0]["bytes_per_second"] == pytest.approx(1e6, rel=0.35)
    assert report["hosts"][2]["bytes_received"] > 300_000 > report["hosts"][1]["bytes_received"]


def test_a_hosts_script_prints_at_once_and_takes_its_share_of_the_processors(tmp_path, monkeypatch):
    for name in ("PYTHONUNBUFFERED", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    words = ("--hosts", 2, "--measure", "0s", "--", "sh", "-c", "echo threads=$OMP_NUM_THREADS unbuffered=$PYTHONUNBUFFERED")
    done = lab(*words)
    if done is None:
        return
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert all(f"host {host} | threads={share} unbuffered=1" in done[0] for host in range(2)), done
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert "host 0 | threads=7" in lab(*words)[0]


def test_a_program_that_is_not_there_is_named():
    done = lab("--hosts", 2, "--measure", "0s", "--", "nosuchprogram", code=127)
    if done is not None:
        assert "paceline: error: lab: cannot start nosuchprogram: No such file or directory" in done[1]


@contextlib.contextmanager
def groups_of_ones_own():
    """A folder for control groups, and the words before a lab that make it take this one for the machine's: other labs do not see into it."""
    folder = CGROUPS / f"paceline-test-{os.getpid()}"
    if (CGROUPS / "cgroup.subtree_control").exists():
        (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    folder.mkdir()
    try:
        yield folder, ("unshare", "--mount", "sh", "-c", f'mount --bind {folder} {CGROUPS} && exec "$@"', "sh")
    finally:
        folder.rmdir()


def networks():
    found = set()
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(process))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_lab_that_is_interrupted_or_killed(number):
    command = ["lab", "--hosts", 2, "--rate", "100mbit", "--measure", "0s"]
    interfaces = socket.if_nameindex()
    with Process(*command, "--", "sh", "-c", "sleep 1000 & setsid sleep 1000 & echo here; exec sleep 1000") as first:
        if not rights():
            assert first.finish() == 2 and "CAP_" in first.the_error()
            return
        wait_until("both hosts have begun", lambda: len(first.family()) >= 9)
        mine = {os.readlink(f"/proc/{pid}/ns/net") for pid in first.family()}
        assert len(mine) == 3 and socket.if_nameindex() == interfaces  # two hosts and here
        # Another one beside it has the same addresses and knows nothing of it.
        done = lab("--hosts", 2, "--rate", "100mbit", "--measure", "0s", "--", "sh", "-c", "ip -o -4 address show dev eth0")
        assert "10.77.0.2/24" in done[0]
        first.signal(number)
        code = first.finish()  # which sees that no process is left
        assert code == (-9 if number == signal.SIGKILL else 130), first.err
        assert not (mine - {os.readlink("/proc/self/ns/net")}) & networks()


def test_the_control_groups_of_a_killed_lab_are_removed_by_the_next_one():
    if os.geteuid() != 0 or not rights():  # only root may make control groups
        return
    with groups_of_ones_own() as (groups, own):
        with Process("lab", "--hosts", 2, "--measure", "0s", "--cpu", 0.5, "--", "sleep", "1000", prefix=own) as first:
            wait_until("both hosts have begun", lambda: len(first.family()) >= 5)
            first.signal(signal.SIGKILL)
            assert first.finish() == -9, first.err
        assert len(list(groups.glob(f"paceline-lab-{first.pid}-*"))) == 2
        removed = []

        def next_one_removes_them():
            with Process("lab", "--hosts", 1, "--measure", "0s", prefix=own) as second:
                assert second.finish() == 0, second.err
            removed.extend(map(int, re.findall(r"removed (\d+) control group", second.err)))
            return not list(groups.glob("paceline-lab-*"))

        wait_until("both are removed", next_one_removes_them)  # a kernel may hold a group of processes that have just ended
        assert sum(removed) == 2


def test_without_rights_it_says_which_is_missing():
    # A process without capabilities in a user namespace that allows no further ones.
    bare = ["unshare", "--user", "--map-root-user", "sh", "-c",
            'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all --inh-caps -all "$@"', "sh"]  # fmt: skip
    if subprocess.run([*bare, "true"], capture_output=True).returncode != 0:
        assert not rights() or os.geteuid() == 0
        return
    with Process("lab", "--hosts", 2, prefix=bare) as process:
        assert process.finish() == 2
        assert "CAP_SYS_ADMIN and CAP_NET_ADMIN" in process.the_error() and "root" in process.the_error()


@pytest.mark.parametrize(
    "arguments, names",
    [
        (["--hosts", 0], ["--hosts", "1 to 250"]),
        (["--hosts", 2, "--rate", "1gbit,1gbit,1gbit"], ["3 rates for 2 hosts"]),
        (["--rate", "fast"], ["--rate", "fast"]),
        (["--rate", "1kbit"], ["1mbit"]),
        (["--queue", "0ms"], ["1ms"]),
        (["--competing", "0:9"], ["--competing", "0:9"]),
        (["--competing", "1:1"], ["FROM:TO"]),
        (["--hosts", 2, "--each", "true"], ["--each", "2 hosts"]),
        (["--hosts", 2, "--", "echo", "{address:2}"], ["{address:2}", "{address:1}"]),
        (["--cpu", "-1"], ["--cpu"]),
        (["--hosts", 2, "--cpu", "1,1,1"], ["--cpu names 3 limits for 2 hosts"]),
    ],
)
def test_wrong_requests(arguments, names):
    with Process("lab", *arguments) as process:
        assert process.finish() == 2 and process.out == ""
        for name in names:
            assert name in process.the_error()


@pytest.mark.parametrize("disposition", (signal.SIG_DFL, signal.SIG_IGN), ids=("foreground", "background"))
def test_a_command_that_fails_ends_the_others_where_that_is_asked_for(disposition):
    """At once, when the others have hardly begun, also by a lab that a shell has started in the background, where SIGINT is ignored.

    A shell that is about to become another program (`sleep 1000` alone) may lose the signal; one that waits does not."""
    for _ in range(3):
        before = signal.signal(signal.SIGINT, disposition)  # which the lab inherits
        try:
            done = lab("--hosts", 8, "--measure", "0s", "--end-with-first", "--json", "--each", "exit 7", *7 * ("--each", "sleep 1000 & wait"), code=7)
        finally:
            signal.signal(signal.SIGINT, before)
        if done is None:
            return
        hosts = json.loads(done[0])["hosts"]
        assert [host["exit_code"] for host in hosts] == [7, *7 * [130]] and "host 0: sh exited with code 7" in done[1], done


@pytest.mark.parametrize("words, apart", ((["train", "--help"], True), (["train", "--join", "{address:0}:1", "--help"], False)))
def test_whole_jobs_on_every_host_are_pointed_out(words, apart):
    answer = lab("--hosts", "2", "--measure", "0s", "--", PROGRAM, *words)
    if answer is not None:
        assert (answer[1].count("each host trains a job of its own") == 1) == apart, answer
