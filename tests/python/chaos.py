"""Many jobs, each with one misfortune, all drawn from a seed: who is killed or frozen is named by every survivor, who is only cut off, held up
or bothered by strangers changes no bit, a link that is lost spoils no checkpoint, and nothing is left behind.

    python tests/python/chaos.py --jobs 200 --seed 1            # all of it, a table at the end; exit code 1 if a promise was broken
    python tests/python/chaos.py --jobs 20 --only kill --modes bsp,collective --hosts    # each process on a host of a lab
    python tests/python/chaos.py --jobs 220 --only kill --each-role    # as many workers, servers and coordinators of each kind of job
    python tests/python/chaos.py --jobs 100 --only cut-off    # a link that is lost while checkpoints are due

docs/results/2026-11-noticing.md keeps a run. How long it takes until the others know it is measured and printed, and not judged.
"""

import argparse
import contextlib
import ctypes
import functools
import getpass
import os
import random
import re
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from chaos_hosts import Hosts, cut_off
from chaos_jobs import MODES, PYTHON, Job
from jobs import listening_ports, stat_of, wait_until

DEADLINE = 2  # seconds of silence, where silence is what is noticed
NEVER = 3600
PATIENT = 5  # the deadline where nobody is to be lost: a loaded machine holds up the others too
SLACK = 20  # seconds; whoever still runs then hangs
ITERATIONS = 60
ORDERED = ("bsp", "both", "collective")  # whose bits depend on nobody's pace
FAULTS = ("kill", "freeze", "pause", "cut", "strangers", "cut-off")
ON_ONE_MACHINE = FAULTS[:5]
ONLY_BSP = ("cut-off",)
MOST_PROCESSES = 5


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
    seconds: list = field(default_factory=list)  # until each survivor knew: since the kill, and since the process that was killed had ended


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
            said.add(re.sub(r"[\d.]+ m?s\b|[\d.]+:\d+", "_", errors[0]))
    if len(said) > 1 and not broken:
        broken.append(f"{victim.name} was lost, in different words: {sorted(said)}")
    # The kernel takes a process's memory apart before it closes its connections, which may wait for others that map the same libraries.
    ended = began if number == signal.SIGSTOP or job.all_ended(SLACK) else victim.ended
    return broken, [(member.knew() - began, max(0.0, member.knew() - ended)) for member in survivors]


def endure(draw, job, fault, bits):
    """A misfortune that a job survives."""
    began = time.monotonic()
    if fault == "pause":
        victim = draw.choice(job.members)
        victim.process.send_signal(signal.SIGSTOP)
        time.sleep(draw.uniform(0.05, 0.4) * PATIENT)
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
    known = {"table.json", "rank.py", "store", "store.lock", "job.key", "checkpoints", f"torchinductor_{getpass.getuser()}"}  # the last is PyTorch's
    return [f"{mode}: {file.name} was left behind" for file in Path(folder).iterdir() if file.suffix not in (".out", ".err") and file.name not in known]


def roles_of(mode):
    """Whom a job of this mode can lose. A rank of Python has whatever servers there are, and rank 0 the coordinator."""
    servers = [role for role, _, _ in MODES[mode][0] if role == "server"] if mode not in PYTHON else []
    return ["worker", *servers, "coordinator"]


def plays(member, role, mode):
    return role is None or role == ("coordinator" if mode in PYTHON and member.name == "worker 0" else member.name.split()[0])


def run_one(seed, mode, fault, role, bits, wholes, hosts=contextlib.nullcontext):
    draw = random.Random(seed)
    lost = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}.get(fault)
    if fault == "cut-off":
        with tempfile.TemporaryDirectory() as folder:
            return cut_off(draw, functools.partial(Job, folder, mode, 1), folder, wholes) + left_behind(folder, mode), []
    deadline, iterations = {"kill": NEVER, "freeze": DEADLINE}.get(fault, PATIENT), 10**6 if lost else ITERATIONS
    with tempfile.TemporaryDirectory() as folder, hosts() as places, Job(folder, mode, deadline, iterations, places) as job:
        wait_until("the job trains", lambda: job.trains() or any(member.ended for member in job.members))
        assert job.trains(), [member.errors() for member in job.members]
        time.sleep(draw.uniform(0, 0.3))
        if lost:
            broken, seconds = lose(job, draw.choice([member for member in job.members if plays(member, role, mode)]), lost)
        else:
            broken, seconds = endure(draw, job, fault, bits.get(mode)), []
        return broken + left_behind(folder, mode), seconds


