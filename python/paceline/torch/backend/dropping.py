"""Gradient dropping (Aji and Heafield 2017) and deep gradient compression (Lin et al. 2018) on one rank, as `paceline train --wire` has them but
for ties, Nesterov's step and clipping: of each parameter's gradient the elements of largest magnitude are sent, what is not sent is added to
later gradients. docs/algorithms.md, section 8. Needs as much memory as the model has; twice that with momentum.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SAMPLED = 65_536  # elements from which on a threshold is guessed first
WARM_UP_SHARE = 0.25  # with which a warm-up begins


def sent_elements(share: float, elements: int) -> int:
    return max(1, int(share * elements + 0.5)) if elements else 0


def largest(values: Tensor, count: int) -> Tensor:
    """Indices of the `count` elements of largest magnitude, ascending. Values that are not finite are the largest."""
    magnitudes = values.abs()
    if values.numel() >= SAMPLED and count < values.numel() // 8:
        # Among a hundredth of the elements, a threshold that leaves a third more than are needed: topk of few is fast, and as exact.
        sample = magnitudes[::100]
        limit = torch.topk(sample, min(sample.numel(), count // 75 + 8)).values[-1]
        candidates = torch.nonzero(~(magnitudes < limit)).view(-1)  # with what is no number
        if candidates.numel() >= count:
            return candidates[torch.topk(magnitudes[candidates], count, sorted=False).indices].sort().values
    return torch.topk(magnitudes, count, sorted=False).indices.sort().values


class Dropping:
    def __init__(self, share: float, momentum: float = 0.0, warm_up: int = 0) -> None:
        """`share` of each parameter's elements is sent, above 0 up to 1; within the first `warm_up` iterations it falls from a quarter."""
        self._share, self._momentum, self._warm_up = share, momentum, warm_up
        self._kept: dict[Tensor, Tensor] = {}  # by parameter: what has not been sent
        self._velocity: dict[Tensor, Tensor] = {}  # and the momentum of its gradients
        self._iteration = 1

    def next_iteration(self) -> None:
        self._iteration += 1

    def share(self) -> float:
        if self._iteration > self._warm_up:
            return self._share
        return float(WARM_UP_SHARE * (self._share / WARM_UP_SHARE) ** ((self._iteration - 1) / self._warm_up))

    def select(self, parameters: Sequence[Tensor], gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Of the gradients of these parameters, one after the other: where what is sent stands, and its values. Once per iteration."""
        share, indices, values, begin = self.share(), [], [], 0
        for parameter in parameters:
            gradient = gradients[begin : begin + parameter.numel()]
            chosen, sent = self._of_one(parameter, gradient, share) if is_finite(gradient) else of_no_number(gradient, share)
            indices.append(chosen + begin)
            values.append(sent)
            begin += parameter.numel()
        return torch.cat(indices), torch.cat(values)

    def _of_one(self, parameter: Tensor, gradient: Tensor, share: float) -> tuple[Tensor, Tensor]:
        kept = self._kept.setdefault(parameter, torch.zeros_like(gradient))
        velocity = self._velocity.setdefault(parameter, torch.zeros_like(gradient)) if self._momentum else None
        kept += gradient if velocity is None else velocity.mul_(self._momentum).add_(gradient)
        chosen = largest(kept, sent_elements(share, parameter.numel()))
        sent = kept[chosen]
        kept[chosen] = 0
        if velocity is not None and share < 1:  # of what leaves late its momentum is old by then
            velocity[chosen] = 0
        return chosen, sent


def is_finite(gradient: Tensor) -> bool:
    """All elements. One pass that reads, but where a sum of finite ones overflows."""
    return bool(torch.isfinite(gradient.sum())) or bool(torch.isfinite(gradient).all())


def of_no_number(gradient: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Of a gradient that is not finite: it leaves, so that all ranks see it, and is added to nothing. It would stay in what is kept back."""
    chosen = largest(gradient, sent_elements(share, gradient.numel()))
    return chosen, gradient[chosen]
