"""Lightning and Accelerate with two optimizers that share a child of the model: what their DistributedDataParallel gives. Two ranks."""

import json

import pytest
import torch
from paceline.torch.pairing import parts
from processes import torchrun
from test_front_frameworks import COMMON
from torch import nn

TWO = COMMON + """
def two(model):
    matrices, others = [p for p in model.parameters() if p.ndim == 2], [p for p in model.parameters() if p.ndim != 2]
    return torch.optim.SGD(others, lr=0.1) if clip else torch.optim.AdamW(others, lr=0.01), torch.optim.Muon(matrices, lr=0.02)

"""

LIGHTNING = TWO + """
import lightning as L
from lightning.pytorch.strategies import DDPStrategy
from paceline.torch.lightning import PacelineStrategy

class Net(L.LightningModule):
    automatic_optimization = False
    def __init__(self):
        super().__init__()
        self.net = net()
    def training_step(self, batch, _):
        both = self.optimizers()
        self.manual_backward(F.cross_entropy(self.net(batch[0]), batch[1]))
        for optimizer in both:
            if clip:
                self.clip_gradients(optimizer, gradient_clip_val=clip)
            optimizer.step()
        for optimizer in both:
            optimizer.zero_grad()
    def configure_optimizers(self):
        return two(self)

strategy = PacelineStrategy() if side == "ours" else DDPStrategy()
trainer = L.Trainer(strategy=strategy, accelerator="cpu", devices=2, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Net()
trainer.fit(model, DataLoader(data, 8, shuffle=False))
told(trainer.global_rank, model)
torch.distributed.destroy_process_group()  # of gloo, whose threads would end a script that ends meanwhile
"""

ACCELERATE = TWO + """
import accelerate, paceline.torch.accelerate
accelerator = (paceline.torch.accelerate.Accelerator if side == "ours" else accelerate.Accelerator)(cpu=True)
model = nn.Sequential(net())
model, rest, muon, batches = accelerator.prepare(model, *two(model), DataLoader(data, 8))
for x, y in batches:
    accelerator.backward(F.cross_entropy(model(x), y))
    if clip:
        accelerator.clip_grad_norm_(model.parameters(), clip)
    for optimizer in (rest, muon):
        optimizer.step()
        optimizer.zero_grad()
if side == "ours":
    assert accelerator.job(model).stepping.startswith("Muon")
told(accelerator.process_index, accelerator.unwrap_model(model))
accelerator.end_training()
"""


@pytest.mark.parametrize(
    "script, case",
    [
        pytest.param(LIGHTNING, "plain", id="lightning", marks=pytest.mark.full),
        pytest.param(LIGHTNING, "clip", id="lightning-clip"),
        pytest.param(ACCELERATE, "plain", id="accelerate", marks=pytest.mark.full),
        pytest.param(ACCELERATE, "clip", id="accelerate-clip"),
    ],
)
def test_two_optimizers_of_one_child_train_as_under_the_frameworks_own_ddp(script, case, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(script)
    for side in ("ours", "theirs"):
        ran = torchrun(file, side, case, tmp_path)
        assert ran.returncode == 0, ran.stderr[-3000:]
    for rank in range(2):
        ours, theirs = (json.loads((tmp_path / f"{side}-{case}-{rank}").read_text())["parameters"] for side in ("ours", "theirs"))
        if case == "plain":
            assert ours == theirs
        for mine, other in zip(ours, theirs, strict=True):  # our norm is exact, torch's is rounded on the way
            assert mine == pytest.approx(other, rel=1e-3, abs=1e-5)


def test_optimizers_that_share_a_child_have_a_part_together_and_the_larger_is_attached():
    one, other, third = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
    small, large, alone = (torch.optim.SGD(which, lr=0.1) for which in ([one.bias, other.bias], [one.weight, other.weight], third.parameters()))
    model = nn.ModuleList([one, third, other])
    (part, optimizers), separate = parts(model, [small, large, alone])
    assert list(part) == [one, other] and optimizers == [large, small] and separate == (third, [alone])
    whole = nn.ModuleList([nn.ModuleList([one, other])])
    assert parts(whole, [small, large]) == [(whole, [large, small])]
    whole.scale = nn.Parameter(torch.ones(1))
    alone.add_param_group({"params": [whole.scale]})
    whole.append(third)
    assert parts(whole, [alone, small, large]) == [(whole, [large, alone, small])]
