"""The decisions alone: ledger, order of need, separability, clipping, memory."""

import functools
import random

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import bits, compare
from paceline.torch import memory
from paceline.torch.account import Account
from paceline.torch.ledger import COUNTED, Finish, Ledger, Order
from paceline.torch.separable import Stepping, stepping_of
from torch import nn, optim


def test_a_gradient_is_sent_when_it_was_finished_as_often_as_expected():
    ledger = Ledger([0, 0, 1], 5, 2)
    assert [ledger.finished(1, True), ledger.finished(1, False)] == [Finish.HOLD, Finish.SEND]
    ledger.on_sent(1)
    assert ledger.unsent() == [0, 2]


def test_a_cleared_gradient_is_counted_anew():
    ledger = Ledger([0], 0, 2)
    assert [ledger.finished(0, True), ledger.finished(0, True), ledger.finished(0, False)] == [Finish.HOLD, Finish.HOLD, Finish.SEND]


def test_a_gradient_of_a_layer_that_is_due_was_computed_from_old_values():
    ledger = Ledger([0, 1], 0, 1)
    ledger.conclude()
    ledger.step()
    ledger.opened([0])
    assert [ledger.finished(0, True), ledger.finished(1, True)] == [Finish.SEND, Finish.STALE]
    assert ledger.iteration == 1


def test_a_gradient_after_the_last_restarts():
    ledger = Ledger([0, 1], 0, 1)
    ledger.on_sent(0)
    assert ledger.finished(0, True) is Finish.RESTART
    ledger.conclude()
    assert ledger.finished(1, True) is Finish.RESTART
    ledger.drop()
    assert (ledger.finished(1, True), ledger.due, ledger.iteration) == (Finish.SEND, set(), 1)


def test_counts_are_learned_in_the_first_iteration():
    ledger = Ledger([0, 0, 0], 0, COUNTED)
    for tensor, fresh in ((0, True), (0, False), (1, True)):
        assert ledger.finished(tensor, fresh) is Finish.HOLD
    ledger.conclude()
    ledger.step()
    ledger.opened([0])
    assert ledger.expected == [2, 1, 1]
    assert [ledger.finished(0, True), ledger.finished(1, True)] == [Finish.HOLD, Finish.SEND]
    assert ledger.miscounted() == 0


def test_the_order_of_need_is_seen_once_and_then_now_and_then():
    order = Order(4)
    for layer in (2, 0, 2, 3):
        order.passed(layer)
    assert order.stepped() == [2, 0, 3, 1]
    order.passed(1)
    assert order.stepped() is None and not order.watching
    for _ in range(98):
        order.stepped()
    assert order.watching
    order.passed(1)
    assert order.stepped() == [1, 2, 0, 3]


class Lion(optim.Optimizer):
    def __init__(self, params, lr=0.01, betas=(0.9, 0.99)):
        super().__init__(params, dict(lr=lr, betas=betas))
        self.update = lambda p, g, m, group: p.add_((m * group["betas"][0] + g * (1 - group["betas"][0])).sign(), alpha=-group["lr"])

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    self.update(p, p.grad, m, group)
                    m.lerp_(p.grad, 1 - group["betas"][1])


class ScheduleFree(optim.Optimizer):
    """Keeps its own count and weights in its groups, as Schedule-Free optimizers do."""

    def __init__(self, params, lr=0.05):
        super().__init__(params, dict(lr=lr, k=0, weight_sum=0.0, beta=0.9))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            weight = group["lr"] ** 2
            total = group["weight_sum"] = group["weight_sum"] + weight
            group["k"] += 1
            for p in group["params"]:
                if p.grad is not None:
                    z = self.state[p].setdefault("z", p.clone())
                    p.lerp_(z, weight / total)
                    p.add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - weight / total) - 1))
                    z.sub_(p.grad, alpha=group["lr"])


class Prodigy(optim.Optimizer):
    """One distance from all parameters together."""

    def __init__(self, params, lr=1.0):
        super().__init__(params, dict(lr=lr, d=1e-2))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            norm = sum(float(p.grad.abs().sum()) for p in group["params"] if p.grad is not None)
            group["d"] = max(group["d"], 1e-3 * norm)
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad.sign(), alpha=-group["d"] * group["lr"] * 0.1)


