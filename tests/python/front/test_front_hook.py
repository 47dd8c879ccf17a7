"""paceline.torch.ddp_hook: DistributedDataParallel's gradients by our collectives, over another's process group."""

import json

import pytest
import torch
from processes import passes

from paceline import PacelineError
from paceline.torch.backend.dropping import Dropping, largest, sent_elements
from paceline.torch.backend.hook import HookState, parsed

TRAIN = """
import json, os, sys, warnings, torch, torch.distributed as dist, torch.nn as nn
import paceline.torch as pt
warnings.simplefilter("ignore")
backend, folder = sys.argv[1:]
dist.init_process_group(backend)
n, r = dist.get_world_size(), dist.get_rank()
DDP = nn.parallel.DistributedDataParallel

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

def data(step, rank):
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * step + rank))

def train(model, momentum, step_of=lambda model, step: model(data(step, r)).square().mean().backward()):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    for step in range(20):
        optimizer.zero_grad()
        step_of(model, step)
        optimizer.step()
    return model

def bits(model):
    return [p.detach().double().sum().item().hex() for p in model.parameters()]

def hooked(wire, momentum=0.9, choices={}, **more):
    model = DDP(net(), **choices)
    state = pt.HookState(wire, **more)
    model.register_comm_hook(state, pt.ddp_hook)
    found = bits(train(model, momentum))
    state.close()
    return found

# What one process gets that has everybody's gradients: `few` says what is sent of a rank's.
def alone(mean_of, momentum=0.9):
    def step_of(model, step):
        gradients = []
        for rank in range(n):
            model.zero_grad()
            model(data(step, rank)).square().mean().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        for k, p in enumerate(model.parameters()):
            p.grad = mean_of(step, k, [of[k] for of in gradients])
    return bits(train(net(), momentum, step_of))

def narrow(kind):
    def mean_of(step, k, parts):
        total = parts[0].to(kind)
        for part in parts[1:]:
            total = total + part.to(kind)
        return (total / n).float()
    return mean_of

def few(share, m=0.0, warm_up=0):
    kept, speed = {}, {}
    def mean_of(step, k, parts):
        s = 0.25 * (share / 0.25) ** (step / warm_up) if step < warm_up else share
        total = torch.zeros(parts[0].numel())
        for rank, part in enumerate(parts):
            old, v = kept.get((k, rank), torch.zeros(part.numel())), speed.get((k, rank), torch.zeros(part.numel()))
            v = v * m + part.view(-1)
            whole = old + v
            count = max(1, int(s * whole.numel() + 0.5))
            order = sorted(range(whole.numel()), key=lambda i: -abs(whole[i].item()))[:count]
            for i in order:
                total[i] += whole[i]
                whole[i] = v[i] = 0
            kept[k, rank], speed[k, rank] = whole, v
        return (total / n).view(parts[0].shape)
    return mean_of

found, expected = {}, {}
for name, choices in (("plain", {}), ("bucket view, static", dict(gradient_as_bucket_view=True, static_graph=True)), ("unused", dict(find_unused_parameters=True)), ("small buckets", dict(bucket_cap_mb=0.005))):
    found[name], expected[name] = hooked("float32", choices=choices), bits(train(DDP(net(), **choices), 0.9)) if n == 2 else None
for name, kind in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
    found[name], expected[name] = hooked(name, rank_order=True), alone(narrow(kind))
found["dropping"], expected["dropping"] = hooked("dropping:0.02", choices=dict(bucket_cap_mb=0.005)), alone(few(0.02))
found["everything is sent"], expected["everything is sent"] = hooked("dropping:1"), alone(few(1.0))
found["dgc"], expected["dgc"] = hooked("dgc:0.01", momentum=0.0, warm_up=5), alone(few(0.01, 0.9, 5), momentum=0.0)
with open(os.path.join(folder, str(r)), "w") as file:
    json.dump([found, expected], file)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks, backend", [(2, "gloo"), *(pytest.param(*case, marks=pytest.mark.full) for case in ((3, "paceline"), (4, "gloo")))])
def test_gradients_are_what_one_process_makes_of_everybodys(ranks, backend, tmp_path):
    passes(tmp_path, TRAIN, backend, tmp_path, ranks=ranks)
    of_ranks = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(ranks)]
    assert all(found == of_ranks[0] for found in of_ranks), "ranks differ"
    found, expected = of_ranks[0]
    assert len(found) == 9
    assert {what: bits for what, bits in found.items() if expected[what] not in (None, bits)} == {}


WRONG = """
import sys, torch, torch.distributed as dist, torch.nn as nn, paceline, paceline.torch as pt
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
model.register_comm_hook(pt.HookState("dropping:0.5" if rank else "float32"), pt.ddp_hook)
try:
    model(torch.ones(2, 4)).sum().backward()
except Exception as error:
    assert "ranks 0 and 1 disagree" in str(error) and "cast" not in str(error) and "allreduce" in str(error) and "allgather" in str(error), error
else:
    sys.exit("no error")
