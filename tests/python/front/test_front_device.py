"""What a device changes beside when copies happen: its tensors must not meet the host's, and autograd runs hooks on a thread of its own.

No GPU is here. Tensors on "meta" have no numbers, but mixing them with the host's is an error, as on a GPU.
"""

import contextlib
import threading

import nets
import paceline.torch as pt
import pytest
import scripts
import standin
import torch
import torch.nn.functional as F
from loops import compare
from paceline.torch import memory, transfers
from paceline.torch.attached import table
from paceline.torch.attached.stepping import outside_of_forward
from processes import passes
from test_front_clipping import by_hand, clipped
from test_front_transfers import Late, adam
from torch import optim


class Nowhere(transfers.Streams):
    """Copies nothing; refuses a copy that is not between host and device."""

    def __init__(self):
        pass

    def new(self):
        return self

    current = new

    def on(self, stream):
        return contextlib.nullcontext()

    def wait_stream(self, stream):
        pass

    wait_event = wait_stream

    def record_event(self):
        return self

    def synchronize(self):
        pass

    def pin(self, values):
        return True

    def unpin(self):
        pass

    def pinned(self, count, kind):
        return torch.zeros(count, dtype=kind)

    def empty(self, count):
        return torch.empty(count, device="meta")

    def keep(self, tensor, stream):
        assert tensor.device.type == "meta"

    def copy(self, to, source):
        assert {to.device.type, source.device.type} == {"cpu", "meta"}


@pytest.fixture
def meta(monkeypatch):
    to_host = torch.Tensor.cpu
    monkeypatch.setattr(table, "DEVICES", ("cpu", "meta"))
    monkeypatch.setattr(table, "refuse_shared_memory", lambda entries: None)  # all stand at address 0
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else to_host(tensor))
    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(Nowhere(), announce, values))


def run(optimizer_of=adam, passes=1, branch=lambda rank, part: 0, between=lambda model, job: None, set_to_none=True, **choices):
    def body(rank, join):
        model = nets.everything().to("meta")
        optimizer = optimizer_of(model)
        job = pt.attach(model, optimizer, join=join, **choices)
        for iteration in range(3):
            if choices.get("average") == "samples":
                job.samples(4)
            for part in range(passes):
                x, y = nets.words(iteration, rank, part)
                F.cross_entropy(model(x.to("meta"), branch(rank, part)), y.to("meta")).backward()
            between(model, job)
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
        job.close()
        states = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
        assert states and all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers(), *states])

    standin.run(2, body)


CASES = {
    "plain": {},
    "foreach": {"optimizer_of": lambda model: optim.AdamW(model.parameters(), foreach=True)},
    "zeros in place": {"set_to_none": False},
    "first used in the second pass": {"passes": 2, "accumulate": 2, "branch": lambda rank, part: part},
    "the same, counted": {"passes": 2, "expect": "counted", "branch": lambda rank, part: part},
    "used by one rank": {"branch": lambda rank, part: rank},
    "weighted by samples": {"average": "samples"},
    "clipped": {"clip_norm": 0.5},
    "clipped by the script": {"between": lambda model, job: job.clip_grad_norm_(0.5)},
    "changed by the script": {"between": lambda model, job: [p.grad.mul_(0.5) for p in model.parameters() if p.grad is not None]},
    "at step": {"apply": "at-step"},
    "mean buffers": {"buffers": "mean"},
    "broadcast buffers": {"buffers": "broadcast"},
}


@pytest.mark.parametrize("case", CASES)
def test_tensors_of_the_device_do_not_meet_the_hosts(meta, case):
    run(**CASES[case])


@pytest.mark.parametrize("kind", (torch.bfloat16, torch.float16))
def test_nor_those_of_other_types(meta, kind):
    run(optimizer_of=lambda model: adam(model.to(kind)))


@pytest.mark.parametrize("tensor", (torch.empty(0, 3, device="meta"), torch.empty(4, 6, device="meta")[:, ::2], torch.empty(4, 6, device="meta").t()), ids=("empty", "with holes", "transposed"))
def test_what_is_sent_stays_where_it_is(tensor):
    assert memory.as_sent(tensor, (3, 1)).is_meta


@pytest.mark.parametrize("max_norm", (0.05, 100.0))
def test_clip_norm_through_late_copies_has_the_bits(monkeypatch, max_norm):
    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(Late(0), announce, values))

    def by(model, optimizer, job, max_norm):
        if not hasattr(job, "report"):  # the plain loop
            by_hand(model, max_norm)

    compare(nets.mlp(), adam, clipped(max_norm, by), clip_norm=max_norm)


@pytest.mark.parametrize("choices", ({}, {"clip": 0.5}, {"scale": 1024.0}, {"accumulate": 2}, {"branch": lambda iteration, rank: (iteration + rank) % 2}))
def test_hooks_run_on_a_thread_of_autograd(monkeypatch, choices):
    backward = torch.autograd.backward

    def elsewhere(*args, **options):
        errors = []

        def body():
            try:
                backward(*args, **options)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]

    monkeypatch.setattr(torch.autograd, "backward", elsewhere)
    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(Late(0), announce, values))
    compare(nets.everything(), adam, scripts.everything(steps=3, **choices))


@pytest.mark.parametrize("device", table.DEVICES)
def test_a_step_is_made_outside_of_autocast(device):
    torch.set_autocast_enabled(device, True)
    try:
        with outside_of_forward():
            assert not torch.is_autocast_enabled(device)
        assert torch.is_autocast_enabled(device)
    finally:
        torch.set_autocast_enabled(device, False)


DEFAULT = """
import os, sys, torch, torch.distributed as dist, paceline.torch as pt
from loops import bits
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
host = dict(device="cpu")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8, **host), torch.nn.BatchNorm1d(8, **host), torch.nn.Linear(8, 2, **host))
inputs = [torch.randn(6, 4, generator=torch.Generator().manual_seed(r)) for _ in range(3)]
torch.set_default_device(sys.argv[2])

class Own(torch.optim.SGD):
    pass

optimizer = Own(model.parameters(), lr=0.1, momentum=0.9)
with pt.attach(model, optimizer, buffers="broadcast", clip_norm=0.5):
    for x in inputs:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
found = list(model.state_dict().values())
for kind in (torch.float32, torch.int64):
    t = torch.arange(6, **host).to(kind) + r
    dist.all_reduce(t)
    o = torch.empty(6, dtype=kind, **host)
    dist.all_to_all_single(o, t + r)
    found += [t, o]
    many = [torch.empty(6, dtype=kind, **host) for _ in range(n)]
    dist.all_gather(many, t + r)
    dist.scatter(o, many if r == 0 else None, 0)
    found += [*many, o]
open(os.path.join(sys.argv[1], f"{sys.argv[2]}-{r}"), "w").write(bits(found))
dist.destroy_process_group()
"""


def test_the_device_that_a_script_has_by_default_is_its_own_affair(tmp_path):
    """As with torch.set_default_device("cuda")."""
    for device in ("cpu", "meta"):
        passes(tmp_path, DEFAULT, tmp_path, device)
    for rank in range(2):
        assert (tmp_path / f"meta-{rank}").read_text() == (tmp_path / f"cpu-{rank}").read_text()
