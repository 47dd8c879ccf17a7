"""Nothing reads an old value in silence: whoever reads right after step() finds what a plain loop has, whichever way it reads."""

import copy
import io
import pickle

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare
from paceline import PacelineError
from torch.nn.utils import parameters_to_vector

READERS = {
    "state_dict()": lambda model, optimizer, held: model.state_dict(),
    "state_dict() of a part": lambda model, optimizer, held: model.lstm.state_dict(),
    "optimizer.state_dict()": lambda model, optimizer, held: by_number(optimizer.state_dict()),
    "optimizer.state": lambda model, optimizer, held: [optimizer.state[p] for p in held],
    "deep copy of the model": lambda model, optimizer, held: copy.deepcopy(model).state_dict(),
    "shallow copy of the model": lambda model, optimizer, held: copy.copy(model).state_dict(),
    "forward of a shallow copy": lambda model, optimizer, held: copy.copy(model.even)(torch.ones(2, 8)),
    "deep copy of the optimizer": lambda model, optimizer, held: by_number(copy.deepcopy(optimizer).state_dict()),
    "pickle of the model": lambda model, optimizer, held: pickle.loads(pickle.dumps(model)).state_dict(),
    "torch.save of the model": lambda model, optimizer, held: saved(model).state_dict(),
    "pickle of the optimizer": lambda model, optimizer, held: by_number(pickle.loads(pickle.dumps(optimizer)).state_dict()),
    "forward in eval": lambda model, optimizer, held: evaluated(model),
    "forward of a part": lambda model, optimizer, held: model.even(torch.ones(2, 8)),
    "forward in inference mode": lambda model, optimizer, held: inferred(model),
    "functional_call": lambda model, optimizer, held: torch.func.functional_call(model.even, dict(model.even.named_parameters()), (torch.ones(1, 8),)),
    "an attribute": lambda model, optimizer, held: model.attention.out_proj.weight.clone(),
    "parameters()": lambda model, optimizer, held: [p.detach().norm() for p in model.parameters()],
    "named_parameters()": lambda model, optimizer, held: {name: p.detach().clone() for name, p in model.named_parameters()},
    "get_parameter()": lambda model, optimizer, held: model.get_parameter("attention.in_proj_weight").detach().clone(),
    "parameters_to_vector": lambda model, optimizer, held: parameters_to_vector(model.parameters()),
    "held list": lambda model, optimizer, held: [p.detach().clone() for p in held],
    "held list, foreach": lambda model, optimizer, held: torch._foreach_mul([p.detach() for p in held], 1.0),
    "held list, vector": lambda model, optimizer, held: parameters_to_vector(held),
    "held, .data": lambda model, optimizer, held: held[2].data.norm(),
    "held, numpy": lambda model, optimizer, held: held[2].detach().numpy().tobytes(),
    "held, DLPack": lambda model, optimizer, held: torch.from_dlpack(held[2].detach()).clone(),
    "held, deep copy": lambda model, optimizer, held: copy.deepcopy(held[2]),
    "optimizer's groups": lambda model, optimizer, held: [p.detach().clone() for group in optimizer.param_groups for p in group["params"]],
    "gradients": lambda model, optimizer, held: [p.grad for p in held if p.grad is not None],
    "a mean of weights": lambda model, optimizer, held: averaged(model),
}


def by_number(state):
    return [state["state"][number] for number in sorted(state["state"])]


def saved(model):
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


def evaluated(model):
    model.eval()
    with torch.no_grad():
        result = model(nets.words(0, 0)[0])
    model.train()
    return result


def inferred(model):
    with torch.inference_mode():
        return model.lstm(torch.ones(1, 2, 8))[0].clone()


def averaged(model):
    mean = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    mean.update_parameters(model)
    mean.update_parameters(model)
    return mean.state_dict()


def reading(reader, zero=False, steps=2):
    def script(model, optimizer, rank, job, log):
        held = list(model.parameters())
        for iteration in range(steps):
            x, y = nets.words(iteration, rank)
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            if zero:
                optimizer.zero_grad()
            log.append(bits(reader(model, optimizer, held)))
            optimizer.zero_grad()

    return script


def over_numbers():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    return script


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.02)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_right_after_step_finds_the_new_value(name):
    compare(nets.everything(), adam, reading(READERS[name]))
    if name != "gradients":
        compare(nets.everything(), adam, reading(READERS[name], zero=True))


@pytest.mark.parametrize("name", [name for name in READERS if name.startswith("held") or name == "optimizer's groups"])
def test_a_held_reference_is_refused_where_that_is_asked_for(name):
    with pytest.raises(PacelineError, match="by a reference that is older than attach"):
        attached(2, nets.everything(), adam, reading(READERS[name]), check=True)


@pytest.mark.parametrize("order", ((0, 1), (1, 0)), ids=("first attached, first stepped", "first attached, last stepped"))
def test_held_references_to_either_of_two_models_find_the_new_values(order):
    def body(rank, join):
        models = [nets.mlp(), nets.seeded(nets.mlp)]
        optimizers = [adam(model) for model in models]
        held = [list(model.parameters()) for model in models]
        jobs = [pt.attach(*pair, join=standin.World(1).join_as(0)) for pair in zip(models, optimizers)]
        for iteration in range(3):
            for one in order:
                nets.backward(models[one], iteration, one)
                optimizers[one].step()
            for one in order:
                seen = bits([parameter.detach().clone() for parameter in held[one]])
                jobs[one].synchronize()
                assert seen == bits([parameter.detach().clone() for parameter in held[one]]), f"iteration {iteration}: old values of model {one}"
                optimizers[one].zero_grad()
        for job in jobs:
            job.close()
        assert torch._C._len_torch_function_stack() == 0

    standin.run(1, body)


