"""attach(update="server"): the optimizer's state is the servers', and a state dict has it all the same. On the stand-in."""

import copy
import functools
import pickle
import warnings

import loops
import nets
import paceline.torch as pt
import pytest
import server_standin
import torch
from loops import bits
from paceline import PacelineError
from server_rows import OPTIMIZERS, plain_on_servers
from test_front_servers import mlp_loop, no_join, on_servers, run_one, sgd

STATEFUL = [name for name in OPTIMIZERS if name != "SGD"]


def planes_of(state_dict):
    """{position: [steps or None, planes...]}, flat."""
    names = ("step", "momentum_buffer", "exp_avg", "exp_avg_sq", "sum")
    return {position: [held[name].reshape(-1) for name in names if name in held] for position, held in state_dict["state"].items()}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_state_dict_has_the_bits_of_the_servers_state_on_whichever_rank_asks(name):
    make, schedule = OPTIMIZERS[name]
    template, seen = nets.mlp(), {}

    def body(rank, join):
        model = copy.deepcopy(template)
        optimizer = make(model)
        job = pt.attach(model, optimizer, update="server", join=join)
        scheduler = schedule(optimizer) if schedule else None
        for iteration in range(5):
            nets.backward(model, iteration, rank)
            optimizer.step()
            optimizer.zero_grad()
            if iteration % 2 == rank:
                seen[iteration] = copy.deepcopy(optimizer.state_dict())
            if scheduler:
                scheduler.step()
        job.close()

    server_standin.run(2, body)
    for iteration in range(5):
        expected = plain_on_servers(2, template, make, mlp_loop(iteration + 1, schedule))[0][1].held
        planes = planes_of(seen[iteration])
        assert len(planes) == len(expected) == 6
        for position, (held, (count,)) in enumerate(expected.values()):
            stepped = [] if "SGD" in name or "Nesterov" in name else [torch.tensor([float(count)])]
            assert [bits(plane) for plane in planes[position]] == [bits(plane) for plane in [*stepped, *held]], f"iteration {iteration}, parameter {position}"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_job_that_goes_on_from_state_dicts_has_the_bits_of_one_that_did_not_end(name):
    make, _ = OPTIMIZERS[name]
    template, kept = nets.mlp(), []

    def saving(model, optimizer, rank, job, log):
        yield from mlp_loop(3)(model, optimizer, rank, job, log)
        if rank == 0:
            kept.append(pickle.dumps([model.state_dict(), optimizer.state_dict()]))

    on_servers(2, template, make, saving)

    def body(rank, join):
        model = copy.deepcopy(template)
        optimizer = make(model)
        if rank == 0:  # only rank 0's counts
            saved = pickle.loads(kept[0])
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
        job = pt.attach(model, optimizer, update="server", join=join)
        for iteration in (3, 4):
            nets.backward(model, iteration, rank)
            optimizer.step()
            optimizer.zero_grad()
        state = planes_of(optimizer.state_dict())
        job.close()
        return [bits(parameter) for parameter in model.parameters()], {position: [bits(plane) for plane in planes] for position, planes in state.items()}

    def straight(rank, join):
        model = copy.deepcopy(template)
        optimizer = make(model)
        job = pt.attach(model, optimizer, update="server", join=join)
        for _ in mlp_loop(5)(model, optimizer, rank, job, []):
            pass
        state = planes_of(optimizer.state_dict())
        job.close()
        return [bits(parameter) for parameter in model.parameters()], {position: [bits(plane) for plane in planes] for position, planes in state.items()}

    assert server_standin.run(2, body) == server_standin.run(2, straight)


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "OneCycle without momentum"])
def test_a_checkpoint_moves_between_the_modes(name):
    make, _ = OPTIMIZERS[name]
    template = nets.mlp()
    straight = loops.plain(1, template, make, mlp_loop(6))[0]

    def part(first, last, saved, update, join):
        model = copy.deepcopy(template)
        optimizer = make(model)
        if saved is not None:
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(copy.deepcopy(saved[1]))
        job = pt.attach(model, optimizer, join=join, update=update)
        for iteration in range(first, last):
            nets.backward(model, iteration, 0)
            optimizer.step()
            optimizer.zero_grad()
        saved = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
        job.close()
        return saved

    for first_mode, second_mode in (("worker", "server"), ("server", "worker")):
        saved = None
        for first, last, mode in ((0, 3, first_mode), (3, 6, second_mode)):
            world = server_standin.run if mode == "server" else loops.standin.run
            (saved,) = world(1, lambda rank, join: part(first, last, saved, mode, join))
        for key, parameter in straight[0].named_parameters():
            torch.testing.assert_close(saved[0][key], parameter.detach(), rtol=0, atol=1e-6)
        expected, found = planes_of(straight[1].state_dict()), planes_of(saved[1])
        assert {position: len(planes) for position, planes in found.items()} == {position: len(planes) for position, planes in expected.items()}
        for position, planes in expected.items():
            for one, other in zip(found[position], planes):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_sums_to_begin_with_are_given_to_the_servers():
    make = lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.25)
    template = nets.mlp()
    (expected, _, _) = loops.plain(1, template, make, mlp_loop(3))[0]
    ((model, _, _),) = on_servers(1, template, make, mlp_loop(3))
    for (name, one), other in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6, msg=name)


def test_servers_are_asked_when_the_script_looks_and_once_in_an_iteration():
    asked = []

    def body(model, optimizer, job):
        world = job._node.world
        for iteration in range(3):
            nets.backward(model, iteration, 0)
            optimizer.step()
            optimizer.zero_grad()
            asked.append(world.gathered)
            if iteration == 1:
                optimizer.state_dict()
                for parameter in model.parameters():
                    assert optimizer.state[parameter]["exp_avg"].shape == parameter.shape
                copy.deepcopy(optimizer)
        job.close()

    run_one(body, lambda model: torch.optim.Adam(model.parameters()))
    assert asked == [0, 0, 1]


