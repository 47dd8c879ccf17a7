"""Copies and pickles of what is attached have no trace of it: they are those of a plain model, also where paceline is not installed."""

import collections
import copy
import copyreg
import functools
import io
import pickle
import pickletools
import zipfile

import nets
import paceline.torch as pt
import pytest
import server_standin
import standin
import torch
import torch.nn.functional as F
from loops import bits
from paceline.torch import copies
from torch import nn


class Stated(nn.Linear):
    """Says itself what is kept of it."""

    def __getstate__(self):
        return self.__dict__.copy()


class Copying(nn.Linear):
    """Copies itself."""

    def __deepcopy__(self, memo):
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return replica


class Reducing(nn.Linear):
    def __reduce__(self):
        return made_of, (dict(vars(self)),)


class Slotted(nn.Linear):
    __slots__ = ("kept",)

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.kept = 5


class Registered(nn.Linear):
    """The script has registered with copyreg how it is kept."""


def registered(module):
    return made_again, (dict(vars(module)),)


copyreg.pickle(Registered, registered)


def made_again(attributes):
    made = Registered.__new__(Registered)
    made.__dict__ = attributes
    return made


def made_of(attributes):
    made = Reducing.__new__(Reducing)
    made.__dict__ = attributes
    return made


class Keeping(torch.optim.SGD):
    """Keeps all its attributes, but for what a scheduler has put there."""

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "step"}


def net():
    torch.manual_seed(1)
    rest = [Stated(8, 8), Copying(8, 8), Reducing(8, 8), Slotted(8, 8), Registered(8, 8), nn.BatchNorm1d(8), nn.MultiheadAttention(8, 2)]
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.ModuleDict({"more": nn.ModuleList(rest)}))
    model.register_forward_hook(seen)
    model[0].register_forward_pre_hook(seen_before, with_kwargs=True)
    model.loss_hooks = {1: True, 2: True, 3: True}  # the script's own
    return model


def seen(module, given, result):
    return None


def seen_before(module, args, kwargs):
    return None


def forward(model, x):
    x = model[0](x)
    for part in model[2]["more"][:6]:
        x = part(x)
    return model[2]["more"][6](x, x, x)[0]


