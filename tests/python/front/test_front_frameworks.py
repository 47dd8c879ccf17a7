"""Lightning, Hugging Face's Trainer, Accelerate: behind their own switches, what their DistributedDataParallel gives. Two ranks."""

import json
import re

import pytest
import torch
from paceline import PacelineError
from paceline.torch.lightning import PacelineStrategy
from paceline.torch.pairing import parts
from processes import alone, passes, torchrun
from test_front_examples import EXAMPLES, colours  # noqa: F401
from torch import nn

COMMON = """
import json, os, sys, warnings, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
warnings.simplefilter("ignore")
side, case, folder = sys.argv[1:]
torch.manual_seed(int(os.environ.get("RANK", "0")))  # rank 0's values are everybody's
data = TensorDataset(torch.randn(96, 8, generator=torch.Generator().manual_seed(1)), torch.arange(96) % 3)
clip = {"plain": None, "clip": 0.05, "value": 0.001}[case]

def net():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))

def told(rank, model, **more):
    with open(f"{folder}/{side}-{case}-{rank}", "w") as file:
        json.dump({"parameters": [p.detach().flatten().tolist() for p in model.parameters()], "buffers": [b.flatten().tolist() for b in model.buffers()], **more}, file)
"""

LIGHTNING = COMMON + """
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from paceline.torch.lightning import PacelineStrategy

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()
    def training_step(self, batch, _):
        return F.cross_entropy(self.net(batch[0]), batch[1])
    def validation_step(self, batch, _):
        self.log("loss", F.cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1) if clip else torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]

def trainer(epochs, **more):
    strategy = PacelineStrategy(process_group_backend="paceline", settings={"schedule": "p3"}) if side == "ours" else DDPStrategy()
    return L.Trainer(strategy=strategy, accelerator="cpu", devices=2, max_epochs=epochs, gradient_clip_val=clip, gradient_clip_algorithm="value" if case == "value" else None, accumulate_grad_batches=3, logger=False,
                     enable_progress_bar=False, enable_model_summary=False, **more)

# Half of the training, a checkpoint, and the rest by another trainer that goes on from it.
train, test = DataLoader(data, 8, shuffle=False), DataLoader(data, 32)
model = Net()
first = trainer(2, callbacks=[ModelCheckpoint(f"{folder}/{side}-{case}", filename="half")])
first.fit(model, train, test)
model = Net()
second = trainer(4, enable_checkpointing=False)
second.fit(model, train, test, ckpt_path=f"{folder}/{side}-{case}/half.ckpt")
told(second.global_rank, model, loss=second.callback_metrics["loss"].item(), steps=second.global_step)
torch.distributed.destroy_process_group()  # of gloo, whose threads would end a script that ends meanwhile
"""

TRAINER = COMMON + """
import transformers, paceline.torch.hf
class Ours(paceline.torch.hf.TrainerMixin, transformers.Trainer):
    attach = {"settings": {"schedule": "p3"}}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()
    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}

collate = lambda samples: {"x": torch.stack([x for x, _ in samples]), "labels": torch.stack([y for _, y in samples])}
args = transformers.TrainingArguments(f"{folder}/{side}-{case}", num_train_epochs=3, per_device_train_batch_size=8, gradient_accumulation_steps=2, learning_rate=0.01, max_grad_norm=clip or 0,
                                      optim="sgd" if clip else "adamw_torch",                                      logging_steps=2, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, eval_strategy="epoch")
trainer = (Ours if side == "ours" else transformers.Trainer)(model=Net(), args=args, train_dataset=data, eval_dataset=data, data_collator=collate)
trainer.train()
evaluations = len([entry for entry in trainer.state.log_history if "eval_loss" in entry])
trainer.train()  # once more, from where it stands
norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
told(args.process_index, trainer.model, evaluations=evaluations, steps=trainer.state.global_step, norms=norms)
torch.distributed.destroy_process_group()  # of gloo, whose threads would end a script that ends meanwhile
"""

