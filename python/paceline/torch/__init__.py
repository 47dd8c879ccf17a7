"""PyTorch front end: `job = paceline.torch.attach(model, optimizer)`, and the training loop stays as it is."""

from paceline._errors import PacelineError
from paceline.torch.attach import attach
from paceline.torch.clipping import Norm
from paceline.torch.job import Job, clip_grad_norm_

__all__ = ["Job", "Norm", "PacelineError", "attach", "clip_grad_norm_"]