def bytes_of(kept):
    """What the pickle in a file of torch.save says."""
    with zipfile.ZipFile(io.BytesIO(kept)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


def saved(thing, **how):
    stream = io.BytesIO()
    torch.save(thing, stream, **how)
    return stream.getvalue()


def names_in(text):
    """Whatever the pickle names, by which it is read: classes, functions, hooks; and how many objects it has."""
    named = {str(value) for _, value, _ in pickletools.genops(text) if isinstance(value, str)}
    return named, sum(code.name in ("NEWOBJ", "REDUCE", "BUILD") for code, _, _ in pickletools.genops(text))


WAYS = {
    "pickle": pickle.dumps,
    "torch.save": lambda thing: bytes_of(saved(thing)),
    "torch.save, protocol 5": lambda thing: bytes_of(saved(thing, pickle_protocol=5)),
    "pickle of a deep copy": lambda thing: pickle.dumps(copy.deepcopy(thing)),
    "pickle of a shallow copy": lambda thing: pickle.dumps(copy.copy(thing)),
}
THINGS = {
    "model": lambda model, optimizer, scheduler: model,
    "a part": lambda model, optimizer, scheduler: model[2],
    "a layer": lambda model, optimizer, scheduler: model[0],
    "optimizer": lambda model, optimizer, scheduler: optimizer,
    "scheduler": lambda model, optimizer, scheduler: scheduler,
    "all": lambda model, optimizer, scheduler: {"model": model, "optimizer": optimizer, "scheduler": scheduler, "state": optimizer.state_dict()},
    "state dicts": lambda model, optimizer, scheduler: [model.state_dict(), model.state_dict(keep_vars=True), optimizer.state_dict(), scheduler.state_dict()],
    "mean of weights": lambda model, optimizer, scheduler: torch.optim.swa_utils.AveragedModel(model),
    "parameters": lambda model, optimizer, scheduler: [list(model.parameters()), dict(model.named_parameters())],
    "gradients": lambda model, optimizer, scheduler: [parameter.grad for parameter in model.parameters()],
}


def trained(join, make, look, update="worker", **more):
    model = net()
    optimizer = make(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    job = join and pt.attach(model, optimizer, join=join, update=update, **more)
    for iteration in range(2):
        optimizer.zero_grad()
        forward(model, nets.numbers(iteration, 0, (4, 8))[0]).square().mean().backward()
        optimizer.step()
        scheduler.step()
    found = look(model, optimizer, scheduler)
    if job:
        job.close()
    return found


def named(thing, *parts):
    return {way: names_in(keep(THINGS[thing](*parts))) for way, keep in WAYS.items()}


@pytest.mark.parametrize("make", (torch.optim.SGD, Keeping))
@pytest.mark.parametrize("thing", THINGS)
def test_a_pickle_names_what_that_of_a_plain_model_names(thing, make):
    expected = trained(None, make, functools.partial(named, thing))
    for found in standin.run(2, lambda rank, join: trained(join, make, functools.partial(named, thing))):
        for way, names in expected.items():
            assert found[way] == names, way


@pytest.mark.parametrize("thing", ("model", "optimizer", "scheduler"))
def test_a_pickle_beside_servers_that_make_the_steps_names_what_a_plain_one_names(thing):
    expected = trained(None, torch.optim.SGD, functools.partial(named, thing))
    for found in server_standin.run(2, lambda rank, join: trained(join, torch.optim.SGD, functools.partial(named, thing), update="server")):
        assert found == expected


def test_classes_that_a_script_allows_are_enough_to_load():
    def body(rank, join):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pt.attach(model, optimizer, join=join):
            F.cross_entropy(model(nets.numbers(0, rank, (4, 4))[0]), nets.numbers(0, rank, (4, 4))[1]).backward()
            optimizer.step()
            kept = [saved(thing) for thing in (model, copy.deepcopy(model), optimizer)]
            with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.ReLU, nn.BatchNorm1d, torch.optim.SGD, collections.defaultdict, dict]):
                whole, copied, stepped = (torch.load(io.BytesIO(one), weights_only=True) for one in kept)
            for loaded in (whole, copied):
                assert bits(loaded.state_dict()) == bits(model.state_dict())
                assert not any(isinstance(hook, copies.Hook) for module in loaded.modules() for held in vars(module).values() if isinstance(held, dict) for hook in held.values())
                assert all(type(module._parameters) is dict for module in loaded.modules())
            assert bits([parameter for group in stepped.param_groups for parameter in group["params"]]) == bits(list(model.parameters()))

    standin.run(1, body)  # what is allowed is the whole process's


def test_a_deep_copy_can_be_exported_scripted_and_traced():
    def body(rank, join):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = nets.numbers(0, rank, (4, 4))[0]
        with pt.attach(model, optimizer, join=join):
            model(x).square().mean().backward()
            optimizer.step()
            stream = io.BytesIO()
            torch.export.save(torch.export.export(model, (x,)), stream)  # not strict: the model itself may be
            assert b"paceline" not in stream.getvalue()
            copied = copy.deepcopy(model)
            expected = model(x)
            for made in (torch.export.export(copied, (x,), strict=True).module(), torch.jit.script(copied), torch.jit.trace(copied, x), torch.export.load(stream).module()):
                assert torch.equal(made(x), expected)

    standin.run(1, body)


def test_an_optimizer_has_the_class_that_it_had():
    def body(rank, join):
        model = nets.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pt.attach(model, optimizer, join=join):
            assert isinstance(optimizer, torch.optim.SGD) and type(pickle.loads(pickle.dumps(optimizer))) is torch.optim.SGD
            assert optimizer.__class__ is type(optimizer)
            assert type(copy.deepcopy(optimizer)) is type(copy.copy(optimizer)) is torch.optim.SGD
            assert optimizer.__class__ is type(optimizer)
        assert type(optimizer) is torch.optim.SGD

    standin.run(2, body)


def test_a_sampler_becomes_a_distributed_sampler():
    def body(rank, join):
        model = nets.mlp()
        with pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), join=join) as job:
            sampler = job.sampler(list(range(23)), seed=3)
            sampler.set_epoch(2)
            for copied in (copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
                assert type(copied) is torch.utils.data.DistributedSampler and list(copied) == list(sampler)

    standin.run(2, body)


def test_what_a_script_does_not_attach_is_pickled_as_before():
    other = net()
    before = names_in(pickle.dumps(other))
    trained_on = standin.run(2, lambda rank, join: trained(join, torch.optim.SGD, lambda *parts: names_in(pickle.dumps(other))))
    assert trained_on == [before, before] and names_in(pickle.dumps(other)) == before
