"""Models of every shape train with the bits of a plain loop."""

import copy

import nets
import pytest
import torch
import torch.nn.functional as F
from loops import attached, bits, compare, plain, state_of
from nets import seeded
from torch import nn


def over(shape, steps=4, loss=F.cross_entropy):
    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            x, y = nets.numbers(iteration, rank, shape)
            x = x.to(next(model.parameters()).dtype)
            loss(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            if iteration == 2:
                model.eval()
                with torch.no_grad():
                    log.append(bits(model(x)))
                model.train()

    return script


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def wrapped(wrap):
    model = nets.mlp()
    for index in (0, 2):
        wrap(model[index])
    return model


MODELS = {
    "MLP": (nets.mlp, (5, 4)),
    "CNN with batch norm": (lambda: seeded(nets.Convolutions), (4, 1, 5, 5)),
    "CNN, channels last": (lambda: seeded(nets.Convolutions).to(memory_format=torch.channels_last), (4, 1, 5, 5)),
    "encoder with a class token": (lambda: seeded(nets.Encoder), (4, 32)),
    "odd parameters, a module used twice": (lambda: seeded(nets.Odd), (5, 4)),
    "experts that get no sample": (lambda: seeded(nets.Experts), (3, 4)),
    "checkpointed": (lambda: seeded(lambda: nets.Checkpointed(False)), (5, 4)),
    "checkpointed, reentrant": (lambda: seeded(lambda: nets.Checkpointed(True)), (5, 4)),
    "modules with flat references": (lambda: seeded(nets.Keeps), (5, 4)),
    "weight norm": (lambda: wrapped(nn.utils.parametrizations.weight_norm), (5, 4)),
    "spectral norm": (lambda: wrapped(nn.utils.parametrizations.spectral_norm), (5, 4)),
    "bfloat16": (lambda: nets.mlp().to(torch.bfloat16), (5, 4)),
    "60 tiny layers": (lambda: seeded(lambda: nn.Sequential(*[nn.Linear(4, 4) for _ in range(59)], nn.Linear(4, 3))), (5, 4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(name):
    make, shape = MODELS[name]
    compare(make(), adamw, over(shape), workers=2, seed=len(name))


def test_a_parameter_that_is_not_contiguous_keeps_its_layout():
    model = nets.mlp()
    model[0].weight = nn.Parameter(torch.randn(4, 6).t())
    assert not model[0].weight.is_contiguous()
    compare(model, adamw, over((5, 4)))


def test_one_layer_of_a_million_numbers():
    torch.manual_seed(1)
    compare(nn.Sequential(nn.Linear(4, 1000), nn.Linear(1000, 1000), nn.Linear(1000, 3)), lambda m: torch.optim.SGD(m.parameters(), lr=0.1), over((2, 4), steps=2))


def test_frozen_layers_cost_nothing_and_stay():
    template = nets.mlp()
    for parameter in template[:3].parameters():
        parameter.requires_grad_(False)
    make = lambda model: torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)  # noqa: E731
    compare(template, make, over((5, 4)))


def test_layers_that_thaw_while_training():
    template = nets.mlp()
    for parameter in template[:3].parameters():
        parameter.requires_grad_(False)

    def script(model, optimizer, rank, job, log):
        for iteration in range(5):
            if iteration == 2:
                for parameter in model[:3].parameters():
                    parameter.requires_grad_(True)
                optimizer.add_param_group({"params": list(model[:3].parameters()), "lr": 0.01})
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()

    make = lambda model: torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)  # noqa: E731
    compare(template, make, script, may_thaw=True)


def test_parameters_that_no_optimizer_steps_get_their_mean_all_the_same():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            log.append(bits([p.grad for p in model.parameters()]))
            model.zero_grad()

    compare(nets.mlp(), lambda model: torch.optim.SGD(model[2:].parameters(), lr=0.1), script)


def test_two_models_take_turns():
    """A GAN: each optimizer's step ends an iteration of its own job; the discriminator is reached by the generator's loss too."""
    torch.manual_seed(7)
    templates = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def losses(one, two, iteration, rank):
        generator = torch.Generator().manual_seed(100 * iteration + rank)
        noise, real = torch.randn(3, 2, generator=generator), torch.randn(3, 4, generator=generator)
        return lambda: F.softplus(-two(real)).mean() + F.softplus(two(one(noise).detach())).mean(), lambda: F.softplus(-two(one(noise))).mean()

    def optimizers(one, two):
        return torch.optim.Adam(one.parameters(), lr=0.02), torch.optim.Adam(two.parameters(), lr=0.02)

    def reference():
        one, two = copy.deepcopy(templates)
        first, second = optimizers(one, two)
        for iteration in range(4):
            for model, optimizer, which in ((two, second, 0), (one, first, 1)):
                parts = [torch.autograd.grad(losses(one, two, iteration, rank)[which](), list(model.parameters())) for rank in range(2)]
                for parameter, a, b in zip(model.parameters(), *parts):
                    parameter.grad = (a + b) * 0.5
                optimizer.step()
        return bits([one.state_dict(), two.state_dict()])

    import paceline.torch as pt
    import standin

    worlds = standin.World(2, 1), standin.World(2, 2)

    def body(rank, join):
        one, two = copy.deepcopy(templates)
        first, second = optimizers(one, two)
        jobs = [pt.attach(m, o, join=w.join_as(rank)) for m, o, w in zip((one, two), (first, second), worlds)]
        for iteration in range(4):
            discriminate, generate = losses(one, two, iteration, rank)
            second.zero_grad()
            discriminate().backward()
            second.step()
            first.zero_grad()
            generate().backward()
            first.step()
        for job in jobs:
            job.close()
        return bits([one.state_dict(), two.state_dict()])

    assert standin.run(2, body) == [reference()] * 2


def test_several_losses_counted_once_they_were_seen():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            for part in range(2):
                x, y = nets.numbers(10 * iteration + part, rank, (5, 4))
                F.cross_entropy(model(x), y).backward()
            yield
            log.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script, expect="counted")
    compare(nets.mlp(), adamw, script, accumulate=2)


def test_losses_of_disjoint_parts_need_nothing():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            h = torch.tanh(model[0](x))
            F.cross_entropy(model[4](torch.tanh(model[2](h.detach()))), y).backward()
            h.square().mean().backward()
            yield
            log.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_gradients_are_kept_where_the_script_keeps_them():
    """Without zero_grad they add up, and one that the script holds on to never changes."""

    def script(model, optimizer, rank, job, log):
        held = []
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            held.append(model[0].weight.grad)
            optimizer.step()
            if iteration % 2:
                optimizer.zero_grad()
        log.append(bits([grad for grad in held[1::2]]))

    compare(nets.mlp(), adamw, script)


def test_zeroed_gradients_are_zeros():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model[4](model[2](model[0](x))) if iteration % 2 else model[4](F.pad(x, (0, 2))), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            log.append([bool(p.grad is None or (p.grad == 0).all()) for p in model.parameters()])

    compare(nets.mlp(), adamw, script)


def test_a_gradient_that_the_script_removes_or_replaces_is_what_the_optimizer_sees():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            model[0].weight.grad = None
            model[2].weight.grad = model[2].weight.grad.sign()
            model[4].weight.grad.mul_(0.5)
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_a_step_that_is_skipped_ends_its_iteration():
    def script(model, optimizer, rank, job, log):
        for iteration in range(5):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            if iteration % 2 == 0:
                optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_gradients_by_autograd_grad_count_when_they_are_stored():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            for parameter, grad in zip(model.parameters(), torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))):
                parameter.grad = grad
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_a_sparse_gradient_travels_dense_and_says_so_once():
    template = nn.Sequential(nn.Embedding(6, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3))

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            generator = torch.Generator().manual_seed(10 * iteration + rank)
            F.cross_entropy(model(torch.randint(0, 6, (5, 2), generator=generator)), torch.tensor([0, 1, 2, 0, 1])).backward()
            for parameter in model.parameters():
                if type(job).__name__ == "Plain" and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()
            yield
            optimizer.step()
            optimizer.zero_grad()

    with pytest.warns(UserWarning, match="is sparse .* and travels dense"):
        compare(template, lambda m: torch.optim.SGD(m.parameters(), lr=0.1), script)


