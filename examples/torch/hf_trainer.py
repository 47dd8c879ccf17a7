"""Hugging Face's Trainer on a small GPT-2, made from its configuration, that learns to go on with a text. Two lines differ (marked +).

    torchrun --standalone --nproc-per-node=2 examples/torch/hf_trainer.py
"""

import argparse
import pathlib
import tempfile

import paceline.torch.hf  # +
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments


class Trainer(paceline.torch.hf.TrainerMixin, transformers.Trainer):  # +
    pass


class Text(torch.utils.data.Dataset):
    """Pieces of a text, as bytes."""

    def __init__(self, text, length=32):
        self.bytes = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()
        self.length = length

    def __len__(self):
        return len(self.bytes) // self.length

    def __getitem__(self, index):
        piece = self.bytes[index * self.length : (index + 1) * self.length]
        return {"input_ids": piece, "labels": piece}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=32, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=options.steps, per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=3e-3, lr_scheduler_type="cosine",
            max_grad_norm=1.0, logging_steps=10, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model=model, args=args, train_dataset=Text(pathlib.Path(__file__).read_text() * 4))
        trainer.train()
    if trainer.is_world_process_zero():
        said = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
        print(f"{args.world_size} ranks, {trainer.state.global_step} steps, last loss {said[-1]['loss']:.3f}, gradient norm {said[-1]['grad_norm']:.3f}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
