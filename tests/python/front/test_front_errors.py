"""Bad input is refused at once, in a sentence that names the parameter and what to do; all ranks end."""

import re

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached
from paceline import PacelineError
from torch import nn


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def no_join(*args):
    raise AssertionError("refused before anybody joins")


def tied_by_memory():
    model = nets.mlp()
    model[4].weight.data = model[2].weight.data.view(-1)[:18].view(3, 6)
    return model


def ddp_like():
    inner = nets.mlp()
    wrapper = nn.parallel.DistributedDataParallel.__new__(nn.parallel.DistributedDataParallel)
    nn.Module.__init__(wrapper)
    wrapper.module = inner
    return wrapper


def lazy():
    return nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3))


def replaced_step(model):
    optimizer = sgd(model)
    optimizer.step = lambda closure=None: None
    return optimizer


def with_a_buffer_elsewhere():
    model = nets.mlp()
    model[0].register_buffer("mask", torch.ones(2, device="meta"))
    return model


class AsksForIt(torch.optim.SGD):
    def step(self, closure):
        return super().step(closure)


class LooksForIt(torch.optim.SGD):
    def step(self, closure=None):
        assert closure is not None, "give a closure"
        return super().step(closure)


class LooksWithin(torch.optim.Optimizer):
    """As one that takes a step, computes gradients there, and has another optimizer step."""

    def __init__(self, params):
        self.inner = torch.optim.SGD(params, lr=0.1)
        super().__init__(self.inner.param_groups, {})

    def step(self, closure=None):
        assert closure is not None, "it was not provided"
        closure()
        self.inner.step()


REFUSED = {
    "DDP": (ddp_like, sgd, {}, "wrapped in DistributedDataParallel.*remove the line"),
    "DataParallel inside": (lambda: nn.Sequential(nn.DataParallel(nn.Linear(4, 3))), sgd, {}, "part '0' is wrapped in DataParallel"),
    "lazy": (lazy, lambda m: torch.optim.SGD(m[1].parameters(), lr=0.1), {}, "parameter 0.weight is lazy.*run one batch"),
    "float64": (lambda: nets.mlp().double(), sgd, {}, "parameter 0.weight is float64.*model.float()"),
    "meta": (lambda: nets.mlp().to("meta"), sgd, {}, "parameter 0.weight is on meta"),
    "buffer on meta": (with_a_buffer_elsewhere, sgd, {}, "buffer 0.mask is on meta; legal are cpu and cuda"),
    "memory shared": (tied_by_memory, sgd, {}, "2.weight and 4.weight share memory"),
    "no parameters": (nn.Tanh, lambda m: torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1), {}, "has no parameters"),
    "not a model": (lambda: [nn.Linear(1, 1)], lambda m: sgd(m[0]), {}, "takes an nn.Module.*given a list"),
    "not an optimizer": (nets.mlp, lambda m: torch.optim.lr_scheduler.ConstantLR(sgd(m)), {}, "takes a torch.optim.Optimizer.*given a ConstantLR"),
    "LBFGS": (nets.mlp, lambda m: torch.optim.LBFGS(m.parameters()), {}, "LBFGS calls its closure many times"),
    "SparseAdam": (nets.mlp, lambda m: torch.optim.SparseAdam(m.parameters()), {}, "SparseAdam takes sparse gradients only"),
    "closure": (nets.mlp, lambda m: AsksForIt(m.parameters(), lr=0.1), {}, "AsksForIt.step needs its closure: .*attach an optimizer that steps without it"),
    "closure looked for": (nets.mlp, lambda m: LooksForIt(m.parameters(), lr=0.1), {}, "LooksForIt.step needs its closure: "),
    "step replaced": (nets.mlp, replaced_step, {}, "somebody has replaced SGD.step"),
    "stranger": (nets.mlp, lambda m: torch.optim.SGD([*m.parameters(), nn.Parameter(torch.zeros(2, 5))], lr=0.1), {}, r"parameter 6 of the optimizer's group 0, of shape \(2, 5\)"),
    "buffers": (nets.mlp, sgd, {"buffers": "all"}, "buffers='all' is none of 'local', 'broadcast', 'mean'"),
    "apply": (nets.mlp, sgd, {"apply": "later"}, "apply='later' is none of"),
    "average": (nets.mlp, sgd, {"average": "median"}, "average='median' is none of"),
    "expect": (nets.mlp, sgd, {"expect": "twice"}, "expect='twice' is none of"),
    "accumulate": (nets.mlp, sgd, {"accumulate": 0}, "accumulate=0 is less than 1"),
    "part of a pass": (nets.mlp, sgd, {"accumulate": 2.5}, "accumulate=2.5 is less than 1 backward pass, or no whole number"),
    "a norm in words": (nets.mlp, sgd, {"clip_norm": "1"}, "clip_norm='1' is not above 0"),
    "both counts": (nets.mlp, sgd, {"accumulate": 2, "expect": "counted"}, "give one of the two"),
    "clip_norm": (nets.mlp, sgd, {"clip_norm": 0.0}, "clip_norm=0.0 is not above 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_attach_refuses(name):
    model, make, choices, sentence = REFUSED[name]
    built = model()
    with pytest.raises(PacelineError, match=sentence) as caught:
        pt.attach(built, make(built), join=no_join, **choices)
    assert caught.value.exit_code == 2 and caught.value.kind == "bad-request"


def test_attach_refuses_what_is_attached():
    def body(rank, join):
        model = nets.mlp()
        optimizer = sgd(model)
        job = pt.attach(model, optimizer, join=join)
        with pytest.raises(PacelineError, match="the model, or a part of it, is attached already"):
            pt.attach(model, sgd(model), join=no_join)
        with pytest.raises(PacelineError, match="the model, or a part of it, is attached already"):
            pt.attach(nn.Sequential(model, nn.Linear(1, 1)), sgd(model), join=no_join)
        other = nets.mlp()
        with pytest.raises(PacelineError, match="optimizer is attached already"):
            pt.attach(other, optimizer, join=no_join)
        job.close()
        pt.attach(model, optimizer, join=standin.World(1).join_as(0)).close()

    standin.run(1, body)


def backward(model, rank=0, iteration=0):
    nets.backward(model, iteration, rank)


def training(*actions):
    """A loop whose iterations call `actions` in place of the usual ones."""

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            backward(model, rank, iteration)
            for action in actions:
                action(model, optimizer, job, iteration, rank)
            optimizer.step()
            optimizer.zero_grad()
            yield

    return script


def assign(model, optimizer, job, iteration, rank):
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)


