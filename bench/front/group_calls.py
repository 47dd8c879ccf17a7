"""Calls of torch.distributed between shaped hosts: a group of gloo and one of Paceline in the same processes, in turns.

PYTHONPATH=python PACELINE_LIBRARY=build/release/src/library/libpaceline.so.0 \\
  .venv/bin/python bench/front/group_calls.py --paceline build/release/bin/paceline [--rate 200mbit] [--calls broadcast,all_reduce] [--sizes 65536,64000000]

Behind a barrier each rank measures from the call until its tensor is there; the slowest rank's seconds count. Printed: the median of the turns, least and most.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

CALLS = {"broadcast": lambda tensor, group: dist.broadcast(tensor, 0, group=group), "all_reduce": lambda tensor, group: dist.all_reduce(tensor, group=group)}


def member(options):
    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "eth0", "PACELINE_INTERFACE": "eth0"}  # of a lab's host
    import paceline.torch as pt  # registers the backend

    limit = datetime.timedelta(seconds=120)
    store = dist.TCPStore(options.master, 29500, options.hosts, options.rank == 0, timeout=limit)
    open_ = pt.GroupOptions(security="none")
    dist.init_process_group("paceline", store=store, rank=options.rank, world_size=options.hosts, timeout=limit, pg_options=open_)
    groups = {"gloo": dist.new_group(backend="gloo"), "paceline": dist.group.WORLD}
    for name in options.calls.split(","):
        for size in map(int, options.sizes.split(",")):
            seconds = {way: [] for way in groups}
            for _ in range(options.turns + 1):
                for way, group in groups.items():
                    tensor = torch.full((size // 4,), float(options.rank == 0))
                    dist.barrier()
                    begin = time.monotonic()
                    CALLS[name](tensor, group)
                    took = torch.tensor([time.monotonic() - begin], dtype=torch.float64)
                    if not torch.all(tensor == 1):
                        raise SystemExit(f"{name} of {size} bytes by {way}: wrong values")
                    dist.all_reduce(took, dist.ReduceOp.MAX)
                    seconds[way].append(took.item())
            if options.rank == 0:
                print("FOUND " + json.dumps({"call": name, "bytes": size, "seconds": {way: each[1:] for way, each in seconds.items()}}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paceline", default="paceline", help="the program; default: the one in PATH")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--calls", default=",".join(CALLS))
    parser.add_argument("--sizes", default="65536,1000000,64000000", help="bytes of the tensor")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        return member(options)
    lab = [options.paceline, "lab", "--hosts", str(options.hosts), "--rate", options.rate, "--measure", "0s", "--limit", "1800s", "--"]
    given = [word for name in ("hosts", "calls", "sizes", "turns") for word in (f"--{name}", str(getattr(options, name)))]
    ran = subprocess.run([*lab, sys.executable, __file__, *given, "--rank", "{host}", "--master", "{address:0}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        raise SystemExit(ran.stdout[-3000:])
    for line in ran.stdout.splitlines():
        if "FOUND " in line:
            found = json.loads(line.split("FOUND ", 1)[1])
            spread = {way: f"{way} {statistics.median(each):.4f} s ({min(each):.4f} to {max(each):.4f})" for way, each in found["seconds"].items()}
            ratio = statistics.median(theirs / ours for theirs, ours in zip(found["seconds"]["gloo"], found["seconds"]["paceline"], strict=True))
            print(f"{found['call']} of {found['bytes']} bytes, {options.hosts} hosts at {options.rate}: {', '.join(spread.values())}; gloo takes {ratio:.2f} times as long", flush=True)


if __name__ == "__main__":
    main()
