"""The sum of sparse tensors, as the gradients of an embedding are: of all ranks' elements, however many each has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from paceline.torch.backend.in_flight import InFlight

if TYPE_CHECKING:
    from paceline.torch.backend.collectives import Collectives


def allreduce(calls: Collectives, tensor: Tensor) -> InFlight:
    """The sum, in place. Elements of one index are added in the order of the ranks. It waits for the numbers of elements before it returns."""
    mine = tensor.detach().coalesce()
    indices, values = mine.indices(), mine.values()
    kind = str(mine.dtype).removeprefix("torch.")
    calls.said(f"all_reduce (sum) of sparse {list(mine.shape)} {kind}, {mine.sparse_dim()} dimensions sparse").wait()
    numbers = [torch.empty(1, dtype=torch.int64, device="cpu") for _ in range(calls.ranks)]
    calls.allgather(numbers, torch.tensor([indices.shape[1]], device="cpu")).wait()
    if (most := max(int(number) for number in numbers)) == 0:
        return InFlight(None)
    wide = indices.new_zeros(indices.shape[0], most)
    wide[:, : indices.shape[1]] = indices
    long = values.new_zeros(most, *values.shape[1:])
    long[: values.shape[0]] = values
    all_indices = [torch.empty_like(wide) for _ in numbers]
    all_values = [torch.empty_like(long) for _ in numbers]

    def add() -> None:
        having = [slice(0, int(number)) for number in numbers]
        at = torch.cat([part[:, own] for part, own in zip(all_indices, having, strict=True)], 1)
        what = torch.cat([part[own] for part, own in zip(all_values, having, strict=True)])
        with torch.no_grad():
            tensor.copy_(torch.sparse_coo_tensor(at, what, mine.shape, device="cpu").coalesce())

    gathered = calls.allgather(all_indices, wide).then(calls.allgather(all_values, long))
    return gathered.then(None, add)
