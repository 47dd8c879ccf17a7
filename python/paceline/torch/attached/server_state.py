"""The optimizer's state where servers make the steps: PyTorch's, as far as it goes, given to the servers at the beginning and asked of them when
the script looks at it. So a checkpoint of one mode is one of the other.

Servers count the steps of every parameter; PyTorch's state has that count where its optimizer needs it.
"""

from __future__ import annotations

import collections
import math
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from paceline._errors import PacelineError
from paceline._node import Node, State
from paceline._waiting import wait
from paceline.torch import copies, memory
from paceline.torch.attached import server_rules
from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.table import Entry, Table

GONE = (
    "update='server': the job is over, and with it the servers that held the optimizer's state: this state dict has none, and a job that goes on from it begins with zeros. "
    "Call optimizer.state_dict() before job.close()"
)


def given(table: Table, optimizer: Optimizer) -> tuple[dict[int, State], list[Tensor]]:
    """By parameter, with which state servers begin; and its tensors, to be kept alive until the job is joined."""
    counts = server_rules.rule_of(type(optimizer)).counts
    names = server_rules.arrays_of(type(optimizer), optimizer.param_groups)
    states, kept = {}, []
    for entry in table.entries:
        held = optimizer.state.get(entry.parameter, {})
        arrays = {name: held[name] for name in names if held.get(name) is not None}
        updates = int(held.get("step", 0)) if counts else int(bool(arrays))
        if not updates and not any(bool(torch.count_nonzero(array)) for array in arrays.values()):
            continue
        refuse(entry, arrays, names, updates)
        sent = [memory.as_sent(array.detach(), entry.strides) for array in arrays.values()]
        kept += sent
        states[entry.index] = State(updates, tuple(array.data_ptr() for array in sent))
    return states, kept


def refuse(entry: Entry, arrays: dict[str, Tensor], names: tuple[str, ...], updates: int) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise PacelineError(f"update='server': the optimizer's state of {entry.name} has no {missing[0]}; load a whole state dict, or none", subject=entry.name)
    if updates < 0:
        raise PacelineError(f"update='server': the optimizer's state of {entry.name} is of {updates} steps", subject=entry.name)
    for name, array in arrays.items():
        if array.shape != entry.parameter.shape or array.dtype is not torch.float32:
            kind = str(array.dtype).removeprefix("torch.")
            raise PacelineError(
                f"update='server': {name} of {entry.name} is {kind} {list(array.shape)}, and servers have float32 {list(entry.parameter.shape)}; {server_rules.WORKER} with its state",
                subject=entry.name,
            )


class Gathering:
    """What the script finds in `optimizer.state`: asked for once in an iteration, and only if it looks."""

    def __init__(self, exchange: Exchange, optimizer: Optimizer, kind: type[Optimizer]) -> None:
        self._exchange = exchange
        self._optimizer = optimizer
        self._counts = server_rules.rule_of(kind).counts
        self._from_start = server_rules.rule_of(kind).from_start
        self._arrays = server_rules.arrays_of(kind, optimizer.param_groups)
        self._known = -1  # the iteration before which it was gathered
        self._ended = False

    def gather(self, iteration: int) -> None:
        """Before the first gradient of `iteration`."""
        if self._known == iteration or not self._keeps:
            return
        node = self._exchange.node
        wait(lambda limit: node.gather_state(limit), math.inf)
        state: dict[Any, dict[str, Tensor]] = collections.defaultdict(dict)
        for entry in self._exchange.table.entries:
            if entry.index not in self._exchange.frozen and (held := self._held(node, entry)):
                state[entry.parameter] = held
        vars(self._optimizer)["state"] = state
        self._known = iteration

    def _held(self, node: Node, entry: Entry) -> dict[str, Tensor]:
        """In memory of its own. As PyTorch has it: before the first step nothing, or what the optimizer was made with."""
        number = self._exchange.number(entry)
        updates = node.updates(number)
        if updates == 0 and not self._from_start:
            return {}
        held = {"step": torch.tensor(float(updates), device="cpu")} if self._counts else {}
        for position, name in enumerate(self._arrays):
            array = torch.frombuffer(node.state(number, position), dtype=torch.float32)
            held[name] = torch.empty_strided(tuple(entry.parameter.shape), entry.strides)
            if entry.parameter.numel():
                held[name].copy_(memory.in_place(array, entry.parameter, entry.strides))
        return held

    @property
    def _keeps(self) -> bool:
        """Whether there is a state at all: plain SGD has none."""
        return bool(self._arrays) or self._counts

    def end(self, iteration: int) -> bool:
        """The servers are gone. What is here is kept if it is the last there was. True: it is not, and so forgotten, now."""
        if self._ended or self._known == iteration or not self._keeps:
            return False
        self._ended = True
        vars(self._optimizer)["state"] = collections.defaultdict(dict)
        self._optimizer.register_state_dict_pre_hook(Gone())
        return True


class Gone(copies.Hook):
    """Pre-hook of state_dict: there was a state, and nobody has asked for it in time."""

    def __call__(self, optimizer: Optimizer) -> None:
        if not optimizer.state:
            warnings.warn(GONE, stacklevel=3)
