"""The ways by which reading a layer is noticed, so that its update is applied first. Each is needed: each sees readers that the others miss.

- a forward pre-hook of every module that holds a parameter: modules that keep references of their own (LSTM's flat weights);
- a dictionary in the place of `module._parameters`: attributes read by another module (MultiheadAttention reads `out_proj.weight` and never
  calls `out_proj`), `parameters()`, state dicts of parts, deep copies;
- a mode of torch outside of forward passes: references that are older than attach;
- pre-hooks of `state_dict` of model and optimizer: buffers, and the optimizer's own state; and of every module that holds buffers which travel;
- a hook of every gradient: whatever was read in spite of all these is an error when its gradient arrives, never an old value in silence.

A copy or a pickle of the model has none of them (copies.py): it is not attached.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from paceline.torch import copies, memory
from paceline.torch.attached import refusals
from paceline.torch.attached.clipping import clip_for_another
from paceline.torch.attached.front import Front
from paceline.torch.attached.lock import is_mine
from paceline.torch.attached.references import Window
from paceline.torch.attached.table import Entry, Table, is_compiled, regions
from paceline.torch.attached.waiting import WaitingGrad


class Gate(copies.Hook):
    """Pre-hook of a module: these layers are about to be read. Returns None always: another value would replace the module's input."""

    def __init__(self, front: Front, layers: Sequence[int]) -> None:
        self.front = front
        self.layers = layers

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: nn.Module, args: object) -> None:
        self.front.passed(self.layers, "forward")


def adopt_buffers(front: Front, reason: str) -> None:
    if front.buffers.due is not None and not front.inert:
        with front.lock, front.account.timed(reason):
            front.buffers.adopt(front.exchange.node.workers)


class BufferGate(Gate):
    """Pre-hook of a module that holds buffers: what came back for them is adopted before they are read, and changed."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: nn.Module, args: object) -> None:
        adopt_buffers(self.front, "forward")


class RootGate(Gate):
    """Pre-hook of the model itself: a forward pass begins."""

    def __init__(self, front: Front, window: Window) -> None:
        super().__init__(front, ())
        self.window = window

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: nn.Module, args: object) -> None:
        if not self.front.inert:
            self.front.order.forward(begins=True)
            if torch.is_grad_enabled():
                self.front.account.phases.forward(begins=True)
            adopt_buffers(self.front, "forward")
        self.window.close()


class RootEnd(copies.Hook):
    """Hook of the model itself: outside of its forward pass, references are watched. Returns None: another value would replace the output."""

    def __init__(self, front: Front, window: Window) -> None:
        self.front = front
        self.window = window

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, *args: object) -> None:
        if not self.front.inert:
            self.front.order.forward(begins=False)
            if torch.is_grad_enabled():
                self.front.account.phases.forward(begins=False)
            self.window.open()


class StateGate(copies.Hook):
    """Pre-hook of state_dict, of the model and of the optimizer."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def __call__(self, *args: object, **kwargs: object) -> None:
        if not self.front.inert:
            with self.front.lock:
                self.front.synchronize("state_dict")
                adopt_buffers(self.front, "state_dict")


class AnotherStep:
    """Pre-hook of all optimizers' steps: of one that is not attached, and steps parameters of this model."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def __call__(self, optimizer: Optimizer, *_: object) -> None:
        if not self.front.inert and not is_mine(self.front.lock) and optimizer is not self.front.stepper.optimizer:
            clip_for_another(self.front, optimizer)


class LoadGate(StateGate):
    """Pre-hook of the optimizer's load_state_dict."""

    def __call__(self, *args: object, **kwargs: object) -> None:
        if not self.front.inert:
            self.front.updates.refuse_load()
        super().__call__()


class Before(copies.Hook):
    """Post-accumulate hook in front of a parameter's others: what the parameter was."""

    mark: tuple[int, int] | None = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, parameter: torch.Tensor) -> None:
        self.mark = memory.mark_of(parameter)


class Arrival(copies.Hook):
    """Post-accumulate hook of a parameter."""

    def __init__(self, front: Front, entry: Entry, before: Before | None) -> None:
        self.front = front
        self.entry = entry
        self.before = before  # where the script's hooks are called first

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, parameter: torch.Tensor) -> None:
        if getattr(sys.modules.get("torch._dynamo.compiled_autograd"), "in_compiled_autograd_region", False):
            raise refusals.compiled_autograd()
        if self.before is not None and not self.front.inert and self.before.mark != memory.mark_of(parameter):
            raise refusals.stepped_in_backward(self.entry)
        if torch.is_grad_enabled():  # backward(create_graph=True)
            with torch.no_grad():
                with torch._C.DisableTorchFunction():
                    if isinstance(parameter.grad, WaitingGrad):
                        parameter.grad.detach_()  # the mean of all ranks has no graph, and this one would live as long as the object
                self.front.on_gradient(self.entry)
        else:
            self.front.on_gradient(self.entry)


