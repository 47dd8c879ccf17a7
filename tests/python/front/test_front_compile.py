"""torch.compile: blocks keep their gates, a whole model trains right and says what it costs, and nothing is silently ungated."""

import nets
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare, plain
from paceline import PacelineError
from paceline.torch.attached.table import Table
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
BACKEND = "aot_eager"  # same graphs and gates as inductor, without a compiler of C++


class Blocks(nn.Module):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 6)
            self.norm = nn.LayerNorm(6)

        def forward(self, x):
            return x + torch.tanh(self.inner(self.norm(x)))

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.blocks = nn.ModuleList(self.Block() for _ in range(3))
        self.last = nn.Linear(6, 3)
        self.heard = None  # a list: what backward does, in its order

    def forward(self, x):
        x = self.first(x)
        for number, block in enumerate(self.blocks):
            x = block(x)
            if self.heard is not None and x.requires_grad:
                x.register_hook(lambda _, number=number: self.heard.append(f"backward of block {number}"))
        return self.last(x)


def script(model, optimizer, rank, job, log):
    for iteration in range(3):
        nets.backward(model, iteration, rank)
        yield
        optimizer.step()
        optimizer.zero_grad()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def same_as_plain(prepare, **choices):
    """The plain loop is not compiled: aot_eager runs the same kernels."""
    template = nets.seeded(Blocks)
    expected = bits(compare(template, sgd, script, workers=1)[0][0].state_dict())
    for model, _, _ in attached(1, template, sgd, script, prepare=prepare, **choices):
        assert bits([value for value in model.state_dict().values()]) == bits([value for value in template_state(expected, template)])


def template_state(_, template):
    import copy

    model = copy.deepcopy(template)
    optimizer = sgd(model)
    for _ in script(model, optimizer, 0, None, []):
        pass
    return model.state_dict().values()


def compile_blocks(model):
    for block in model.blocks:
        block.compile(backend=BACKEND)


def test_compiled_blocks_are_layers_with_one_gate_each():
    model = nets.seeded(Blocks)
    compile_blocks(model)
    table = Table(model)
    assert table.names == ["first", "blocks.0", "blocks.1", "blocks.2", "last"]
    assert table.compiled == ["blocks.0", "blocks.1", "blocks.2"]
    model = nets.seeded(Blocks)
    model.blocks[1] = torch.compile(model.blocks[1], backend=BACKEND)
    assert Table(model).names == ["first", "blocks.0.inner", "blocks.0.norm", "blocks.1", "blocks.2.inner", "blocks.2.norm", "last"]


def test_compiled_blocks_train_right():
    same_as_plain(compile_blocks)


def test_blocks_compiled_after_attach_train_right():
    def later(model, optimizer, rank, job, log):
        compile_blocks(model)
        yield from script(model, optimizer, rank, job, log)

    template = nets.seeded(Blocks)
    for model, _, _ in attached(1, template, sgd, later):
        assert bits(list(model.state_dict().values())) == bits(list(template_state(None, template)))


def test_gates_of_compiled_blocks_stay_where_layers_are_used():
    """Also those within a block that was compiled after attach: norm before inner, block by block."""
    def later(model, optimizer, rank, job, log):
        compile_blocks(model)
        yield from script(model, optimizer, rank, job, log)

    attached(1, nets.seeded(Blocks), sgd, later)
    passed = standin.run.world.nodes[0].passed
    assert [layer for iteration, layer in passed if iteration == 0] == [0, 2, 1, 4, 3, 6, 5, 7]


def test_a_whole_model_compiled_first_trains_right_and_says_what_it_costs():
    def whole(model):
        model.compile(backend=BACKEND)

    with pytest.warns(UserWarning, match="the whole model is compiled.*block.compile"):
        same_as_plain(whole)