def hook_that_reads(model, optimizer, job, iteration, rank):
    if iteration == 0:
        model[0].weight.register_post_accumulate_grad_hook(lambda p: p.grad.norm())


def resize(model, optimizer, job, iteration, rank):
    """And what comes next is a backward pass."""
    optimizer.step()
    optimizer.zero_grad()
    for parameter, shape in ((model[0].weight, (5, 4)), (model[0].bias, (5,)), (model[2].weight, (6, 5))):
        parameter.data = torch.zeros(shape)
    backward(model, rank, 1)


RUNNING = {
    "second backward": (training(lambda m, o, j, i, r: backward(m, r, i)), {}, r"the gradient of 4.bias was touched in backward\(\).*job.no_sync\(\)"),
    "backward after a look": (
        training(lambda m, o, j, i, r: (m[0].weight.grad.norm(), m.zero_grad() if False else None, backward(m, r, i))),
        {},
        "finished after the script had looked at gradients|touched in backward",
    ),
    "hook that reads": (training(hook_that_reads), {}, "the gradient of 0.weight was touched in backward.*a hook that reads .grad"),
    "third backward of two": (training(*[lambda m, o, j, i, r: backward(m, r, i)] * 2), {"accumulate": 2}, "touched in backward"),
    "another count": (training(lambda m, o, j, i, r: backward(m, r, i) if i < 1 else None), {"expect": "counted"}, "finished 1 times in this iteration and 2 times in the first"),
    "samples not told": (training(), {"average": "samples"}, r"call job.samples\(len\(x\)\) before backward"),
    "samples below zero": (training(lambda m, o, j, i, r: j.samples(-1)), {}, r"job.samples\(-1\)"),
    "samples that are no whole number": (training(lambda m, o, j, i, r: j.samples(12.5)), {}, r"job.samples\(12.5\): a number of samples is a whole one of at least 0"),
    "assigned": (training(assign), {}, "parameter 0.weight is another object than when attach ran"),
    "converted": (training(lambda m, o, j, i, r: m.to(torch.bfloat16)), {}, "0.weight was torch.float32 when attach ran and is torch.bfloat16 now"),
    "resized": (training(resize), {}, r"parameter 2.weight was of shape \(6, 6\) when attach ran and is of \(6, 5\) now"),
    "resized, and stepped": (training(lambda m, o, j, i, r: setattr(m[2].weight, "data", torch.zeros(12, 6))), {}, r"2.weight was of shape \(6, 6\) when attach ran and is of \(12, 6\) now"),
    "group of a stranger": (training(lambda m, o, j, i, r: o.add_param_group({"params": [nn.Parameter(torch.zeros(7))]})), {}, r"shape \(7,\) that the model had not"),
    "clipped twice": (training(lambda m, o, j, i, r: pt.clip_grad_norm_(m, 1.0)), {"clip_norm": 1.0}, r"attach\(clip_norm=1.0\) clips already"),
}


