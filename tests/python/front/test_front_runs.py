"""Runs as they are lived: hooks, state dicts in the middle, a resume, another thread, a thousand orders of delivery."""

import copy
import threading

import nets
import pytest
import torch
from loops import attached, bits, compare, plain
from torch import nn, optim
from torch.optim.optimizer import register_optimizer_step_post_hook


def test_step_hooks_run_before_and_after_all_layers():
    def script(model, optimizer, rank, job, log):
        optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("after", bits([p.detach() for p in o.param_groups[0]["params"]]))))
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), script)


def clamped(optimizer, args, kwargs):
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.clamp_(-0.2, 0.2)


@pytest.mark.parametrize("registered", (0, 2), ids=("before attach", "in the middle"))
def test_what_a_hook_after_the_step_writes_is_there_before_the_next_forward_pass(registered):
    def make(model):
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        if registered == 0:
            optimizer.register_step_post_hook(clamped)
        return optimizer

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            if iteration == registered == 2:
                optimizer.register_step_post_hook(clamped)
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), make, script)


def test_a_hook_that_was_registered_after_the_step_follows_the_next_one_and_one_that_was_removed_still_follows():
    def script(model, optimizer, rank, job, log):
        handle = optimizer.register_step_post_hook(lambda *_: log.append("first"))
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            if iteration == 0:
                handle.remove()
                optimizer.register_step_post_hook(lambda *_: log.append("second"))
            optimizer.zero_grad()
        job.synchronize()

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), script)


def test_a_hook_of_all_optimizers_too_and_it_runs_outside_of_the_forward_pass():
    seen = []

    def hook(optimizer, args, kwargs):
        clamped(optimizer, args, kwargs)
        seen.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            with torch.inference_mode():
                log.append(bits(model(torch.ones(2, 4)).clone()))

    handle = register_optimizer_step_post_hook(hook)
    try:
        compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5), script)
    finally:
        handle.remove()
    assert seen == [(False, True)] * 12


def test_a_parameter_that_changes_places_with_one_of_another_group_has_that_ones_settings():
    def make(model):
        return optim.SGD([{"params": list(model[:3].parameters()), "lr": 0.1}, {"params": list(model[4].parameters()), "lr": 0.01}])

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            if iteration == 1:
                first, second = (group["params"] for group in optimizer.param_groups)
                first[0], second[0] = second[0], first[0]
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), make, script)


def test_loading_a_state_dict_in_the_middle():
    def script(model, optimizer, rank, job, log):
        kept = None
        for iteration in range(5):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            if iteration == 1:
                kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
            if iteration == 3:
                model.load_state_dict(kept[0])
                optimizer.load_state_dict(kept[1])

    compare(nets.mlp(), lambda model: optim.AdamW(model.parameters(), lr=0.05), script)


def test_resuming_in_a_new_process_has_the_same_bits():
    def part(begin, end):
        def script(model, optimizer, rank, job, log):
            for iteration in range(begin, end):
                nets.backward(model, iteration, rank)
                yield
                optimizer.step()
                optimizer.zero_grad()
            log.append(copy.deepcopy((model.state_dict(), optimizer.state_dict())))

        return script

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


def test_another_thread_may_read_while_updates_are_due():
    seen = []

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
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