class GlobalClip(optim.SGD):
    def step(self, closure=None):
        nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 0.05)
        return super().step()


class CountsItself(optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        self.steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] / self.steps)


class Noise(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad + torch.randn_like(p) * 0.01, alpha=-group["lr"])


class Lamb(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] * float(p.norm() / (p.grad.norm() + 1e-6)))


class Lookahead(optim.Optimizer):
    """Around another optimizer, whose groups it shares."""

    def __init__(self, params, lr=0.1):
        self.inner = optim.SGD(params, lr=lr)
        self.steps = 0
        super().__init__(self.inner.param_groups, dict(lr=lr))
        self.param_groups = self.inner.param_groups

    @torch.no_grad()
    def step(self, closure=None):
        self.inner.step()
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                slow = self.state[p].setdefault("slow", p.clone())
                if self.steps % 2 == 0:
                    slow.lerp_(p, 0.5)
                    p.copy_(slow)


class OwnList(optim.SGD):
    """Has its parameters by a list of its own."""

    def __init__(self, params, lr=0.1):
        params = list(params)
        super().__init__(params, lr=lr)
        self.all = params

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.all:
            if p.grad is not None:
                p.sub_(p.grad, alpha=0.1)


class SetsItsRate(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            group["lr"] *= 0.9


class KeepsGradients(optim.SGD):
    """Compares with the last gradient, by a reference to it."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    last = self.state[p].get("last", p.grad)
                    p.add_(p.grad + 0.5 * last, alpha=-group["lr"])
                    self.state[p]["last"] = p.grad


KINDS = {
    "Lion": (Lion, Stepping.SPLIT),
    "ScheduleFree": (ScheduleFree, Stepping.SPLIT),
    "LAMB-like": (functools.partial(Lamb, lr=0.1), Stepping.SPLIT),
    "Adam, tensor rate": (lambda parameters: optim.Adam(parameters, lr=torch.tensor(0.01)), Stepping.SPLIT),
    "keeps gradients": (functools.partial(KeepsGradients, lr=0.1), Stepping.SPLIT),
    "Prodigy": (Prodigy, Stepping.WHOLE),
    "global clip": (functools.partial(GlobalClip, lr=0.1), Stepping.WHOLE),
    "counts itself": (CountsItself, Stepping.WHOLE),
    "noise": (functools.partial(Noise, lr=0.1), Stepping.AT_STEP),
    "nested": (Lookahead, Stepping.AT_STEP),
    "own list": (OwnList, Stepping.AT_STEP),
    "sets its rate": (functools.partial(SetsItsRate, lr=0.1), Stepping.AT_STEP),
    "differentiable": (functools.partial(optim.SGD, lr=0.1, differentiable=True), Stepping.AT_STEP),
}


@pytest.mark.parametrize("name", KINDS)
def test_whether_an_optimizer_may_be_split_is_found_by_trying(name):
    make, expected = KINDS[name]
    parameters = [nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))]
    before, state = [p.detach().clone() for p in parameters], torch.get_rng_state()
    optimizer = make(parameters)
    assert stepping_of(optimizer) is expected
    assert all(map(torch.equal, before, parameters)) and not optimizer.state and torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("noise", "differentiable")])
def test_every_optimizer_has_a_plain_loops_bits(name):
    make, _ = KINDS[name]
    schedule = lambda optimizer: optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)  # noqa: E731

    def script(model, optimizer, rank, job, log):
        scheduler = schedule(optimizer)
        for iteration in range(5):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

    compare(nets.mlp(), lambda model: make(model.parameters()), script)


def test_a_trained_subclass_of_a_known_optimizer_is_another_optimizer():
    assert stepping_of(optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)) is Stepping.SPLIT
    assert type(optim.AdamW([nn.Parameter(torch.zeros(2))])) is not optim.Adam


# --- clipping by the verdict


def clipped(max_norm, by):
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            norm = by(model, optimizer, job, max_norm)
            optimizer.step()
            optimizer.zero_grad()
            if norm is not None:
                log.append(float(norm))

    return script


def by_hand(model, optimizer, job, max_norm):
    """Exact norm, rounded once, as the core's verdict."""
    import math

    squares = [float(value) ** 2 for p in model.parameters() if p.grad is not None for value in p.grad.flatten().double()]
    norm = math.sqrt(math.fsum(squares))
    coefficient = min(1.0, max_norm / (norm + 1e-6))
    if coefficient != 1.0:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(coefficient)
    return norm


def either(attached_way):
    """By hand in the plain loop, as a user does when attached."""
    return lambda model, optimizer, job, max_norm: (by_hand if type(job).__name__ == "Plain" else attached_way)(model, optimizer, job, max_norm)


@pytest.mark.parametrize("max_norm", (0.05, 100.0))
def test_clipping_by_the_verdict(max_norm):
    sgd = lambda model: optim.SGD(model.parameters(), lr=0.5, momentum=0.9)  # noqa: E731
    way = either(lambda model, optimizer, job, max_norm: pt.clip_grad_norm_(model, max_norm))
    compare(nets.mlp(), sgd, clipped(max_norm, way))
    silent = lambda model, optimizer, job, max_norm: None if type(job).__name__ != "Plain" else (by_hand(model, optimizer, job, max_norm), None)[1]  # noqa: E731
    compare(nets.mlp(), sgd, clipped(max_norm, silent), clip_norm=max_norm)


def test_a_gradient_read_after_lazy_clipping_is_clipped():
    def way(model, optimizer, job, max_norm):
        norm = pt.clip_grad_norm_(model, max_norm) if type(job).__name__ != "Plain" else by_hand(model, optimizer, job, max_norm)
        return sum(p.grad.abs().sum().item() for p in list(model.parameters())[1:3]) + float(norm)

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5), clipped(0.05, way))


