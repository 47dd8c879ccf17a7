"""Real networks between shaped hosts: paceline.torch.attach against DistributedDataParallel over gloo, in turns.

PYTHONPATH=python PACELINE_LIBRARY=build/release/src/library/libpaceline.so.0 \\
  .venv/bin/python bench/front/networks.py --paceline build/release/bin/paceline [--json FILE]

Four hosts of a lab, one rank and one thread each. They share the machine's processors, so `alone`, the same loop without any exchange on all
four at once, says what computing takes here; the bound is that, or what the bytes need on the link, whichever is longer. Each way is run once
in a turn; a figure is the median of all ranks' iterations behind the first three, then of the turns. `--rates loopback` starts the ranks on this
machine as it is, without a lab, and `--device cuda` puts all of them on one GPU: an iteration is then the time between two starts, which the GPU may lag behind.
"""

import argparse
import datetime
import json
import os
import pathlib
import runpy
import statistics
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it when it is imported

import torch  # noqa: E402
from torch import nn  # noqa: E402

HOSTS, WARM_UP = 4, 3
RATES = "200mbit,400mbit,1gbit"  # a tenth of the links that they stand for
LOOPBACK = "loopback"
WAYS = ("alone", "ddp", "attach", "ddp-clip", "attach-clip")
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Gpt(nn.Module):
    """10 million parameters, 9.8 of them in 8 blocks; logits of all places in a row, as cross_entropy takes them."""

    def __init__(self, width=320):
        super().__init__()
        self.words, self.places = nn.Embedding(256, width), nn.Embedding(32, width)
        block = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 8, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, text):
        return self.head(self.blocks(self.words(text) + self.places.weight)).flatten(0, 1)


def resnet18():
    make = runpy.run_path(str(ROOT / "examples/torch/resnet18.py"))["resnet18"]
    return make(64), lambda n: (torch.randn(4 * n, 3, 32, 32), torch.randint(0, 10, (4 * n,)))


def gpt():
    return Gpt(), lambda n: (torch.randint(0, 256, (4 * n, 32)), torch.randint(0, 256, (4 * n * 32,)))


def giant():
    """An MLP with nearly all of its parameters in one layer."""
    net = nn.Sequential(nn.Linear(64, 3000), nn.ReLU(), nn.Linear(3000, 3000), nn.ReLU(), nn.Linear(3000, 10))
    return net, lambda n: (torch.randn(64 * n, 64), torch.randint(0, 10, (64 * n,)))


NETWORKS = {"resnet18": resnet18, "gpt": gpt, "giant": giant}


def member(options):
    """One rank: prints its seconds by iteration."""
    os.environ |= {"GLOO_SOCKET_IFNAME": options.interface, "PACELINE_INTERFACE": options.interface}
    os.environ |= {"PACELINE_RANK": str(options.rank), "PACELINE_WORKERS": str(HOSTS), "PACELINE_COORDINATOR": f"{options.master}:4170"}
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, batch = NETWORKS[options.network]()
    model = model.to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    way, _, clips = options.way.partition("-")
    way, _, hook = way.partition("=")  # hook=WIRE: DistributedDataParallel over gloo, with paceline.torch.ddp_hook
    max_norm = 1.0 if clips else None
    trained, close = model, lambda: None
    if way == "attach":
        import paceline.torch as pt

        close = pt.attach(model, optimizer, clip_norm=max_norm, settings=settings_of(options), security="none").close
    elif way in ("ddp", "hook", "group", "group16"):  # over gloo; over init_process_group("paceline"), with wire="bfloat16"
        import torch.distributed as dist

        where, backend, own = f"tcp://{options.master}:4171", "gloo", None
        if way.startswith("group"):
            import paceline.torch as pt

            backend, own = "paceline", pt.GroupOptions(security="none", wire="bfloat16" if way == "group16" else "float32")
        dist.init_process_group(backend, init_method=where, rank=options.rank, world_size=HOSTS, timeout=datetime.timedelta(seconds=120), pg_options=own)
        trained, close = torch.nn.parallel.DistributedDataParallel(model), dist.destroy_process_group
        if hook:
            import paceline.torch as pt

            trained.register_comm_hook(pt.HookState(hook, security="none"), pt.ddp_hook)
    x, y = (part.to(options.device) for part in batch(options.larger))
    seconds = []
    for _ in range(WARM_UP + options.iterations):
        begin = time.monotonic()
        torch.nn.functional.cross_entropy(trained(x), y).backward()
        if max_norm and way != "attach":
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.monotonic() - begin)
    close()
    print("SECONDS " + json.dumps(seconds[WARM_UP:]), flush=True)


def settings_of(options):
    return dict(setting.split("=") for setting in options.settings.split(",") if setting)


def measured(options, network, rate, way):
    """Median seconds of an iteration."""
    script = [sys.executable, __file__, "--member", "--network", network, "--way", way, "--iterations", str(options.iterations), "--settings", options.settings]
    script += ["--device", options.device, "--larger", str(options.larger)]
    if rate == LOOPBACK:
        commands = [[*script, "--interface", "lo", "--rank", str(rank), "--master", "127.0.0.1"] for rank in range(HOSTS)]
    else:
        lab = [options.paceline, "lab", "--hosts", str(HOSTS), "--rate", rate, "--measure", "0s", "--limit", "300s", "--"]
        commands = [[*lab, *script, "--interface", "eth0", "--rank", "{host}", "--master", "{address:0}"]]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for command in commands]
    try:
        output = "".join(process.communicate(timeout=300)[0] for process in running)
    finally:
        for process in running:
            process.kill()  # none is left, unless one took too long
    found = [json.loads(line.split("SECONDS ", 1)[1]) for line in output.splitlines() if "SECONDS " in line]
    if any(process.returncode for process in running) or len(found) != HOSTS:
        raise SystemExit(f"{network} at {rate} by {way}: exit codes {[process.returncode for process in running]}\n{output[-2000:]}")
    return statistics.median(sum(found, []))


def bytes_per_second(rate):
    return float(rate[:-4]) * {"mbit": 1e6, "gbit": 1e9}[rate[-4:]] / 8


def bytes_of(network):
    return 4 * sum(parameter.numel() for parameter in NETWORKS[network]()[0].parameters())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paceline", default="paceline", help="the program; default: the one in PATH")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--rates", default=RATES)
    parser.add_argument("--ways", default=",".join(WAYS), help="also group, group16, hook=WIRE: DistributedDataParallel over the backend \"paceline\", with wire=\"bfloat16\", over gloo with our hook")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--larger", type=int, default=1, metavar="N", help="mini-batches N times as large")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--settings", default="schedule=p3", help="of attach, such as schedule=p3,slice=5000; \"\": what it chooses")
    parser.add_argument("--json", help="file for all figures")
    for name in ("--network", "--way", "--master", "--interface"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        return member(options)
    ways, rows = options.ways.split(","), []
    for network in options.networks.split(","):
        size = bytes_of(network)
        for rate in options.rates.split(","):
            turns = [{way: measured(options, network, rate, way) for way in ways} for _ in range(options.turns)]
            row = {"network": network, "rate": rate, "bytes": size, "turns": turns}
            rows.append(row)
            need = "" if rate == LOOPBACK else f"bytes need {2 * (HOSTS - 1) / HOSTS * size / bytes_per_second(rate):.3f} s; "
            text = ", ".join(f"{way} {statistics.median(turn[way] for turn in turns):.3f} s" for way in ways)
            print(f"{network} ({size / 1e6:.1f} MB) at {rate}: {need}{text}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