dist.destroy_process_group()
"""


def test_ranks_that_send_in_different_ways_both_fail_and_are_named(tmp_path):
    passes(tmp_path, WRONG)


@pytest.mark.parametrize("wire", ["", "float64", "dropping", "dropping:0", "dropping:1.5", "dgc:-1", "dgc:x", "bfloat16:0.1"])
def test_what_no_wire_is_called_is_refused_with_the_legal_ones(wire):
    with pytest.raises(PacelineError, match="dropping:SHARE"):
        parsed(wire)


@pytest.mark.parametrize("options", [{"momentum": 0.5}, {"warm_up": 3}, {"wire": "dropping:0.1", "momentum": 0.5}, {"wire": "dgc:0.1", "momentum": 1.0}, {"wire": "dgc:0.1", "warm_up": -1}], ids=str)
def test_an_option_without_effect_is_refused(options):
    with pytest.raises(PacelineError, match=next(name for name in options if name != "wire")):
        HookState(**options)


@pytest.mark.parametrize("seed", range(8))
def test_the_largest_are_those_of_a_full_sort(seed):
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(200_000, generator=draw) ** 3
    if seed == 1:
        values[::100] = 0  # the sample says nothing of the others
    if seed == 2:
        values[::100] = 1e6  # nor here
    if seed == 3:
        values[77], values[78], values[1000] = float("nan"), float("inf"), -float("inf")
    count = sent_elements([0.5, 0.1, 0.01, 0.001, 1e-9, 1.0, 0.03, 0.2][seed], values.numel())
    magnitudes = values.abs().tolist()
    order = sorted(range(values.numel()), key=lambda i: -magnitudes[i] if magnitudes[i] == magnitudes[i] else -float("inf"))[:count]
    chosen = largest(values, count)
    assert chosen.numel() == count
    assert sorted(values[chosen].abs().nan_to_num(9e9).tolist()) == sorted(values[torch.tensor(order)].abs().nan_to_num(9e9).tolist())


def test_nothing_is_lost_of_what_is_kept_back():
    parameter = torch.nn.Parameter(torch.zeros(1000))
    dropping = Dropping(0.05)
    given, sent = torch.zeros(1000), torch.zeros(1000)
    for step in range(50):
        gradient = torch.randint(-8, 9, (1000,), generator=torch.Generator().manual_seed(step)).float()  # sums of these are exact
        given += gradient
        where, what = dropping.select([parameter], gradient)
        dropping.next_iteration()
        assert where.numel() == 50
        sent.index_add_(0, where, what)
    assert torch.equal(given, sent + dropping._kept[parameter])


@pytest.mark.parametrize("momentum", (0.0, 0.9))
@pytest.mark.parametrize("wrong", (float("nan"), float("inf"), -float("inf")))
@pytest.mark.parametrize("elements", (1, 7, 200))
def test_a_gradient_that_is_not_finite_is_sent_and_leaves_nothing_behind(elements, wrong, momentum):
    parameter, other = torch.nn.Parameter(torch.zeros(200)), torch.nn.Parameter(torch.zeros(3))

    def gradient(step):
        return torch.randn(203, generator=torch.Generator().manual_seed(step))

    def sent(dropping, gradients):
        where, what = dropping.select([parameter, other], gradients)
        dropping.next_iteration()
        return where.tolist(), what.tolist()

    dropping, without = Dropping(0.01, momentum), Dropping(0.01, momentum)
    for step in range(3):
        assert sent(dropping, gradient(step)) == sent(without, gradient(step))
    gradients = gradient(3)
    gradients[:elements] = wrong
    where, what = sent(dropping, gradients)
    assert len(where) == 3 and all(place < elements and str(value) == str(wrong) for place, value in list(zip(where, what))[: min(elements, 2)])
    # The other parameter's was finite: it has had its part.
    without.select([other], gradients[200:])
    without.next_iteration()
    for step in range(4, 8):
        assert sent(dropping, gradient(step)) == sent(without, gradient(step))


PARTED = """
import sys, torch, torch.distributed as dist, paceline.torch as pt
dist.init_process_group("gloo")
rank, changed = dist.get_rank(), int(sys.argv[2])
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))
model.register_comm_hook(pt.HookState(), pt.ddp_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
said = ""
for step in range(103):
    if step == changed and rank == 1:
        with torch.no_grad():
            model.module.bias.add_(1)
    try:
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    except RuntimeError as error:
        said = f"{step} {error}"
        break
with open(f"{sys.argv[1]}/{rank}", "w") as file:
    file.write(said)
"""


@pytest.mark.parametrize("changed, found", ((0, 0), (7, 100), (1000, None)))
def test_parameters_that_differ_are_an_error_on_all_ranks(tmp_path, changed, found):
    passes(tmp_path, PARTED, tmp_path, changed)
    for rank in range(2):
        said = (tmp_path / str(rank)).read_text()
        assert said == "" if found is None else said.startswith(f"{found} ") and f"ranks 0 and 1 train apart: before the step of iteration {found + 1} parameter" in said, said
