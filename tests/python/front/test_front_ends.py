"""Ends within a script that goes on: an exception that it catches, an exit without a status, a job that has failed."""

import nets
import paceline.torch as pt
import pytest
import server_standin
import standin
import torch
from loops import attached, bits
from paceline import PacelineError


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def is_plain(model, optimizer):
    """As if it had never been attached."""
    modules, parameters = list(model.modules()), list(model.parameters())
    return (
        type(optimizer) is torch.optim.SGD
        and all(type(module._parameters) is dict and not module._forward_pre_hooks and not module._forward_hooks for module in modules)
        and all(not parameter._post_accumulate_grad_hooks and type(parameter.grad) in (type(None), torch.Tensor) for parameter in parameters)
        and not model._state_dict_pre_hooks
        and not optimizer._optimizer_state_dict_pre_hooks
        and torch._C._len_torch_function_stack() == 0
    )


def trains(model, optimizer):
    before = bits(model.state_dict())
    nets.backward(model, 0, 0)
    optimizer.step()
    optimizer.zero_grad()
    return bits(model.state_dict()) != before


def raises(model, optimizer, job):
    nets.backward(model, 0, 0)
    optimizer.step()
    optimizer.zero_grad()
    nets.backward(model, 1, 0)  # whose means nobody has waited for
    raise ValueError("no such file")


def is_refused(model, optimizer, job):
    nets.backward(model, 0, 0)
    nets.backward(model, 0, 0)


def loses_a_peer(model, optimizer, job):
    nets.backward(model, 0, 0)
    optimizer.step()
    job._node.world.failure = PacelineError("worker 1 has ended", kind="peer-lost")
    nets.backward(model, 1, 0)


def has_failed(seconds):
    raise PacelineError("it has failed", kind="peer-lost")


@pytest.mark.parametrize("end", (raises, is_refused, loses_a_peer), ids=lambda end: end.__name__)
@pytest.mark.parametrize("way", ("block", "close"))
def test_after_a_failure_model_and_optimizer_are_plain_and_may_be_attached_again(end, way):
    def body(rank, join):
        model = nets.mlp()
        optimizer = sgd(model)
        job = pt.attach(model, optimizer, join=join)
        if way == "block":
            with pytest.raises((ValueError, PacelineError)), job:
                end(model, optimizer, job)
        else:
            with pytest.raises((ValueError, PacelineError)):
                end(model, optimizer, job)
            job._node.finish = has_failed
            with pytest.raises(PacelineError, match="it has failed"):
                job.close()
        assert is_plain(model, optimizer) and job._node.closed
        job.close()
        model.zero_grad()
        assert trains(model, optimizer)
        with pt.attach(model, optimizer, join=standin.World(1).join_as(0)):
            assert trains(model, optimizer)
        assert is_plain(model, optimizer) and trains(model, optimizer)

    standin.run(1, body)


def test_layers_that_have_not_had_the_update_of_others_are_told_of(monkeypatch):
    monkeypatch.setattr(standin.StandIn, "happens_to_be_there", lambda self, keys: False)

    def script(model, optimizer, rank, job, log):
        with pytest.warns(UserWarning, match="2 of 3 layers have not had the update that the others have; go on from a checkpoint"), pytest.raises(ValueError), job:
            nets.backward(model, 0, 0)
            optimizer.step()
            model[0](torch.ones(1, 4))
            raise ValueError("no such file")
        yield

    attached(1, nets.mlp(), sgd, script)


def test_an_optimizer_that_raises_in_its_step_leaves_the_gradients_of_the_script():
    """And not the mean that it was given, which stands in the job's memory."""

    class Raises(torch.optim.SGD):
        fails = False

        def step(self, closure=None):
            if Raises.fails:
                raise ArithmeticError("no more")
            return super().step()

    def script(model, optimizer, rank, job, log):
        with pytest.raises(ArithmeticError), job:
            nets.backward(model, 0, 0)
            optimizer.step()
            optimizer.zero_grad()
            Raises.fails = True
            job.synchronize()
        assert all(parameter.grad is None for parameter in model.parameters())
        yield

    attached(1, nets.mlp(), lambda model: Raises(model.parameters(), lr=0.1), script)


@pytest.mark.parametrize("error", (MemoryError("no more"), KeyboardInterrupt()), ids=repr)
def test_a_step_that_raises_ends_the_job_though_the_script_goes_on(monkeypatch, error):
    """Half of a layer may have its update. The gate that comes next neither steps it again nor leaves it out."""
    monkeypatch.setattr(standin.StandIn, "happens_to_be_there", lambda self, keys: False)

    told = f"rank 0: {type(error).__name__}.*, within the step of an optimizer, which may have updated some parameters and not others"

    def body(rank, join):
        model = nets.mlp()
        optimizer = sgd(model)
        job = pt.attach(model, optimizer, join=join)
        stepper, raises = job._front.stepper, [error] if rank == 0 else []
        step = stepper.step

        def breaks_off(layers):
            if raises and 2 in layers:
                raise raises.pop()
            step(layers)

        stepper.step = breaks_off

        def begins():
            nets.backward(model, 0, rank)
            optimizer.step()
            optimizer.zero_grad()

        def goes_on():
            nets.backward(model, 1, rank)
            optimizer.step()
            job.synchronize()

        if rank == 0:
            begins()
            with pytest.raises(type(error)):
                model(torch.ones(1, 4))
        with pytest.raises(PacelineError, match=told):
            if rank == 1:
                begins()
            goes_on()
        with pytest.raises(PacelineError, match=told):
            job.close()

    standin.run(2, body)


@pytest.mark.parametrize("status", ((), (None,), (0,)))
def test_an_exit_without_a_status_ends_this_ranks_part_as_the_end_of_the_block_does(status):
    def script(model, optimizer, rank, job, log):
        with pytest.raises(SystemExit), job:
            nets.backward(model, 0, rank)
            optimizer.step()
            raise SystemExit(*status)
        log.append(len(optimizer.state_dict()["param_groups"]))
        yield

    attached(2, nets.mlp(), sgd, script)
    assert standin.run.world.failure is None and standin.run.world.finished == {0, 1}


def test_servers_that_have_gradients_which_nobody_steps_are_told_of_at_the_end():
    def body(rank, join):
        model = nets.mlp()
        job = pt.attach(model, sgd(model), update="server", join=join)
        nets.backward(model, 0, rank)
        with pytest.raises(PacelineError, match="gradients of iteration 0 have been sent, and servers apply them; call optimizer.step\\(\\) before close"):
            job.close()

    server_standin.run(1, body)
