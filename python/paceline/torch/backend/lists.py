"""The operations of torch.distributed as a group is asked for them: on lists, of which a script of today has one tensor each.

What several tensors mean is what gloo says: they are a rank's several parts of one operation. Sentences about what was given have gloo's words
in them, for which scripts look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from paceline._errors import PacelineError
from paceline.torch.backend.collectives import kind_of, put, refuse
from paceline.torch.backend.hosted import Hosted
from paceline.torch.backend.in_flight import InFlight
from paceline.torch.backend.reductions import Op, check, combined

Tensors = Sequence[Tensor]


def op_of(opts: Any) -> Op:
    return opts.reduceOp if opts is not None else dist.ReduceOp.SUM


def wrong(call: str, what: str) -> PacelineError:
    return PacelineError(f"{call}: {what}", subject=call)


def root_of(call: str, opts: Any, ranks: int) -> int:
    root = int(opts.rootRank) if opts is not None else 0
    if not 0 <= root < ranks:
        raise wrong(call, f"invalid root rank {root}; legal: 0 to {ranks - 1}")
    return root


def alike(call: str, tensors: Tensors) -> None:
    """All as the first: what belongs to one operation has one type and one size."""
    first = tensors[0]
    for index, tensor in enumerate(tensors):
        where = f"of the tensor at index {index}; give all those of the first one"
        if tensor.layout is not first.layout:
            raise wrong(call, f"invalid tensor layout, {str(tensor.layout).removeprefix('torch.')}, {where}")
        if tensor.dtype is not first.dtype:
            raise wrong(call, f"invalid tensor type, {kind_of(tensor)}, {where}")
        if tensor.numel() != first.numel():
            raise wrong(call, f"invalid tensor size, {tensor.numel()} elements, {where}")


def dealt(pairs: Sequence[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    """To each first of a pair, the second."""

    def deal() -> None:
        with torch.no_grad():
            for to, what in pairs:
                put(to, what if what.shape == to.shape else what.view(to.shape))

    return deal


def broadcast(calls: Hosted, tensors: Tensors, opts: Any) -> InFlight:
    """All tensors get what the root's chosen one has."""
    root, chosen = root_of("broadcast", opts, calls.ranks), opts.rootTensor if opts is not None else 0
    if not 0 <= chosen < len(tensors):
        raise wrong("broadcast", f"invalid root tensor {chosen} of {len(tensors)}")
    alike("broadcast", tensors)
    begun = calls.broadcast(tensors[chosen], root)
    return begun if len(tensors) == 1 else begun.then(None, dealt([(tensor, tensors[chosen]) for tensor in tensors if tensor is not tensors[chosen]]))


def allreduce(calls: Hosted, tensors: Tensors, opts: Any) -> InFlight:
    """All tensors get what all tensors of all ranks are together."""
    if not tensors:
        raise wrong("all_reduce", "it requires non-empty tensor list")
    alike("all_reduce", tensors)
    check("all_reduce", op_of(opts), tensors[0])
    if tensors[0].layout is not torch.sparse_coo:
        refuse("all_reduce", tensors)
    if len(tensors) == 1:
        return calls.allreduce(tensors[0], op_of(opts))
    mine = combined([tensor.detach() for tensor in tensors], op_of(opts))
    return calls.allreduce(mine, op_of(opts)).then(None, dealt([(tensor, mine) for tensor in tensors]))


def allreduce_coalesced(calls: Hosted, tensors: Tensors, opts: Any) -> InFlight:
    """Each tensor with those at its place in the lists of the other ranks. They are one array on their way."""
    call = "all_reduce_coalesced"
    if not tensors:
        raise wrong(call, "it requires non-empty tensor list")
    for index, tensor in enumerate(tensors):
        if tensor.layout is not tensors[0].layout:
            raise wrong(call, f"invalid tensor layout at index {index}, {str(tensor.layout).removeprefix('torch.')}")
        if tensor.dtype is not tensors[0].dtype:
            raise wrong(call, f"tensors must all have the same type; that at index {index} is {kind_of(tensor)}, the first {kind_of(tensors[0])}")
    if tensors[0].layout is not torch.strided:
        raise wrong(call, f"unsupported layout {str(tensors[0].layout).removeprefix('torch.')}; give dense tensors")
    check(call, op_of(opts), tensors[0])
    if len(tensors) == 1:
        return calls.allreduce(tensors[0], op_of(opts))
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return calls.allreduce(flat, op_of(opts)).then(None, dealt(list(zip(tensors, parts, strict=True))))


def reduce(calls: Hosted, tensors: Tensors, opts: Any) -> InFlight:
    root = root_of("reduce", opts, calls.ranks)
    if opts.rootTensor != 0:
        raise wrong("reduce", f"invalid root tensor {opts.rootTensor}; legal: 0")
    if len(tensors) != 1:
        raise wrong("reduce", f"it requires a single-element tensor list, and has {len(tensors)}")
    check("reduce", op_of(opts), tensors[0])
    return calls.reduce(tensors[0], root, op_of(opts))


def allgather(calls: Hosted, outputs: Sequence[Tensors], tensors: Tensors) -> InFlight:
    """Every list of outputs gets all tensors of rank 0, of rank 1 and so on."""
    many = len(tensors)
    if not tensors:
        raise wrong("all_gather", "it requires non-empty input tensor list")
    if len(outputs) != many:
        raise wrong("all_gather", f"it requires input/output tensor lists to have the same length, and they have {many} and {len(outputs)}")
    for output in outputs:
        if len(output) != many * calls.ranks:
            raise wrong("all_gather", f"invalid output tensor list, with {len(output)} tensors for {calls.ranks} ranks with {many} each")
        alike("all_gather", [*tensors, *output])
    if many == 1:
        return calls.allgather(outputs[0], tensors[0])
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    whole = [torch.empty_like(flat) for _ in range(calls.ranks)]
    parts = [part for rank in whole for part in rank.chunk(many)]
    return calls.allgather(whole, flat).then(None, dealt([pair for output in outputs for pair in zip(output, parts, strict=True)]))


