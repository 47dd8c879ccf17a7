"""Lightning's switch: Trainer(strategy=PacelineStrategy()). The model is attached, not wrapped; what the Trainer does stays as it is.

The Trainer's accumulation (accumulate_grad_batches), clipping (gradient_clip_val), checkpoints, schedulers and loops hold as under its own
DDPStrategy. Its collective operations outside of training, of metrics and barriers, go over `process_group_backend`.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch.optim import Optimizer

from paceline._errors import PacelineError
from paceline.torch.attached import lifetime
from paceline.torch.attached.attach import attach
from paceline.torch.attached.job import Job
from paceline.torch.pairing import choices, parts

OWN = ("accelerator", "parallel_devices", "cluster_environment", "checkpoint_io", "precision_plugin", "start_method")


class PacelineStrategy(DDPStrategy):  # type: ignore[misc]
    """Arguments are those of paceline.torch.attach, e.g. PacelineStrategy(settings={"schedule": "p3"}), or of DDPStrategy: those in OWN, and

    process_group_backend: of what is no gradient; default: Lightning's, gloo. timeout: of its operations.
    buffers are "broadcast" by default, as DDPStrategy's are. Of several optimizers each that has children of the LightningModule to
    itself has a job. Of those that share a child the one with most parameters is attached, and the others find the means in .grad.
    """

    strategy_name = "paceline"

    def __init__(self, process_group_backend: str | None = None, timeout: datetime.timedelta = datetime.timedelta(minutes=30), **arguments: Any) -> None:
        super().__init__(process_group_backend=process_group_backend, timeout=timeout, **{name: arguments.pop(name) for name in OWN if name in arguments})
        self._arguments = choices(arguments)
        self._jobs: list[Job] = []
        self._clips = False  # by the job itself

    @property
    def jobs(self) -> list[Job]:
        """One for each optimizer, or several that share a child, while it trains."""
        return self._jobs

    def configure_ddp(self) -> None:
        """The model stays as it is. Ranks begin with rank 0's values, also in what runs before the training."""
        assert self.model is not None
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            torch.distributed.broadcast(tensor.detach(), 0)

    def on_train_start(self) -> None:
        """Once a checkpoint is loaded."""
        super().on_train_start()
        assert self.lightning_module is not None
        module, trainer = self.lightning_module, self.lightning_module.trainer
        arguments = dict(self._arguments)
        clips = trainer.gradient_clip_val if trainer.gradient_clip_algorithm in (None, "norm") and not is_overridden("configure_gradient_clipping", module) else None
        if clips and module.automatic_optimization:
            if arguments.get("clip_norm", clips) != clips:
                raise PacelineError(f"Trainer(gradient_clip_val={clips}) and PacelineStrategy(clip_norm={arguments['clip_norm']}); give one of the two", subject="clip_norm")
            arguments["clip_norm"] = float(clips)
        self._clips = arguments.get("clip_norm") is not None
        self._jobs = [attach(part, own[0], **arguments) for part, own in parts(module, self.optimizers)]
        self.precision_plugin.clip_grad_by_norm = self._clip

    def _clip(self, optimizer: Optimizer, clip_val: float) -> None:
        """What the Trainer, or a module's clip_gradients(), does by torch.nn.utils.clip_grad_norm_."""
        assert self.lightning_module is not None
        raw = getattr(optimizer, "_optimizer", optimizer)
        own, job = next((own, job) for (_, own), job in zip(parts(self.lightning_module, self.optimizers), self._jobs, strict=True) if any(one is raw for one in own))
        if clip_val > 0 and not self._clips:
            if len(own) == 1:
                job.clip_grad_norm_(clip_val)
            else:
                torch.nn.utils.clip_grad_norm_(self.precision_plugin.main_params(raw), clip_val)

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for job in self._jobs:
                stack.enter_context(job.no_sync())
            yield None

    def on_train_end(self) -> None:
        super().on_train_end()
        self._leave()

    def on_exception(self, exception: BaseException) -> None:
        super().on_exception(exception)
        if isinstance(exception, lifetime.Stopped):
            return self._leave()
        for job in self._jobs:
            job.fail(lifetime.sentence(job.rank, exception))
        self._jobs = []

    def teardown(self) -> None:
        self._leave()
        super().teardown()

    def _leave(self) -> None:
        self.precision_plugin.__dict__.pop("clip_grad_by_norm", None)
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.close()


StrategyRegistry.register("paceline", PacelineStrategy, description="Paceline's attach() in place of DistributedDataParallel")
