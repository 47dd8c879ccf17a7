"""attach() with parameters on a GPU: `PYTHONPATH=python .venv/bin/python tests/python/front/on_gpu.py`. Exits with 3 where there is none, as device_check does.

First ranks are threads over the stand-in of the core, as in the tests; the bits are those of a plain loop on the same GPU. Then they are two processes
on one GPU, over the library (PACELINE_LIBRARY): the bits are DistributedDataParallel's over gloo, for attach, for init_process_group("paceline") and
for the hook, and every operation of that group gives for tensors on the GPU what gloo gives in the host's memory. Last the time of a step.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import nets
import torch
from loops import attached, bits, compare
from torch import nn, optim

DEVICE = "cuda"


def over(shape, steps=4, clip=None, kind=torch.float32):
    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            x, y = nets.numbers(iteration, rank, shape)
            nn.functional.cross_entropy(model(x.to(DEVICE).to(kind)).float(), y.to(DEVICE)).backward()
            yield
            if clip:
                log.append(float(nn.utils.clip_grad_norm_(model.parameters(), clip)))
            optimizer.step()
            optimizer.zero_grad()

    return script


def wide():
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 3)).to(DEVICE)


def member(way, rank, port):
    """One of two processes that train the same; prints a hash of what they have in the end."""
    torch.manual_seed(0)
    model = wide()
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    trained, close = model, lambda: None
    if way == "attach":
        import paceline.torch as pt

        os.environ |= {"PACELINE_RANK": rank, "PACELINE_WORKERS": "2", "PACELINE_COORDINATOR": f"127.0.0.1:{port}", "PACELINE_INTERFACE": "lo"}
        close = pt.attach(model, optimizer, security="none").close
    else:
        import paceline.torch as pt
        import torch.distributed as dist

        dist.init_process_group("paceline" if way == "group" else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=int(rank), world_size=2)
        trained, close = nn.parallel.DistributedDataParallel(model), dist.destroy_process_group
        if way.startswith("hook="):
            trained.register_comm_hook(pt.HookState(way[5:]), pt.ddp_hook)
    for iteration in range(20):
        x, y = nets.numbers(iteration, int(rank), (256, 1024))
        nn.functional.cross_entropy(trained(x.to(DEVICE)), y.to(DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()
    found = bits([model.state_dict(), optimizer.state_dict()["state"]])
    close()
    print("BITS", found, flush=True)


def processes(way):
    """What both of two processes have in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, "--member", way]
    ranks = [subprocess.Popen([*command, str(rank), str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) for rank in range(2)]
    try:
        ends = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()  # none is left, unless one took too long
    found = {line for end in ends for line in end.splitlines() if line.startswith("BITS")}
    assert not any(rank.returncode for rank in ranks) and len(found) == 1, ends
    return found


def times(steps=20):
    """Seconds of a step of one rank."""
    began = []

    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            if iteration == 2:
                job.synchronize()
                torch.cuda.synchronize()
                began.append(time.perf_counter())
            x, y = nets.numbers(iteration, rank, (256, 1024))
            nn.functional.cross_entropy(model(x.to(DEVICE)), y.to(DEVICE)).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()
        torch.cuda.synchronize()
        began.append(time.perf_counter())

    attached(1, wide(), lambda model: optim.SGD(model.parameters(), lr=0.01), script)
    return (began[1] - began[0]) / (steps - 2)


def judged():
    """By name: whether both processes have DistributedDataParallel's bits, or with what is sent narrow or in part each other's."""
    bits = processes("ddp")
    for way in ("attach", "group", "hook=float32"):
        assert processes(way) == bits, way
    for way in ("hook=bfloat16", "hook=dropping:0.01", "hook=dgc:0.01"):
        assert processes(way) != bits, way


def operations(ranks=3):
    """How many of a group's operations, with every element type, give for tensors on the GPU what gloo gives in the host's memory: all, or it raises."""
    script = pathlib.Path(__file__).with_name("group_matrix.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory() as folder:
        for backend, device in (("gloo", "cpu"), ("paceline", DEVICE)):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), script, backend, folder, device]
            ran = subprocess.run(command, env=environment, timeout=300, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
        found = [[json.loads((pathlib.Path(folder) / f"{way}-{ranks}-{rank}").read_text()) for way in ("gloo-cpu", f"paceline-{DEVICE}")] for rank in range(ranks)]
    for theirs, ours in found:
        assert ours == theirs, {what: (value, theirs.get(what)) for what, value in ours.items() if value != theirs.get(what)}
    return len(found[0][0])


def main():
    if sys.argv[1:2] == ["--member"]:
        return member(*sys.argv[2:])
    if not torch.cuda.is_available():
        print("there is no GPU here, or this PyTorch is built for processors only")
        return 3
    adam = lambda model: optim.Adam(model.parameters(), lr=0.01)  # noqa: E731
    cases = {
        "float32": lambda: compare(nets.mlp().to(DEVICE), adam, over((5, 4))),
        "clipped by the script": lambda: compare(nets.mlp().to(DEVICE), adam, over((5, 4), clip=0.05)),
        "bfloat16": lambda: compare(nets.mlp().to(DEVICE).bfloat16(), adam, over((5, 4), kind=torch.bfloat16)),
        "one layer of 64 MB": lambda: compare(nn.Sequential(nn.Linear(4, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 3)).to(DEVICE), adam, over((5, 4), steps=3)),
    }
    print(torch.cuda.get_device_name())
    for name, case in cases.items():
        case()
        print(f"{name}: the bits of a plain loop")
    judged()
    print("two processes over the library: the bits of DistributedDataParallel by attach, init_process_group and the hook")
    print(f"three processes: {operations()} operations of a group give what they give in the host's memory")
    print(f"a step of 84 MB of parameters, one rank, the stand-in of the core included: {times() * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
