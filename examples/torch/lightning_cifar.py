"""Lightning on CIFAR-10's files, by another strategy (marked +). The Trainer starts the ranks itself, or finds torchrun's.

    python examples/torch/lightning_cifar.py --data DIR --ranks 2     DIR: data_batch_1.bin and so on, test_batch.bin
"""

import argparse
import pathlib

import lightning as L
import torch
import torch.nn.functional as F
from paceline.torch.lightning import PacelineStrategy  # +
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def images(files):
    """Records of one label and 3 x 32 x 32 colours."""
    records = torch.cat([torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8) for file in files]).view(-1, 3073)
    return TensorDataset((records[:, 1:].reshape(-1, 3, 32, 32).float() / 255 - 0.5) / 0.25, records[:, 0].long())


class Net(L.LightningModule):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.net = nn.Sequential(nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 6 * 6, 10))

    def training_step(self, batch, _):
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("accuracy", (self.net(batch[0]).argmax(1) == batch[1]).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=self.steps)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=2, help="on this machine")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    L.seed_everything(1)
    train = DataLoader(images(sorted(options.data.glob("data_batch_*.bin"))), batch_size=16, shuffle=True)
    test = DataLoader(images([options.data / "test_batch.bin"]), batch_size=50)
    trainer = L.Trainer(strategy=PacelineStrategy(), accelerator="cpu", devices=options.ranks, max_epochs=options.epochs, gradient_clip_val=1.0, accumulate_grad_batches=2,
                        logger=False, enable_checkpointing=False, enable_progress_bar=False)  # +  # fmt: skip
    trainer.fit(Net(options.epochs * len(train)), train, test)
    if trainer.is_global_zero:
        print(f"{trainer.world_size} ranks, {trainer.global_step} steps, {100 * trainer.callback_metrics['accuracy']:.1f} % right")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
