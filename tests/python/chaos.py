"""Many jobs, each with one misfortune, all drawn from a seed: who is killed or frozen is named by every survivor, who is only cut off, held up
or bothered by strangers changes no bit, and nothing is left behind.

    python tests/python/chaos.py --jobs 200 --seed 1            # all of it, a table at the end; exit code 1 if a promise was broken
    python tests/python/chaos.py --jobs 20 --only kill --modes bsp,collective

docs/results/2026-11-noticing.md keeps a run. How long it takes until the others know it is measured and printed, and not judged.
"""

import argparse
import ctypes
import getpass
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from jobs import PROGRAM, ROOT, environment, listening_ports, stat_of, wait_until

DEADLINE = 2  # seconds of silence, where silence is what is noticed
NEVER = 3600
SLACK = 20  # seconds; whoever still runs then hangs
WORKERS = 2
ITERATIONS = 60
LAYERS = [{"name": f"layer{i}", "parameters": 20_000, "forward_s": 0.001, "backward_s": 0.002} for i in range(5)]

SERVERS = [("server", "server", 2), ("worker", "worker", WORKERS)]
MODES = {  # which processes beside the coordinator (role, name, how many), options of those that train
    "bsp": (SERVERS, ()),
    "ssp": (SERVERS, ("--sync", "ssp", "--staleness", 2)),
    "asp": (SERVERS, ("--sync", "asp")),
    "elastic-bsp": (SERVERS, ("--sync", "elastic-bsp")),
    "both": ([("both", "worker", WORKERS)], ()),
    "collective": ([("worker", "worker", 3)], ("--collective", "loop3-overlap")),
    "attach": (["rank"] * 3, "servers"),
    "attach-collective": (["rank"] * 3, "collective"),
    "group": (["rank"] * 3, "group"),
}
ORDERED = ("bsp", "both", "collective")  # whose bits depend on nobody's pace
PYTHON = ("attach", "attach-collective", "group")
FAULTS = ("kill", "freeze", "pause", "cut", "strangers")

RANK = """
import os, sys, torch, torch.nn as nn, torch.nn.functional as F
torch.set_num_threads(1)
rank, folder, way, deadline = int(os.environ["RANK"]), *sys.argv[1:]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 10))
import paceline, paceline.torch as pt
try:
    if way == "group":
        import datetime, torch.distributed as dist
        dist.init_process_group("paceline", store=dist.FileStore(f"{folder}/store", 3), rank=rank, world_size=3, timeout=datetime.timedelta(seconds=float(deadline)))
        step = lambda: [dist.all_reduce(p.grad) for p in model.parameters()]
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        job = pt.attach(model, optimizer, settings={"deadline": f"{deadline}s", **({"collective": "loop3-overlap"} if way == "collective" else {})})
        step = optimizer.step
    for iteration in range(10**9):
        model.zero_grad()
        F.cross_entropy(model(torch.ones(8, 50)), torch.zeros(8, dtype=torch.long)).backward()
        step()
        if iteration == 5:
            print("trains", flush=True)
except paceline.PacelineError as error:
    import time
    print("at", time.monotonic(), flush=True)
    print("paceline: error:", error.message, file=sys.stderr)
    sys.exit(1)
"""


@dataclass
class Member:
    name: str
    process: subprocess.Popen
    ended: float = 0.0  # when

    def text(self, kind):
        return Path(self.process.folder, f"{self.name}.{kind}").read_text()

    def knew(self):
        """When it had ended; a rank's script: when it had the exception, for an interpreter that ends takes its time."""
        told = re.search(r"^at ([\d.]+)$", self.text("out"), re.MULTILINE)
        return float(told.group(1)) if told else self.ended

    def errors(self):
        return [line.removeprefix("paceline: error: ") for line in self.text("err").splitlines() if line.startswith("paceline: error: ")]


