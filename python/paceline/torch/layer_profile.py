"""How long each layer of a script's own model computes, for `paceline plan speedup` and `paceline train --model replay:FILE`."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from paceline._errors import PacelineError
from paceline.torch.attached.table import Table

Layer = dict[str, Any]


def profile(model: nn.Module, step: Callable[[], object], file: str | None = None, *, rounds: int = 5, warm_up: int = 2, limit: float = 60.0) -> list[Layer]:
    """Seconds that each layer of `model` computes forward and backward, in forward order: medians over `rounds` calls of `step`, after `warm_up` that do not count.

    `step` runs the model forward and calls backward(), once, as the script does: `lambda: loss(model(inputs), targets).backward()`. What it leaves in `.grad` stays there.
    After `limit` seconds no further call begins once one counts. A layer is what `attach` takes for one: "name", "parameters", "forward_s", "backward_s". The time from
    the end of the model's forward pass to the first gradient is that gradient's layer's. With `file` the layers are written there too, as a table to replay.
    """
    if rounds < 1 or warm_up < 0:
        raise PacelineError(f"profile(rounds={rounds}, warm_up={warm_up}); at least one round counts", subject="rounds")
    table = Table(model)
    if file is not None:
        write(file, "", "a")  # before anything is measured
    timer = Timer(model, table)
    try:
        counted: list[tuple[list[float], list[float]]] = []
        began = time.perf_counter()
        for done in range(rounds + warm_up):
            if counted and time.perf_counter() - began > limit:
                break
            times = timer.timed(step)
            if done >= warm_up or time.perf_counter() - began > limit:
                counted.append(times)
    finally:
        timer.remove()
    layers = timer.layers(counted)
    if file is not None:
        source = f"paceline.torch.profile, {torch.get_num_threads()} threads: medians of {len(counted)} steps"
        write(file, json.dumps({"model": type(model).__name__, "source": source, "layers": layers}, indent=1), "w")
    return layers


def write(file: str, text: str, mode: str) -> None:
    try:
        with open(file, mode) as to:
            to.write(text)
    except OSError as error:
        raise PacelineError(f"{file}: {error.strerror}", code="io", subject=file) from None


class Timer:
    """Writes down when layers are first read and when their last gradient comes."""

    def __init__(self, model: nn.Module, table: Table) -> None:
        self.table = table
        self.order: list[int] = []  # layers in the order in which a forward pass reads them
        self._read: dict[int, float] = {}
        self._finished: dict[int, float] = {}
        self._between = 0.0
        self._handles: list[Any] = []
        for module, layers in table.gates.items():
            self._handles.append(module.register_forward_pre_hook(lambda *_, layers=tuple(layers): self._on_read(layers), prepend=True))
        self._handles.append(model.register_forward_hook(lambda *_: self._on_forward_done()))
        for entry in table.entries:
            if entry.parameter.requires_grad:
                self._handles.append(entry.parameter.register_post_accumulate_grad_hook(lambda _, layer=entry.layer: self._on_gradient(layer)))  # type: ignore[no-untyped-call]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _now(self) -> float:
        if self.table.device.type == "cuda":
            torch.cuda.synchronize(self.table.device)
        return time.perf_counter()

    def _on_read(self, layers: tuple[int, ...]) -> None:
        now = self._now()
        for layer in layers:
            self._read.setdefault(layer, now)

    def _on_forward_done(self) -> None:
        self._between = self._now()

    def _on_gradient(self, layer: int) -> None:
        self._finished[layer] = self._now()

    def timed(self, step: Callable[[], object]) -> tuple[list[float], list[float]]:
        """Seconds forward and backward, by layer."""
        self._read, self._finished, self._between = {}, {}, math.nan
        step()
        if not self._read or math.isnan(self._between):
            raise PacelineError("profile: step did not run the model; it has to call it, and backward()", subject="step")
        if not self._finished:
            raise PacelineError("profile: no gradient came; step has to call backward()", subject="step")
        self.order = sorted(self._read, key=self._read.__getitem__)
        count = len(self.table.layers)
        forward, backward = [0.0] * count, [0.0] * count
        for layer, following in zip(self.order, [*self.order[1:], None], strict=True):
            forward[layer] = (self._between if following is None else self._read[following]) - self._read[layer]
        before = self._between
        for layer, finished in sorted(self._finished.items(), key=lambda item: item[1]):
            backward[layer], before = max(0.0, finished - before), finished
        return forward, backward

    def layers(self, counted: list[tuple[list[float], list[float]]]) -> list[Layer]:
        """In the order of the forward pass; what it does not read stands at the end."""
        rest = [layer for layer in range(len(self.table.layers)) if layer not in self.order]
        forward, backward = ([statistics.median(times) for times in zip(*side, strict=True)] for side in zip(*counted, strict=True))
        return [
            {"name": self.table.names[layer], "parameters": sum(entry.parameter.numel() for entry in self.table.layers[layer]), "forward_s": forward[layer], "backward_s": backward[layer]}
            for layer in [*self.order, *rest]
        ]
