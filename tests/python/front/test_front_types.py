"""Types and layouts: frozen parameters and buffers of any kind begin as rank 0's; what cannot be exchanged is refused by name, with a remedy that works."""

import copy
import io

import nets
import paceline.torch as pt
import pytest
import server_standin
import standin
import torch
from loops import bits
from paceline import PacelineError
from paceline.torch import memory
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

ROWS = torch.arange(16.0).reshape(4, 4) * (torch.arange(16).reshape(4, 4) % 3 == 0)
KINDS = {
    **{str(kind).removeprefix("torch."): (lambda kind=kind: torch.arange(6).to(kind)) for kind in (
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.float16, torch.bfloat16,
        torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    )},
    "no number": lambda: torch.tensor([float("nan"), float("inf"), -0.0], dtype=torch.float64),
    "empty": lambda: torch.ones(0, 3, dtype=torch.int8),
    "one number": lambda: torch.tensor(7),
    "channels last": lambda: torch.arange(48).reshape(2, 4, 2, 3).to(memory_format=torch.channels_last),
    "part of another": lambda: torch.arange(12.0, dtype=torch.float64).reshape(3, 4)[:, ::2],
    "expanded": lambda: torch.arange(16.0).reshape(4, 4).expand(3, 4, 4),
    "expanded number": lambda: torch.tensor(3.0).expand(4),
    "expanded int8": lambda: torch.arange(4, dtype=torch.int8)[:, None].expand(4, 5),
    "coo": lambda: ROWS.to_sparse(),
    "coo, several": lambda: torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 3.0], (4,)),
    "csr": lambda: ROWS.to_sparse_csr(),
    "csc": lambda: ROWS.to_sparse_csc(),
    "bsr": lambda: ROWS.to_sparse_bsr((2, 2)),
    "bsc": lambda: ROWS.to_sparse_bsc((2, 2)),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.full((4, 3), 2.0)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.full((4, 3), 2.0)], layout=torch.jagged),
    "conjugate": lambda: torch.complex(torch.arange(4.0), torch.arange(1.0, 5.0)).conj(),
    "negative": lambda: torch.complex(torch.arange(4.0), torch.arange(1.0, 5.0)).conj().imag,
    "two tensors": lambda: TwoTensor(torch.arange(4.0), torch.arange(1.0, 5.0)),
}  # fmt: skip
UNREADABLE = {
    "mkldnn": (lambda: torch.ones(4, 4).to_mkldnn(), r"hold what to_dense\(\) gives", lambda tensor: tensor.to_dense()),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8), r"hold what int_repr\(\) gives", lambda tensor: tensor.int_repr()),
    "overlapping": (lambda: torch.arange(6.0).unfold(0, 4, 1), r"hold what clone\(\) gives", lambda tensor: tensor.clone()),
}
LEARNING = {
    "float64": (lambda: torch.ones(4, dtype=torch.float64), r"is float64; legal are .*: model.float\(\)", lambda x: x.float()),
    "complex64": (lambda: torch.ones(4, dtype=torch.complex64), r"torch.view_as_real\(x\)", lambda x: torch.view_as_real(x).float()),
    "coo": (lambda: ROWS.to_sparse(), r"x.to_dense\(\)", lambda x: x.to_dense()),
    "csr": (lambda: ROWS.to_sparse_csr(), r"x.to_dense\(\)", lambda x: x.to_dense()),
    "jagged": (KINDS["jagged"], "to_padded_tensor", lambda x: torch.nested.to_padded_tensor(x, 0.0)),
    "expanded": (KINDS["expanded"], r"clone\(\)", lambda x: x.resolve_neg().clone()),
    "negative": (KINDS["negative"], r"resolve_neg\(\)", lambda x: x.resolve_neg().clone()),
    "two tensors": (KINDS["two tensors"], "is torch.float32 TwoTensor of 4 elements, .* before its parameters are converted", None),
}


ENDS = nn.Linear(4, 8), nn.Linear(8, 3)


