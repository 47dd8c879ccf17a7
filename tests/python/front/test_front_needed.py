"""Each mechanism that keeps reads from being old, taken away: something notices."""

import contextlib

import nets
import pytest
import standin
import torch.nn.functional as F
from loops import attached, bits, compare, plain
from paceline import PacelineError
from paceline.torch.attached import front, gates, ledger, references, updates, waiting
from test_front_stale import READERS, adam, evaluated, over_numbers, reading
from torch import nn

SCENES = {
    "forward": (nets.everything, reading(lambda model, optimizer, held: evaluated(model), steps=3), {}),
    "flat references": (lambda: nets.seeded(nets.Keeps), over_numbers(), {}),
    "held": (nets.everything, reading(READERS["held list"], zero=True), {}),
    "parts": (nets.everything, reading(READERS["state_dict() of a part"]), {}),
    "optimizer's state": (nets.everything, reading(READERS["optimizer.state"]), {}),
    "gradients": (nets.everything, reading(READERS["gradients"]), {}),
}


def nothing(*args, **kwargs):
    return None


def without(monkeypatch, what):
    """Takes one mechanism away."""
    if what == "pre-hooks of modules":
        monkeypatch.setattr(gates.Gate, "__call__", nothing)
    elif what == "gated dictionary":
        monkeypatch.setattr(gates.Gates, "watch_parameters", nothing)
    elif what == "references":
        monkeypatch.setattr(references.Window, "open", nothing)
    elif what == "waiting gradients":
        monkeypatch.setattr(waiting.WaitingGrad, "settled", lambda grad: grad.entry.parameter.detach() * 0)
    elif what == "state of the optimizer":
        monkeypatch.setattr(front.Front, "synchronize", nothing_for("optimizer.state", "state_dict", original=front.Front.synchronize))
    elif what == "zero_grad while due":
        monkeypatch.setattr(updates.Updates, "_put", put_without_what_is_pending)


def never_early(monkeypatch):
    """An update that is early by chance hides that a mechanism is missing."""
    monkeypatch.setattr(standin.StandIn, "happens_to_be_there", lambda self, keys: False)


def nothing_for(*reasons, original):
    return lambda self, reason: None if reason in reasons else original(self, reason)


original_put = updates.Updates._put


def put_without_what_is_pending(self, pending, entry, coefficient, left):
    """As if the optimizer were to find the gradient in .grad, where zero_grad has been."""
    pending.grads[entry.index] = entry.parameter.grad
    return original_put(self, pending, entry, coefficient, left)


MUTATIONS = {
    "pre-hooks of modules": ["flat references"],
    "gated dictionary": ["forward", "parts"],
    "references": ["held"],
    "waiting gradients": ["gradients"],
    "state of the optimizer": ["optimizer's state"],
    "zero_grad while due": ["held"],
}


@pytest.mark.parametrize("what, scene", [(what, scene) for what, scenes in MUTATIONS.items() for scene in scenes])
def test_without_one_mechanism_a_test_fails(monkeypatch, what, scene):
    make, script, choices = SCENES[scene]
    compare(make(), adam, script, **choices)
    never_early(monkeypatch)
    without(monkeypatch, what)
    with pytest.raises((AssertionError, PacelineError, RuntimeError)):  # autograd's own: a value was changed after it had been used
        compare(make(), adam, script, **choices)


def test_without_the_check_of_arrivals_a_held_weight_would_train_wrong(monkeypatch):
    template = nets.Held()

    def script(model, optimizer, rank, job, log):
        model.kept = [model.second.weight]
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    finished = ledger.Ledger.finished

    def unchecked(self, tensor, fresh):
        due, self.due = self.due, set()
        try:
            return finished(self, tensor, fresh)
        finally:
            self.due = due

    never_early(monkeypatch)
    monkeypatch.setattr(ledger.Ledger, "finished", unchecked)
    monkeypatch.setattr(front.refusals, "stale", lambda entry: contextlib.suppress)
    monkeypatch.setattr(front.Front, "on_gradient", on_gradient_unchecked(front.Front.on_gradient))
    with pytest.raises(AssertionError):
        compare(template, adam, script)


def on_gradient_unchecked(original):
    def on_gradient(self, entry):
        due, self.ledger.due = self.ledger.due, set()
        try:
            return original(self, entry)
        finally:
            self.ledger.due = due

    return on_gradient


def test_without_hooks_of_state_dict_the_buffers_of_other_ranks_are_old(monkeypatch):
    template = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    def script(model, optimizer, rank, job, log):
        x, y = nets.numbers(0, rank, (5, 4))
        F.cross_entropy(model(x), y).backward()
        yield
        optimizer.step()
        log.append(bits({k: v for k, v in model.state_dict().items() if "running" in k}))

    logs = [log for _, _, log in attached(2, template, adam, script, buffers="broadcast")]
    assert logs[0] == logs[1]
    monkeypatch.setattr(gates.Gates, "watch_state_dicts", nothing)
    logs = [log for _, _, log in attached(2, template, adam, script, buffers="broadcast")]
    assert logs[0] != logs[1]


def test_plain_reference_sees_every_update():
    """The scenes can tell old from new: a loop that reads before the step differs from one that reads after it."""
    late = plain(2, nets.everything(), adam, reading(READERS["parameters()"]))
    early = plain(2, nets.everything(), adam, reading(READERS["parameters()"], steps=1))
    assert late[0][2][0] == early[0][2][0] != late[0][2][1]
