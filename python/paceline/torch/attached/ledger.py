"""Which gradients of the iteration are there, and which layers still wait for their update. Decides only; knows no tensor and no wait.

An iteration i is open while gradients may come; concluded once this rank has said that no more will; then either stepped, which makes every
layer due until somebody needs it, or dropped (the script went on without a step, as a loss scaler does after an overflow).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Sequence


class Finish(enum.Enum):
    """What to do with a gradient that backward has finished."""

    HOLD = "hold"  # more passes will add to it
    SEND = "send"
    RESTART = "restart"  # of an iteration that the script dropped: end that one, then ask again
    STALE = "stale"  # its layer is still due: the forward pass has read old values


COUNTED = 0


class Ledger:
    def __init__(self, layers: Sequence[int], first_iteration: int, expected: int) -> None:
        """`layers`: of each tensor. `expected`: finishes of each tensor before a step; COUNTED: as many as the first iteration shows."""
        self.layers = layers
        self.iteration = first_iteration
        self.concluded = False
        self.due: set[int] = set()
        self.sent = [False] * len(layers)
        self.finishes = [0] * len(layers)
        self.expected: list[int] | None = None if expected == COUNTED else [expected] * len(layers)
        self.counts = expected == COUNTED

    def finished(self, tensor: int, fresh: bool) -> Finish:
        """Backward has finished the tensor's gradient. `fresh`: it began from nothing, so that earlier finishes do not count."""
        if self.layers[tensor] in self.due:
            return Finish.STALE
        if self.sent[tensor] or self.concluded:
            return Finish.RESTART
        self.finishes[tensor] = 1 if fresh else self.finishes[tensor] + 1
        if self.expected is None or self.finishes[tensor] < self.expected[tensor]:
            return Finish.HOLD
        return Finish.SEND

    def on_sent(self, tensor: int) -> None:
        self.sent[tensor] = True

    @property
    def told(self) -> bool:
        """Whether others may have heard of the open iteration, so that it must be ended."""
        return self.concluded or any(self.sent)

    def unsent(self) -> list[int]:
        return [tensor for tensor, sent in enumerate(self.sent) if not sent]

    def miscounted(self) -> int | None:
        """A tensor that finished less often than in the first iteration, though not never."""
        if not self.counts or self.expected is None:
            return None
        return next((t for t, n in enumerate(self.finishes) if 0 < n < self.expected[t]), None)

    def conclude(self) -> None:
        self.concluded = True

    def step(self) -> None:
        """Every layer is due from here on."""
        self._next()
        self.due = set(self.layers)

    def drop(self) -> None:
        self._next()

    def opened(self, layers: Iterable[int]) -> None:
        self.due.difference_update(layers)

    def _next(self) -> None:
        if self.expected is None and any(self.finishes):
            self.expected = [max(1, count) for count in self.finishes]
        self.iteration += 1
        self.concluded = False
        self.sent = [False] * len(self.layers)
        self.finishes = [0] * len(self.layers)


class Order:
    """In which order layers are needed: seen in the first iteration, and again in every hundredth."""

    AGAIN = 100

    def __init__(self, layers: int) -> None:
        self.current = list(range(layers))
        self._place = {layer: at for at, layer in enumerate(self.current)}
        self._layers = layers
        self._seen: dict[int, None] | None = {}
        self._steps = 0
        self.in_forward = False  # of the model: within it, reads of attributes count too,
        self.sees_reads = False  # while the order is watched

    @property
    def watching(self) -> bool:
        return self._seen is not None

    def forward(self, begins: bool) -> None:
        self.in_forward, self.sees_reads = begins, begins and self.watching

    def passed(self, layer: int) -> None:
        if self._seen is not None:
            self._seen.setdefault(layer)

    def after(self, layer: int) -> Iterable[int]:
        """Those that are needed after it, in that order."""
        return itertools.islice(self.current, self._place[layer] + 1, None)

    def stepped(self) -> list[int] | None:
        """A new order, if it differs from what is known. Layers that nobody passed come last, as they stood."""
        self._steps += 1
        seen, self._seen = self._seen, {} if self._steps % self.AGAIN == 0 else None
        if not seen:
            return None
        order = [*seen, *(layer for layer in self.current if layer not in seen)]
        if order == self.current:
            return None
        self.current = order
        self._place = {layer: at for at, layer in enumerate(order)}
        return order