def test_clipping_after_the_script_changed_gradients_counts_them_as_they_are():
    def way(model, optimizer, job, max_norm):
        model[0].weight.grad.mul_(3.0)
        if type(job).__name__ == "Plain":
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        else:
            pt.clip_grad_norm_(model, max_norm)
        log = [p.grad.norm().item() for p in model.parameters()]
        return round(sum(value * value for value in log), 7)

    def script(model, optimizer, rank, job, log):
        x, y = nets.numbers(0, rank, (5, 4))
        F.cross_entropy(model(x), y).backward()
        yield
        log.append(way(model, optimizer, job, 0.05))

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5), script)


def test_the_norm_waits_for_no_mean():
    """float(norm) needs the verdict only: no layer is waited for before the first one is read."""

    def body(rank, join):
        model = nets.mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        job = pt.attach(model, optimizer, join=join)
        x, y = nets.numbers(0, rank, (5, 4))
        F.cross_entropy(model(x), y).backward()
        norm = job.clip_grad_norm_(0.1)
        optimizer.step()
        assert f"{norm:.3f}" == f"{float(norm):.3f}" and norm > 0.0
        passed = list(job._node.passed)
        job.close()
        return passed

    assert standin.run(2, body) == [[], []]


# --- the rest


def test_step_hooks_run_before_and_after_all_layers():
    def script(model, optimizer, rank, job, log):
        optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("after", bits([p.detach() for p in o.param_groups[0]["params"]]))))
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), script)


def test_loading_a_state_dict_in_the_middle():
    def script(model, optimizer, rank, job, log):
        kept = None
        for iteration in range(5):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            if iteration == 1:
                import copy

                kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
            if iteration == 3:
                model.load_state_dict(kept[0])
                optimizer.load_state_dict(kept[1])

    compare(nets.mlp(), lambda model: optim.AdamW(model.parameters(), lr=0.05), script)


