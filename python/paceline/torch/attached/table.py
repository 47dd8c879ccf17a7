"""The table of what travels: the model's parameters in layers, one gate each, and the checks of what a model must be for that.

A layer is what one module owns, in the order of registration: an entry belongs to the first module that holds its parameter. A module that
was compiled is one layer with all that is inside, since nothing in a compiled graph can wait between two of its operations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from paceline._errors import PacelineError
from paceline.torch import memory

DEVICES = ("cpu", "cuda")


@dataclasses.dataclass(eq=False)
class Entry:
    """A parameter: tensor `index` of the table."""

    index: int
    name: str
    parameter: nn.Parameter
    owner: nn.Module  # the first that holds it, as `key`
    key: str
    layer: int
    shape: torch.Size
    is_strided: bool  # otherwise it has to be frozen
    strides: tuple[int, ...]  # of its gradient
    dtype: torch.dtype
    device: torch.device

    @property
    def is_learnable(self) -> bool:
        """Whether its gradients can be exchanged."""
        return self.is_strided and self.dtype in memory.TYPES


class Table:
    def __init__(self, model: nn.Module) -> None:
        refuse_wrappers(model)
        self.entries: list[Entry] = []
        self.layers: list[list[Entry]] = []
        self.names: list[str] = []  # of the layers
        self.gates: dict[nn.Module, list[int]] = {}  # module -> layers that its forward reads
        self.compiled: list[str] = []  # names of compiled regions
        self._of: dict[int, Entry] = {}  # by id: a tensor's hash is a Python function
        layer_of: dict[nn.Module, int] = {}
        for name, module, region, region_name in regions(model):
            if region is not module and is_compiled(region) and not self.compiled[-1:] == [region_name]:
                self.compiled.append(region_name)
            for key, parameter in module._parameters.items():
                if parameter is None:
                    continue
                if id(parameter) not in self._of:
                    if region not in layer_of:
                        layer_of[region] = len(self.layers)
                        self.layers.append([])
                        self.names.append(region_name or "(model)")
                    self._add(f"{name}.{key}" if name else key, parameter, module, key, layer_of[region])
                gates = self.gates.setdefault(region, [])
                if (layer := self._of[id(parameter)].layer) not in gates:
                    gates.append(layer)
        if not self.entries:
            raise PacelineError(f"{type(model).__name__} has no parameters; attach trains a model's parameters")
        refuse_several_devices(self.entries)
        refuse_shared_memory(self.entries)

    @property
    def device(self) -> torch.device:
        """Of all parameters."""
        return self.entries[0].device

    @property
    def ids(self) -> Container[int]:
        """Of the parameters."""
        return self._of

    def of(self, parameter: object) -> Entry | None:
        return self._of.get(id(parameter))

    def _add(self, name: str, parameter: nn.Parameter, owner: nn.Module, key: str, layer: int) -> None:
        refuse_parameter(name, parameter)
        is_strided = memory.is_strided(parameter)
        strides = memory.strides_of(parameter) if is_strided else ()
        entry = Entry(len(self.entries), name, parameter, owner, key, layer, parameter.shape if memory.is_plain(parameter) else torch.Size([parameter.numel()]), is_strided, strides, parameter.dtype, parameter.device)
        self.entries.append(entry)
        self.layers[layer].append(entry)
        self._of[id(parameter)] = entry


def is_compiled(module: nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None or isinstance(module, torch._dynamo.eval_frame.OptimizedModule)


def regions(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module, str]]:
    """(name, module, the module whose gate it stands behind, that one's name): the outermost compiled module around it, or itself. A scripted one takes no
    gate, and stands behind that of what it is a part of."""
    seen: set[nn.Module] = set()

    def walk(name: str, module: nn.Module, region: nn.Module | None, region_name: str) -> Iterator[tuple[str, nn.Module, nn.Module, str]]:
        if module in seen:
            return
        seen.add(module)
        if region is None and is_compiled(module):
            region, region_name = module, name
        yield name, module, module if region is None else region, name if region is None else region_name
        for key, child in module._modules.items():
            if child is not None:
                scripted = region is None and isinstance(child, torch.jit.ScriptModule)
                yield from walk(f"{name}.{key}" if name else key, child, module if scripted else region, name if scripted else region_name)

    yield from walk("", model, None, "")


def held_as(held: Any, key: str) -> Any:
    """Of a module's parameters or buffers, without a look through a gate; a scripted one has no dictionary."""
    return dict.get(held, key) if isinstance(held, dict) else held[key] if key in held else None


def refuse_wrappers(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise PacelineError(f"attach takes an nn.Module, and was given a {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise PacelineError(f"the model is a {type(model).__name__}, which takes no hooks; make it a part of one, model = torch.nn.Sequential(model), and call and attach that")
    for name, module in model.named_modules():
        if isinstance(module, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            kind = type(module).__name__
            where = f"its part {name!r}" if name else "the model"
            raise PacelineError(f"{where} is wrapped in {kind}, which exchanges gradients too; remove the line that wraps it and give the model itself to attach")
        if any(base.__name__ in ("FullyShardedDataParallel", "FSDPModule") for base in type(module).__mro__):
            raise PacelineError(f"{name or 'the model'} is sharded by FSDP; attach needs whole parameters. Remove fully_shard or FullyShardedDataParallel")


def refuse_parameter(name: str, parameter: nn.Parameter) -> None:
    if isinstance(parameter, nn.parameter.UninitializedParameter):
        raise PacelineError(f"parameter {name} is lazy and has no shape yet; run one batch through the model before attach", subject=name)
    if type(parameter.data).__name__ == "DTensor" or hasattr(parameter, "device_mesh"):
        raise PacelineError(f"parameter {name} is a DTensor, a part of a tensor; attach needs whole parameters", subject=name)
    if parameter.device.type not in DEVICES:
        raise PacelineError(f"parameter {name} is on {parameter.device}; legal are {' and '.join(DEVICES)}: model.cpu()", subject=name)


def refuse_unlearnable(entries: Iterable[Entry]) -> None:
    """Those that learn, or may: their gradients are exchanged."""
    for entry in entries:
        if not entry.is_learnable:
            raise PacelineError(f"parameter {entry.name} {unlearnable(entry)}, or requires_grad_(False) where it does not learn", subject=entry.name)


def unlearnable(entry: Entry) -> str:
    """Why its gradients cannot be exchanged, and what to do."""
    parameter = entry.parameter
    kind = str(entry.dtype).removeprefix("torch.")
    if not memory.is_plain(parameter):
        dense = "torch.nested.to_padded_tensor(x, 0.0)" if parameter.is_nested else "x.to_dense()"
        advice = "attach the model before its parameters are converted" if memory.is_made_of_several(parameter) else f"hold nn.Parameter({dense})"
        return f"is {memory.described(parameter)}, and attach exchanges dense gradients: {advice}"
    if entry.dtype.is_complex:
        return f"is {kind}, and attach exchanges real gradients: hold nn.Parameter(torch.view_as_real(x).float())"
    if entry.dtype not in memory.TYPES:
        known = ", ".join(str(kind).removeprefix("torch.") for kind in memory.TYPES)
        return f"is {kind}; legal are {known}: {'model.float()' if entry.dtype.is_floating_point else 'hold nn.Parameter(x.float())'}"
    return "has elements that share memory, or are read as their negatives, so that no step could write to them: hold nn.Parameter(x.resolve_neg().clone())"


def refuse_several_devices(entries: list[Entry]) -> None:
    for entry in entries:
        if entry.device != entries[0].device:
            where = f"parameter {entries[0].name} is on {entries[0].device} and {entry.name} on {entry.device}"
            raise PacelineError(f"{where}; attach trains a model on one device in each process: move all of it there", subject=entry.name)


def refuse_shared_memory(entries: list[Entry]) -> None:
    """Two parameters over the same memory would be stepped twice; one parameter in two modules is fine."""
    spans = sorted((span(entry.parameter), entry.index) for entry in entries if entry.is_strided and entry.parameter.numel())
    for ((_, end), one), ((begin, _), other) in zip(spans, spans[1:]):
        if begin < end:
            names = " and ".join(entries[index].name for index in sorted((one, other)))
            raise PacelineError(f"parameters {names} share memory but are two objects; tie them by assigning one Parameter to both modules", subject=names)


def span(tensor: Tensor) -> tuple[int, int]:
    """First byte and one past the last that the tensor's elements stand in."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