@pytest.mark.parametrize("name", RUNNING)
def test_a_running_script_is_told(name):
    script, choices, sentence = RUNNING[name]
    with pytest.raises(PacelineError, match=sentence) as caught:
        attached(2, nets.mlp(), sgd, script, **choices)
    assert caught.value.exit_code == 2


def test_an_optimizer_around_another_that_needs_its_closure_says_so_when_it_steps():
    def script(model, optimizer, rank, job, log):
        optimizer.step(lambda: backward(model, rank))
        yield

    with pytest.raises(PacelineError, match="LooksWithin.step needs its closure: .*is run once, before the step"):
        attached(2, nets.mlp(), lambda m: LooksWithin(m.parameters()), script)


def test_a_look_on_one_rank_between_two_losses_is_an_error_and_no_wrong_number():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            hidden = torch.tanh(model[0](x))
            F.cross_entropy(model[4](torch.tanh(model[2](hidden.detach()))), y).backward()
            if rank == 1:
                model[4].weight.grad.norm()
            hidden.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            yield

    with pytest.raises(PacelineError, match="finished after the script had looked at gradients of this iteration"):
        attached(2, nets.mlp(), sgd, script)


def test_thawing_is_refused_unless_it_was_announced():
    template = nets.mlp()
    template[0].requires_grad_(False)

    def thaw(model, optimizer, job, iteration, rank):
        if iteration == 1:
            model[0].requires_grad_(True)

    with pytest.raises(PacelineError, match=re.escape("parameter 0.weight was frozen and in no optimizer when attach ran, and learns now; attach(..., may_thaw=True)")):
        attached(2, template, lambda m: torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=0.1), training(thaw))


def different(change, choices=None):
    """Rank 1 differs from rank 0."""

    def body(rank, join):
        model = nets.mlp()
        if rank:
            change(model)
        pt.attach(model, sgd(model), join=join, **(choices(rank) if choices else {}))

    return standin.run(2, body)


def transpose(model):
    model[2].weight = nn.Parameter(model[2].weight.detach().t().contiguous().t())


def test_ranks_that_disagree_are_told_on_what():
    with pytest.raises(PacelineError, match=r"ranks 0 and 1 disagree on parameter 2.weight: rank 1 has float32 with strides \(1, 6\)"):
        different(transpose)
    with pytest.raises(PacelineError, match="ranks 0 and 1 disagree on parameter 0.weight: rank 1 has bfloat16"):
        different(lambda model: model.to(torch.bfloat16))
    with pytest.raises(PacelineError, match=r"ranks 0 and 1 disagree on attach\(clip_norm=...\): rank 1 has 1.0"):
        different(lambda model: None, lambda rank: {"clip_norm": float(rank) or None})
    with pytest.raises(PacelineError, match="workers 0 and 1 disagree on tensor 4"):
        different(lambda model: model.__setitem__(4, nn.Linear(6, 4)))


def test_one_ranks_exception_reaches_all():
    def script(model, optimizer, rank, job, log):
        with job:
            backward(model, rank)
            optimizer.step()
            if rank == 1:
                raise ValueError("no such file")
            backward(model, rank, 1)
            optimizer.step()
            model.state_dict()
            yield

    with pytest.raises((PacelineError, ValueError), match="no such file"):
        attached(3, nets.mlp(), sgd, script)
    assert str(standin.run.world.failure) == "rank 1: ValueError: no such file"


def test_a_step_without_a_gradient_says_so_once():
    def script(model, optimizer, rank, job, log):
        for _ in range(2):
            optimizer.step()
            yield

    with pytest.warns(UserWarning, match="no gradient was finished before optimizer.step"):
        attached(1, nets.mlp(), sgd, script)


def test_errors_survive_a_pickle():
    import pickle

    error = PacelineError("a sentence", kind="peer-lost", subject="rank 2")
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.kind, again.code, again.subject, again.exit_code) == ("a sentence", "peer-lost", "peer-lost", "rank 2", 1)