def test_resuming_in_a_new_process_has_the_same_bits():
    import copy

    def part(begin, end):
        def script(model, optimizer, rank, job, log):
            for iteration in range(begin, end):
                x, y = nets.numbers(iteration, rank, (5, 4))
                F.cross_entropy(model(x), y).backward()
                yield
                optimizer.step()
                optimizer.zero_grad()
            log.append(copy.deepcopy((model.state_dict(), optimizer.state_dict())))

        return script

    from loops import attached, plain

    make = lambda model: optim.AdamW(model.parameters(), lr=0.05)  # noqa: E731
    through = plain(2, nets.mlp(), make, part(0, 6))
    saved = attached(2, nets.mlp(), make, part(0, 3))[0][2][0]

    def resumed(model):
        optimizer = make(model)
        optimizer.load_state_dict(copy.deepcopy(saved[1]))  # it keeps the tensors it is given
        return optimizer

    template = nets.mlp()
    template.load_state_dict(saved[0])
    for model, _, _ in attached(2, template, resumed, part(3, 6)):
        assert bits(model.state_dict()) == bits(through[0][0].state_dict())


def test_delivery_in_a_thousand_orders():
    """A toy net, 2 ranks: every order of delivery gives the same bits. One job, whose stand-in is seeded anew after every second iteration."""
    torch.manual_seed(0)
    template = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1))

    def script(model, optimizer, rank, job, log):
        for iteration in range(2000):
            if iteration % 2 == 0 and type(job).__name__ != "Plain":
                job._node.random.seed(f"{iteration // 2} {rank}")
            generator = torch.Generator().manual_seed(2 * iteration + rank)
            model(torch.randn(3, 2, generator=generator)).square().mean().backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            if iteration % 2:
                log.append((iteration // 2, bits(list(model.parameters()))))

    compare(template, lambda model: optim.SGD(model.parameters(), lr=0.001, momentum=0.9), script)


def test_memory_keeps_the_order_of_elements():
    generator = random.Random(1)
    for _ in range(200):
        shape = [generator.randint(1, 4) for _ in range(generator.randint(0, 4))]
        order = list(range(len(shape)))
        generator.shuffle(order)
        tensor = torch.randn([shape[i] for i in order]).permute([order.index(i) for i in range(len(shape))])
        assert memory.dense(tensor)
        strides = memory.strides_of(tensor)
        assert torch.equal(memory.in_place(memory.as_sent(tensor, strides).clone(), tensor, strides), tensor)
        other = memory.as_sent(tensor.contiguous(), strides)
        assert torch.equal(other, memory.as_sent(tensor, strides))
    assert not memory.dense(torch.zeros(4, 4)[:, ::2]) and not memory.dense(torch.zeros(1, 4).expand(3, 4))


def test_bytes_survive_the_journey():
    for kind in (torch.int64, torch.bool, torch.float64, torch.bfloat16, torch.uint8):
        tensor = torch.arange(7).to(kind)
        target = torch.zeros_like(tensor)
        memory.floats_as_bytes(memory.bytes_as_floats(tensor) / 3 * 3.0, target)
        assert torch.equal(tensor, target)


def test_the_report_says_what_would_help():
    now = [0.0]
    account = Account(lambda: now[0])
    account.stepped()
    for _ in range(4):
        with account.timed("clip_grad_norm_"), account.timed("inner"):
            now[0] += 0.03
        with account.timed("forward"):
            now[0] += 0.001
        now[0] += 0.069
        account.stepped()
    lines = account.report()
    assert lines["iterations"] == 4 and lines["seconds"] == pytest.approx(0.1)
    assert lines["waited: clip_grad_norm_"] == pytest.approx(0.03) and "waited: inner" not in lines
    assert account.hint() == "clip_grad_norm_ waited 30.0 ms in each iteration for all gradients; attach(clip_norm=...) needs their norm only, which is known while they still travel"


def test_another_thread_may_read_while_updates_are_due():
    import threading

    seen = []

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            if type(job).__name__ != "Plain":
                readers = [threading.Thread(target=lambda: seen.append(bits(model.state_dict()))) for _ in range(3)]
                for reader in readers:
                    reader.start()
                for reader in readers:
                    reader.join()
            log.append(bits(model.state_dict()))

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), script)
    assert len(set(seen)) == 3
