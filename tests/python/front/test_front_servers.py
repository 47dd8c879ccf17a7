"""attach(update="server") on the stand-in: the bits of the servers' arithmetic, and PyTorch's own optimizer to 1e-6."""

import copy

import loops
import nets
import paceline.torch as pt
import pytest
import scripts
import server_standin
import torch
import torch.nn.functional as F
from loops import bits
from paceline import PacelineError
from server_rows import OPTIMIZERS, plain_on_servers


def on_servers(workers, template, make, script, seed=0, **choices):
    def body(rank, join):
        model = copy.deepcopy(template)
        if rank:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()
        optimizer, log = make(model), []
        job = pt.attach(model, optimizer, update="server", join=join, **choices)
        for _ in script(model, optimizer, rank, job, log):
            pass
        job.close()
        return model, optimizer, log

    return server_standin.run(workers, body, seed)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("seed", (0, 1))
def test_every_optimizer_of_the_servers_has_the_bits_of_their_arithmetic(name, seed):
    make, schedule = OPTIMIZERS[name]
    template = nets.everything()
    script = scripts.everything(schedule=schedule, branch=lambda iteration, rank: (iteration + rank) % 2)
    expected = plain_on_servers(2, template, make, script)
    for rank, (model, _, _) in enumerate(on_servers(2, template, make, script, seed)):
        for name, parameter in model.named_parameters():
            assert bits(parameter) == bits(dict(expected[rank][0].named_parameters())[name]), f"rank {rank}: {name}"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_servers_arithmetic_agrees_with_pytorchs_optimizer(name):
    make, schedule = OPTIMIZERS[name]
    template, script = nets.mlp(), mlp_loop(5, schedule)
    close = loops.plain(2, template, make, script)
    for rank, (model, _, _) in enumerate(on_servers(2, template, make, script)):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter, dict(close[rank][0].named_parameters())[name], rtol=0, atol=1e-6)


def test_accumulated_and_counted_gradients_leave_once():
    template, make = nets.mlp(), OPTIMIZERS["SGD"][0]

    def script(accumulate):
        def run(model, optimizer, rank, job, log):
            for iteration in range(3):
                for part in range(2):
                    if accumulate:
                        nets.backward(model, 10 * iteration + part, rank)
                    else:
                        with job.no_sync() if part == 0 else torch.enable_grad():
                            nets.backward(model, 10 * iteration + part, rank)
                yield
                optimizer.step()
                optimizer.zero_grad()

        return run

    expected = [bits(list(m.parameters())) for m, _, _ in plain_on_servers(2, template, make, script(False))]
    assert [bits(list(m.parameters())) for m, _, _ in on_servers(2, template, make, script(True), accumulate=2)] == expected
    assert [bits(list(m.parameters())) for m, _, _ in on_servers(2, template, make, script(False))] == expected


def mlp_loop(steps, schedule=None):
    def script(model, optimizer, rank, job, log):
        scheduler = schedule(optimizer) if schedule else None
        for iteration in range(steps):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            if scheduler:
                scheduler.step()

    return script


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


def groups_that_differ(model):
    return torch.optim.SGD([{"params": [*model[0].parameters()], "momentum": 0.5}, {"params": [*model[2].parameters(), *model[4].parameters()]}], lr=0.1)


class OwnAdam(torch.optim.Adam):
    pass


