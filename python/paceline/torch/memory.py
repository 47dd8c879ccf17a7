"""Tensors as the flat numbers that the core is given, and back. The order of the elements is the one of the parameter's memory.

What only begins as rank 0's, frozen parameters and buffers, may be of any type and layout: it travels by the bytes of its parts.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

TYPES = (torch.float32, torch.bfloat16, torch.float16)
ROWS, COLUMNS = (torch.sparse_csr, torch.sparse_bsr), (torch.sparse_csc, torch.sparse_bsc)


class Unreadable(Exception):
    """Of a tensor whose numbers nobody can write to: why, and what to do."""


def is_strided(tensor: Tensor) -> bool:
    """Whether each element stands in memory of its own, as its type says."""
    return is_plain(tensor) and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or overlaps(tensor))


def is_plain(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and not is_made_of_several(tensor)


def is_made_of_several(tensor: Tensor) -> bool:
    """Whether its class makes it of other tensors."""
    return not tensor.is_nested and is_traceable_wrapper_subclass(tensor)


def overlaps(tensor: Tensor) -> bool:
    """Whether elements share memory."""
    reached = 0
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride <= reached:
            return tensor.numel() > 0 and len(set(places(tensor))) < tensor.numel()
        reached += stride * (size - 1)
    return False


def places(tensor: Tensor) -> list[int]:
    """Of each element, from the first one."""
    at = torch.zeros((), dtype=torch.int64, device="cpu")
    for stride, size in zip(tensor.stride(), tensor.shape):
        at = at.unsqueeze(-1) + stride * torch.arange(size, device="cpu")
    return at.flatten().tolist()


def parts_of(tensor: Tensor) -> list[Tensor]:
    """The strided tensors in which its numbers stand, each once: what is written there is the tensor's."""
    if is_made_of_several(tensor):
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        return [part for name in names for part in parts_of(getattr(tensor, name))]
    tensor = tensor.detach()
    if tensor.is_nested:
        return [part for one in tensor.unbind() for part in parts_of(one)]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in ROWS:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in COLUMNS:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.layout is not torch.strided:
        raise Unreadable("its numbers cannot be written; hold what to_dense() gives")
    if tensor.is_quantized:
        raise Unreadable("its numbers cannot be written; hold what int_repr() gives, and the scale")
    tensor = physical(tensor)
    if 0 in tensor.stride() and tensor.numel():  # expanded
        own = [(1, 1) if stride == 0 else (size, stride) for size, stride in zip(tensor.shape, tensor.stride())]
        tensor = tensor.as_strided([size for size, _ in own], [stride for _, stride in own])
    if overlaps(tensor):
        raise Unreadable("elements share memory; hold what clone() gives")
    return [tensor]


def physical(part: Tensor) -> Tensor:
    """What stands in its memory, where the type says that numbers are read the other way round."""
    part = part.conj() if part.is_conj() else part
    return torch._neg_view(part) if part.is_neg() else part


def form_of(tensor: Tensor) -> Hashable:
    """Of what has to stay: type, layout and sizes."""
    if is_plain(tensor):
        return tensor.dtype, tensor.shape
    return tensor.dtype, tensor.layout, *(form_of(part) for part in parts_of(tensor))


def described(tensor: Tensor) -> str:
    if is_plain(tensor):
        return f"{tensor.dtype} {tuple(tensor.shape)}"
    kind = type(tensor).__name__ if is_made_of_several(tensor) else "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
    return f"{tensor.dtype} {kind} of {tensor.numel()} elements"


def dense(tensor: Tensor) -> bool:
    """Whether the elements fill one piece of memory, in whatever order of dimensions: then a gradient has the same strides."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def strides_of(parameter: Tensor) -> tuple[int, ...]:
    """Of the parameter's gradient and its mean."""
    return tuple(parameter.stride()) if dense(parameter) else tuple(torch.empty(parameter.shape, device="meta").stride())


def flat(tensor: Tensor) -> Tensor:
    """All elements in the order of memory, without a copy where the tensor is dense. Never empty: an empty tensor travels as one zero."""
    if tensor.numel() == 0:
        return torch.zeros(1, device=tensor.device)
    if dense(tensor):
        return torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset())
    return tensor.contiguous().view(-1)


def as_sent(tensor: Tensor, strides: tuple[int, ...], kind: torch.dtype = torch.float32) -> Tensor:
    """The tensor, flat and of this type, in the order that `strides` give; the tensor's own memory where that is what stands there."""
    if tuple(tensor.stride()) != strides and tensor.numel() > 0:
        tensor = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return flat(tensor).to(kind)


def in_place(values: Tensor, like: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Flat float32 `values` in the shape of `like`, with `strides`: a view."""
    return torch.as_strided(values, tuple(like.shape), strides, values.storage_offset())


SUMMED = 1 << 16  # numbers that are all added; of more every 61st


def sum_of_bits(tensor: Tensor) -> int:
    """Another one when others stand there, unless few numbers of many differ, they stand in another order, or by design."""
    return int(sample_of_bits(tensor))


def sample_of_bits(tensor: Tensor) -> Tensor:
    bits = flat(tensor.detach()).view(torch.int32 if tensor.element_size() % 4 == 0 else torch.uint8)
    return (bits if bits.numel() <= SUMMED else bits[::61]).sum()


def sum_of_words(tensor: Tensor) -> Tensor:
    """Of all bytes of a strided tensor, as an int64 on its device: one read of its memory. Hardly ever the same when other numbers stand there."""
    raw = flat(tensor.detach())
    size = raw.element_size()
    if raw.storage_offset() * size % 8 != 0:
        raw = raw.clone()
    words = raw.numel() - raw.numel() % max(1, 8 // size)
    total = raw[:words].view(torch.int64).sum()
    return total if words == raw.numel() else total + raw[words:].view(torch.uint8).sum()


def mark_of(tensor: Tensor) -> tuple[int, int]:
    """Another one when somebody has written there. The version does not count what is written by `.data` or NumPy. The bits do; a device's would have to be waited for."""
    written = 0 if tensor.is_inference() else tensor._version
    return written, sum(map(sum_of_bits, parts_of(tensor))) if tensor.device.type == "cpu" else 0


def numbers_of(tensor: Tensor) -> Tensor:
    """A copy of its numbers in the host's memory, each once."""
    (part,) = parts_of(tensor)
    return part.cpu().contiguous().clone()


def bytes_as_floats(tensor: Tensor) -> Tensor:
    """One float32 a byte: exact on every wire, sums of 65536 of them too. Never empty."""
    raw = [part.cpu().contiguous().view(-1).view(torch.uint8) for part in parts_of(tensor) if part.numel()]
    return torch.cat(raw).to(torch.float32) if raw else torch.zeros(1, device="cpu")


def floats_as_bytes(values: Tensor, tensor: Tensor) -> None:
    """Undoes bytes_as_floats into `tensor`; what a division has moved off the integers is rounded."""
    raw, at = values.round().to(torch.uint8), 0
    for part in parts_of(tensor):
        size = part.numel() * part.element_size()
        if size and part.is_contiguous():
            part.view(-1).view(torch.uint8).copy_(raw[at : at + size])
        elif size:
            part.copy_(raw[at : at + size].clone().view(part.dtype).view(part.shape))
        at += size
