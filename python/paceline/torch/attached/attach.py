"""attach(): joins the job and puts gates, hooks and the deferring step around a model and an optimizer that stay the user's own."""

from __future__ import annotations

import dataclasses
import logging
import numbers
import os
import sys
import warnings
from collections.abc import Mapping

from torch import nn
from torch.optim import Optimizer

from paceline import _joining
from paceline._errors import PacelineError
from paceline._node import Join, Place, texts
from paceline.torch.attached import agreement, alike, lifetime, separable, server_rules, server_state, servers
from paceline.torch.attached.buffers import Buffers, statistic_of
from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.front import Front
from paceline.torch.attached.gates import Gates, attached_to
from paceline.torch.attached.job import Job
from paceline.torch.attached.ledger import COUNTED
from paceline.torch.attached.separable import Stepping
from paceline.torch.attached.stepping import Stepper
from paceline.torch.attached.swapped import is_swapped, swap
from paceline.torch.attached.table import Table, refuse_unlearnable

log = logging.getLogger("paceline.torch")


def attach(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    update: str = "worker",
    sync: str = "bsp",
    staleness: int | None = None,
    clip_norm: float | None = None,
    buffers: str | None = None,
    apply: str = "at-gates",
    average: str = "mean",
    accumulate: int = 1,
    expect: str = "once",
    may_thaw: bool = False,
    check: bool = False,
    compare: bool = True,
    settings: Mapping[str, str | float] | None = None,
    job_key_file: str = "",
    security: str = "auto",
    place: Place | None = None,
    join: Join | None = None,
) -> Job:
    """Trains `model` by `optimizer` together with the job's other ranks; the loop around it stays as it is.

    Call it once on every rank, after the optimizer is made (and a checkpoint is loaded), before the first forward pass. Returns when all
    ranks have joined and hold rank 0's parameters and buffers. From then on `backward()` sends each gradient as it is finished,
    `optimizer.step()` makes updates due, and each layer is updated just before it is read next.

    update: "worker", means come back and the script's optimizer object makes the steps; "server", servers make them, for exactly SGD, Adam, AdamW and
    Adagrad: parameters come back, and nobody but the servers knows a mean. sync: of "server", how far ranks may be apart: "bsp", "asp", "ssp" (by
    `staleness` iterations), "elastic-bsp".
    clip_norm: gradients are scaled down to at most this norm, as torch.nn.utils.clip_grad_norm_ does, known while means still travel.
    buffers: "local" (None too, with a hint where the model keeps running statistics), each rank keeps its own; "broadcast", rank 0's before every forward pass; "mean", means of those that are float32.
    What the script writes to one after step() stays.
    apply: "at-gates", or "at-step": step() waits for all means and steps as a whole, as other tools do.
    average: "mean" of the ranks, or weighted by "samples" (job.samples(n) before each backward()).
    accumulate: backward passes before a step; gradients are sent in the last. expect: "once", or "counted": each parameter is finished as
    often as in the first iteration, which sends at step() (several losses, checkpointed segments that share a layer).
    may_thaw: parameters that are frozen and in no optimizer keep a place in the exchange, so that they may learn later.
    check: a read of a parameter by a reference that is older than attach, while its update is due, is an error that names both, instead of
    a reason to apply the update (also PACELINE_CHECK=1): it finds what keeps updates from being hidden.
    compare: the job ends with an error that names two ranks and what differs when settings of the optimizer or parameters do, looked at after the first step, after
    every hundredth one from there, and at the end (with update="server" servers compare the rates of every iteration). False: ranks may have parameters of their
    own, or processors that compute other last bits.
    settings: options of the job, as `paceline options` names them, e.g. {"schedule": "p3", "slice": 50000}; a flag is True or False.
    job_key_file: of the job's key, the same for all ranks ("": what PACELINE_JOB_KEY_FILE names), or a certificate of this rank's own; every
    connection is TLS then. Without a key only the loopback is allowed, unless security="none" (docs/security.md).
    place: a Place, where this process stands; None: as paceline.launch finds it (torchrun, mpirun, srun, PACELINE_* variables).

    Raises PacelineError: a model, optimizer or choice that cannot be trained so, or ranks that disagree (exit_code 2), each naming the
    parameter and what to do; a lost peer later, from whichever call meets it first.
    """
    separable.refuse(optimizer)
    separable.complete(optimizer)
    chosen, buffers = buffers, buffers or "local"
    expected = expected_finishes(accumulate, expect)
    refuse_choice("apply", apply, ("at-gates", "at-step"))
    refuse_choice("average", average, ("mean", "samples"))
    if clip_norm is not None and not (isinstance(clip_norm, numbers.Real) and clip_norm > 0):
        raise PacelineError(f"clip_norm={clip_norm!r} is not above 0; give a number that is", subject="clip_norm")
    refuse_choice("update", update, ("worker", "server"))
    refuse_choice("sync", sync, servers.SYNC)
    on_servers = update == "server"
    if on_servers:
        server_rules.rule_of(type(optimizer))
        refuse_on_servers(buffers, average, may_thaw, sync, clip_norm)
    elif sync != "bsp" or staleness is not None:
        raise PacelineError(f"sync={sync!r} is of servers that make the steps; attach(..., update='server')", subject="sync")
    table = Table(model)
    make_free(model, optimizer)
    refuse_shared(table)
    refuse_strangers(table, optimizer)
    stepper = Stepper(optimizer, table, Stepping.AT_STEP if apply == "at-step" else separable.stepping_of(optimizer))
    frozen = frozen_entries(table, optimizer, may_thaw)
    refuse_unlearnable(entry for entry in table.entries if entry.index not in frozen)
    if on_servers:
        servers.refuse_model(table, optimizer, frozen)
    states, kept = server_state.given(table, optimizer) if on_servers else ({}, [])
    exchange = Exchange(table, average == "samples", frozen, servers.groups_of(table, optimizer) if on_servers else None)
    held = Buffers(model, buffers, exchange)
    choices = dict(update=update, clip_norm=clip_norm, apply=apply, accumulate=accumulate, expect=expect, compare=compare, optimizer=type(optimizer).__name__)
    texts_of_all = [*((f"attach({name}=...)", repr(value)) for name, value in choices.items()), *alike.places_of(optimizer, table)]
    if sync == "bsp":
        texts_of_all += alike.settings_of(optimizer.param_groups)
    lines = agreement.of_parameters(table, [] if on_servers else [alike.state_of(optimizer, entry) for entry in table.entries])
    ours, written = agreement.digest(lines), agreement.written(texts_of_all)
    row, texts_row = exchange.add("paceline.agreement", ours, frozen=True), exchange.add("paceline.settings", written, frozen=True)

    specs, initial = exchange.specs()
    given = texts(settings or {})
    refuse_meaningless(given)
    options = server_settings(given, optimizer, clip_norm, sync, staleness) if on_servers else job_settings(given, exchange, clip_norm)
    stands = where(place or Place(), job_key_file, security)
    try:
        numbered = {exchange.number(table.entries[index]): state for index, state in states.items()}
        node = (join or _joining.join)(specs, [tensor.data_ptr() for tensor in initial], options, stands, numbered)
    except PacelineError as error:
        raise explained(error, given, table) from None
    try:
        agreement.compare_texts(written, exchange.joined_value(node, texts_row), node.rank)
        agreement.compare(lines, ours, exchange.joined_value(node, row), node.rank)
    except PacelineError as error:
        node.fail(error.message)
        node.close(1.0)
        raise
    exchange.on_joined(node)
    held.on_joined()

    told = alike.Alike(table, exchange, stepper) if compare and node.workers > 1 else None
    front = servers.ServerFront(table, exchange, stepper, held, expected, None) if on_servers else Front(table, exchange, stepper, held, expected, clip_norm, told)
    swap(optimizer, front)
    gates = Gates(front, model, refuse=check or os.environ.get("PACELINE_CHECK") == "1")
    job = Job(front, gates, node, stands)
    say_once(job, table)
    if chosen is None and not on_servers and job.rank == 0 and job.workers > 1 and (name := statistic_of(model)):
        warnings.warn(
            f"{name} is a running statistic, of each rank's own mini-batches: ranks evaluate differently. attach(..., buffers='broadcast') makes rank 0's everybody's, "
            f"as DistributedDataParallel does; buffers='local' says that they are to differ",
            stacklevel=2,
        )
    return job


