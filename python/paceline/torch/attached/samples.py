"""How many samples an iteration's gradients stand for: those of all its backward passes. Decides only; knows no tensor.

The script tells a number before each backward pass. It counts once a gradient of that pass is finished: a pass that the script has left out
after telling has none.
"""

from __future__ import annotations

from paceline._errors import PacelineError


class Samples:
    def __init__(self) -> None:
        self.total = 0  # of the last iteration that has ended
        self.so_far: int | None = None  # of the open one
        self._told: int | None = None  # of the next backward pass
        self._pass = 0  # of the last one
        self._sent = False  # something has left that is weighted by so_far

    def tell(self, count: float) -> None:
        try:
            whole = int(count)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # the last by a tensor of several
            whole = -1
        if whole < 0 or whole != count:
            raise PacelineError(f"job.samples({count}): a number of samples is a whole one of at least 0, as len(x) is", subject="samples")
        self._told = whole

    def on_gradient(self) -> None:
        """One is finished: what was told is of the backward pass that goes on."""
        told, self._told = self._told, None
        if told is None:
            return
        if not self._sent:
            self.so_far = (self.so_far or 0) + told
        elif told != self._pass:  # the same number is of other losses for the same samples
            raise PacelineError(
                f"job.samples({told}): gradients of this iteration have left, weighted by {self.so_far}; put its first backward passes into `with job.no_sync():`, "
                f"or tell the same number before each",
                subject="samples",
            )
        self._pass = told

    def on_sent(self) -> None:
        self._sent = True

    def conclude(self) -> None:
        """No gradient of this iteration comes any more; some may have been made without a backward pass."""
        if self.so_far is None:
            self.on_gradient()

    def next(self) -> None:
        """The iteration has ended. One that nothing was told of is as large as the last."""
        self.total = self.total if self.so_far is None else self.so_far
        self.forget()

    def forget(self) -> None:
        """The script has thrown the open iteration's gradients away."""
        self.so_far, self._sent = None, False
