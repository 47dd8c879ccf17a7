"""Accelerate's switch: paceline.torch.accelerate.Accelerator in place of accelerate's own. What is prepared is attached, not wrapped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import accelerate
import torch
from accelerate.local_sgd import LocalSGD
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from paceline._errors import PacelineError
from paceline.torch import copies
from paceline.torch.attached.attach import attach
from paceline.torch.attached.clipping import Norm
from paceline.torch.attached.job import Job
from paceline.torch.pairing import choices, parts


class Accelerator(accelerate.Accelerator):  # type: ignore[misc]
    """`attach`: arguments of paceline.torch.attach; buffers are "broadcast" by default, as DDP's are. Others: accelerate.Accelerator's.

    prepare(model, optimizer, ...) attaches a model with its optimizer once it has seen both, in one call or in several. Gather, reduce and what else is no
    gradient goes over Accelerate's own process group.
    """

    _attach: dict[str, Any]
    _waiting: dict[nn.Module, RemovableHandle]  # models whose optimizer has not come yet
    _jobs: dict[nn.Module, list[Job]]

    def __init__(self, *arguments: Any, attach: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if self.ddp_handler is not None:
            raise PacelineError("DistributedDataParallelKwargs are of what Accelerator(attach=...) takes the place of; leave them out", subject="kwargs_handlers")
        become(self, attach or {})

    def prepare(self, *objects: Any, **more: Any) -> Any:
        prepared = super().prepare(*objects, **more)
        self._attach_what_is_complete()
        return prepared

    def prepare_model(self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False) -> nn.Module:
        trains = not evaluation_mode and self.use_distributed and any(parameter.requires_grad for parameter in model.parameters())
        prepared: nn.Module = super().prepare_model(model, device_placement=device_placement, evaluation_mode=evaluation_mode or trains)
        if trains and prepared not in self._waiting and prepared not in self._jobs:
            self._waiting[prepared] = prepared.register_forward_pre_hook(RefusesToTrain())
            copies.watch(prepared)
        return prepared

    def _attach_what_is_complete(self) -> None:
        for model in list(self._waiting):
            parameters = set(model.parameters())
            own = [raw(optimizer) for optimizer in self._optimizers if any(parameters.intersection(group["params"]) for group in raw(optimizer).param_groups)]
            if own:
                self._waiting.pop(model).remove()
                self._jobs[model] = [attach(part, steps[0], **self._attach) for part, steps in parts(model, own)]
                keep_steps(self._optimizers)

    def job(self, model: nn.Module) -> Job:
        """Of a prepared model with one optimizer, or several that share a child."""
        return self._jobs[model][0]

    @contextlib.contextmanager
    def no_sync(self, model: nn.Module) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for job in self._jobs.get(model, []):
                stack.enter_context(job.no_sync())
            yield

    def clip_grad_norm_(self, parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2) -> Tensor | Norm:
        """Of all parameters of a model: nothing waits until the norm is looked at, or needed."""
        given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        for model, jobs in self._jobs.items():
            if len(jobs) == 1 and norm_type == 2 and set(given) == set(model.parameters()):
                self.unscale_gradients()
                return jobs[0].clip_grad_norm_(max_norm)
        norm: Tensor = super().clip_grad_norm_(given, max_norm, norm_type)
        return norm

    def end_training(self) -> None:
        """Applies what is due, and leaves. A script that ends without it leaves too."""
        self.leave_jobs()
        super().end_training()

    def leave_jobs(self) -> None:
        try:
            while self._jobs:
                for job in self._jobs.popitem()[1]:
                    job.close()
        finally:
            keep_steps(self._optimizers)


def become(accelerator: accelerate.Accelerator, arguments: dict[str, Any]) -> None:
    """Makes an Accelerator one of ours, that has not prepared a model yet."""
    accelerator.__class__ = Accelerator
    accelerator._attach = choices(arguments)
    accelerator._waiting = {}
    accelerator._jobs = {}


class RefusesToTrain(copies.Hook):
    """Forward pre-hook of a model that has no job: its gradients would stay this rank's own."""

    def __call__(self, model: nn.Module, arguments: object) -> None:
        if model.training and torch.is_grad_enabled():
            raise PacelineError(f"the {type(model).__name__} was prepared and its optimizer was not; give both to accelerator.prepare", subject="prepare")


def refuse_local_steps(local: LocalSGD) -> None:
    if local.enabled and isinstance(local.accelerator, Accelerator) and (local.model in local.accelerator._jobs or local.model in local.accelerator._waiting):
        raise PacelineError(
            "LocalSGD lets each rank step by itself, and attach exchanges gradients in every step; leave LocalSGD out, or use accelerate's own Accelerator with it",
            subject="LocalSGD",
        )


def enter(local: LocalSGD) -> LocalSGD:
    refuse_local_steps(local)
    entered: LocalSGD = ENTER(local)
    return entered


ENTER = LocalSGD.__enter__
LocalSGD.__enter__ = enter


def keep_steps(optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Beside a loss scaler accelerate's wrapper calls the step that its optimizer had when it was wrapped: attach and close give it another."""
    for optimizer in optimizers:
        if isinstance(optimizer, AcceleratedOptimizer):
            optimizer.__setstate__({})  # keeps the step that is there now, and changes nothing else


def raw(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer.optimizer if isinstance(optimizer, AcceleratedOptimizer) else optimizer