def bits_of(mode):
    """What an undisturbed job ends with."""
    with tempfile.TemporaryDirectory() as folder, Job(folder, mode, DEADLINE, ITERATIONS) as job:
        assert not job.all_ended(120) and job.hash(), [member.errors() for member in job.members]
        return job.hash()


def run(jobs, seed, faults=FAULTS, modes=tuple(MODES), show=lambda text: None, hosts=contextlib.nullcontext, each_role=False):
    """{(mode, fault, role): Outcome} of so many jobs. `each_role`: of those that are killed or frozen, as many of each role; else whoever is drawn."""
    cells = [(mode, fault) for mode in modes for fault in faults if fault in ("kill", "freeze") or mode not in PYTHON]
    cells = [(mode, fault) for mode, fault in cells if mode == "bsp" or fault not in ONLY_BSP]
    if hosts is not contextlib.nullcontext:
        cells = [(mode, fault) for mode, fault in cells if fault in ("kill", "freeze")]
    bits = {mode: bits_of(mode) for mode in ORDERED if (mode, "cut") in cells or (mode, "pause") in cells or (mode, "strangers") in cells}
    cells = [(mode, fault, role) for mode, fault in cells for role in (roles_of(mode) if each_role and fault in ("kill", "freeze") else [None])]
    outcomes, wholes = defaultdict(Outcome), {}
    for number in range(jobs):
        mode, fault, role = cells[number % len(cells)]
        broken, seconds = run_one(f"{seed}/{number}", mode, fault, role, bits, wholes, hosts)
        outcome = outcomes[mode, fault, role]
        outcome.jobs += 1
        outcome.seconds += seconds
        outcome.broken += [f"seed {seed}, job {number}, {mode}: {sentence}" for sentence in broken]
        show(f"{number + 1}/{jobs} {mode} {fault} {role or ''}".rstrip() + "".join(f"\n  {sentence}" for sentence in broken))
    return outcomes


def table(outcomes):
    lines = ["| mode | misfortune | jobs | promises broken | until a survivor knew it: median | longest | longest since its end |", "|---|---|---|---|---|---|---|"]
    for (mode, fault, role), outcome in outcomes.items():
        kill, end = zip(*outcome.seconds, strict=True) if outcome.seconds else ((), ())
        times = [f"{value:.3f} s" for value in (statistics.median(kill), max(kill), max(end))] if kill else ["", "", ""]
        lines.append(f"| {mode} | {fault}{f' of a {role}' if role else ''} | {outcome.jobs} | {len(outcome.broken)} | {' | '.join(times)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default=",".join(FAULTS), help="misfortunes, of %(default)s")
    parser.add_argument("--modes", default=",".join(MODES), help="of %(default)s")
    parser.add_argument("--hosts", action="store_true", help="each process of a killed or frozen job on a host of a lab")
    parser.add_argument("--each-role", action="store_true", help="kill and freeze as many of each role")
    options = parser.parse_args()
    hosts = (lambda: Hosts(MOST_PROCESSES)) if options.hosts else contextlib.nullcontext
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # and so ends its jobs
    outcomes = run(options.jobs, options.seed, options.only.split(","), options.modes.split(","), lambda text: print(text, flush=True), hosts, options.each_role)
    print(table(outcomes))
    broken = [sentence for outcome in outcomes.values() for sentence in outcome.broken]
    print(f"{options.jobs} jobs, {len(broken)} promises broken", *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