def allgather_coalesced(calls: Hosted, outputs: Sequence[Tensors], tensors: Tensors) -> list[InFlight]:
    """`outputs`: of each rank, of each tensor."""
    call = "all_gather_coalesced"
    if len(outputs) != calls.ranks:
        raise wrong(call, f"the number of output lists should be equal to world size, {calls.ranks}; it is {len(outputs)}")
    for output in outputs:
        if len(output) != len(tensors):
            raise wrong(call, f"invalid output list of {len(output)} tensors for {len(tensors)} of each rank")
        for index, (to, tensor) in enumerate(zip(output, tensors)):
            if to.numel() != tensor.numel():
                raise wrong(call, f"invalid size of output tensor at index {index}, {to.numel()} elements for {tensor.numel()}")
            if to.dtype is not tensor.dtype:
                raise wrong(call, f"invalid tensor type at index {index}, {kind_of(to)} for {kind_of(tensor)}")
    return [calls.allgather(output, tensor) for output, tensor in zip(zip(*outputs), tensors)]


def reduce_scatter(calls: Hosted, output: Tensor, inputs: Tensors, opts: Any) -> InFlight:
    """The parts may differ in size, if all ranks give the same sizes."""
    check("reduce_scatter", op_of(opts), output)
    if len(inputs) != calls.ranks or len({tensor.numel() for tensor in inputs}) == 1:
        return calls.reduce_scatter(output, inputs, op_of(opts))
    alike("reduce_scatter", [inputs[calls.rank], output])
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
    own = torch.split(flat, [tensor.numel() for tensor in inputs])[calls.rank]
    return calls.allreduce(flat, op_of(opts)).then(None, dealt([(output, own)]))


def reduce_scatter_flat(calls: Hosted, output: Tensor, tensor: Tensor, opts: Any) -> InFlight:
    check("reduce_scatter", op_of(opts), tensor)
    return calls.reduce_scatter_flat(output, tensor, op_of(opts))


def alltoall(calls: Hosted, outputs: Tensors, inputs: Tensors) -> InFlight:
    call = "all_to_all"
    refuse(call, [*inputs, *outputs])
    if not len(outputs) == len(inputs) == calls.ranks:
        raise wrong(call, f"{len(inputs)} inputs and {len(outputs)} outputs; legal: {calls.ranks} of each")
    for tensor in (*inputs, *outputs):
        if tensor.dtype is not inputs[0].dtype:
            raise wrong(call, f"invalid tensor type, {kind_of(tensor)} beside {kind_of(inputs[0])}; give the same for all")
    return calls.alltoall(outputs, inputs)


def only_root(call: str, rank: int, root: int, own: Sequence[Any], lists: Sequence[Any], words: tuple[str, str]) -> Sequence[Any]:
    """The root's tensors for all ranks, which it alone gives; `own`: each rank's one. `words`: what `own` and `lists` are called."""
    mine, everybodys = words
    if len(own) != 1:
        raise wrong(call, f"it requires a single-element {mine} tensor list, and has {len(own)}")
    if rank == root and len(lists) != 1:
        raise wrong(call, f"it requires a single-element {everybodys} list at the root, and has {len(lists)}")
    if rank != root and lists:
        raise wrong(call, f"it requires empty {everybodys} on non-root ranks")
    return lists[0] if lists else []


def gather(calls: Hosted, outputs: Sequence[Tensors], tensors: Tensors, opts: Any) -> InFlight:
    root = root_of("gather", opts, calls.ranks)
    return calls.gather(only_root("gather", calls.rank, root, tensors, outputs, ("input", "output")), tensors[0], root)


def scatter(calls: Hosted, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> InFlight:
    root = root_of("scatter", opts, calls.ranks)
    everybodys = only_root("scatter", calls.rank, root, outputs, inputs, ("output", "input"))
    return calls.scatter(outputs[0], everybodys, root)


def alltoall_flat(calls: Hosted, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]) -> InFlight:
    call = "all_to_all"
    refuse(call, [output, tensor])
    if output.dtype is not tensor.dtype:
        raise wrong(call, f"invalid tensor type, {kind_of(output)} beside {kind_of(tensor)}; give the same for all")
    return calls.alltoall_flat(output, tensor, lengths_of(output, output_splits, calls.ranks), lengths_of(tensor, input_splits, calls.ranks))


def lengths_of(whole: Tensor, splits: Sequence[int], ranks: int) -> list[int]:
    """Elements of each part; `splits` are rows."""
    call, rows = "all_to_all_single", whole.shape[0]
    if not whole.is_contiguous():
        raise wrong(call, "a tensor is not contiguous; give a contiguous one")
    if not splits:
        if rows % ranks:
            raise wrong(call, f"{rows} rows for {ranks} ranks; give the lengths of the parts")
        return [whole.numel() // ranks] * ranks
    if len(splits) != ranks:
        raise wrong(call, f"number of tensor splits not equal to group size, {len(splits)} for {ranks} ranks")
    if sum(splits) != rows or min(splits) < 0:
        raise wrong(call, f"split sizes {list(splits)} do not match total dim 0 size, {rows}")
    row = whole.numel() // rows if rows else 0
    return [row * length for length in splits]
