"""Jobs as a user starts them, for the tests of `paceline train`: real processes, nothing of the program's inside.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline. PACELINE_SLACK stretches what the
machine itself may take beyond what the program promises (seconds, default 6): it is not the program's fault when the machine is busy.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from error_lines import ERROR, sentence_and_code
from sharing import turn

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))
# The deadline of silence of jobs that lose a process: a loaded machine may leave a healthy one without a turn for a second.
DEADLINE = 2.0
SLACK = float(os.environ.get("PACELINE_SLACK", "6"))
PATIENCE = 120  # seconds until a test says that something hangs
MARK = "PACELINE_TEST_MARK"  # an environment variable that children inherit, by which they are found


def environment(mark):
    foreign = ("SLURM_", "OMPI_", "PMIX_", "PACELINE_COORDINATOR", "PACELINE_JOB_KEY", "RANK", "WORLD_SIZE", "MASTER_", "LOCAL_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**clean, MARK: mark, "PACELINE_DATA": str(ROOT / ".venv/data")}


def wait_until(what, condition, seconds=PATIENCE):
    """Returns the condition's first true value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"after {seconds:.1f} s still not: {what}"
        time.sleep(0.01)


def stat_of(pid):
    """(state, parent) or None."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1])


def words_of(pid):
    """Its command line, ended by an empty word; only that when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return [""]


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_running(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


class Process:
    """One process and what it starts."""

    def __init__(self, *arguments, prefix=(), cwd=None):
        self.mark = uuid.uuid4().hex
        self.arguments = [str(argument) for argument in arguments]
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*prefix, PROGRAM, *self.arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(self.mark), cwd=cwd
        )
        self.out = self.err = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()
        if self.out is None:
            self.process.communicate()

    @property
    def pid(self):
        return self.process.pid

    def family(self):
        """Every running process that comes from this one, also when its parent is gone."""
        found = []
        needle = f"{MARK}={self.mark}".encode()
        for pid in all_pids():
            try:
                if needle in Path(f"/proc/{pid}/environ").read_bytes() and is_running(pid):
                    found.append(pid)
            except OSError:
                pass
        return found

    def signal(self, number):
        os.kill(self.pid, number)

    def finish(self, seconds=PATIENCE):
        """Waits for the end; returns the exit code. Nothing may be left running then."""
        try:
            self.out, self.err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:.1f} s: {' '.join(self.arguments)}; processes {self.describe_family()}") from None
        wait_until("no process is left", lambda: not self.family(), 2 + SLACK)
        return self.process.returncode

    def describe_family(self):
        lines = []
        for pid in self.family():
            try:
                lines.append(f"{pid} {stat_of(pid)} {Path(f'/proc/{pid}/cmdline').read_bytes()[:120]!r}")
            except OSError:
                pass
        return lines

    def errors(self):
        return [line for line in self.err.splitlines() if line.startswith(ERROR)]

    def the_error(self):
        """The sentence of the one line of error that there is to be."""
        assert len(self.errors()) == 1, (self.process.returncode, self.err)
        return sentence_and_code(self.errors()[0])[0]

    def the_code(self):
        self.the_error()
        return sentence_and_code(self.errors()[0])[1]

    def report(self):
        return json.loads(self.out)


class Job(Process):
    """`paceline train` with --metrics, to see how far it is."""

    def __init__(self, folder, *arguments, **more):
        self.metrics_file = Path(folder) / f"metrics-{uuid.uuid4().hex}.jsonl"
        super().__init__("train", "--json", "--metrics", self.metrics_file, *arguments, **more)

    def iterations(self):
        try:
            return self.metrics_file.read_bytes().count(b"\n")
        except OSError:
            return 0

    def wait_for_iterations(self, count):
        def there():
            assert self.process.poll() is None, ("it ended early", self.process.communicate())
            return self.iterations() >= count

        wait_until(f"{count} iterations", there)

    def children(self):
        """{"coordinator": pid, "worker 0": pid, "server 0": pid, ...}, found through /proc by their parent."""
        found = {}
        for pid in all_pids():
            stat = stat_of(pid)
            if stat is None or stat[1] != self.pid or stat[0] == "Z":
                continue
            words = words_of(pid)
            if words[:-1] == [PROGRAM, *self.arguments] or words == [""]:
                continue  # it has not become what it is going to be, or has just ended
            if words[0].endswith("paceline-trainer") and words[1].startswith("["):
                continue  # it is about to fork the workers
            try:
                if words[0].endswith("paceline-trainer"):
                    found[f"worker {json.loads(words[1])['rank']}"] = pid
                elif words[1] == "worker":
                    found[f"worker {json.loads(words[2])['rank']}"] = pid
                elif words[1] == "coordinator":
                    found["coordinator"] = pid
                else:
                    found[f"server {words[words.index('--rank') + 1]}"] = pid
            except json.JSONDecodeError:
                continue  # a forked worker is just writing what it is
        return found


# Few images to test with, for every job ends with evaluating them.
DIGITS = ("--model", "lenet", "--dataset", "synthetic:1x28x28,samples=2000,test=50", "--mini-batch")
LENET = (*DIGITS, 16)
BRIEF = (*DIGITS, 4)  # for jobs of which only the end counts
MNIST = ("--model", "lenet", "--dataset", "mnist-5k", "--mini-batch")


def full(*values):
    """One set of parameters that only PACELINE_FULL=1 tries."""
    return pytest.param(*values, marks=pytest.mark.full)


def train(*arguments, **more):
    """A whole job that has to end well; its report."""
    with Process("train", "--json", *arguments, **more) as job:
        code = job.finish()
        assert code == 0, (code, job.err)
        return job.report()


references = None  # the folder of their reports, set by conftest.py


@functools.lru_cache(maxsize=None)
def reference(*arguments):
    """The report of `--reference`, which the processes that run tests side by side ask for once together."""
    references.mkdir(exist_ok=True)
    file = references / hashlib.sha256(repr(arguments).encode()).hexdigest()
    with turn(file):
        if not file.exists():
            file.with_suffix(".new").write_text(json.dumps(train("--reference", *arguments)))
            file.with_suffix(".new").rename(file)
    return json.loads(file.read_text())


def listening_ports(pid):
    """The TCP ports that a process listens on."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        except OSError:
            continue
        if match:
            inodes.add(match.group(1))
    ports = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports


class Coordinator(Process):
    """`paceline coordinator --events`."""

    def __init__(self, *arguments, **more):
        super().__init__("coordinator", "--events", *arguments, **more)
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.address = json.loads(line)["listening"]

    def address_pair(self):
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def report(self):
        reports = [json.loads(line)["report"] for line in self.out.splitlines() if line.startswith('{"report"')]
        assert len(reports) == 1, self.out
        return reports[0]


def keep_port(port=0):
    """A socket that has this port, or one of the kernel's choice, and does not listen: until it is closed the kernel gives the port to
    nobody else, and whoever asks for it by number (with SO_REUSEADDR, as Paceline and torchrun do) may listen on it."""
    kept = socket.socket()
    try:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", port))
    except BaseException:
        kept.close()
        raise
    return kept


@contextlib.contextmanager
def two_ports_in_a_row():
    """The first of two neighbours, kept both."""
    while True:
        with keep_port() as first:
            port = first.getsockname()[1]
            try:
                second = keep_port(port + 1)
            except (OSError, OverflowError):
                continue  # somebody has it
            with second:
                yield port
                return