def test_a_closure_is_run_once_and_its_loss_returned():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))

            def closure():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss

            if type(job).__name__ == "Plain":
                loss = closure()
                yield
                optimizer.step()
            else:
                loss = optimizer.step(closure)
                yield
            log.append(loss.item())

    compare(nets.mlp(), adamw, script)


@pytest.mark.parametrize("way", ("broadcast", "mean"))
def test_buffers_are_rank_0s_or_means(way):
    """Before every forward pass, with 3 ranks, where a third of a number is not exact."""
    workers, template = 3, seeded(nets.Convolutions)

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (4, 1, 5, 5))
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()
        yield

    result = attached(workers, template, adamw, script, buffers=way)

    def shared(gradients, jobs):
        from loops import same_mean

        return same_mean(gradients)

    models = [copy.deepcopy(template) for _ in range(workers)]
    optimizers = [adamw(model) for model in models]
    for iteration in range(4):
        for rank, model in enumerate(models):
            x, y = nets.numbers(iteration, rank, (4, 1, 5, 5))
            F.cross_entropy(model(x), y).backward()
        for parameters in zip(*(model.parameters() for model in models)):
            mean = shared([p.grad for p in parameters], None)
            for parameter in parameters:
                parameter.grad = mean.clone()
        for model, optimizer in zip(models, optimizers):
            optimizer.step()
            optimizer.zero_grad()
        for held in zip(*(model.buffers() for model in models)):
            if way == "broadcast":
                values = held[0].clone()
            elif held[0].dtype == torch.float32:
                values = shared(list(held), None)
            else:
                continue
            for buffer in held:
                buffer.copy_(values)
    for rank in range(workers):
        assert state_of(*result[rank][:2]) == state_of(models[rank], optimizers[rank]), rank


