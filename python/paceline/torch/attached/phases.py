"""Where a rank's own time goes between two steps, for the job's report. Decides only: told when something begins or ends, it adds up."""

from __future__ import annotations

from collections.abc import Callable


class Phases:
    """load: until the model's forward pass begins. forward: until it returns, and between two of them. backward: the loss, until the last gradient, and what
    comes between that and step(). After a backward pass that no step follows (accumulation) the next mini-batch is loaded. Waiting counts nowhere."""

    def __init__(self, clock: Callable[[], float], waited: Callable[[], float]) -> None:
        self._clock, self._waited = clock, waited
        self._seconds = dict.fromkeys(("load", "forward", "backward"), 0.0)
        self._before_forward = "load"  # what the time since the last mark is, if a forward pass begins now
        self._any = False
        self._mark = clock() - waited()

    def forward(self, begins: bool) -> None:
        """Of the whole model, with gradients."""
        self._add(self._before_forward if begins else "forward")
        self._before_forward = "forward"
        self._any = True

    def backward_ended(self) -> None:
        self._add("backward")
        self._before_forward = "load"

    def taken(self) -> dict[str, float]:
        """Since the last call. Nothing, if no forward pass of the whole model was seen: who calls its parts says not when it computes."""
        self._add("backward")
        taken = self._seconds if self._any else {}
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        self._before_forward, self._any = "load", False
        return taken

    def _add(self, phase: str) -> None:
        now = self._clock() - self._waited()
        self._seconds[phase] += max(0.0, now - self._mark)
        self._mark = now
