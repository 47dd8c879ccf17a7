"""The operations of torch.distributed on a Communicator of Paceline: which of its operations each is, for which elements.

What the library adds up itself is float32, float64, float16, bfloat16 and int32, by sum, mean, largest and smallest. Everything else moves as
bytes: other elements are gathered and reduced here, in the order of the ranks. What is moved as bytes has lost its type on the way, and what is
done by another operation its name, so ranks tell each other in a line of text what they have called, and a difference is an error that quotes two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import ReduceOp

from paceline import _interface
from paceline._arrays import Elements
from paceline._errors import PacelineError
from paceline.communicator import Communicator, Request
from paceline.torch import sparse
from paceline.torch.in_flight import InFlight
from paceline.torch.reductions import Op, name_of, reduced

TYPES = {
    torch.float32: _interface.FLOAT32,
    torch.float64: _interface.FLOAT64,
    torch.int32: _interface.INT32,
    torch.float16: _interface.FLOAT16,
    torch.bfloat16: _interface.BFLOAT16,
}
REDUCTIONS = {ReduceOp.SUM: "sum", ReduceOp.AVG: "mean", ReduceOp.MAX: "max", ReduceOp.MIN: "min"}
HOST = "cpu"  # said with each tensor made here: torch.set_default_device is the script's
LINE = 128  # bytes of what a rank says that it has called


def kind_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def elements(tensor: Tensor) -> Elements:
    return Elements(tensor.data_ptr(), tensor.numel(), TYPES[tensor.dtype], True, tensor)


def dense_of(tensor: Tensor) -> Tensor:
    """Its elements one behind the other, each where an element may stand; the tensor's own, where they are so."""
    dense = tensor.detach().contiguous()
    return dense.clone() if dense.data_ptr() % dense.element_size() else dense


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


