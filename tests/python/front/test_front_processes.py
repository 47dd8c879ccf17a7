"""Whole processes: PyTorch's own DistributedDataParallel as judge, forks of data loaders, ends that nobody spelled out."""

import json
import os
import subprocess
import sys

import nets
import pytest
import scripts
import torch
from loops import attached, bits
from processes import HERE, alone, interpreter_and_variables

LIMIT = 120  # seconds, for a process that hangs


def python(code, *arguments, **environment):
    """Runs `code` in a new process with this folder's helpers."""
    paths = os.pathsep.join([str(HERE), str(HERE.parents[2] / "python")])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environment}
    )


DDP = """
import contextlib, json, os, sys, torch, torch.distributed as dist
import beside_gloo, nets, scripts
from loops import bits
from test_front_processes import CASES
rank, file = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
found = {}
for name, (make, options, _) in CASES.items():
    model = nets.everything()
    optimizer = make(model)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True, broadcast_buffers=False)

    class Caller:
        def __call__(self, *inputs): return wrapped(*inputs)
        def __getattr__(self, name): return getattr(model, name)

    log = []
    for _ in scripts.everything(**options)(Caller() if not options.get("average") else wrapped, optimizer, rank, wrapped, log): pass
    found[name] = bits([list(model.parameters()), log if not options.get("average") else []])
dist.barrier()
print(json.dumps(found))
beside_gloo.end()
"""
CASES = {
    "SGD": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), {}, {}),
    "AdamW, cosine, accumulated": (lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), dict(accumulate=2, schedule=lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4)), {}),
    "SGD, clipped": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1), dict(clip=0.05), {}),
    "Adam, branches by rank": (lambda m: torch.optim.Adam(m.parameters(), lr=0.01), dict(branch=lambda i, rank: (i + rank) % 2), {}),
    "SGD, branches by rank, clipped": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1), dict(branch=lambda i, rank: (i // 2 + rank) % 2, clip=0.05), {}),
    "SGD, loss scaler": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1), dict(scale=1024.0, clip=0.05), {}),
}


def test_two_ranks_have_the_bits_of_distributed_data_parallel(tmp_path):
    (tmp_path / "ddp.py").write_text(DDP)
    interpreter, environment = interpreter_and_variables(False, {"GLOO_SOCKET_IFNAME": "lo"})
    ranks = [subprocess.Popen([interpreter, tmp_path / "ddp.py", str(rank), tmp_path / "store"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) for rank in range(2)]
    ends = [rank.communicate(timeout=LIMIT) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), ends
    judged = [json.loads(out.splitlines()[-1]) for out, _ in ends]
    assert judged[0] == judged[1]
    for name, (make, options, choices) in CASES.items():
        for model, _, log in attached(2, nets.everything(), make, scripts.everything(**options), **choices):
            assert bits([list(model.parameters()), log]) == judged[0][name], name


# What the scripts below begin with: one rank, whose exchange says how its life ends.
BEGINNING = """
import os, sys, torch, nets, standin, paceline.torch as pt
torch.set_num_threads(1)
class Told(standin.StandIn):
    def finish(self, seconds): print("finished", flush=True)
    def fail(self, reason): print("failed:", reason, flush=True)
    def close(self, seconds): print("closed", flush=True)
standin.StandIn = Told
model = nets.mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer, join=standin.World(1).join_as(0))
def step(i=0):
    x, y = nets.numbers(i, 0, (5, 4))
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FORKED_LOADER = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        return model[0].weight.detach().clone(), torch.tensor(sum(len(p.grad) if p.grad is not None else 0 for p in model.parameters()))
step()
loader = torch.utils.data.DataLoader(Data(), num_workers=8, persistent_workers=True, multiprocessing_context="fork")
for epoch in range(2):
    seen = [weight for weight, _ in loader]
    if epoch == 0:
        assert all(torch.equal(part[0], model[0].weight) for part in seen)
    step(1)
del loader
print("same", flush=True)
"""
INTERRUPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests in the background has it ignored
step()
waits = []
def never(self, layer, iteration, seconds):
    assert seconds <= 0.1
    waits.append(layer)
    if len(waits) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return False
Told.wait_layer = never
try:
    model(torch.zeros(1, 4))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    del Told.wait_layer
step(1)
"""
THREAD = """
import threading
step()
other = threading.Thread(target=lambda: sys.exit(3))
other.start()
other.join()
"""
SEVERAL = """
class Numbered(Told):
    def finish(self, seconds): print(self.number, flush=True)
    def close(self, seconds): pass
standin.StandIn = Numbered
job.close()
jobs = []
for number in range(12):
    model = nets.mlp()
    jobs.append(pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), join=standin.World(1).join_as(0)))
    jobs[-1]._node.number = number
del jobs[7]
"""
ENDS = {
    "its last line": ("step()", ["finished", "closed"], 0),
    "close, twice": ("step(); job.close(); job.close()", ["finished", "closed"], 0),
    "several jobs, closed in the order of attach on all ranks": (SEVERAL, ["finished", "closed", *map(str, range(12))], 0),
    "sys.exit": ("step(); sys.exit()", ["finished", "closed"], 0),
    "sys.exit with a status, which is an error": ("step(); sys.exit(3)", ["failed: rank 0: SystemExit: 3", "closed"], 3),
    "sys.exit within the job": ("step()\nwith job:\n    sys.exit(0)", ["finished", "closed"], 0),
    "sys.exit with a status within the job": ("step()\nwith job:\n    sys.exit(3)", ["failed: rank 0: SystemExit: 3", "closed"], 3),
    "sys.exit with a status that the script catches, and trains on": ("try: sys.exit(3)\nexcept SystemExit: step()", ["finished", "closed"], 0),
    "sys.exit with a status in another thread, which ends alone": (THREAD, ["finished", "closed"], 0),
    "an exception": ("step(); raise ValueError('no such file')", ["failed: rank 0: ValueError: no such file", "closed"], 1),
    "an exception within the job": ("step()\nwith job:\n    raise KeyError('x')", ["failed: rank 0: KeyError: 'x'", "closed"], 1),
    "workers of a data loader, forked while updates are due, that read new values and say nothing": (FORKED_LOADER, ["same", "finished", "closed"], 0),
    "SIGINT in a gate, whose wait is made of short ones": (INTERRUPT, ["interrupted", "finished", "closed"], 0),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_script_ends(name, tmp_path):
    script, said, code = ENDS[name]
    (tmp_path / "script.py").write_text(BEGINNING + script)
    ended = alone(tmp_path / "script.py")
    assert (ended.stdout.splitlines(), ended.returncode) == (said, code), ended.stderr


def test_the_package_without_torch_imports_nothing_big():
    result = python("import sys, paceline; print([name for name in ('torch', 'numpy') if name in sys.modules])")
    assert (result.stdout, result.returncode) == ("[]\n", 0), result.stderr