REFUSED = {
    "a subclass": (nets.mlp, lambda m: OwnAdam(m.parameters()), {}, "servers have no OwnAdam, only exactly SGD, Adam, AdamW, Adagrad.*update='worker'"),
    "another optimizer": (nets.mlp, lambda m: torch.optim.RMSprop(m.parameters()), {}, "servers have no RMSprop"),
    "amsgrad": (nets.mlp, lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), {}, "Adam only with amsgrad=False, and group 0 has True"),
    "dampening": (nets.mlp, lambda m: sgd(m, momentum=0.9, dampening=0.5), {}, "SGD only with dampening=0"),
    "maximize": (nets.mlp, lambda m: sgd(m, maximize=True), {}, "maximize=False"),
    "groups of another momentum": (nets.mlp, groups_that_differ, {}, "groups 0 and 1 have momentum 0.5 and 0"),
    "bfloat16": (lambda: nets.mlp().bfloat16(), sgd, {}, "parameter 0.weight is bfloat16, and servers step float32"),
    "a parameter in no group": (nets.mlp, lambda m: torch.optim.SGD(m[0].parameters(), lr=0.1), {}, "parameter 2.weight learns and is in no group"),
    "buffers": (nets.mlp, sgd, {"buffers": "mean"}, "buffers='mean' needs means that come back; legal: 'local'"),
    "by samples": (nets.mlp, sgd, {"average": "samples"}, "average='samples'"),
    "thawing": (nets.mlp, sgd, {"may_thaw": True}, "may_thaw=True"),
    "clipping without an iteration of all": (nets.mlp, sgd, {"clip_norm": 1.0, "sync": "asp"}, "legal: sync='bsp'"),
    "a name of sync": (nets.mlp, sgd, {"sync": "bsb"}, "sync='bsb' is none of 'bsp', 'asp', 'ssp', 'elastic-bsp'"),
    "an option that attach gives": (nets.mlp, sgd, {"settings": {"learning-rate": "0.1"}}, "settings\\['learning-rate'\\] is attach's own"),
    "sync among the options": (nets.mlp, sgd, {"settings": {"sync": "asp"}}, "arguments of attach"),
}


def no_join(*args):
    raise AssertionError("refused before anybody joins")


@pytest.mark.parametrize("case", REFUSED)
def test_what_servers_do_not_have_is_refused_before_joining(case):
    make_model, make, choices, sentence = REFUSED[case]
    model = make_model()
    with pytest.raises(PacelineError, match=sentence):
        pt.attach(model, make(model), update="server", join=no_join, **choices)


def test_a_model_of_synchronisation_is_for_servers():
    model = nets.mlp()
    with pytest.raises(PacelineError, match="sync='ssp' is of servers.*update='server'"):
        pt.attach(model, sgd(model), sync="ssp", join=no_join)


def run_one(body, make=sgd, **choices):
    def started(rank, join):
        model = nets.mlp()
        optimizer = make(model)
        job = pt.attach(model, optimizer, update="server", join=join, **choices)
        body(model, optimizer, job)

    return server_standin.run(1, started)


def looks_at_a_gradient(model, optimizer, job):
    nets.backward(model, 0, 0)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def clips_by_the_job(model, optimizer, job):
    nets.backward(model, 0, 0)
    job.clip_grad_norm_(1.0).item()


def leaves_out_a_step(model, optimizer, job):
    nets.backward(model, 0, 0)
    optimizer.zero_grad()


def takes_a_gradient_away(model, optimizer, job):
    nets.backward(model, 0, 0)
    model[0].weight.grad = None
    optimizer.step()


def replaces_a_gradient(model, optimizer, job):
    nets.backward(model, 0, 0)
    model[0].weight.grad = torch.ones_like(model[0].weight)
    optimizer.step()


def sets_the_rate_late(model, optimizer, job):
    nets.backward(model, 0, 0)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()


def changes_the_momentum(model, optimizer, job):
    nets.backward(model, 0, 0)
    optimizer.step()
    optimizer.zero_grad()
    optimizer.param_groups[0]["momentum"] = 0.5
    nets.backward(model, 1, 0)


def adds_a_group(model, optimizer, job):
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": []})
    nets.backward(model, 0, 0)


def writes_to_a_parameter(model, optimizer, job):
    with torch.no_grad():
        model[2].weight.clamp_(-0.01, 0.01)
    trains_on(model, optimizer)


def trains_on(model, optimizer):
    nets.backward(model, 0, 0)
    optimizer.step()
    optimizer.zero_grad()
    model(torch.zeros(1, 4))


