"""Hosts of a lab for the jobs of chaos.py: each process in a network of its own, and links that lose what is sent over them."""

import re
import subprocess
import uuid
from pathlib import Path

from jobs import PROGRAM, Process, all_pids, train, wait_until, words_of

PORT = 4100  # of the coordinator, on host 0
SLACK = 20  # seconds; whoever still runs then hangs
ITERATIONS = 30
RATE = "50mbit"


class Hosts:
    """`count` hosts at a switch. `competing`: another stream, from the last host to the one before it, takes a part of their links."""

    def __init__(self, count, rate="1gbit", competing=False):
        token = uuid.uuid4().hex
        each = [word for host in range(count) for word in ("--each", f"exec sh -c 'sleep 86400; :' {token} {host} {{address}}")]
        cross = ("--competing", f"{count - 1}:{count - 2}:20mbit") if competing else ()
        self.lab = Process("lab", "--hosts", count, "--rate", rate, "--measure", "0s", *cross, *each)
        self.pids, self.addresses = [0] * count, [""] * count

        def complete():
            assert self.lab.process.poll() is None, self.lab.process.communicate()
            for pid in all_pids():
                words = words_of(pid)
                if token in words[1:-2] and words[0] == "sh":
                    host, address = words[words.index(token) + 1 : words.index(token) + 3]
                    self.pids[int(host)], self.addresses[int(host)] = pid, address
            return all(self.pids)

        wait_until("the hosts are there", complete)

    def at(self, host):
        """What has to stand before a command for it to run there."""
        return ["nsenter", "-t", self.pids[host], "-n"]

    def lose_all_from(self, host, to):
        """From now on nothing that `host` sends to `to` arrives."""
        subprocess.run([str(word) for word in (*self.at(host), "ip", "route", "add", "blackhole", self.addresses[to])], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.__exit__()


def key_in(folder):
    file = Path(folder) / "job.key"
    if not file.exists():
        subprocess.run([PROGRAM, "key", "new", file], check=True, capture_output=True)
    return file


def cut_off(draw, start, folder, wholes):
    """A job that takes a checkpoint every iteration, and loses the link between a worker and a server at a moment of its own. Whatever
    checkpoint is there then, a job goes on from it to the bit. `start(iterations, hosts, (workers, servers), options)` gives the job."""
    workers, servers, both_ways, competing = draw.choice((2, 3)), draw.choice((1, 2)), draw.random() < 0.5, draw.random() < 0.5
    checkpoints, after = Path(folder) / "checkpoints", draw.randint(1, 15)
    options = ("--checkpoint", checkpoints, "--checkpoint-every", 1)
    with Hosts(1 + workers + servers, RATE, competing) as hosts, start(ITERATIONS, hosts, (workers, servers), options) as job:
        worker, server = draw.randrange(workers), draw.randrange(servers)
        there = 1 + servers + worker, 1 + server
        wait_until(f"checkpoint {after}", lambda: (checkpoints / f"{after:08d}/manifest.json").exists() or any(member.ended for member in job.members))
        hosts.lose_all_from(*there)
        if both_ways:
            hosts.lose_all_from(*reversed(there))
        what = f"worker {worker} of {workers} cut off from server {server} of {servers}, {'both ways' if both_ways else 'one way'}, after iteration {after}"
        if hang := job.all_ended(SLACK):
            return [f"{name} hangs: {what}" for name in hang]
        said = {error for member in job.members for error in member.errors()}
        broken = [f"{member.name} ended with {member.process.returncode}: {what}" for member in job.members if member.process.returncode != 1]
        if not said or not all(re.match(rf"(worker {worker}|server {server}) \(", sentence) for sentence in said):
            broken.append(f"{what}, and they said {sorted(said)}")
        task = ("--model", f"replay:{job.folder}/table.json", "--iterations", ITERATIONS, "--optimizer", "sgd", "--workers", workers, "--servers", servers)
    shape = (workers, servers)
    if shape not in wholes:
        wholes[shape] = train(*task)["parameters_hash"]
    resumed = train(*task, "--checkpoint", checkpoints, "--resume")["parameters_hash"]
    newest = max(int(one.name) for one in checkpoints.iterdir() if re.fullmatch(r"\d{8}", one.name))
    return broken + ([] if resumed == wholes[shape] else [f"other bits from a checkpoint of iteration {newest} or before: {what}"])
