"""What ranks tell each other beside training, for validation: a communicator of their own, made when the first thing is asked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from paceline import _joining
from paceline._addresses import bound, told
from paceline._errors import PacelineError
from paceline._node import Place
from paceline._waiting import apart
from paceline.communicator import Communicator

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

STALL = 600.0  # seconds that a rank waits for one that makes no progress, as --stall-deadline is where nobody gives it


class Others:
    """Of one rank. All ranks call the same in the same order."""

    def __init__(self, place: Place, rank: int, workers: int) -> None:
        self._place, self._rank, self._workers = place, rank, workers
        self._met: Communicator | None = None

    def mean(self, given: Tensor) -> Tensor:
        """Of all ranks' tensors, in float64, on the host: added in the order of ranks."""
        mean = given.detach().to("cpu", torch.float64, copy=True).contiguous()
        if self._workers > 1 and mean.numel():
            self._communicator().allreduce(mean.view(-1), reduction="mean")
        return mean

    def barrier(self) -> None:
        if self._workers > 1:
            self._communicator().barrier()

    def close(self, seconds: float) -> None:
        if self._met is not None:
            self._met.close(seconds)

    def _communicator(self) -> Communicator:
        """They meet as for one more job of the script."""
        if self._met is None:
            if self._place.coordinator:
                raise PacelineError(
                    "place=Place(coordinator=...) says where one job meets, and nothing where its ranks do besides; reduce with a paceline.Communicator of your own", subject="place"
                )
            here = _joining.found()
            given, name = _joining.meeting(here)
            bind = self._place.bind or bound(here, given)
            self._met = apart(lambda: self._meet(given, _joining.store_of(here, name, STALL) if not given else None, bind), f"rank {self._rank} waits for the other ranks in job.mean or job.barrier")
        return self._met

    def _meet(self, given: str, store: Store | None, bind: str) -> Communicator:
        place = self._place
        with contextlib.nullcontext(("", given)) if store is None else told(self._rank, store, bind, STALL) as (_, address):
            return Communicator(
                self._rank, coordinator=address, ranks=self._workers, bind=bind or None, rank_order=True, connect_seconds=STALL, stall_seconds=STALL,
                job_key_file=place.job_key_file, security=place.security,
            )  # fmt: skip
