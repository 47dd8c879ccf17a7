"""PyTorch front end: `job = paceline.torch.attach(model, optimizer)`, and the training loop stays as it is; or the backend "paceline" of torch.distributed."""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "paceline.torch needs PyTorch, which is not installed here: pip install torch==2.13.0", name=missing.name
    ) from None

from paceline import _backend
from paceline._errors import PacelineError
from paceline._node import Place
from paceline.torch.attached.attach import attach
from paceline.torch.attached.clipping import Norm
from paceline.torch.backend.connected import GroupOptions
from paceline.torch.backend.hook import HookState, ddp_hook
from paceline.torch.attached.job import Job, clip_grad_norm_
from paceline.torch.layer_profile import profile
from paceline.torch.launching import launch

_backend.register()

__all__ = ["GroupOptions", "HookState", "Job", "Norm", "PacelineError", "Place", "attach", "clip_grad_norm_", "ddp_hook", "launch", "profile"]