class GatedParameters(copies.Gated):
    """`module._parameters`: reading a parameter here opens its gate."""

    __slots__ = ("front", "compiled")
    front: weakref.ref[Front]
    compiled: bool  # its module stands in a compiled one, whose gate opens all of it: nothing to be traced, or guarded by what is due

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        if self.compiled and torch.compiler.is_compiling():
            return value
        front = self.front()
        if front is not None and (front.ledger.due or front.order.sees_reads) and value is not None and (entry := front.table.of(value)) is not None:
            front.passed((entry.layer,), "forward" if front.order.in_forward else "an attribute read")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def items(self) -> Any:
        self._open_all()
        return dict.items(self)

    def values(self) -> Any:
        self._open_all()
        return dict.values(self)

    def copy(self) -> dict[str, Any]:
        self._open_all()
        return dict(dict.items(self))

    def _open_all(self) -> None:
        front = self.front()
        if front is not None and front.ledger.due:
            layers = [entry.layer for value in dict.values(self) if (entry := front.table.of(value)) is not None]
            front.open(layers, "parameters()")


class Gates:
    """All of them for one attached model, and their removal."""

    def __init__(self, front: Front, model: nn.Module, refuse: bool) -> None:
        """`refuse`: reads by references older than attach are errors, instead of reasons to apply updates."""
        self.front = front
        self.model = model
        self.window = Window(front, refuse)
        self._handles: list[RemovableHandle] = []
        self._hooked: set[int] = set()
        self.watch_modules(front.table)
        self.watch_parameters()
        self.watch_state_dicts()
        self.watch_gradients()
        self.watch_references()
        if front.clip_norm is not None:
            self._handles.append(register_optimizer_step_pre_hook(AnotherStep(front)))
        front.adopt = self.watch_gradient

    def watch_modules(self, table: Table) -> None:
        for module, layers in table.gates.items():
            self._handles.append(module.register_forward_pre_hook(Gate(self.front, tuple(layers)), prepend=True))
        if self.front.buffers.travel:  # a forward pass may begin elsewhere than at the model itself
            for holder in {region for _, module, region, _ in regions(self.model) if module._buffers}:
                self._handles.append(holder.register_forward_pre_hook(BufferGate(self.front, ()), prepend=True))
        self._handles.append(self.model.register_forward_pre_hook(RootGate(self.front, self.window), prepend=True))

    def watch_parameters(self) -> None:
        copies.watch(self.model)
        for _, module, region, _ in list(regions(self.model)):
            if module._parameters and not isinstance(module, torch.jit.ScriptModule):
                gated = GatedParameters(module._parameters)
                gated.front, gated.compiled = weakref.ref(self.front), is_compiled(region)
                module._parameters = gated

    def watch_state_dicts(self) -> None:
        self._handles.append(self.model.register_state_dict_pre_hook(StateGate(self.front)))  # type: ignore[no-untyped-call]
        optimizer = self.front.stepper.optimizer
        self._handles.append(optimizer.register_state_dict_pre_hook(StateGate(self.front)))
        self._handles.append(optimizer.register_load_state_dict_pre_hook(LoadGate(self.front)))

    def watch_gradients(self) -> None:
        for entry in self.front.table.entries:
            self.watch_gradient(entry)

    def watch_gradient(self, entry: Entry) -> None:
        """A parameter that does not learn refuses a hook: it is asked again at the end of every iteration."""
        if entry.index not in self._hooked and entry.parameter.requires_grad and entry.index not in self.front.exchange.frozen:
            self._hooked.add(entry.index)
            before = None
            if hooks := entry.parameter._post_accumulate_grad_hooks:
                before, theirs = Before(), list(hooks.items())
                hooks.clear()  # autograd calls them as they were put in
                self._handles.append(entry.parameter.register_post_accumulate_grad_hook(before))  # type: ignore[no-untyped-call]
                hooks.update(theirs)
            self._handles.append(entry.parameter.register_post_accumulate_grad_hook(Arrival(self.front, entry, before)))  # type: ignore[no-untyped-call]

    def watch_references(self) -> None:
        self.window.open()
        self.front.on_due.append(self.window.take)
        self._handles.append(self.model.register_forward_hook(RootEnd(self.front, self.window), always_call=True))

    def remove(self) -> None:
        self.window.close()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for module in self.model.modules():
            if isinstance(module._parameters, GatedParameters) and module._parameters.front() is self.front:
                module._parameters = dict(dict.items(module._parameters))
        for entry, grad in zip(self.front.table.entries, self.front.gradients()):
            if isinstance(grad, WaitingGrad) and grad.source == self.front.settle:
                entry.parameter.grad = grad.arrived  # nobody awaits the others any more


def attached_to(model: nn.Module) -> Iterator[Front]:
    """The fronts that watch parameters of this model."""
    for module in model.modules():
        if isinstance(module._parameters, GatedParameters) and (front := module._parameters.front()) is not None and not front.inert:
            yield front