class Job:
    """Processes that nobody watches over but this, each with its own standard error."""

    def __init__(self, folder, mode, deadline, iterations):
        self.folder, self.mode, self.members = Path(folder), mode, []
        parts, options = MODES[mode]
        if mode in PYTHON:
            script = self.folder / "rank.py"
            script.write_text(RANK)
            for rank in range(len(parts)):
                more = dict(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=len(parts), OMPI_COMM_WORLD_LOCAL_SIZE=len(parts), PMIX_NAMESPACE="x", RANK=rank)
                self.start(f"worker {rank}", [sys.executable, script, folder, options, deadline], more)
            self.watch()
            return
        table = self.folder / "table.json"
        table.write_text(json.dumps({"layers": LAYERS}))
        count = {name: sum(part[2] for part in parts if part[1] == name) for name in ("worker", "server")}
        servers = count["worker"] if mode == "both" else count["server"]
        common = ("--deadline", f"{deadline}s")
        coordinator = self.start("coordinator", [PROGRAM, "coordinator", "--events", "--workers", count["worker"], "--servers", servers, *common])
        address = json.loads(wait_until("the coordinator listens", lambda: coordinator.text("out").partition("\n")[0]))["listening"]
        for role, name, number in parts:
            task = () if role == "server" else ("--model", f"replay:{table}", "--iterations", iterations, "--optimizer", "sgd", *options)
            for rank in range(number):
                full_name = f"{name} {rank}" + (f" with server {rank}" if role == "both" else "")
                self.start(full_name, [PROGRAM, "train", "--join", address, "--role", role, "--rank", rank, *common, *task])
        self.watch()

    def start(self, name, words, more=()):
        env = {**environment("chaos"), "TMPDIR": str(self.folder), "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in dict(more).items()}}
        with open(self.folder / f"{name}.out", "w") as out, open(self.folder / f"{name}.err", "w") as err:
            process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=err, env=env)
        process.folder = self.folder
        self.members.append(Member(name, process))
        return self.members[-1]

    def watch(self):
        def wait(member):
            member.process.wait()
            member.ended = time.monotonic()

        self.watchers = [threading.Thread(target=wait, args=(member,), daemon=True) for member in self.members]
        for watcher in self.watchers:
            watcher.start()

    def trains(self):
        if self.mode in PYTHON:
            return all("trains" in member.text("out") for member in self.members)
        return self.members[0].text("out").count('"progress"') >= 2 * WORKERS

    def all_ended(self, limit, but=None):
        end = time.monotonic() + limit
        for member, watcher in zip(self.members, self.watchers, strict=True):
            if member is not but:
                watcher.join(max(0.0, end - time.monotonic()))
        return [member.name for member, watcher in zip(self.members, self.watchers, strict=True) if member is not but and watcher.is_alive()]

    def hash(self):
        reports = [json.loads(line) for line in self.members[0].text("out").splitlines() if line.startswith('{"report"')]
        return reports[0]["report"]["parameters_hash"] if reports else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            member.process.kill()
            member.process.wait()


def connections(pid):
    """Descriptors of its connected TCP sockets."""
    open_ones = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "01"}
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
        if match and match.group(1) in open_ones:
            found.append(int(name))
    return found


def cut(pid, descriptor):
    """Ends a connection of another process as a network could: neither end has asked for it."""
    system = ctypes.CDLL(None, use_errno=True).syscall
    handle = system(434, pid, 0)  # pidfd_open
    mine = system(438, handle, descriptor, 0)  # pidfd_getfd
    if handle >= 0:
        os.close(handle)
    if mine >= 0:
        with socket.socket(fileno=mine) as connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has ended meanwhile


TALK = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", b"\x16\x03\x01\x02\x00" + bytes(200), b"\xff" * 5000, b"SSH-2.0-x\r\n", b"PCLN" + bytes(60))


def bother(draw, ports):
    talk = draw.choice(TALK)
    try:
        with socket.create_connection(("127.0.0.1", draw.choice(ports)), timeout=5) as stranger:
            stranger.sendall(talk)
            time.sleep(draw.uniform(0, 0.02))
    except OSError:
        return  # sent away before it had said all


@dataclass
class Outcome:
    jobs: int = 0
    broken: list = field(default_factory=list)  # sentences
    seconds: list = field(default_factory=list)  # until each survivor had ended, from the moment of the kill


def lose(job, victim, number):
    """Sentences about promises that were broken, and how long each survivor went on."""
    began = time.monotonic()
    victim.process.send_signal(number)
    limit = SLACK if number == signal.SIGKILL else DEADLINE + 1 + SLACK
    hang = job.all_ended(limit, but=victim)
    if hang:
        return [f"{name} still runs {limit} s after {victim.name} was lost" for name in hang], []
    if number == signal.SIGSTOP:
        victim.process.send_signal(signal.SIGCONT)  # it is told that it is no member any more, and ends
        if job.all_ended(SLACK):
            return [f"{victim.name} was frozen, woke up, and did not end"], []
    survivors = [member for member in job.members if member is not victim]
    broken, said = [], set()
    for member in survivors:
        errors = member.errors()
        names = [victim.name] + (["coordinator"] if job.mode in PYTHON and victim.name == "worker 0" else [])
        if job.mode in PYTHON:  # a rank may be both
            names.append(f"{victim.name} with server {victim.name.split()[1]}")
        if member.process.returncode != 1 or len(errors) != 1:
            broken.append(f"{member.name} ended with {member.process.returncode} and said {errors} of {victim.name}")
        elif not any(errors[0].startswith(f"{name} (") for name in names):
            broken.append(f"{victim.name} was lost, and {member.name} said: {errors[0]}")
        else:
            said.add(re.sub(r"\d+ ms|127\.0\.0\.1:\d+", "_", errors[0]))
    if len(said) > 1 and not broken:
        broken.append(f"{victim.name} was lost, in different words: {sorted(said)}")
    return broken, [member.knew() - began for member in survivors]


