"""Every operation of torch.distributed with every element type, by the backend that is named: what each rank has afterwards, as JSON.

group_matrix.py BACKEND FOLDER [DEVICE]    DEVICE: of the tensors; "late" is a stand-in (late_copies.py)
"""

import hashlib
import json
import os
import sys
import warnings

import beside_gloo
import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8, torch.bool]
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def drawn(kind, *shape):
    """Small whole numbers: every order of adding them gives the same."""
    return torch.randint(0, 3, shape, generator=draw, device="cpu").to(torch.get_default_device(), kind)


def digest(tensors):
    digits = {torch.float64: 12, torch.float32: 5}  # a mean is a product with 1/3, or a quotient by 3
    tensors = [tensor.round(decimals=digits[tensor.dtype]) if tensor.dtype in digits else tensor for tensor in tensors]
    return hashlib.sha256(b"".join(bytes(tensor.detach().contiguous().view(torch.uint8).flatten().tolist()) if tensor.numel() else b"" for tensor in tensors)).hexdigest()[:12]


def reductions(kind):
    for op in OPS:
        bits = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
        if bits and kind.is_floating_point or kind is torch.bool or op == dist.ReduceOp.AVG and not kind.is_floating_point:
            continue
        yield str(op).rsplit(".", 1)[-1].lower(), op


def single(kind, n, r):
    for name, op in reductions(kind):
        t = drawn(kind, 3, 5)
        dist.all_reduce(t, op)
        yield f"all_reduce {name}", [t]
        t = drawn(kind, 7)
        dist.reduce(t, n - 1, op)
        yield f"reduce {name}", [t] if r == n - 1 else []
        t, o = drawn(kind, 2 * n), torch.empty(2, dtype=kind)
        dist.reduce_scatter_tensor(o, t, op)
        yield f"reduce_scatter_tensor {name}", [o]
    t = drawn(kind, 4, 3).t()  # not contiguous
    dist.broadcast(t.contiguous(), 0)
    yield "broadcast", [t.contiguous()] if r == 0 else []
    for size in (0, 1, 6):
        t = drawn(kind, size)
        dist.broadcast(t, n - 1)
        yield f"broadcast of {size}", [t]
    for size in (0, 1, 5):
        o = [torch.empty(size, dtype=kind) for _ in range(n)]
        dist.all_gather(o, drawn(kind, size))
        yield f"all_gather of {size}", o
    for name, op in (("sum", dist.ReduceOp.SUM), ("product", dist.ReduceOp.PRODUCT)):
        if kind is torch.bool:
            continue
        t = drawn(kind, 0)
        dist.all_reduce(t, op)
        yield f"all_reduce {name} of 0", [t]
        t = drawn(kind, 4, 3)
        one = t[:1, 0] if r == 0 else t[0, 0].clone().reshape(1)  # rank 0 has it among others
        dist.all_reduce(one, op)
        yield f"all_reduce {name} of 1", [torch.cat([one, one])]
    o = torch.empty(n * 3, 2, dtype=kind)
    dist.all_gather_into_tensor(o, drawn(kind, 3, 2))
    yield "all_gather_into_tensor", [o]
    o = [torch.empty(3, dtype=kind) for _ in range(n)] if r == 0 else None
    dist.gather(drawn(kind, 3), o, 0)
    yield "gather", o or []
    o = torch.empty(3, dtype=kind)
    dist.scatter(o, [drawn(kind, 3) for _ in range(n)] if r == 1 else None, 1)
    yield "scatter", [o]
    o = torch.empty(2 * n, 3, dtype=kind)
    dist.all_to_all_single(o, drawn(kind, 2 * n, 3))
    yield "all_to_all_single", [o]
    o = torch.empty(sum(range(1, n + 1)) if r == 0 else n * (r + 1), dtype=kind)
    takes = [k + 1 for k in range(n)] if r == 0 else [r + 1] * n
    gives = [1 if k == r else (r + 1 if k == 0 else k + 1) for k in range(n)]
    takes[r] = 1
    o = torch.empty(sum(takes), dtype=kind)
    dist.all_to_all_single(o, drawn(kind, sum(gives)), takes, gives)
    yield "all_to_all_single, uneven", [o]
    to, source = (r + 1) % n, (r - 1) % n
    o = torch.empty(4, dtype=kind)
    sent = dist.isend(drawn(kind, 4), to)
    dist.recv(o, source)
    sent.wait()
    yield "send, recv", [o]


def objects(n, r):
    gathered = [None] * n
    dist.all_gather_object(gathered, {"rank": r, "text": "x" * (5 * r + 1)})
    yield "all_gather_object", gathered
    told = [{"from": 1}, "two"] if r == 1 else [None, None]
    dist.broadcast_object_list(told, 1)
    yield "broadcast_object_list", told


def groups(n, r):
    members = list(range(0, n, 2))
    half = dist.new_group(members)
    same = dist.new_group(list(range(n)))
    if r in members:
        t = torch.full((3,), float(r))
        dist.all_reduce(t, group=half)
        yield "all_reduce in a group", [t]
        t = torch.full((3,), r)
        dist.broadcast(t, members[-1], group=half)
        yield "broadcast in a group", [t]
    t = torch.full((3,), float(r))
    sums = [t.clone() for _ in range(3)]
    works = [dist.all_reduce(part, group=group, async_op=True) for part, group in zip(sums, (same, dist.group.WORLD, same), strict=True)]
    for work in works:
        work.wait()
    yield "operations of two groups in flight", sums
    with dist._coalescing_manager():
        one, other = torch.ones(2), torch.ones(3)
        dist.all_reduce(one)
        dist.all_reduce(other)
    yield "coalesced", [one, other]
    dist.barrier()


if __name__ == "__main__":
    backend, folder, device = [*sys.argv[1:], "cpu"][:3]
    if backend == "paceline":
        import paceline.torch  # noqa: F401
    if device == "late":
        from late_copies import every_group_copies_late

        every_group_copies_late()
    elif device != "cpu":
        torch.set_default_device(device)
    dist.init_process_group(backend)
    n, r = dist.get_world_size(), dist.get_rank()
    draw = torch.Generator().manual_seed(r + 10 * n)
    found = {}
    for kind in TYPES:
        for what, tensors in single(kind, n, r):
            found[f"{what}, {str(kind).removeprefix('torch.')}"] = digest(tensors)
    for what, values in objects(n, r):
        found[what] = values
    for what, tensors in groups(n, r):
        found[what] = digest(tensors)
    with open(os.path.join(folder, f"{backend}-{device}-{n}-{r}"), "w") as file:
        json.dump(found, file)
    beside_gloo.end()
