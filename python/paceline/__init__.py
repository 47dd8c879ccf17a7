"""Paceline: data-parallel training whose transfers are scheduled by when the next iteration needs them. `paceline.torch` is its front end for PyTorch."""

from paceline._errors import PacelineError

__all__ = ["PacelineError"]
