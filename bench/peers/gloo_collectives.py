"""Runs collective operations over gloo (torch.distributed) when told to, for `paceline bench collectives`. The same words on the same kind
of socket as bench/collectives/member.h, which describes them.

    gloo_collectives.py SOCKET RANK RANKS MASTER:PORT
"""

import json
import socket
import sys
import time

import torch
import torch.distributed as distributed

PERIOD = 13  # see pattern.h


def period(rank):
    return torch.tensor([(7 * rank + i) % PERIOD for i in range(PERIOD)], dtype=torch.float32)


def expected(operation, ranks, owner=0):
    """What the message holds; an allgather's in the part of rank `owner`."""
    if operation in ("broadcast", "allgather"):
        return period(owner)
    return sum(period(rank) for rank in range(ranks))


def pieces(data):
    """Views that begin where the period begins."""
    step = PERIOD * 65536
    return [data[first:first + step] for first in range(0, data.numel(), step)]


def fill(data, values):
    pattern = values.repeat(65536)
    for piece in pieces(data):
        piece.copy_(pattern[:piece.numel()])


def wrong(data, values, begin=0):
    """`data` begins at element `begin` of the message."""
    pattern = values.roll(-(begin % PERIOD)).repeat(65536)
    return any(not torch.equal(piece, pattern[:piece.numel()]) for piece in pieces(data))


def part(data, rank, ranks):
    """Of a message that the ranks divide evenly."""
    count = data.numel() // ranks
    return data[rank * count:(rank + 1) * count]


def operate(operation, data, rank, ranks):
    if operation == "broadcast":
        distributed.broadcast(data, 0)
    elif operation == "reduce":
        distributed.reduce(data, 0)
    elif operation == "allreduce":
        distributed.all_reduce(data)
    elif operation == "reduce-scatter":
        distributed.reduce_scatter_tensor(part(data, rank, ranks), data)
    elif operation == "allgather":
        distributed.all_gather_into_tensor(data, part(data, rank, ranks))
    elif operation == "barrier":
        distributed.barrier()
    else:
        raise ValueError(f"no operation {operation}")


def is_wrong(operation, data, rank, ranks):
    """This rank's view of the result."""
    if operation == "barrier" or (operation == "reduce" and rank != 0):
        return False
    if operation == "reduce-scatter":
        return wrong(part(data, rank, ranks), expected(operation, ranks), rank * (data.numel() // ranks))
    if operation == "allgather":
        owners = range(ranks)
        return any(wrong(part(data, owner, ranks), expected(operation, ranks, owner), owner * (data.numel() // ranks)) for owner in owners)
    return wrong(data, expected(operation, ranks))


def answer(operation, count, repetitions, warm_up, rest):
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    data = torch.empty(count, dtype=torch.float32)
    own = period(rank)
    seconds = []
    for i in range(-warm_up, repetitions):
        fill(data, own)
        if rest > 0:
            time.sleep(rest / 1e6)
        distributed.barrier()
        begin = time.monotonic()
        operate(operation, data, rank, ranks)
        if i >= 0:
            seconds.append(time.monotonic() - begin)
    if is_wrong(operation, data, rank, ranks):
        return {"error": f"{operation} of {count} elements gave wrong numbers"}
    return {"seconds": seconds}


def main():
    path, rank, ranks, master = sys.argv[1:]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{master}", rank=int(rank), world_size=int(ranks))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        lines = connection.makefile("rw", encoding="utf-8")

        def say(words):
            lines.write(json.dumps(words) + "\n")
            lines.flush()

        say({"rank": int(rank)})
        for line in lines:
            words = line.split()
            if not words or words[0] != "run":
                break
            say(answer(words[1], *map(int, words[3:])))
    distributed.destroy_process_group()


main()