def explained(error: PacelineError, given: Mapping[str, str], table: Table) -> PacelineError:
    """The core refuses ranks whose options differ, and calls the option by its name: here what of the script it follows."""
    if "--wire" in error.message and "wire" not in given and table.entries:
        first = table.entries[0]
        subject, why = first.name, f"it follows the type of a rank's parameters, which is {str(first.dtype).removeprefix('torch.')} here, of {first.name}"
    elif "--verdict-first" in error.message:
        subject, why = "clip_norm", "it is 1 with attach(clip_norm=...)"
    else:
        return error
    return PacelineError(f"{error.message}: {why}", kind=error.kind, code=error.code, subject=subject, exit_code=error.exit_code)


def say_once(job: Job, table: Table) -> None:
    if job.rank == 0:
        log.info(job.stepping)
    if any(name == "" for name in table.compiled):
        warnings.warn(
            "the whole model is compiled: all gradients appear at the end of backward(), so that nothing of the exchange is hidden behind it. "
            "Compile its blocks instead (for block in model.blocks: block.compile())",
            stacklevel=3,
        )


def where(place: Place, job_key_file: str, security: str) -> Place:
    if not job_key_file and security == "auto":
        return place
    return dataclasses.replace(place, job_key_file=job_key_file, security=security)


def expected_finishes(accumulate: int, expect: str) -> int:
    refuse_choice("expect", expect, ("once", "counted"))
    if not isinstance(accumulate, numbers.Integral) or accumulate < 1:
        raise PacelineError(f"accumulate={accumulate!r} is less than 1 backward pass, or no whole number", subject="accumulate")
    if expect == "counted" and accumulate != 1:
        raise PacelineError(f"expect='counted' counts the backward passes itself; accumulate={accumulate} says their number; give one of the two", subject="accumulate")
    return COUNTED if expect == "counted" else accumulate


