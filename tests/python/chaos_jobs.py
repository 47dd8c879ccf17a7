"""The jobs of chaos.py: processes that nobody watches over but the test, each with a standard error of its own."""

import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import binding  # noqa: F401 (which says where this build's library is)
from chaos_hosts import PORT, key_in
from error_lines import ERROR, WAY_OUT
from jobs import PROGRAM, ROOT, environment, wait_until

WORKERS = 2
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
PYTHON = ("attach", "attach-collective", "group")

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
        first = os.environ.get("PACELINE_COORDINATOR", "").partition(":")[0]  # beyond one machine: where rank 0 is
        store = dist.TCPStore(first, 4200, 3, rank == 0) if first else dist.FileStore(f"{folder}/store", 3)
        dist.init_process_group("paceline", store=store, rank=rank, world_size=3, timeout=datetime.timedelta(hours=1))
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
        return [WAY_OUT.sub("", line.removeprefix(ERROR)) for line in self.text("err").splitlines() if line.startswith(ERROR)]


class Job:
    """Processes that nobody watches over but this, each with its own standard error."""

    def __init__(self, folder, mode, deadline, iterations, hosts=None, shape=None, more=()):
        """`hosts`: a network for each process (chaos_hosts.py). `shape`: how many workers and servers. `more`: options of the workers."""
        self.folder, self.mode, self.members, self.hosts = Path(folder), mode, [], hosts
        parts, options = MODES[mode]
        if shape is not None:
            parts = [("server", "server", shape[1]), ("worker", "worker", shape[0])]
        if mode in PYTHON:
            script = self.folder / "rank.py"
            script.write_text(RANK)
            for rank in range(len(parts)):
                self.start(f"worker {rank}", [sys.executable, script, folder, options, deadline], {"RANK": rank, **self.launched(rank, len(parts))})
            self.watch()
            return
        table = self.folder / "table.json"
        table.write_text(json.dumps({"layers": LAYERS}))
        count = {name: sum(part[2] for part in parts if part[1] == name) for name in ("worker", "server")}
        servers = count["worker"] if mode == "both" else count["server"]
        common = ("--deadline", f"{deadline}s", *(("--job-key-file", key_in(folder)) if hosts else ()))
        place = ("--bind", hosts.addresses[0], "--port", PORT) if hosts else ()
        coordinator = self.start("coordinator", [PROGRAM, "coordinator", "--events", "--workers", count["worker"], "--servers", servers, *place, *common])
        address = json.loads(wait_until("the coordinator listens", lambda: coordinator.text("out").partition("\n")[0]))["listening"]
        for role, name, number in parts:
            task = () if role == "server" else ("--model", f"replay:{table}", "--iterations", iterations, "--optimizer", "sgd", *options, *more)
            for rank in range(number):
                full_name = f"{name} {rank}" + (f" with server {rank}" if role == "both" else "")
                bind = ("--bind", hosts.addresses[len(self.members)]) if hosts else ()
                self.start(full_name, [PROGRAM, "train", "--join", address, "--role", role, "--rank", rank, *bind, *common, *task])
        self.watch()

    def start(self, name, words, more=()):
        env = {**environment("chaos"), "TMPDIR": str(self.folder), "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in dict(more).items()}}
        with open(self.folder / f"{name}.out", "w") as out, open(self.folder / f"{name}.err", "w") as err:
            process = subprocess.Popen([str(word) for word in (*(self.hosts.at(len(self.members)) if self.hosts else ()), *words)], stdout=out, stderr=err, env=env)
        process.folder = self.folder
        self.members.append(Member(name, process))
        return self.members[-1]

    def launched(self, rank, ranks):
        """The variables of a launcher: on one machine mpirun's, between hosts our own."""
        if self.hosts is None:
            return dict(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=ranks, OMPI_COMM_WORLD_LOCAL_SIZE=ranks, PMIX_NAMESPACE="x")
        where = f"{self.hosts.addresses[0]}:{PORT}"
        return dict(PACELINE_RANK=rank, PACELINE_WORKERS=ranks, PACELINE_COORDINATOR=where, PACELINE_JOB_KEY_FILE=key_in(self.folder))

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