@pytest.mark.parametrize("early", (False, True))
def test_a_reference_that_a_forward_pass_reads_past_its_owner_is_an_error_unless_its_update_was_early(monkeypatch, early):
    monkeypatch.setattr(standin.StandIn, "happens_to_be_there", lambda self, keys: early and all(self.world.complete(*key) for key in keys))
    template = nets.Held()

    def script(model, optimizer, rank, job, log):
        model.kept = [model.second.weight]
        for iteration in range(2):
            nets.backward(model, iteration, rank)
            optimizer.step()
            yield

    if early:
        compare(template, adam, script, workers=1)
        return
    with pytest.raises(PacelineError, match="parameter second.weight was used in this forward pass before its update was applied"):
        attached(2, template, adam, script)


@pytest.mark.parametrize("read", ("clip", "value", "norm", "sum", "numpy", "copy", "in place", "max", "foreach", "pickle", "list", "data", "print"))
def test_a_gradient_that_the_script_looks_at_is_the_mean(read):
    looks = {
        "clip": lambda grads, model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01),
        "value": lambda grads, model: torch.nn.utils.clip_grad_value_(model.parameters(), 0.001),
        "norm": lambda grads, model: [g.norm() for g in grads],
        "sum": lambda grads, model: float(sum(g.sum() for g in grads)),
        "numpy": lambda grads, model: grads[0].numpy().tobytes(),
        "copy": lambda grads, model: copy.deepcopy(grads[1]),
        "in place": lambda grads, model: [g.mul_(0.5) for g in grads],
        "max": lambda grads, model: torch.stack([g.abs().max() for g in grads]),
        "foreach": lambda grads, model: torch._foreach_norm(grads),
        "pickle": lambda grads, model: pickle.loads(pickle.dumps(grads[2])),
        "list": lambda grads, model: grads[3].tolist(),
        "data": lambda grads, model: grads[2].data.clone(),
        "print": lambda grads, model: None if repr(grads[0].shape) else None,
    }

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.words(iteration, rank)
            F.cross_entropy(model(x), y).backward()
            yield
            log.append(bits(looks[read]([p.grad for p in model.parameters() if p.grad is not None], model)))
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.everything(), adam, script)


def test_a_copy_of_the_model_is_not_attached():
    def script(model, optimizer, rank, job, log):
        x, y = nets.words(0, rank)
        F.cross_entropy(model(x), y).backward()
        yield
        optimizer.step()
        other = copy.deepcopy(model)
        F.cross_entropy(other(x), y).backward()
        log.append([type(other.lstm._parameters), bool(other.lstm.weight_ih_l0._post_accumulate_grad_hooks), type(other.lstm.weight_ih_l0.grad)])
        optimizer.zero_grad()

    for _, _, log in attached(2, nets.everything(), adam, script):
        assert log == [[dict, False, torch.Tensor]]


def test_after_close_model_and_optimizer_are_as_they_came():
    for model, optimizer, _ in attached(2, nets.everything(), adam, reading(READERS["parameters()"])):
        assert type(optimizer) is torch.optim.Adam
        assert all(type(module._parameters) is dict and not module._forward_pre_hooks for module in model.modules())
        before = bits(model.state_dict())
        F.cross_entropy(model(nets.words(9, 0)[0]), nets.words(9, 0)[1]).backward()
        optimizer.step()
        assert bits(model.state_dict()) != before


ALIASES = {
    ".data": lambda p: p.data,
    "detach()": lambda p: p.detach(),
    "a row": lambda p: p.data[-1:],
    "from NumPy": lambda p: torch.from_numpy(p.detach().numpy()),
    "across": lambda p: p.data.t() if p.dim() == 2 else p.data,
}


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("by", ("each", "foreach", "reads"))
def test_tensors_in_the_memory_of_parameters_kept_from_before_meet_new_values(alias, by):
    """As WGAN clips its weights."""

    def script(model, optimizer, rank, job, log):
        held = [ALIASES[alias](p) for p in model.parameters()]
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            if by == "reads":
                log.append([value.sum().item() for value in held[2:]])
            elif by == "each":
                for value in held:
                    value.clamp_(-0.2, 0.2)
            else:
                torch._foreach_mul_(held, 0.9)

    compare(nets.mlp(), adam, script)
    with pytest.raises(PacelineError, match="reads parameter [02].weight by a reference that is older than attach"):
        attached(2, nets.mlp(), adam, script, check=True)


def test_one_tensor_over_the_memory_of_several_parameters_meets_all_of_them():
    def flattened(model):
        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        begin = 0
        for p in model.parameters():
            p.data = flat[begin : begin + p.numel()].view_as(p)
            begin += p.numel()
        return adam(model)

    def script(model, optimizer, rank, job, log):
        first = next(model.parameters())
        whole = first.data.as_strided((sum(p.numel() for p in model.parameters()),), (1,), first.storage_offset())
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            whole.clamp_(-0.2, 0.2)

    compare(nets.mlp(), flattened, script)
