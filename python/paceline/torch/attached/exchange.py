"""The model's tensors on a node: what is sent, where means stand, how a wait is made of short ones.

Rows of the job's table, in this order: the number of samples if means are weighted, which all layers wait for; the parameters, layer by
layer; buffers that travel; and last, in a layer of their own, what never has a gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from paceline._node import Node, TensorSpec, Verdict
from paceline.torch import memory, transfers
from paceline.torch.attached import refusals
from paceline.torch.attached.samples import Samples
from paceline.torch.attached.table import Entry, Table

SLICE = 0.05  # seconds of one wait inside the library, between which Python handles signals

Timed = Callable[[str], AbstractContextManager[object]]


class Row:
    """A row that no parameter stands behind."""

    def __init__(self, name: str, initial: Tensor, frozen: bool) -> None:
        self.name = name
        self.initial = initial
        self.frozen = frozen
        self.number = -1  # in the job's table, once that is complete


class Exchange:
    def __init__(self, table: Table, average_by_samples: bool, frozen: set[int], groups: Mapping[int, int] | None = None) -> None:
        """`groups`: of parameters, whose rates servers update them with."""
        self.table = table
        self.frozen = frozen
        self._groups = groups or {}
        self.samples_row = Row("paceline.samples", torch.zeros(1, device="cpu"), False) if average_by_samples else None
        self.rows: list[Row] = []
        self._numbers: list[int] = []  # in the job's table, of each parameter
        self._layers: dict[int, int] = {}  # layer of the model -> of the job, of those that are exchanged
        self._rows_layer = -1
        self.samples = Samples()
        self._weight: tuple[int, float] = (-1, 1.0)  # iteration, what its means are multiplied with
        self._verdict: tuple[int, Verdict, frozenset[int]] | None = None  # iteration, its verdict, parameters that nobody used
        self._sparse_warned = False
        self._sent_rows: set[int] = set()
        self._transfers: transfers.Transfers | None = None  # of parameters that are not in the host's memory
        self.is_narrow = False  # whether gradients and means travel in 16 bits
        self.node: Node

    @property
    def only_gradients(self) -> bool:
        """Whether nothing else is exchanged in an iteration."""
        return self.samples_row is None and all(row.frozen for row in self.rows)

    def shortest_wire(self) -> str:
        """The shortest type that changes no bit: that of all parameters, where means of other types are not exchanged."""
        kinds = {entry.dtype for entry in self.table.entries if entry.index not in self.frozen}
        return str(kinds.pop()).removeprefix("torch.") if self.only_gradients and len(kinds) == 1 else "float32"

    def _type_of(self, entry: Entry) -> torch.dtype:
        """In which the core is given its numbers: its own, unless they are multiplied first."""
        return entry.dtype if self.samples_row is None else torch.float32

    def add(self, name: str, initial: Tensor, *, frozen: bool) -> Row:
        self.rows.append(Row(name, initial, frozen))
        return self.rows[-1]

    def specs(self) -> tuple[list[TensorSpec], list[Tensor]]:
        """The job's table, which is complete from here on, and its initial values, to be kept alive until the job is joined."""
        specs: list[TensorSpec] = []
        initial: list[Tensor] = []

        def put(name: str, shape: tuple[int, ...], values: Tensor, layer: int, frozen: bool, group: int = 0) -> int:
            specs.append(TensorSpec(name, shape, str(values.dtype).removeprefix("torch."), layer, frozen, group))
            initial.append(values.cpu())
            return len(specs) - 1

        def put_entry(entry: Entry, layer: int, frozen: bool) -> None:
            if entry.is_learnable:
                shape = tuple(entry.parameter.shape) if entry.parameter.numel() else (1,)
                sent = memory.as_sent(entry.parameter.detach(), entry.strides, self._type_of(entry))
            else:
                sent = refusals.readable(f"parameter {entry.name}", entry.parameter)
                shape = tuple(sent.shape)
            self._numbers[entry.index] = put(entry.name, shape, sent, layer, frozen, self._groups.get(entry.index, 0))

        def put_row(row: Row, layer: int) -> None:
            row.number = put(row.name, tuple(row.initial.shape), row.initial, layer, row.frozen)

        self._numbers = [-1] * len(self.table.entries)
        layer = 0
        if self.samples_row is not None:
            put_row(self.samples_row, layer)
            layer += 1
        for index, entries in enumerate(self.table.layers):
            learning = [entry for entry in entries if entry.index not in self.frozen]
            for entry in learning:
                put_entry(entry, layer, False)
            if learning:
                self._layers[index] = layer
                layer += 1
        self._rows_layer = layer
        travelling = [row for row in self.rows if not row.frozen]
        for row in travelling:
            put_row(row, layer)
        layer += 1 if travelling else 0
        for entry in self.table.entries:
            if entry.index in self.frozen:
                put_entry(entry, layer, True)
        for row in self.rows:
            if row.frozen:
                put_row(row, layer)
        self._count_of_layers = layer + 1
        return specs, initial

    def on_joined(self, node: Node) -> None:
        """Rank 0's parameters become everybody's."""
        self.node = node
        rows = [self.samples_row.number] if self.samples_row is not None else []
        numbers = [*self._numbers, *(row.number for row in self.rows), *rows]
        self._values = {number: torch.frombuffer(node.value(number), dtype=torch.float32) for number in numbers}
        self._transfers = transfers.of(self.table.device, node.gradient_ready, list(self._values.values()))
        self._views = [self._view(entry) for entry in self.table.entries]
        with torch.no_grad():
            for entry in self.table.entries:
                if not entry.is_learnable:
                    memory.floats_as_bytes(self._views[entry.index], entry.parameter)
                elif entry.parameter.numel():
                    entry.parameter.copy_(self._views[entry.index])

    def number(self, entry: Entry) -> int:
        """In the job's table."""
        return self._numbers[entry.index]

    @staticmethod
    def joined_value(node: Node, row: Row) -> Tensor:
        return torch.frombuffer(node.value(row.number), dtype=torch.float32)

    def value(self, row: Row) -> Tensor:
        return self._values[row.number]

    # --- one iteration

    def send(self, entry: Entry, grad: Tensor) -> None:
        number = self._numbers[entry.index]
        kind = self._type_of(entry)
        if self._transfers is None and grad.dtype is kind and grad.layout is torch.strided and grad.stride() == entry.strides and self.samples_row is None and grad.numel():
            self.node.gradient_ready(number, grad.data_ptr())  # it stands as it is sent
            return
        if grad.is_sparse:
            grad = self._densified(entry, grad)
        flat = memory.as_sent(grad.detach(), entry.strides, kind)
        if self.samples_row is not None:
            flat = flat * count if (count := self.samples.so_far) else torch.zeros_like(flat)  # the gradient of no sample may be no number
            self.samples.on_sent()
        if self._transfers is not None:
            self._transfers.send(number, flat)
        else:
            self.node.gradient_ready(number, flat.data_ptr())

    def send_row(self, row: Row, values: Tensor) -> None:
        self.node.gradient_ready(row.number, values.data_ptr())
        self._sent_rows.add(row.number)

    def conclude(self, iteration: int, unused: Sequence[int]) -> None:
        if self._transfers is not None:
            self._transfers.finish()
        if self.samples_row is not None:
            self.send_row(self.samples_row, torch.tensor([self.samples.so_far], dtype=torch.float32, device="cpu"))
        self.samples.next()
        idle = [row.number for row in self.rows if not row.frozen and row.number not in self._sent_rows]
        self._sent_rows.clear()
        self.node.backward_done(iteration, [*(self._numbers[index] for index in unused), *idle])

    def release(self) -> None:
        """Before the node is closed, whose memory it is."""
        if self._transfers is not None:
            self._transfers.release()

    def close(self) -> None:
        if self._transfers is not None:
            self._transfers.close()

    def check_samples(self) -> None:
        """That those of the iteration are known, as far as they are needed."""
        if self.samples_row is not None and self.samples.so_far is None:
            raise refusals.uncounted()

    def stands(self, entry: Entry) -> Tensor:
        """What came last for the parameter, where it came."""
        return self._views[entry.index]

    def mean(self, entry: Entry, iteration: int, own: bool) -> Tensor:
        """The mean of the parameter's gradients, which must be there: in memory of its own, or where it came if the type allows."""
        view = self._views[entry.index]
        weight = self._weight_of(iteration)
        if self._transfers is not None:
            own = False  # it is in memory of its own already
            fetched = self._transfers.fetch(self._values[self._numbers[entry.index]])
            view = memory.in_place(fetched, entry.parameter, entry.strides) if entry.parameter.numel() else fetched[:0].view(entry.parameter.shape)
        if own or view.dtype != entry.parameter.dtype:
            copied = torch.empty_strided(tuple(view.shape), entry.strides, dtype=entry.parameter.dtype, device=view.device)
            return copied.copy_(view if weight == 1.0 else view * weight)
        return view if weight == 1.0 else view.mul_(weight)

    def wait_layer(self, layer: int, iteration: int) -> None:
        if layer not in self._layers:
            return
        if self.samples_row is not None:
            self._until(lambda: self.node.wait_layer(0, iteration, SLICE))
        self._until(lambda: self.node.wait_layer(self._layers[layer], iteration, SLICE))

    def layer_is_there(self, layer: int, iteration: int) -> bool:
        """Whether wait_layer would return at once."""
        if layer not in self._layers:
            return True
        if self.samples_row is not None and not self.node.wait_layer(0, iteration, 0.0):
            return False
        return self.node.wait_layer(self._layers[layer], iteration, 0.0)

    def wait_rows(self, iteration: int) -> None:
        """Those that nobody needs before the next forward pass."""
        self._until(lambda: self.node.wait_layer(self._rows_layer, iteration, SLICE))

    def wait_all(self, iteration: int) -> None:
        for layer in self._layers:
            self.wait_layer(layer, iteration)

    def verdict(self, iteration: int) -> Verdict:
        return self._known_verdict(iteration)[1]

    def nobody_used(self, index: int, iteration: int) -> bool:
        return index in self._known_verdict(iteration)[2]

    def _known_verdict(self, iteration: int) -> tuple[int, Verdict, frozenset[int]]:
        if self._verdict is None or self._verdict[0] != iteration:
            while (verdict := self.node.wait_verdict(iteration, SLICE)) is None:
                pass
            unused = verdict.unused_by_all
            self._verdict = iteration, verdict, frozenset(i for i, number in enumerate(self._numbers) if number in unused) if unused else frozenset()
        return self._verdict

    def set_order(self, layers: Sequence[int]) -> None:
        order = [self._layers[layer] for layer in layers if layer in self._layers]
        before = [] if self.samples_row is None else [0]
        self.node.set_order([*before, *order, *range(self._rows_layer, self._count_of_layers)])

    def _weight_of(self, iteration: int) -> float:
        """sum n g / W becomes sum n g / sum n: the mean of the counts n came as a tensor of its own."""
        if self.samples_row is None:
            return 1.0
        if self._weight[0] != iteration:
            mean = float(self._values[self.samples_row.number][0])
            self._weight = (iteration, 1.0 / mean if mean > 0 else 0.0)
        return self._weight[1]

    def _view(self, entry: Entry) -> Tensor:
        values = self._values[self._numbers[entry.index]]
        if not entry.is_learnable:
            return values
        return memory.in_place(values, entry.parameter, entry.strides) if entry.parameter.numel() else values[:0].view(entry.parameter.shape)

    def _densified(self, entry: Entry, grad: Tensor) -> Tensor:
        dense = grad.coalesce().to_dense()
        if not self._sparse_warned:
            self._sparse_warned = True
            sparse_bytes = sum(part.numel() * part.element_size() for part in (grad._values(), grad._indices()))
            warnings.warn(
                f"the gradient of {entry.name} is sparse ({sparse_bytes} bytes) and travels dense ({dense.numel() * dense.element_size()} bytes); Embedding(sparse=False) says so from the start",
                stacklevel=2,
            )
        return dense

    @staticmethod
    def _until(there: Callable[[], bool]) -> None:
        while not there():
            pass
