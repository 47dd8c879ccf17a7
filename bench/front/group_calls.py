"""Calls of torch.distributed between shaped hosts, or on the loopback: a group of gloo and one of Paceline in the same processes, in turns.

PYTHONPATH=python PACELINE_LIBRARY=build/release/src/library/libpaceline.so.0 \\
  .venv/bin/python bench/front/group_calls.py --paceline build/release/bin/paceline [--rate 200mbit] [--calls broadcast,all_reduce] [--sizes 65536,64000000]
  .venv/bin/python bench/front/group_calls.py --rate loopback --hosts 2 --calls send,all_to_all,gather,broadcast_int64 --sizes 4,4096,1000000 --repeat 200

Behind a barrier each rank measures from its first call until its last result is there, and divides by the calls; the slowest rank's seconds count. A call of
`send` is a message to a neighbour and one back. Printed: the median of the turns, least and most, and how long gloo takes beside it: median of the turns, and best to best.
"""

import argparse
import datetime
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist


def broadcast(elements, r, n, kind=torch.float32):
    tensor = torch.full((elements,), int(r == 0), dtype=kind)
    return lambda group: dist.broadcast(tensor, 0, group=group), lambda: torch.all(tensor == 1)


def broadcast_int64(elements, r, n):
    return broadcast(max(1, elements // 2), r, n, torch.int64)


def all_reduce(elements, r, n):
    tensor = torch.full((elements,), float(r == 0))
    return lambda group: dist.all_reduce(tensor, group=group), lambda: torch.all(tensor == 1)


def all_gather(elements, r, n):
    parts = [torch.zeros(elements) for _ in range(n)]
    return lambda group: dist.all_gather(parts, torch.full((elements,), float(r)), group=group), lambda: all(torch.all(part == of) for of, part in enumerate(parts))


def gather(elements, r, n):
    tensor, parts = torch.full((elements,), float(r)), [torch.zeros(elements) for _ in range(n)] if r == 0 else None
    return lambda group: dist.gather(tensor, parts, 0, group=group), lambda: r > 0 or all(torch.all(part == of) for of, part in enumerate(parts))


def scatter(elements, r, n):
    tensor, parts = torch.zeros(elements), [torch.full((elements,), float(of)) for of in range(n)] if r == 0 else None
    return lambda group: dist.scatter(tensor, parts, 0, group=group), lambda: torch.all(tensor == r)


def all_to_all(elements, r, n):
    """`elements` from each rank to each."""
    given, taken = torch.full((n * elements,), float(r)), torch.zeros(n * elements)
    return lambda group: dist.all_to_all_single(taken, given, group=group), lambda: torch.all(taken.view(n, -1) == torch.arange(n).view(n, 1))


def send(elements, r, n):
    mine, theirs = torch.full((elements,), float(r)), torch.zeros(elements)

    def there_and_back(group):
        if r % 2 == 0:
            dist.send(mine, r + 1, group=group)
            dist.recv(theirs, r + 1, group=group)
        else:
            dist.recv(theirs, r - 1, group=group)
            dist.send(mine, r - 1, group=group)

    return there_and_back, lambda: torch.all(theirs == r ^ 1)


def barrier(elements, r, n):
    return lambda group: dist.barrier(group=group), lambda: True


CALLS = {call.__name__: call for call in (broadcast, all_reduce, broadcast_int64, all_gather, gather, scatter, all_to_all, send, barrier)}


def member(options):
    torch.set_num_threads(1)
    interface = "lo" if options.rate == "loopback" else "eth0"  # of a lab's host
    os.environ |= {"GLOO_SOCKET_IFNAME": interface, "PACELINE_INTERFACE": interface}
    import paceline.torch as pt  # registers the backend

    limit = datetime.timedelta(seconds=120)
    host, port = options.master.rsplit(":", 1)
    store = dist.TCPStore(host, int(port), options.hosts, options.rank == 0, timeout=limit)
    dist.init_process_group("paceline", store=store, rank=options.rank, world_size=options.hosts, timeout=limit, pg_options=pt.GroupOptions(security="none"))
    groups = {"gloo": dist.new_group(backend="gloo"), "paceline": dist.group.WORLD}
    for name in options.calls.split(","):
        for size in map(int, options.sizes.split(",")):
            seconds = {way: [] for way in groups}
            for _ in range(options.turns + 1):
                for way, group in groups.items():
                    calls = [CALLS[name](max(1, size // 4), options.rank, options.hosts) for _ in range(options.repeat)]
                    dist.barrier()
                    begin = time.monotonic()
                    for call, _ in calls:
                        call(group)
                    took = torch.tensor([(time.monotonic() - begin) / options.repeat], dtype=torch.float64)
                    if not all(right() for _, right in calls):
                        raise SystemExit(f"{name} of {size} bytes by {way}: wrong values")
                    dist.all_reduce(took, dist.ReduceOp.MAX)
                    seconds[way].append(took.item())
            if options.rank == 0:
                print("FOUND " + json.dumps({"call": name, "bytes": size, "seconds": {way: each[1:] for way, each in seconds.items()}}), flush=True)
    dist.destroy_process_group()


def on_loopback(command, hosts):
    """What rank 0 prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"127.0.0.1:{free.getsockname()[1]}"
    ranks = [subprocess.Popen([*command, "--rank", str(rank), "--master", master], stdout=subprocess.PIPE if rank == 0 else None, text=True) for rank in range(hosts)]
    printed = ranks[0].communicate()[0]
    return printed, max(abs(rank.wait()) for rank in ranks)


def in_lab(command, options):
    lab = [options.paceline, "lab", "--hosts", str(options.hosts), "--rate", options.rate, "--measure", "0s", "--limit", "1800s", "--"]
    ran = subprocess.run([*lab, *command, "--rank", "{host}", "--master", "{address:0}:29500"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ran.stdout, ran.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paceline", default="paceline", help="the program; default: the one in PATH")
    parser.add_argument("--hosts", type=int, default=4, help="ranks; even for `send`")
    parser.add_argument("--rate", default="200mbit", help="of the hosts' links; loopback: all ranks are processes of this machine, without a lab")
    parser.add_argument("--calls", default="broadcast,all_reduce", help=", ".join(CALLS))
    parser.add_argument("--sizes", default="65536,1000000,64000000", help="bytes of the tensor; of all_gather, gather, scatter and all_to_all: of each part")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=1, help="calls in a row, of which the mean counts")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        return member(options)
    command = [sys.executable, __file__, *(word for name in ("hosts", "rate", "calls", "sizes", "turns", "repeat") for word in (f"--{name}", str(getattr(options, name))))]
    printed, status = on_loopback(command, options.hosts) if options.rate == "loopback" else in_lab(command, options)
    if status != 0:
        raise SystemExit(printed[-3000:] or f"a rank ended with {status}")
    for line in printed.splitlines():
        if "FOUND " in line:
            found = json.loads(line.split("FOUND ", 1)[1])
            spread = {way: f"{way} {statistics.median(each):.3g} s ({min(each):.3g} to {max(each):.3g})" for way, each in found["seconds"].items()}
            theirs, ours = found["seconds"]["gloo"], found["seconds"]["paceline"]
            ratio = statistics.median(one / other for one, other in zip(theirs, ours, strict=True))
            say = f"{', '.join(spread.values())}; gloo takes {ratio:.2f} times as long, best to best {min(theirs) / min(ours):.2f}"
            print(f"{found['call']} of {found['bytes']} bytes, {options.hosts} hosts at {options.rate}: {say}", flush=True)


if __name__ == "__main__":
    main()