ACCELERATE = COMMON + """
import accelerate, paceline.torch.accelerate
kind = paceline.torch.accelerate.Accelerator if side == "ours" else accelerate.Accelerator
accelerator = kind(cpu=True, gradient_accumulation_steps=3, **({"attach": {"settings": {"schedule": "p3"}}} if side == "ours" else {}))
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
model, optimizer, batches, schedule = accelerator.prepare(model, optimizer, DataLoader(data, 8), schedule)
norms = []
for _ in range(4):
    for x, y in batches:
        with accelerator.accumulate(model):
            accelerator.backward(F.cross_entropy(model(x), y))
            if clip and accelerator.sync_gradients:
                norms.append(accelerator.clip_grad_norm_(model.parameters(), clip))
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
total = accelerator.reduce(torch.tensor([1.0]), "sum").item()
accelerator.save_state(f"{folder}/{side}-{case}")
told(accelerator.process_index, accelerator.unwrap_model(model), ranks=total, norms=[float(norm) for norm in norms])
accelerator.end_training()  # destroys the group
"""


@pytest.mark.parametrize(
    "script, case",
    [
        pytest.param(LIGHTNING, "plain", id="lightning"),
        pytest.param(LIGHTNING, "clip", id="lightning-clip", marks=pytest.mark.full),
        pytest.param(LIGHTNING, "value", id="lightning-value", marks=pytest.mark.full),
        pytest.param(TRAINER, "plain", id="trainer", marks=pytest.mark.full),
        pytest.param(TRAINER, "clip", id="trainer-clip", marks=pytest.mark.full),
        pytest.param(ACCELERATE, "plain", id="accelerate"),
        pytest.param(ACCELERATE, "clip", id="accelerate-clip", marks=pytest.mark.full),
    ],
)
def test_it_gives_what_the_frameworks_own_ddp_gives(script, case, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(script)
    for side in ("ours", "theirs"):
        ran = torchrun(file, side, case, tmp_path)
        assert ran.returncode == 0, ran.stderr[-3000:]
    of_rank_0 = json.loads((tmp_path / f"theirs-{case}-0").read_text())["buffers"]
    for rank in range(2):
        ours, theirs = (json.loads((tmp_path / f"{side}-{case}-{rank}").read_text()) for side in ("ours", "theirs"))
        theirs["buffers"] = of_rank_0  # DDP leaves to the other ranks what their last forward pass has made of them
        if case != "clip":
            assert ours["parameters"] == theirs["parameters"]
        for what, value in theirs.items():  # our norm is exact, torch's is rounded on the way
            for mine, other in zip(flat(ours[what]), flat(value), strict=True):
                assert mine == pytest.approx(other, rel=1e-4, abs=1e-6), what


def flat(value):
    return [number for part in value for number in flat(part)] if isinstance(value, list) else [value]


GAN = """
import sys, torch, torch.nn as nn, lightning as L
from torch.utils.data import DataLoader, TensorDataset
import paceline.torch.lightning

class Gan(L.LightningModule):
    automatic_optimization = False
    def __init__(self):
        super().__init__()
        self.makes, self.judges = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)), nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    def training_step(self, batch, _):
        real, (makes, judges) = batch[0], self.optimizers()
        false = self.makes(torch.randn_like(real))
        loss = self.judges(false.detach()).mean() - self.judges(real).mean()
        judges.zero_grad()
        self.manual_backward(loss)
        self.clip_gradients(judges, gradient_clip_val=0.5)
        judges.step()
        self.toggle_optimizer(makes)
        makes.zero_grad()
        self.manual_backward(-self.judges(false).mean())
        makes.step()
        self.untoggle_optimizer(makes)
    def configure_optimizers(self):
        return torch.optim.Adam(self.makes.parameters(), lr=1e-3), torch.optim.SGD(self.judges.parameters(), lr=1e-2)

trainer = L.Trainer(strategy="paceline", accelerator="cpu", devices=2, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Gan()
trainer.fit(model, DataLoader(TensorDataset(torch.randn(64, 2)), 8))
parts = [p.detach().double().sum() for p in model.parameters()]
everybodys = [torch.zeros(len(parts), dtype=torch.float64) for _ in range(2)]
torch.distributed.all_gather(everybodys, torch.stack(parts))
assert torch.equal(*everybodys) and trainer.global_step == 16, (everybodys, trainer.global_step)
torch.distributed.destroy_process_group()  # of gloo, whose threads would end a script that ends meanwhile
"""


@pytest.mark.full
def test_two_optimizers_of_a_lightning_module_have_each_its_children(tmp_path):
    passes(tmp_path, GAN)


WITHOUT = """
import accelerate, torch, paceline.torch.accelerate
accelerator = paceline.torch.accelerate.Accelerator(cpu=True)
model = accelerator.prepare(torch.nn.Linear(2, 2))
with torch.no_grad():
    model(torch.ones(1, 2))
try:
    model(torch.ones(1, 2))
except paceline.PacelineError as error:
    assert "its optimizer was not; give both to accelerator.prepare" in str(error), error
else:
    raise SystemExit("no error")
optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
accelerator.backward(model(torch.ones(1, 2)).sum())
optimizer.step()
assert accelerator.job(model).workers == 2
accelerate.local_sgd.LocalSGD(accelerator, model, 8, enabled=False).__enter__()
try:
    accelerate.local_sgd.LocalSGD(accelerator, model, 8).__enter__()
except paceline.PacelineError as error:
    assert "LocalSGD lets each rank step by itself" in str(error), error
    accelerator.end_training()
"""


def test_a_model_that_was_prepared_without_its_optimizer_does_not_train(tmp_path):
    passes(tmp_path, WITHOUT)


SCALED = """
import copy, warnings, torch, paceline.torch.accelerate
from torch.nn.functional import mse_loss
warnings.filterwarnings("error", "Detected call of")
accelerator = paceline.torch.accelerate.Accelerator(cpu=True, attach={"clip_norm": 0.05})
accelerator.scaler = torch.amp.GradScaler("cpu")  # as with mixed_precision="fp16", which asks for a GPU
torch.manual_seed(0)
model, x, y = torch.nn.Linear(3, 2), torch.randn(4, 2, 5, 3), torch.randn(4, 2, 5, 2)
alone = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model, optimizer, schedule = accelerator.prepare(model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0))
for step in range(4):
    accelerator.backward(mse_loss(model(x[step, accelerator.process_index]), y[step, accelerator.process_index]))
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
step = torch.optim.SGD(alone.parameters(), lr=0.5)
for everybodys, wanted in zip(x, y):
    mse_loss(alone(everybodys), wanted).backward()
    torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.05)
    step.step()
    step.zero_grad()
torch.testing.assert_close(list(model.parameters()), list(alone.parameters()), rtol=0, atol=1e-6)
assert accelerator.job(model).report()["iterations"] == 3 and not optimizer.step_was_skipped
accelerator.leave_jobs()
last = model.weight.detach().clone()
accelerator.backward(model(x[0, 0]).sum())
optimizer.step()
assert type(optimizer.optimizer) is torch.optim.SGD and not torch.equal(model.weight, last)
accelerator.end_training()
"""


def test_accelerate_with_a_loss_scaler_steps_as_attach_does(tmp_path):
    passes(tmp_path, SCALED)


def test_arguments_of_what_is_replaced_are_refused():
    with pytest.raises(PacelineError, match="find_unused_parameters is no argument of paceline.torch.attach"):
        PacelineStrategy(find_unused_parameters=True)


def test_several_optimizers_have_each_their_children_and_the_first_what_nobody_steps():
    one, other, frozen, norm = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)
    other.bias.requires_grad_(False)  # and in no optimizer
    model = nn.ModuleList([one, frozen, other, norm])
    first, second = torch.optim.SGD(one.parameters(), lr=0.1), torch.optim.SGD([other.weight], lr=0.1)
    found = parts(model, [first, second])
    assert [(list(part), optimizers) for part, optimizers in found[:1]] == [([one, frozen, norm], [first])] and found[1] == (other, [second])
    assert parts(model, [first]) == [(model, [first])]


def said(name, *options, pattern, ranks=True):
    ran = torchrun(EXAMPLES / name, *options) if ranks else alone(EXAMPLES / name, *options)
    assert ran.returncode == 0, ran.stderr
    found = re.search(pattern, ran.stdout)
    assert found, ran.stdout
    return float(found.group(1))


def test_accelerates_example():
    assert said("accelerate_loop.py", "--epochs", 12, pattern=r"2 ranks, 12 epochs, last loss [\d.]+, ([\d.]+) % right") > 90


@pytest.mark.full
def test_lightnings_example(colours):  # noqa: F811
    assert said("lightning_cifar.py", "--data", colours, "--epochs", 3, pattern=r"2 ranks, 15 steps, ([\d.]+) % right") > 50


@pytest.mark.full
def test_lightning_starts_the_ranks_itself(colours):  # noqa: F811
    assert said("lightning_cifar.py", "--data", colours, "--epochs", 3, "--ranks", 2, pattern=r"2 ranks, 15 steps, ([\d.]+) % right", ranks=False) > 50


@pytest.mark.full
def test_the_trainers_example():
    assert said("hf_trainer.py", pattern=r"2 ranks, 40 steps, last loss ([\d.]+)") < 3.6  # knowing nothing it is 5.5
