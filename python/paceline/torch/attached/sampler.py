"""A rank's share of a data set: DistributedSampler's, in a new order for each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import Dataset, DistributedSampler


class Sampler(DistributedSampler[Any]):
    """DistributedSampler that counts epochs itself, until the script sets one."""

    def __init__(self, dataset: Dataset[Any], workers: int, rank: int, passes: Callable[[], int], **options: Any) -> None:
        """`passes`: another number when a backward pass has been made meanwhile."""
        super().__init__(dataset, num_replicas=workers, rank=rank, **options)
        self._passes = passes
        self._began = -1  # how many backward passes there were when the last one began; -1: none did
        self._script_sets = False

    def __iter__(self) -> Iterator[Any]:
        # A generator, since DataLoader makes iterators that it asks for nothing. Passes in which nothing was trained do not count, so that a look at
        # a batch on one rank alone leaves the ranks' shares apart.
        if not self._script_sets:
            now = self._passes()
            if self._began not in (-1, now):
                self.epoch += 1
            self._began = now
        yield from super().__iter__()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or a pickle counts nothing."""
        return DistributedSampler, (self.dataset, self.num_replicas, self.rank, self.shuffle, self.seed, self.drop_last), {"epoch": self.epoch}

    def set_epoch(self, epoch: int) -> None:
        """The epoch of all passes from here on; the sampler counts no more."""
        self._script_sets = True
        super().set_epoch(epoch)
