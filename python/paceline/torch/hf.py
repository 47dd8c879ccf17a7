"""The switch of Hugging Face's Trainer:

    class Trainer(paceline.torch.hf.TrainerMixin, transformers.Trainer): pass
    trainer = Trainer(model=model, args=TrainingArguments(...), train_dataset=data)
    trainer.train()

The Trainer's accumulation, clipping (max_grad_norm), schedulers and checkpoints hold as before.
"""

from __future__ import annotations

from typing import Any

from paceline.torch.accelerate import Accelerator, become
from paceline.torch.attached.clipping import Norm


class TrainerMixin:
    """Before transformers.Trainer, or a class of yours made of it. `attach`: arguments of paceline.torch.attach, set in a subclass."""

    attach: dict[str, Any] = {}
    accelerator: Accelerator

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()  # type: ignore[misc]
        become(self.accelerator, dict(self.attach))

    def train(self, *arguments: Any, **more: Any) -> Any:
        result = super().train(*arguments, **more)  # type: ignore[misc]
        self.accelerator.leave_jobs()
        return result

    def log(self, logs: dict[str, Any], *arguments: Any, **more: Any) -> None:
        """A norm that nobody has looked at is asked for now."""
        super().log({name: float(value) if isinstance(value, Norm) else value for name, value in logs.items()}, *arguments, **more)  # type: ignore[misc]