def test_a_model_that_was_compiled_and_run_before_attach_is_right_or_refused():
    """Guards of the old graph do not know of gates: the check of arrivals must."""
    template = nets.seeded(Blocks)

    def body(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model.compiled_before(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            yield

    def prepare(model):
        compiled = torch.compile(model, backend=BACKEND)
        x, y = nets.numbers(9, 0, (5, 4))
        F.cross_entropy(compiled(x), y).backward()
        model.zero_grad()
        object.__setattr__(model, "compiled_before", compiled)

    try:
        result = attached(1, template, sgd, body, prepare=prepare)
    except PacelineError as error:
        assert "compile after attach" in error.message
    else:
        assert bits(list(result[0][0].state_dict().values())) == bits(list(template_state(None, template)))


@pytest.mark.parametrize("backend", ("aot_eager", pytest.param("inductor", marks=pytest.mark.full)))
def test_gradients_of_compiled_blocks_leave_block_by_block(backend, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    heard = []
    send = standin.StandIn.gradient_ready

    def noted(self, tensor, pointer):
        heard.append(self.tensors[tensor].name)
        send(self, tensor, pointer)

    monkeypatch.setattr(standin.StandIn, "gradient_ready", noted)

    def prepare(model):
        for block in model.blocks:
            block.compile(backend=backend)
        model.heard = heard

    attached(1, nets.seeded(Blocks), sgd, script, prepare=prepare)
    iteration = heard[: heard.index("first.weight")]
    for number in (2, 1):
        assert iteration.index(f"blocks.{number}.inner.weight") < iteration.index(f"backward of block {number - 1}"), iteration


def graphs_of(train):
    """(its result, how many graphs were compiled for it)."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    result = train()
    return result, torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.parametrize("whole", (False, True))
@pytest.mark.parametrize("backend", ("aot_eager", pytest.param("inductor", marks=pytest.mark.full)))
@pytest.mark.filterwarnings("ignore:the whole model is compiled")
def test_what_is_compiled_before_attach_is_the_same_code_with_the_same_bits(backend, whole, monkeypatch, tmp_path):
    """No graph more, so no guard on what is due: a block is compiled once, not in every iteration until the compiler gives up."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def compiled(model):
        for part in [model] if whole else model.blocks:
            part.compile(backend=backend)

    def compiled_first(model, optimizer, rank, job, log):
        compiled(model)
        yield from script(model, optimizer, rank, job, log)

    template = nets.seeded(Blocks)
    ((expected, _, _),), before = graphs_of(lambda: plain(1, template, sgd, compiled_first))
    ((model, _, _),), after = graphs_of(lambda: attached(1, template, sgd, script, prepare=compiled))
    assert bits(list(model.state_dict().values())) == bits(list(expected.state_dict().values()))
    assert (before, after) == (1, 1)


def compiled_step(model, optimizer, accumulate):
    """PyTorch's recipe: the optimizer's step alone."""

    @torch.compile(backend=BACKEND)
    def step():
        optimizer.step()

    return accumulate, lambda: (step(), optimizer.zero_grad())


def assigned_step(model, optimizer, accumulate):
    optimizer.step = torch.compile(optimizer.step, backend=BACKEND)
    return accumulate, lambda: (optimizer.step(), optimizer.zero_grad())


def whole_step(model, optimizer, accumulate):
    """Two functions, as the exchange of the plain loop stands between them."""

    @torch.compile(backend=BACKEND)
    def end():
        optimizer.step()
        optimizer.zero_grad()

    return torch.compile(accumulate, backend=BACKEND), end


@pytest.mark.parametrize("how", (compiled_step, assigned_step, whole_step))
def test_a_compiled_step_trains_as_without_compiling(how):
    def loss_of(model, iteration, rank):
        x, y = nets.numbers(iteration, rank, (5, 4))
        F.cross_entropy(model(x), y).backward()

    def train(wrapped):
        def script(model, optimizer, rank, job, log):
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            backward, end = wrapped(model, optimizer, lambda iteration: loss_of(model, iteration, rank))
            for iteration in range(3):
                backward(iteration)
                yield
                end()
                scheduler.step()

        return script

    def plainly(model, optimizer, accumulate):
        return accumulate, lambda: (optimizer.step(), optimizer.zero_grad())

    expected = [bits(model.state_dict()) for model, _, _ in plain(1, nets.mlp(), sgd, train(plainly))]
    assert [bits(model.state_dict()) for model, _, _ in attached(1, nets.mlp(), sgd, train(how))] == expected


def test_compiled_autograd_is_refused_in_one_sentence():
    def script(model, optimizer, rank, job, log):
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            nets.backward(model, 0, rank)
        yield

    with pytest.raises(PacelineError, match="compiled autograd traces the whole backward pass.*config.compiled_autograd, out"):
        attached(1, nets.mlp(), sgd, script)


def test_a_step_in_a_full_graph_says_what_to_leave_out():
    def script(model, optimizer, rank, job, log):
        nets.backward(model, 0, rank)
        torch.compile(lambda: optimizer.step(), backend=BACKEND, fullgraph=True)()
        yield

    with pytest.raises(torch._dynamo.exc.Unsupported, match="the optimizer is attached.*leave fullgraph=True out"):
        attached(1, nets.mlp(), sgd, script)