def test_a_state_dict_stays_as_it_is():
    def body(model, optimizer, job):
        kept = []
        for iteration in range(2):
            nets.backward(model, iteration, 0)
            optimizer.step()
            optimizer.zero_grad()
            kept.append((optimizer.state_dict(), copy.deepcopy(optimizer.state_dict())))
        job.close()
        for one, other in kept:
            assert bits(one["state"][0]["exp_avg"]) == bits(other["state"][0]["exp_avg"])
        assert bits(kept[0][0]["state"][0]["exp_avg"]) != bits(kept[1][0]["state"][0]["exp_avg"])

    run_one(body, lambda model: torch.optim.Adam(model.parameters()))


@pytest.mark.parametrize("make", [torch.optim.Adam, *(functools.partial(torch.optim.Adagrad, initial_accumulator_value=sum) for sum in (0, 0.25))])
def test_what_has_had_no_step_has_the_state_that_it_has_in_pytorch(make):
    def body(model, optimizer, job):
        before = make(nets.mlp().parameters()).state_dict()["state"]
        assert bits(optimizer.state_dict()["state"]) == bits(before)
        model[4](torch.ones(2, 6)).sum().backward()
        optimizer.step()
        state = optimizer.state_dict()["state"]
        assert [bits(state.get(place)) for place in range(4)] == [bits(before.get(place)) for place in range(4)] and {4, 5} <= set(state)
        job.close()

    run_one(body, lambda model: make(model.parameters()))


def test_a_state_dict_after_close_has_what_was_asked_for_last_or_says_that_it_has_none():
    def loop(model, optimizer, job, looks):
        for iteration in range(2):
            nets.backward(model, iteration, 0)
            optimizer.step()
            optimizer.zero_grad()
            if iteration == looks:
                optimizer.state_dict()
        job.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            state = copy.deepcopy(optimizer.state_dict())["state"]
        return len(state), [str(warning.message) for warning in caught]

    found = []
    for looks in (0, 1, 2):
        run_one(lambda *parts: found.append(loop(*parts, looks)), lambda model: sgd(model, momentum=0.9))
    assert [states for states, _ in found] == [0, 6, 0]
    assert [len(said) for _, said in found] == [1, 0, 1]
    assert "Call optimizer.state_dict() before job.close()" in found[0][1][0]


def test_a_job_that_has_failed_leaves_no_old_state():
    def body(model, optimizer, job):
        nets.backward(model, 0, 0)
        optimizer.step()
        optimizer.zero_grad()
        assert len(optimizer.state_dict()["state"]) == 6
        nets.backward(model, 1, 0)
        optimizer.step()
        job.fail("the script has seen enough")
        with pytest.warns(UserWarning, match="Call optimizer.state_dict\\(\\) before job.close"):
            assert optimizer.state_dict()["state"] == {}

    with pytest.raises(PacelineError, match="enough"):
        run_one(lambda *parts: (body(*parts), parts[2]._node.refuse_failed()), lambda model: sgd(model, momentum=0.9))


def test_an_optimizer_without_a_state_has_none_to_lose():
    def body(model, optimizer, job):
        nets.backward(model, 0, 0)
        optimizer.step()
        assert optimizer.state_dict()["state"] == {} and job._node.world.gathered == 0
        job.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert optimizer.state_dict()["state"] == {}

    run_one(body, sgd)


def test_between_backward_and_step_nobody_has_the_state():
    def body(model, optimizer, job):
        nets.backward(model, 0, 0)
        optimizer.state_dict()

    with pytest.raises(PacelineError, match="gradients of iteration 0 have been sent.*before backward\\(\\) or after step\\(\\)"):
        run_one(body, lambda model: sgd(model, momentum=0.9))


def test_a_state_is_loaded_before_attach():
    def body(model, optimizer, job):
        optimizer.load_state_dict(sgd(model, momentum=0.9).state_dict())

    with pytest.raises(PacelineError, match="servers have the optimizer's state from attach on; load a state dict before"):
        run_one(body, lambda model: sgd(model, momentum=0.9))


def stepped(model):
    optimizer = torch.optim.Adam(model.parameters())
    nets.backward(model, 0, 0)
    optimizer.step()
    return optimizer


def without_a_plane(model):
    optimizer = stepped(model)
    del optimizer.state[model[0].weight]["exp_avg_sq"]
    return optimizer


def of_another_type(model):
    optimizer = stepped(model)
    optimizer.state[model[2].bias]["exp_avg"] = optimizer.state[model[2].bias]["exp_avg"].double()
    return optimizer


def of_another_shape(model):
    optimizer = stepped(model)
    optimizer.state[model[0].weight]["exp_avg"] = torch.ones(3)
    return optimizer


NO_STATE = {
    without_a_plane: "the optimizer's state of 0.weight has no exp_avg_sq",
    of_another_type: "exp_avg of 2.bias is float64 \\[6\\], and servers have float32 \\[6\\]",
    of_another_shape: "exp_avg of 0.weight is float32 \\[3\\], and servers have float32",
}


@pytest.mark.parametrize("make", NO_STATE, ids=lambda make: make.__name__)
def test_a_state_that_servers_cannot_have_is_refused_before_joining(make):
    model = nets.mlp()
    with pytest.raises(PacelineError, match=NO_STATE[make]):
        pt.attach(model, make(model), update="server", join=no_join)
