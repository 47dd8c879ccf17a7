"""What all ranks must have alike while each steps its own copy of the model: the optimizer's settings, and the parameters. It is told after the first
step, after every hundredth one from there, and at the end; the job's coordinator compares, so that nobody waits.

A parameter is digested right after it is stepped, not when it is told: a script may do with it on one rank what it does not on another (swap in a
mean of weights, save a checkpoint), and undo that. At the end, those that nobody has written to since their last step are compared.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from paceline.torch import memory
from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.stepping import Groups, Stepper
from paceline.torch.attached.table import Entry, Table

EVERY = 100  # steps
Lines = list[tuple[str, str]]  # what, how it is here; "": not to be compared


def text_of(value: Any) -> str | None:
    """Of a setting that has the same text wherever it is the same; none of what is no plain value."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, Tensor):
        with contextlib.suppress(memory.Unreadable):
            return text_of(value.item()) if value.numel() == 1 else digest_of(value)
    if isinstance(value, (list, tuple)):
        parts = [text_of(part) for part in value]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    return None


def digest_of(tensor: Tensor) -> str:
    return hexadecimal(int(words_of(tensor, memory.is_strided(tensor))))


def words_of(tensor: Tensor, is_strided: bool) -> Tensor:
    return memory.sum_of_words(tensor) if is_strided else torch.stack([memory.sum_of_words(part) for part in memory.parts_of(tensor)]).sum()


def hexadecimal(digest: int) -> str:
    return f"{digest & 0xFFFFFFFFFFFFFFFF:016x}"


def settings_of(groups: Sequence[dict[str, Any]]) -> Lines:
    texts = [(f"{name} of the optimizer's group {number}", text_of(value)) for number, group in enumerate(groups) for name, value in group.items() if name != "params"]
    return [(what, how) for what, how in texts if how is not None]


def places_of(optimizer: Optimizer, table: Table) -> Lines:
    """Which parameters each group has."""
    found = []
    for number, group in enumerate(optimizer.param_groups):
        indices = [entry.index for parameter in group["params"] if (entry := table.of(parameter)) is not None]
        found.append((f"the parameters of the optimizer's group {number}", f"{len(indices)} (digest {zlib.crc32(repr(indices).encode()):08x})"))
    return found


def state_of(optimizer: Optimizer, entry: Entry) -> str:
    """Of one parameter, before the optimizer is attached."""
    held = optimizer.state.get(entry.parameter, {})
    return ", ".join(f"{name} {text}" for name, value in held.items() if (text := text_of(value)) is not None) or "none"


class Alike:
    def __init__(self, table: Table, exchange: Exchange, stepper: Stepper) -> None:
        self.table = table
        self.exchange = exchange
        self.stepper = stepper
        self._steps = 0
        self._groups: Groups = []  # with which the last step is made
        self._stepped: set[int] = set()  # parameters of the optimizer, where this step is compared
        self._due = False
        self._digests: dict[int, Tensor] = {}  # of this step
        self._versions: list[int] = [-1] * len(table.entries)  # of each parameter, as its last step has left it; -1: none has been made
        self._samples: dict[int, Tensor] = {}  # of those whose memory was given away since
        self._stood: dict[int, int] = {}  # where each was when a step was compared last
        self._told = -1  # iteration

    def on_step(self) -> None:
        """The script asks for a step, on all ranks at the same place of their loops."""
        self._groups = self.stepper.settings
        self._due = self._steps % EVERY == 0
        self._steps += 1
        if self._due:
            self._stepped = self._in_optimizer()
            self._digests = {}
            self._add(entry for entry in self.table.entries if entry.index not in self._stepped)  # nobody's step changes them

    def on_stepped(self, entries: Iterable[Entry]) -> None:
        """Their step has been made."""
        with torch._C.DisableTorchFunction():
            for entry in entries:
                self._versions[entry.index] = version_of(entry.parameter)
                if self._samples:
                    self._samples.pop(entry.index, None)
        if self._due:
            self._add(entry for entry in entries if entry.index in self._stepped)

    def on_all_stepped(self, iteration: int) -> None:
        if self._due:
            self._due = False
            self._tell(iteration, self._digested())

    def on_touched(self, parameter: object) -> None:
        """Somebody may write to it unnoticed from here on, or only read it."""
        entry = self.table.of(parameter)
        if entry is None or entry.index in self._samples:
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if entry.is_strided and self._versions[entry.index] == version_of(entry.parameter):
                self._samples[entry.index] = memory.sample_of_bits(entry.parameter)

    def on_end(self, iteration: int, watched: bool) -> None:
        """No step comes after `iteration`. `watched`: on_touched was told of every write."""
        if self._steps == 0 or self._told == iteration:
            return
        self._digests = {}
        if watched:
            known = self._in_optimizer()
            self._add([entry for entry in self.table.entries if entry.index in known and self._is_untouched(entry)])
        found = self._digested()
        self._tell(iteration, {entry.index: found.get(entry.index, "") for entry in self.table.entries})

    def _digested(self) -> dict[int, str]:
        """A device is waited for once."""
        numbers = torch.stack(list(self._digests.values())).cpu().tolist() if self._digests else []
        return {index: hexadecimal(int(number)) for index, number in zip(self._digests, numbers)}

    def _in_optimizer(self) -> set[int]:
        return {entry.index for parameter in self.stepper.parameters() if (entry := self.table.of(parameter)) is not None}

    def _is_untouched(self, entry: Entry) -> bool:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if self._versions[entry.index] != version_of(entry.parameter) or self._stood.get(entry.index) != place_of(entry):
                return False
            sample = self._samples.get(entry.index)
            return sample is None or torch.equal(sample, memory.sample_of_bits(entry.parameter))

    def _add(self, entries: Iterable[Entry]) -> None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for entry in entries:
                self._digests[entry.index] = words_of(entry.parameter, entry.is_strided)
                if self._due:
                    self._stood[entry.index] = place_of(entry)

    def _tell(self, iteration: int, digests: dict[int, str]) -> None:
        self._told = iteration
        parameters = [(f"parameter {self.table.entries[index].name}", digest) for index, digest in digests.items()]
        self.exchange.node.tell_alike(iteration, [*settings_of(self._groups), *places_of(self.stepper.optimizer, self.table), *parameters])


def place_of(entry: Entry) -> int:
    return entry.parameter.data_ptr() if entry.is_strided else 0


def version_of(parameter: Tensor) -> int:
    """Another one when somebody has written there, but by `.data` or NumPy."""
    return 0 if parameter.is_inference() else parameter._version
