"""The operations of torch.distributed on a Communicator of Paceline: which of its operations each is, for which elements.

What the library adds up itself is float32, float64, float16, bfloat16 and int32, by sum, mean, largest and smallest. It moves all others too; where they
are reduced they are gathered, and reduced here, in the order of the ranks. What is done by another operation has lost its name on the way, so ranks tell each
other in a line of text what they have called, and a difference is an error that quotes two of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._C._distributed_c10d import ReduceOp

from paceline import _interface
from paceline._errors import PacelineError
from paceline.communicator import Communicator, Request
from paceline.torch.backend import sparse
from paceline.torch.backend.in_flight import InFlight
from paceline.torch.backend.reductions import Op, name_of, reduced

NAMES = (
    "float32", "float64", "int32", "float16", "bfloat16", "int64", "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
TYPES = {getattr(torch, name): getattr(_interface, name.upper()) for name in NAMES if hasattr(torch, name)}
ADDED = _interface.BFLOAT16  # up to there
REDUCTIONS = {ReduceOp.SUM: _interface.SUM, ReduceOp.AVG: _interface.MEAN, ReduceOp.MAX: _interface.MAX, ReduceOp.MIN: _interface.MIN}
HOST = "cpu"  # said with each tensor made here: torch.set_default_device is the script's
LINE = 128  # bytes of what a rank says that it has called


def kind_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def dense_of(tensor: Tensor) -> Tensor:
    """Its elements one behind the other, each where an element may stand; the tensor's own, where they are so."""
    if tensor.is_contiguous() and not (tensor.data_ptr() % tensor.element_size() or tensor.is_conj() or tensor.is_neg()):
        return tensor
    return tensor.detach().clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()


def put(to: Tensor, what: Tensor) -> None:
    """Where several elements of `to` are one in memory, as expand() makes them, they have to be equal."""
    strides = to.stride() if to.layout is torch.strided else ()
    for dimension, (length, stride) in enumerate(zip(to.shape, strides)):
        if stride == 0 and length > 1:
            first = what.narrow(dimension, 0, 1)
            if not torch.equal(what, first.expand_as(what)):
                raise PacelineError("a tensor whose elements share memory, by expand(), would get elements that differ; give a contiguous one", subject="tensor")
            to, what = to.narrow(dimension, 0, 1), first
    to.copy_(what)


