"""Tensors as the flat numbers that the core is given, and back. The order of the elements is the one of the parameter's memory."""

from __future__ import annotations

import torch
from torch import Tensor


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
    bits = flat(tensor.detach()).view(torch.int32 if tensor.element_size() % 4 == 0 else torch.uint8)
    return int((bits if bits.numel() <= SUMMED else bits[::61]).sum())


def mark_of(tensor: Tensor) -> tuple[int, int]:
    """Another one when somebody has written there. The version does not count what is written by `.data` or NumPy. The bits do; a device's would have to be waited for."""
    return 0 if tensor.is_inference() else tensor._version, sum_of_bits(tensor) if tensor.device.type == "cpu" else 0


def bytes_as_floats(tensor: Tensor) -> Tensor:
    """One float32 a byte: exact on every wire, sums of 65536 of them too. Never empty."""
    raw = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.zeros(1, dtype=torch.uint8, device="cpu")
    return raw.to(torch.float32)


def floats_as_bytes(values: Tensor, target: Tensor) -> None:
    """Undoes bytes_as_floats into `target`; what a division has moved off the integers is rounded."""
    if target.numel():
        raw = values.round().to(torch.uint8)
        target.copy_(raw.view(target.dtype).view(target.shape))