def words(tensor: Tensor) -> Elements:
    """Its bytes, four at a time. Whole and aligned: `padded` makes such ones."""
    return Elements(tensor.data_ptr(), tensor.numel() * tensor.element_size() // 4, _interface.INT32, True, tensor)


def padded(tensor: Tensor) -> Tensor:
    """The same bytes in memory of their own, up to a multiple of four."""
    # Of one element any stride counts as contiguous, and is not what bytes are looked at by.
    dense = tensor.detach().as_strided((1,), (1,)) if tensor.numel() == 1 else tensor.contiguous().view(-1)
    raw = dense.view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8, device=HOST)
    held = torch.zeros((raw.numel() + 3) // 4 * 4, dtype=torch.uint8, device=HOST)
    held[: raw.numel()] = raw
    return held


def unpadded(held: Tensor, like: Tensor) -> Tensor:
    if like.numel() == 0:  # where `held` begins is no place of an element
        return torch.empty_like(like)
    return held[: like.numel() * like.element_size()].view(like.dtype).view(like.shape)


def refuse(call: str, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise PacelineError(f"{call}: a tensor is {str(tensor.layout).removeprefix('torch.')}; give a dense one", subject=call)


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

    def _start(self, operation: str, array: object = None, output: object = None, **choices: Any) -> Request:
        """What begins first leaves first. All in flight sharing the link would delay the first to the end of the last."""
        self._begun = (self._begun + 1) % 2**30
        return self.all.start(operation, array, output, priority=self._begun, **choices)

    def said(self, line: str) -> InFlight:
        """All ranks have called the same, or an error says who has not."""
        lines = torch.zeros(self.ranks, LINE, dtype=torch.uint8, device=HOST)
        said = line.encode()[: LINE - 1]
        lines[self.rank, : len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
        request = self._start("allgather", words(lines))

        def compare() -> None:
            for rank in range(self.ranks):
                if not torch.equal(lines[rank], lines[0]):
                    theirs = [bytes(lines[r].tolist()).rstrip(b"\0").decode(errors="replace") for r in (0, rank)]
                    raise PacelineError(f"ranks 0 and {rank} disagree: rank 0 calls {theirs[0]}, rank {rank} calls {theirs[1]}", code="disagree", subject="call")

        return InFlight(request, compare)

    def _gathered(self, call: str, tensor: Tensor) -> tuple[InFlight, Callable[[], list[Tensor]]]:
        """All ranks' tensors of this shape, whatever their elements, once it is over. `call`: "" where the ranks have told each other already."""
        held = padded(tensor)
        whole = torch.empty(self.ranks, held.numel(), dtype=torch.uint8, device=HOST)
        said = self.said(f"{call} of {tensor.numel()} {kind_of(tensor)}") if call else InFlight(None)
        moved = self._start("allgather", words(held), words(whole))
        return said.then(moved), lambda: [unpadded(whole[rank], tensor) for rank in range(self.ranks)]

    @staticmethod
    def _dense(tensor: Tensor) -> tuple[Tensor, Callable[[], object] | None]:
        """To be worked on in place, and what brings it back."""
        given, dense = tensor.detach(), dense_of(tensor)
        return dense, None if dense.data_ptr() == given.data_ptr() else lambda: put(given, dense)

    @staticmethod
    def _native(tensor: Tensor, op: Op) -> str | None:
        """What the library calls it, if it does it. lists has checked the rest."""
        name = next((mine for theirs, mine in REDUCTIONS.items() if op == theirs), None)
        return None if tensor.dtype not in TYPES or (name == "mean" and tensor.dtype is torch.int32) else name

    # ---- the operations

    def barrier(self) -> InFlight:
        return InFlight(self._start("barrier"))

    def allreduce(self, tensor: Tensor, op: Op) -> InFlight:
        if tensor.layout is torch.sparse_coo and tensor.device.type == "cpu":
            return sparse.allreduce(self, tensor)
        refuse("all_reduce", [tensor])
        dense, back = self._dense(tensor)
        if (reduction := self._native(dense, op)) is not None:
            if dense.dtype is torch.float32 and self._wire is not torch.float32 and reduction in ("sum", "mean"):
                rounded = dense.to(self._wire)
                return InFlight(self._start("allreduce", elements(rounded), reduction=reduction), lambda: put(tensor.detach(), rounded))
            return InFlight(self._start("allreduce", elements(dense), reduction=reduction), back)
        pending, parts = self._gathered(f"all_reduce ({name_of(op)})", dense)
        return pending.then(None, lambda: put(tensor.detach(), reduced(parts(), op)))

    def reduce(self, tensor: Tensor, root: int, op: Op) -> InFlight:
        """The other ranks' tensors stay as they are."""
        refuse("reduce", [tensor])
        dense, back = self._dense(tensor)
        if (reduction := self._native(dense, op)) is not None:
            if self._in_order and root != self.ranks - 1:  # the library adds in order to the last rank only, or to all
                mine = dense.clone()
                said = self.said(f"reduce ({name_of(op)}) of {dense.numel()} {kind_of(dense)} to rank {root}")
                return said.then(self._start("allreduce", elements(mine), reduction=reduction), (lambda: put(tensor.detach(), mine)) if self.rank == root else None)
            mine = dense if self.rank == root else dense.clone()
            return InFlight(self._start("reduce", elements(mine), root=root, reduction=reduction), back if self.rank == root else None)
        pending, parts = self._gathered(f"reduce ({name_of(op)}) to rank {root}", dense)
        return pending.then(None, lambda: put(tensor.detach(), reduced(parts(), op)) if self.rank == root else None)

    def broadcast(self, tensor: Tensor, root: int, told: bool = False) -> InFlight:
        """`told`: the ranks have told each other what they call."""
        refuse("broadcast", [tensor])
        dense, back = self._dense(tensor)
        if dense.dtype in TYPES:
            return InFlight(self._start("broadcast", elements(dense), root=root), back)
        held = padded(dense)
        said = InFlight(None) if told else self.said(f"broadcast of {dense.numel()} {kind_of(dense)} from rank {root}")
        return said.then(self._start("broadcast", words(held), root=root), lambda: put(tensor.detach(), unpadded(held, dense)))

    def allgather(self, outputs: Sequence[Tensor], tensor: Tensor, told: bool = False) -> InFlight:
        """Each rank's tensor, of one size, to the outputs in the order of the ranks. `told`: as of broadcast."""
        refuse("all_gather", [tensor, *outputs])
        self._check_sizes("all_gather", outputs, tensor)
        dense = dense_of(tensor)
        if dense.dtype in TYPES:
            whole = torch.empty(self.ranks, dense.numel(), dtype=dense.dtype, device=HOST)
            moved = InFlight(self._start("allgather", elements(dense), elements(whole)))
            return moved.then(None, lambda: self._deal(outputs, list(whole)))
        pending, parts = self._gathered("" if told else "all_gather", dense)
        return pending.then(None, lambda: self._deal(outputs, parts()))

    def allgather_flat(self, output: Tensor, tensor: Tensor) -> InFlight:
        refuse("all_gather", [tensor, output])
        self._check_flat("all_gather", output, tensor)
        if tensor.dtype in TYPES and dense_of(output).data_ptr() == output.data_ptr():
            return InFlight(self._start("allgather", elements(dense_of(tensor)), elements(output.detach())))
        return self.allgather(list(output.detach().view(self.ranks, -1)), tensor)

    def reduce_scatter_flat(self, output: Tensor, tensor: Tensor, op: Op) -> InFlight:
        refuse("reduce_scatter", [tensor, output])
        self._check_flat("reduce_scatter", tensor, output)
        given = dense_of(tensor)
        if (reduction := self._native(given, op)) is not None:
            result = torch.empty(output.numel(), dtype=output.dtype, device=HOST)
            moved = InFlight(self._start("reduce-scatter", elements(given), elements(result), reduction=reduction))
            return moved.then(None, lambda: self._deal([output], [result]))
        pending, parts = self._gathered(f"reduce_scatter ({name_of(op)})", given)
        return pending.then(None, lambda: self._deal([output], [reduced([part.view(self.ranks, -1)[self.rank] for part in parts()], op)]))

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: Op) -> InFlight:
        self._check_sizes("reduce_scatter", inputs, output)
        return self.reduce_scatter_flat(output, torch.cat([tensor.detach().reshape(-1) for tensor in inputs]), op)

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int) -> InFlight:
        scratch = [torch.empty_like(tensor) for _ in range(self.ranks)]
        if self.rank == root:
            self._check_sizes("gather", outputs, tensor)
        said = self.said(f"gather of {tensor.numel()} {kind_of(tensor)} to rank {root}")
        return said.then(self.allgather(scratch, tensor, told=True)).then(None, lambda: self._deal(outputs, scratch) if self.rank == root else None)

    def scatter(self, output: Tensor, inputs: Sequence[Tensor], root: int) -> InFlight:
        if self.rank == root:
            self._check_sizes("scatter", inputs, output)
        whole = torch.cat([tensor.detach().reshape(-1) for tensor in inputs]) if self.rank == root else torch.empty(self.ranks * output.numel(), dtype=output.dtype, device=HOST)
        said = self.said(f"scatter of {output.numel()} {kind_of(output)} from rank {root}")
        return said.then(self.broadcast(whole, root, told=True)).then(None, lambda: self._deal([output], [whole.view(self.ranks, -1)[self.rank]]))

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> InFlight:
        """Part i of each rank's inputs to rank i; sizes may differ, and a part must be as large as who takes it says. Returns when all ranks have said.
        lists.alltoall() has checked them."""
        self.said(f"all_to_all of {kind_of(inputs[0])}").wait()
        sizes = torch.zeros(self.ranks, 2, self.ranks, dtype=torch.int32, device=HOST)
        sizes[self.rank] = torch.tensor([[tensor.numel() for tensor in inputs], [tensor.numel() for tensor in outputs]], dtype=torch.int32, device=HOST)
        InFlight(self._start("allgather", words(sizes))).wait()
        gives, takes = sizes[:, 0], sizes[:, 1]
        for one in range(self.ranks):
            for other in range(self.ranks):
                if gives[one, other] != takes[other, one]:
                    raise PacelineError(
                        f"all_to_all: rank {one} sends {gives[one, other]} elements to rank {other}, which expects {takes[other, one]}", code="disagree", subject="all_to_all"
                    )
        longest = int(gives.sum(1).max())
        mine = torch.zeros(longest, dtype=inputs[0].dtype, device=HOST)
        mine[: int(gives[self.rank].sum())] = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
        scratch = [torch.empty_like(mine) for _ in range(self.ranks)]

        def deal() -> None:
            begins = [int(gives[rank, : self.rank].sum()) for rank in range(self.ranks)]
            self._deal(outputs, [scratch[rank][begin : begin + outputs[rank].numel()] for rank, begin in enumerate(begins)])

        return self.allgather(scratch, mine).then(None, deal)

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