def endure(draw, job, fault, bits):
    """A misfortune that a job survives."""
    began = time.monotonic()
    if fault == "pause":
        victim = draw.choice(job.members)
        victim.process.send_signal(signal.SIGSTOP)
        time.sleep(draw.uniform(0.05, 0.4) * DEADLINE)
        victim.process.send_signal(signal.SIGCONT)
    ports = [port for member in job.members for port in listening_ports(member.process.pid)] if fault == "strangers" else []
    while fault in ("cut", "strangers") and all(stat_of(member.process.pid) for member in job.members) and time.monotonic() - began < 1:
        if fault == "strangers":
            bother(draw, ports)
            continue
        victim = draw.choice(job.members)
        try:
            found = connections(victim.process.pid)
        except OSError:
            break
        if found:
            cut(victim.process.pid, draw.choice(found))
        time.sleep(draw.uniform(0, 0.1))
    hang = job.all_ended(SLACK + 10)
    if hang:
        return [f"{name} hangs after {fault}" for name in hang]
    failed = [f"{member.name} ended with {member.process.returncode} after {fault}: {member.errors()}" for member in job.members if member.process.returncode != 0]
    return failed or ([] if bits is None or job.hash() == bits else [f"other bits after {fault}"])


def left_behind(folder, mode):
    known = {"table.json", "rank.py", "store", "store.lock", f"torchinductor_{getpass.getuser()}"}  # the last is PyTorch's
    return [f"{mode}: {file.name} was left behind" for file in Path(folder).iterdir() if file.suffix not in (".out", ".err") and file.name not in known]


def run_one(seed, mode, fault, bits):
    draw = random.Random(seed)
    lost = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}.get(fault)
    with tempfile.TemporaryDirectory() as folder, Job(folder, mode, NEVER if fault == "kill" else DEADLINE, 10**6 if lost else ITERATIONS) as job:
        wait_until("the job trains", lambda: job.trains() or job.members[0].ended)
        time.sleep(draw.uniform(0, 0.3))
        if lost:
            broken, seconds = lose(job, draw.choice(job.members), lost)
        else:
            broken, seconds = endure(draw, job, fault, bits.get(mode)), []
        return broken + left_behind(folder, mode), seconds


def bits_of(mode):
    """What an undisturbed job ends with."""
    with tempfile.TemporaryDirectory() as folder, Job(folder, mode, DEADLINE, ITERATIONS) as job:
        assert not job.all_ended(120) and job.hash(), [member.errors() for member in job.members]
        return job.hash()


def run(jobs, seed, faults=FAULTS, modes=tuple(MODES), show=lambda text: None):
    """{(mode, fault): Outcome} of so many jobs."""
    cells = [(mode, fault) for mode in modes for fault in faults if fault in ("kill", "freeze") or mode not in PYTHON]
    bits = {mode: bits_of(mode) for mode in ORDERED if (mode, "cut") in cells or (mode, "pause") in cells or (mode, "strangers") in cells}
    outcomes = defaultdict(Outcome)
    for number in range(jobs):
        mode, fault = cells[number % len(cells)]
        broken, seconds = run_one(f"{seed}/{number}", mode, fault, bits)
        outcome = outcomes[mode, fault]
        outcome.jobs += 1
        outcome.seconds += seconds
        outcome.broken += [f"seed {seed}, job {number}, {mode}: {sentence}" for sentence in broken]
        show(f"{number + 1}/{jobs} {mode} {fault}" + "".join(f"\n  {sentence}" for sentence in broken))
    return outcomes


def table(outcomes):
    lines = ["| mode | misfortune | jobs | promises broken | until a survivor knew it: median | longest |", "|---|---|---|---|---|---|"]
    for (mode, fault), outcome in outcomes.items():
        times = [f"{value:.3f} s" for value in (statistics.median(outcome.seconds), max(outcome.seconds))] if outcome.seconds else ["", ""]
        lines.append(f"| {mode} | {fault} | {outcome.jobs} | {len(outcome.broken)} | {times[0]} | {times[1]} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default=",".join(FAULTS), help="misfortunes, of %(default)s")
    parser.add_argument("--modes", default=",".join(MODES), help="of %(default)s")
    options = parser.parse_args()
    outcomes = run(options.jobs, options.seed, options.only.split(","), options.modes.split(","), lambda text: print(text, flush=True))
    print(table(outcomes))
    broken = [sentence for outcome in outcomes.values() for sentence in outcome.broken]
    print(f"{options.jobs} jobs, {len(broken)} promises broken", *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