def refuse_choice(name: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise PacelineError(f"{name}={value!r} is none of {', '.join(map(repr, legal))}", subject=name)


def make_free(model: nn.Module, optimizer: Optimizer) -> None:
    """A parameter belongs to one job. At a prompt or in a notebook a cell is run again: the old job is left then; in a script that is a mistake."""
    if hasattr(sys, "ps1"):
        lifetime.leave(model, optimizer)
    elif any(True for _ in attached_to(model)):
        raise PacelineError(
            "the model, or a part of it, is attached already: a parameter belongs to one job; job.close() of that one gives it back. "
            "A second optimizer of the same model needs no attach: its step() finds the means in .grad"
        )
    elif is_swapped(optimizer):
        raise PacelineError("the optimizer is attached already; job.close() of that one gives it back")


def refuse_shared(table: Table) -> None:
    """Parameters that a model of another job holds too: both jobs would step them."""
    for other in lifetime.attached():
        for entry in table.entries:
            if (theirs := other.of(entry.parameter)) is not None:
                raise PacelineError(
                    f"parameter {entry.name} belongs to another attached model too, as {theirs.name}: two jobs would exchange and step it. "
                    f"Attach one model that holds both, e.g. nn.ModuleList([one, other]), with one optimizer",
                    subject=entry.name,
                )


def refuse_strangers(table: Table, optimizer: Optimizer) -> None:
    for number, group in enumerate(optimizer.param_groups):
        for position, parameter in enumerate(group["params"]):
            if table.of(parameter) is None:
                raise PacelineError(
                    f"parameter {position} of the optimizer's group {number}, of shape {tuple(parameter.shape)}, is not in the model: no rank would hear of its gradient. "
                    f"Attach what holds it too, e.g. nn.ModuleList([model, loss])",
                    subject=f"group {number}",
                )


def frozen_entries(table: Table, optimizer: Optimizer, may_thaw: bool) -> set[int]:
    """Parameters that do not learn and that no optimizer could step, or whose gradients could not be exchanged: only their initial value travels."""
    may_learn = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return {entry.index for entry in table.entries if not entry.parameter.requires_grad and not (entry.is_learnable and (may_thaw or id(entry.parameter) in may_learn))}


SCRIPTS_OWN = {
    **dict.fromkeys(("model", "convolutions"), "the model is the script's"),
    **dict.fromkeys(("dataset", "mini-batch"), "the data loader makes mini-batches"),
    "epochs": "the script's loop says how long it trains",
    **dict.fromkeys(("evaluate-every", "evaluate-late"), "the script evaluates"),
    "seed": "torch.manual_seed() is the script's, and job.sampler(data, seed=...) orders the data",
    "export": "the script saves its model, on rank 0",
    **dict.fromkeys(("speed", "jitter", "scale", "message-start-up"), "it slows down what is replayed, and the script computes"),
}


def refuse_meaningless(given: Mapping[str, str]) -> None:
    """Options of `paceline train` that nothing in a script's job obeys."""
    for name in given:
        if name in SCRIPTS_OWN:
            raise PacelineError(f"settings[{name!r}] would change nothing: {SCRIPTS_OWN[name]}; leave it out", subject=name)


def job_settings(given: Mapping[str, str], exchange: Exchange, clip_norm: float | None) -> dict[str, str]:
    """Options of a job whose means come back. A gradient that is not finite is the script's affair, as in one process, unless it says otherwise."""
    for name in ("optimizer", "verdict", "verdict-first"):
        if name in given:
            raise PacelineError(f"settings[{name!r}] is attach's own: means come back, and the script's optimizer steps", subject=name)
    for name in given:
        if name in servers.OWN or name.startswith("learning-rate"):
            raise PacelineError(f"settings[{name!r}]: the script's optimizer makes the steps; give it to that, or attach with update='server'", subject=name)
    chosen = {"optimizer": "mean", "verdict": "1", "non-finite": "apply"}
    if given.get("collective", "none") == "none":
        if clip_norm is not None:
            chosen["verdict-first"] = "1"  # no mean is used before the norm is known
        chosen["wire"] = exchange.shortest_wire()
    if given.get("wire", "float32") != "float32" and not exchange.only_gradients:
        raise PacelineError(f"settings['wire']={given['wire']!r} would round more than gradients; buffers other than 'local' and average='samples' need 'float32'", subject="wire")
    chosen.update(given)
    exchange.is_narrow = chosen.get("wire", "float32") != "float32"
    return chosen


def refuse_on_servers(buffers: str, average: str, may_thaw: bool, sync: str, clip_norm: float | None) -> None:
    for name, value, legal in (("buffers", buffers, "local"), ("average", average, "mean"), ("may_thaw", may_thaw, False)):
        if value != legal:
            raise PacelineError(f"update='server': {name}={value!r} needs means that come back; legal: {legal!r}. {server_rules.WORKER}", subject=name)
    if clip_norm is not None and sync != "bsp":
        raise PacelineError(f"clip_norm with sync={sync!r}: there is no iteration that all ranks share, whose norm it would be; legal: sync='bsp'", subject="clip_norm")


def server_settings(given: Mapping[str, str], optimizer: Optimizer, clip_norm: float | None, sync: str, staleness: int | None) -> dict[str, str]:
    """Options of a job whose servers make the steps."""
    for name in given:
        if name in servers.OWN:
            raise PacelineError(f"settings[{name!r}] is attach's own: it is as the optimizer has it", subject=name)
        if name.startswith(("checkpoint", "resume")):
            raise PacelineError(f"settings[{name!r}]: the job knows parameters alone; save the script's state dicts, and load them before attach", subject=name)
        if name in ("sync", "staleness", "clip-norm", "collective", "verdict"):
            raise PacelineError(f"settings[{name!r}] with update='server': sync, staleness and clip_norm are arguments of attach, and servers make the steps", subject=name)
    return {**servers.settings(optimizer, clip_norm, sync, staleness), **given}