class Holds(nn.Module):
    """A network with one thing more, a part of a part of it."""

    def __init__(self, register):
        super().__init__()
        self.first, self.last = copy.deepcopy(ENDS)
        self.inner = nn.ModuleDict({"part": nn.Module()})
        register(self.inner["part"])

    def forward(self, x):
        return self.last(self.first(x).relu())


def parameter(tensor, learns=False):
    return lambda module: module.register_parameter("held", nn.Parameter(tensor, requires_grad=learns))


def buffer(tensor):
    return lambda module: module.register_buffer("held", tensor)


def held(model):
    part = model.inner["part"].held
    return bits(memory.parts_of(part))


def changed(tensor):
    """Another rank's, of the same form."""
    with torch.no_grad():
        for part in memory.parts_of(tensor):
            if part.dtype not in (torch.int64, torch.int32) or tensor.layout is torch.strided and not tensor.is_nested:
                part.zero_()
    return tensor


def rounds(model, optimizer, rank, count=3):
    for iteration in range(count):
        model(nets.numbers(iteration, rank, (5, 4))[0]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def trained(register, make, run=standin.run, change=changed, stepped=lambda model: [parameter for parameter in model.parameters() if parameter.requires_grad], **choices):
    """What is held by each rank in the end, and the rest of the model."""

    def body(rank, join):
        tensor = make()
        model = Holds(register(change(tensor) if rank else tensor))
        optimizer = torch.optim.SGD(stepped(model), lr=0.1)
        with pt.attach(model, optimizer, join=join, **choices):
            rounds(model, optimizer, rank)
        return held(model), bits([model.first.weight, model.last.bias])

    return run(2, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", (parameter, buffer))
def test_what_does_not_learn_begins_as_rank_0s_whatever_it_is(kind, where):
    make = KINDS[kind]
    before = held(Holds(where(make())))
    plain = trained(where, lambda: torch.arange(6.0))
    for found, rest in trained(where, make):
        assert found == before and rest == plain[0][1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ("broadcast", "mean"))
def test_buffers_that_travel_are_of_any_kind(kind, way):
    if way == "mean" and memory.form_of(KINDS[kind]())[0] is torch.float32 and not memory.is_plain(KINDS[kind]()):
        with pytest.raises(PacelineError, match="buffer inner.part.held is torch.float32 .*, and means are of dense ones.*'broadcast'"):
            trained(buffer, KINDS[kind], buffers=way)
    else:
        before = held(Holds(buffer(KINDS[kind]())))
        assert [found for found, _ in trained(buffer, KINDS[kind], buffers=way)] == [before, before]


@pytest.mark.parametrize("choices", ({"may_thaw": True}, {"stepped": lambda model: model.parameters()}, {"update": "server", "run": server_standin.run}))
@pytest.mark.parametrize("kind", ("int8", "bool", "float64", "complex64", "bfloat16", "coo", "expanded"))
def test_what_cannot_learn_is_frozen_in_groups_beside_servers_and_where_others_may_thaw(kind, choices):
    before = held(Holds(parameter(KINDS[kind]())))
    assert [found for found, _ in trained(parameter, KINDS[kind], **choices)] == [before, before]


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("where", (parameter, buffer))
def test_what_nobody_could_write_to_is_refused_by_name_with_a_remedy_that_works(kind, where):
    make, words, remedy = UNREADABLE[kind]
    with pytest.raises(PacelineError, match=rf"{where.__name__} inner.part.held is .*{words}.*an attribute that is neither parameter nor buffer") as caught:
        trained(where, make, change=lambda tensor: tensor)
    assert caught.value.subject == "inner.part.held"
    trained(where, lambda: remedy(make()))


@pytest.mark.parametrize("kind", LEARNING)
def test_what_would_learn_and_cannot_is_refused_by_name_with_a_remedy_that_works(kind):
    make, words, remedy = LEARNING[kind]

    def learns(tensor):
        return parameter(tensor, learns=True)

    with pytest.raises(PacelineError, match=rf"parameter inner.part.held .*{words}.*requires_grad_\(False\)") as caught:
        trained(learns, make)
    assert caught.value.subject == "inner.part.held"
    trained(parameter, make)
    if remedy:
        trained(learns, lambda: remedy(make()))


def test_what_was_frozen_and_could_not_learn_is_refused_when_it_learns():
    def body(rank, join):
        model = Holds(parameter(torch.ones(4, dtype=torch.float64)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pt.attach(model, optimizer, join=join, may_thaw=True):
            rounds(model, optimizer, rank, 1)
            model.inner["part"].held.requires_grad_(True)
            rounds(model, optimizer, rank, 1)

    with pytest.raises(PacelineError, match=r"inner.part.held was frozen when attach ran, and learns now; it is float64; .*model.float\(\), before attach"):
        standin.run(2, body)


def scripted():
    torch.manual_seed(3)
    return torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8)))


def traced():
    torch.manual_seed(3)
    return torch.jit.trace(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.ones(2, 8))


def loaded():
    stream = io.BytesIO()
    torch.jit.save(scripted(), stream)
    stream.seek(0)
    return torch.jit.load(stream)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("inner", (scripted, traced, loaded, lambda: nn.Sequential(nn.Linear(8, 8), scripted())))
@pytest.mark.parametrize("frozen", (False, True))
def test_scripted_parts_train_as_plain_ones(inner, frozen):
    """They take no gate: what they are a part of opens theirs."""

    def net():
        torch.manual_seed(1)
        part = inner()
        for parameter in part.parameters():
            parameter.requires_grad_(not frozen)
        return nn.Sequential(nn.Linear(4, 8), part, nn.Linear(8, 3))

    attached = [net(), net()]  # made here: threads would share what scripts and random numbers stand in

    def body(rank, join):
        model = attached[rank]
        if rank:
            with torch.no_grad():
                for tensor in model.parameters():
                    tensor.zero_()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with pt.attach(model, optimizer, join=join):
            rounds(model, optimizer, rank)
        return bits(list(model.parameters()))

    models = [net(), net()]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]
    for iteration in range(3):
        for rank, model in enumerate(models):
            model(nets.numbers(iteration, rank, (5, 4))[0]).square().mean().backward()
        for both in zip(*(model.parameters() for model in models)):
            if both[0].grad is not None:
                mean = (both[0].grad + both[1].grad) * 0.5
                for one in both:
                    one.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert standin.run(2, body) == [bits(list(models[0].parameters()))] * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_model_is_refused_with_a_remedy_that_works():
    def body(rank, join, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pt.attach(model, optimizer, join=join):
            model(torch.ones(2, 8)).square().mean().backward()
            optimizer.step()

    with pytest.raises(PacelineError, match=r"the model is a RecursiveScriptModule, which takes no hooks; .*torch.nn.Sequential\(model\)"):
        standin.run(1, lambda rank, join: body(rank, join, scripted()))
    standin.run(1, lambda rank, join: body(rank, join, nn.Sequential(scripted())))


def test_layouts_of_ranks_that_differ_are_named():
    def body(rank, join):
        tensor = torch.arange(4.0).reshape(2, 2).to_sparse() if rank else torch.arange(4.0).reshape(2, 2)
        model = Holds(parameter(tensor))
        pt.attach(model, torch.optim.SGD(model.first.parameters(), lr=0.1), join=join)

    with pytest.raises(PacelineError, match="workers 0 and 1 disagree on tensor.*inner.part.held|inner.part.held"):
        standin.run(2, body)


def test_overlaps_are_found_as_one_by_one():
    generator = torch.Generator().manual_seed(5)
    for _ in range(500):
        size = torch.randint(1, 5, (3,), generator=generator).tolist()
        strides = torch.randint(0, 9, (3,), generator=generator).tolist()
        tensor = torch.empty_strided(size, strides)
        offsets = [sum(s * i for s, i in zip(strides, index)) for index in torch.cartesian_prod(*(torch.arange(n) for n in size)).reshape(-1, 3).tolist()]
        assert memory.overlaps(tensor) == (len(set(offsets)) < len(offsets)), (size, strides)


def test_a_copy_of_a_model_with_sparse_buffers_is_plain():
    model = Holds(buffer(ROWS.to_sparse()))
    assert held(copy.deepcopy(model)) == held(model)