def test_means_weighted_by_samples():
    counts = lambda iteration, rank: 2 + 3 * rank + iteration % 2  # noqa: E731

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            samples = counts(iteration, rank)
            x, y = nets.numbers(iteration, rank, (samples, 4))
            job.samples(samples)
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()

    def weigh(gradients, jobs):
        from loops import same_mean

        mean = same_mean([g * float(job.count) for g, job in zip(gradients, jobs)])
        return mean * (1.0 / float(same_mean([torch.tensor([float(job.count)]) for job in jobs])))

    compare(nets.mlp(), adamw, script, weigh=weigh, average="samples", workers=3)


def test_ranks_start_from_rank_0s_parameters_and_buffers():
    template = seeded(nets.Convolutions)
    template.norm.num_batches_tracked += 2**40 + 3
    for model, _, _ in attached(3, template, adamw, lambda *_: iter(())):
        assert bits(model.state_dict()) == bits(template.state_dict())


def test_the_order_in_which_layers_are_needed_is_learned():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.middle, self.first = nn.Linear(4, 3), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.last(torch.tanh(self.middle(torch.tanh(self.first(x)))))

    import standin

    compare(seeded(Backwards), adamw, over((5, 4)))
    assert [node.order[:3] for node in standin.run.world.nodes.values()] == [[2, 1, 0]] * 2


def test_exact_reference_is_not_trivially_equal():
    """The comparison can fail: ranks that are not averaged differ."""
    reference = plain(2, nets.mlp(), adamw, over((5, 4)))
    alone = plain(1, nets.mlp(), adamw, over((5, 4)))
    assert bits(reference[0][0].state_dict()) != bits(alone[0][0].state_dict())