def flat_of(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def refuse(call: str, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise PacelineError(f"{call}: a tensor is {str(tensor.layout).removeprefix('torch.')}; give a dense one", subject=call)
        if tensor.dtype not in TYPES:
            raise PacelineError(f"{call}: a tensor has elements of {kind_of(tensor)}, which nothing here moves; legal: {', '.join(NAMES)}", subject=call)


class Collectives:
    """Of one group. Calls begin an operation and return; the tensors belong to it until the end."""

    def __init__(self, all: Communicator, wire: torch.dtype = torch.float32, in_order: bool = False) -> None:
        """`wire`: as what float32 is added up. `in_order`: of the ranks, as the communicator was opened."""
        self.all = all
        self.rank, self.ranks = all.rank, all.ranks
        self._wire = wire
        self._in_order = in_order
        self._begun = 0

    # ---- how elements are moved

    def _start(
        self, operation: int, given: Tensor | None, taken: Tensor | None, count: int, reduction: int = 0, root: int = 0, parts: Sequence[Sequence[int]] = ()
    ) -> Request:
        """Of dense tensors. `parts`: what all_to_all gives and takes. What begins first leaves first: all in flight sharing the link would delay the first to the
        end of the last."""
        self._begun = (self._begun + 1) % 2**30
        kept = given if given is not None else taken
        call = _interface.Call(
            0, operation, TYPES[kept.dtype] if kept is not None else 0, reduction, root, self._begun, _interface.BEST, 0, count,
            None if given is None else given.data_ptr(), None if taken is None else taken.data_ptr(), *((ctypes.c_int64 * self.ranks)(*lengths) for lengths in parts),
        )  # fmt: skip
        return self.all._begin(call, (given, taken))

    def said(self, line: str) -> InFlight:
        """All ranks have called the same, or an error says who has not."""
        mine = line.encode()[: LINE - 1].ljust(LINE, b"\0")
        lines = torch.empty(self.ranks, LINE, dtype=torch.uint8, device=HOST)
        request = self._start(_interface.ALLGATHER, torch.frombuffer(bytearray(mine), dtype=torch.uint8), lines, lines.numel())

        def compare() -> None:
            for rank in range(self.ranks):
                if not torch.equal(lines[rank], lines[0]):
                    theirs = [bytes(lines[r].tolist()).rstrip(b"\0").decode(errors="replace") for r in (0, rank)]
                    raise PacelineError(f"ranks 0 and {rank} disagree: rank 0 calls {theirs[0]}, rank {rank} calls {theirs[1]}", code="disagree", subject="call")

        return InFlight(request, compare)

    def _gathered(self, call: str, tensor: Tensor) -> tuple[InFlight, Tensor]:
        """All ranks' tensors of this shape, to be reduced once it is over."""
        whole = torch.empty(self.ranks, *tensor.shape, dtype=tensor.dtype, device=HOST)
        said = self.said(f"{call} of {tensor.numel()} {kind_of(tensor)}")
        return said.then(self._start(_interface.ALLGATHER, tensor, whole, whole.numel())), whole

    @staticmethod
    def _dense(tensor: Tensor) -> tuple[Tensor, Callable[[], object] | None]:
        """To be worked on in place, and what brings it back."""
        dense = dense_of(tensor)
        return dense, None if dense is tensor else lambda: put(tensor.detach(), dense)

    @staticmethod
    def _native(tensor: Tensor, op: Op) -> int | None:
        """What the library calls it, if it does it. lists has checked the rest."""
        number = next((mine for theirs, mine in REDUCTIONS.items() if op == theirs), None)
        return None if TYPES[tensor.dtype] > ADDED or (number == _interface.MEAN and tensor.dtype is torch.int32) else number

    # ---- the operations

    def barrier(self) -> InFlight:
        return InFlight(self._start(_interface.BARRIER, None, None, 0))

    def allreduce(self, tensor: Tensor, op: Op) -> InFlight:
        if tensor.layout is torch.sparse_coo and tensor.device.type == "cpu":
            return sparse.allreduce(self, tensor)
        refuse("all_reduce", [tensor])
        dense, back = self._dense(tensor)
        if (reduction := self._native(dense, op)) is not None:
            if dense.dtype is torch.float32 and self._wire is not torch.float32 and reduction in (_interface.SUM, _interface.MEAN):
                rounded = dense.detach().to(self._wire)
                return InFlight(self._allreduced(rounded, reduction), lambda: put(tensor.detach(), rounded))
            return InFlight(self._allreduced(dense, reduction), back)
        pending, parts = self._gathered(f"all_reduce ({name_of(op)})", dense)
        return pending.then(None, lambda: put(tensor.detach(), reduced(list(parts), op)))

    def _allreduced(self, dense: Tensor, reduction: int) -> Request:
        return self._start(_interface.ALLREDUCE, dense, dense, dense.numel(), reduction)

    def reduce(self, tensor: Tensor, root: int, op: Op) -> InFlight:
        """The other ranks' tensors stay as they are."""
        refuse("reduce", [tensor])
        dense, back = self._dense(tensor)
        if (reduction := self._native(dense, op)) is not None:
            if self._in_order and root != self.ranks - 1:  # the library adds in order to the last rank only, or to all
                mine = dense.detach().clone()
                said = self.said(f"reduce ({name_of(op)}) of {dense.numel()} {kind_of(dense)} to rank {root}")
                return said.then(self._allreduced(mine, reduction), (lambda: put(tensor.detach(), mine)) if self.rank == root else None)
            mine = dense if self.rank == root else dense.detach().clone()
            return InFlight(self._start(_interface.REDUCE, mine, mine, mine.numel(), reduction, root), back if self.rank == root else None)
        pending, parts = self._gathered(f"reduce ({name_of(op)}) to rank {root}", dense)
        return pending.then(None, lambda: put(tensor.detach(), reduced(list(parts), op)) if self.rank == root else None)

    def broadcast(self, tensor: Tensor, root: int) -> InFlight:
        refuse("broadcast", [tensor])
        dense, back = self._dense(tensor)
        return InFlight(self._start(_interface.BROADCAST, None, dense, dense.numel(), root=root), back)

    def allgather(self, outputs: Sequence[Tensor], tensor: Tensor) -> InFlight:
        """Each rank's tensor, of one size, to the outputs in the order of the ranks."""
        refuse("all_gather", [tensor, *outputs])
        self._check_sizes("all_gather", outputs, tensor)
        dense = dense_of(tensor)
        whole = torch.empty(self.ranks, dense.numel(), dtype=dense.dtype, device=HOST)
        return InFlight(self._start(_interface.ALLGATHER, dense, whole, whole.numel()), lambda: self._deal(outputs, list(whole)))

    def allgather_flat(self, output: Tensor, tensor: Tensor) -> InFlight:
        refuse("all_gather", [tensor, output])
        self._check_flat("all_gather", output, tensor)
        whole, back = self._dense(output)
        return InFlight(self._start(_interface.ALLGATHER, dense_of(tensor), whole, whole.numel()), back)

    def reduce_scatter_flat(self, output: Tensor, tensor: Tensor, op: Op) -> InFlight:
        refuse("reduce_scatter", [tensor, output])
        self._check_flat("reduce_scatter", tensor, output)
        given = dense_of(tensor)
        if (reduction := self._native(given, op)) is not None:
            result = torch.empty(output.numel(), dtype=output.dtype, device=HOST)
            return InFlight(self._start(_interface.REDUCE_SCATTER, given, result, given.numel(), reduction), lambda: self._deal([output], [result]))
        pending, parts = self._gathered(f"reduce_scatter ({name_of(op)})", given.view(self.ranks, -1))
        return pending.then(None, lambda: self._deal([output], [reduced(list(parts[:, self.rank]), op)]))

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: Op) -> InFlight:
        self._check_sizes("reduce_scatter", inputs, output)
        return self.reduce_scatter_flat(output, flat_of(inputs), op)

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int) -> InFlight:
        refuse("gather", [tensor, *outputs])
        dense = dense_of(tensor)
        if self.rank != root:
            return InFlight(self._start(_interface.GATHER, dense, None, dense.numel(), root=root))
        self._check_sizes("gather", outputs, tensor)
        whole = torch.empty(self.ranks, dense.numel(), dtype=dense.dtype, device=HOST)
        return InFlight(self._start(_interface.GATHER, dense, whole, dense.numel(), root=root), lambda: self._deal(outputs, list(whole)))

    def scatter(self, output: Tensor, inputs: Sequence[Tensor], root: int) -> InFlight:
        refuse("scatter", [output, *inputs])
        if self.rank == root:
            self._check_sizes("scatter", inputs, output)
        mine, back = self._dense(output)
        return InFlight(self._start(_interface.SCATTER, flat_of(inputs) if self.rank == root else None, mine, mine.numel(), root=root), back)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> InFlight:
        """Part i of each rank's inputs to rank i; sizes may differ, and a part must be as large as who takes it says. lists.alltoall() has checked them."""
        gives, takes = ([tensor.numel() for tensor in tensors] for tensors in (inputs, outputs))
        whole = torch.empty(sum(takes), dtype=outputs[0].dtype, device=HOST)
        return self.alltoall_flat(whole, flat_of(inputs), takes, gives).then(None, lambda: self._deal(outputs, torch.split(whole, takes)))

    def alltoall_flat(self, output: Tensor, tensor: Tensor, takes: Sequence[int], gives: Sequence[int]) -> InFlight:
        """The same, of parts of one contiguous tensor each."""
        given, (taken, back) = dense_of(tensor), self._dense(output)
        if given.untyped_storage().data_ptr() == taken.untyped_storage().data_ptr():
            given = given.clone()
        return InFlight(self._start(_interface.ALLTOALL, given, taken, 0, parts=(gives, takes)), back)

    # ---- checks, and what is done at the end

    @staticmethod
    def _deal(outputs: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
        for output, part in zip(outputs, parts, strict=True):
            put(output.detach(), part.view(output.shape))

    def _check_sizes(self, call: str, many: Sequence[Tensor], one: Tensor) -> None:
        if len(many) != self.ranks:
            which = "output" if call == "gather" else "input"
            raise PacelineError(f"{call}: Incorrect {which} list size {len(many)}. {which.capitalize()} list size should be {self.ranks}, one tensor for each rank", subject=call)
        for rank, tensor in enumerate(many):
            if (bad := "type" if tensor.dtype != one.dtype else "size" if tensor.numel() != one.numel() else "") != "":
                said = f"{call}: invalid tensor {bad}; the tensor for rank {rank} has {tensor.numel()} {kind_of(tensor)}, this rank's own {one.numel()} {kind_of(one)}; give the same for all"
                raise PacelineError(said, subject=call)

    def _check_flat(self, call: str, whole: Tensor, part: Tensor) -> None:
        if whole.numel() != self.ranks * part.numel() or whole.dtype != part.dtype:
            raise PacelineError(
                f"{call}: {whole.numel()} {kind_of(whole)} for all ranks and {part.numel()} {kind_of(part)} for each; legal: {self.ranks} times as many, of one type", subject=call
            )