def writes_to_its_data(model, optimizer, job):
    model[2].weight.data.mul_(2)
    trains_on(model, optimizer)


def writes_by_numpy(model, optimizer, job):
    model[2].weight.detach().numpy()[0, 0] = 3
    trains_on(model, optimizer)


def gives_it_other_data(model, optimizer, job):
    model[2].weight.data = torch.zeros(6, 6)
    trains_on(model, optimizer)


def writes_within_a_forward_pass(model, optimizer, job):
    def constrain(module, _):
        module.weight.data.clamp_(-0.01, 0.01)

    model[2].register_forward_pre_hook(constrain)
    trains_on(model, optimizer)


def writes_between_backward_and_step(model, optimizer, job):
    nets.backward(model, 0, 0)
    model[2].weight.data.mul_(0.9)
    optimizer.step()
    job.close()


def scales_its_loss(model, optimizer, job):
    scaler = torch.amp.GradScaler("cpu")
    x, y = nets.numbers(0, 0, (5, 4))
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    scaler.step(optimizer)


def adds_up_over_a_step(model, optimizer, job):
    nets.backward(model, 0, 0)
    optimizer.step()
    nets.backward(model, 1, 0)


WRONG = {
    looks_at_a_gradient: "the gradient of 0.weight has been sent, and servers alone know its mean; clip with attach\\(clip_norm",
    clips_by_the_job: "clip with attach\\(clip_norm=...\\)",
    leaves_out_a_step: "gradients of iteration 0 have been sent, and servers apply them; call optimizer.step\\(\\) before zero_grad",
    takes_a_gradient_away: "the gradient of 0.weight was taken away after it had been sent",
    replaces_a_gradient: "the gradient of 0.weight was replaced after it had been sent",
    sets_the_rate_late: "lr of group 0 was 0.1 in backward\\(\\).*and is 0.5 in step\\(\\); set it before backward",
    changes_the_momentum: "momentum was 0 when attach ran and is 0.5 now.*cycle_momentum=False",
    adds_a_group: "had 1 groups when attach ran and has 2 now",
    writes_to_a_parameter: "somebody has written to parameter 2.weight",
    writes_to_its_data: "somebody has written to parameter 2.weight",
    writes_by_numpy: "somebody has written to parameter 2.weight",
    gives_it_other_data: "somebody has written to parameter 2.weight",
    writes_within_a_forward_pass: "somebody has written to parameter 2.weight",
    writes_between_backward_and_step: "somebody has written to parameter 2.weight",
    scales_its_loss: "servers alone know",
    adds_up_over_a_step: "servers alone know its mean.*zero_grad\\(\\) after optimizer.step",
}


@pytest.mark.parametrize("script", WRONG, ids=lambda script: script.__name__)
def test_what_a_script_does_that_servers_cannot_know_is_refused_by_name(script):
    with pytest.raises(PacelineError, match=WRONG[script]):
        run_one(script)


def test_frozen_parameters_stay_and_those_that_nobody_uses_are_not_decayed():
    template = nets.everything()
    for parameter in template.norm.parameters():
        parameter.requires_grad_(False)
    make = lambda m: torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=0.05, weight_decay=0.5)  # noqa: E731
    for model, _, _ in on_servers(2, template, make, scripts.everything(steps=3)):
        for name in ("norm.weight", "norm.bias", "never.weight", "never.bias", "odd.weight"):
            assert torch.equal(dict(model.named_parameters())[name], dict(template.named_parameters())[name]), name
        assert not torch.equal(model.even.weight, template.even.weight)


def test_a_rank_whose_scheduler_goes_another_way_is_named():
    def body(rank, join):
        model = nets.mlp()
        pt.attach(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.1), update="server", join=join)
        optimizer.param_groups[0]["lr"] += 0.1 * rank
        nets.backward(model, 0, rank)

    with pytest.raises(PacelineError, match="has the learning rate 0.[12] in iteration 0, worker"):
        server_standin.run(2, body)
