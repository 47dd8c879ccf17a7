"""A communication hook for DistributedDataParallel, over any process group: gradients travel by Paceline's collective operations, narrow or few.

    model = DistributedDataParallel(model)                       # whatever group it has
    model.register_comm_hook(paceline.torch.HookState("bfloat16"), paceline.torch.ddp_hook)

Buckets leave in the order in which DDP finishes them, which is the order in which it waits for them before the step: then what is copied back
of one hides behind the transfer of the next. For gradients in the order in which the next forward pass needs them there is `attach`.

Ranks whose parameters differ are told so: in the first iteration and every hundredth from there a digest of each parameter goes with its bucket.
"""
# No postponed annotations: DDP compares those of a hook with the types themselves.

import re

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket, PrefixStore

from paceline._errors import PacelineError
from paceline.torch import memory
from paceline.torch.backend import connected
from paceline.torch.attached.alike import EVERY
from paceline.torch.backend.collectives import Collectives
from paceline.torch.backend.dropping import Dropping
from paceline.torch.backend.hosted import Hosted
from paceline.torch.backend.in_flight import InFlight
from paceline.torch.backend.work import Completer

LEGAL = "float32, bfloat16, float16, dropping:SHARE, dgc:SHARE (above 0 up to 1)"


class HookState:
    """Of `ddp_hook`, for one model; the same on all ranks. Connects the ranks of `group`, by default all of them.

    wire: what gradients are sent as. "bfloat16" and "float16": half the bytes, each sum rounded. "dropping:0.01": of each parameter the hundredth
    of its elements that is largest, the rest is added to later ones. "dgc:0.001": the same of the `momentum` (0.9), so the optimizer has none
    itself. Of both the share falls from a quarter within `warm_up` iterations. What is kept back is in no checkpoint, and knows nothing of a GradScaler;
    a gradient that is not finite is seen by all ranks once, and nothing of it is kept.
    rank_order, job_key_file, security: as of GroupOptions.
    """

    def __init__(
        self, wire: str = "float32", *, group: dist.ProcessGroup | None = None, momentum: float | None = None, warm_up: int = 0, rank_order: bool = False, job_key_file: str = "", security: str = "auto"
    ) -> None:
        kind, share = parsed(wire)
        if momentum is not None and (kind != "dgc" or not 0 <= momentum < 1):
            raise PacelineError(f"HookState({wire!r}, momentum={momentum}); legal: 0 up to below 1, with dgc", code="illegal", subject="momentum")
        if warm_up < 0 or (warm_up and kind in connected.WIRES):
            raise PacelineError(f"HookState({wire!r}, warm_up={warm_up}); legal: iterations, 0 for none, with dropping and dgc", code="illegal", subject="warm_up")
        if not dist.is_initialized():
            raise PacelineError("HookState needs the process group of DistributedDataParallel: call init_process_group first", subject="group")
        narrow = connected.WIRES.get(kind, torch.float32)
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        if rank < 0:
            raise PacelineError("HookState: this rank is not in the group", subject="group")
        whole = group or dist.group.WORLD
        assert whole is not None
        store = PrefixStore(f"paceline hook {whole.group_name}", dist.distributed_c10d._get_default_store())
        own = connected.GroupOptions(rank_order=rank_order, job_key_file=job_key_file, security=security)
        self.communicator = connected.connect(rank, ranks, list(range(ranks)), store, dist.distributed_c10d.default_pg_timeout, own).communicator
        self._collectives = Hosted(Collectives(self.communicator, narrow, rank_order))
        self._dropping = Dropping(share, (0.9 if momentum is None else momentum) if kind == "dgc" else 0.0, warm_up) if kind in ("dropping", "dgc") else None
        self._wire = wire
        self._iteration = 1
        self._completer = Completer()

    def close(self) -> None:
        """Leaves. Any number of times; a script that ends leaves by itself."""
        self._completer.end(connected.LEAVE)
        self._collectives.end(connected.LEAVE)
        self.communicator.close(connected.LEAVE)

    def mean_of(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        gradients = bucket.buffer()
        begun = self._collectives.allreduce(gradients, dist.ReduceOp.AVG) if self._dropping is None else self._few(self._dropping, bucket)
        if self._iteration % EVERY == 1:
            begun = self._compared(begun, bucket)
        if bucket.is_last():
            self._iteration += 1
        future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
        self._completer.add(begun, future, [gradients])
        return future.then(lambda done: done.value()[0])  # which raises what went wrong: DDP itself would take it for a tensor

    def _compared(self, begun: InFlight, bucket: GradBucket) -> InFlight:
        """It fails where another rank's parameters differ."""
        iteration, parameters, ranks = self._iteration, bucket.parameters(), self._collectives.ranks
        mine = torch.stack([memory.sum_of_words(parameter) for parameter in parameters]).view(torch.int32)
        everybodys = torch.empty(ranks, mine.numel(), dtype=torch.int32, device=mine.device)

        def compare() -> None:
            rows = everybodys.cpu().view(torch.int64)
            for rank, number in (rows != rows[0]).nonzero()[:1].tolist():
                shape = list(parameters[number].shape)
                raise PacelineError(
                    f"ranks 0 and {rank} train apart: before the step of iteration {iteration} parameter {number} of a bucket of {len(parameters)}, of shape {shape}, "
                    f"differs between them. Every rank must make the same steps, with the same settings, from the same state",
                    code="parted",
                )

        return begun.then(self._collectives.allgather_flat(everybodys, mine), compare)

    def _few(self, dropping: Dropping, bucket: GradBucket) -> InFlight:
        gradients = bucket.buffer()
        if gradients.dtype is not torch.float32:
            raise PacelineError(f'HookState("{self._wire}"): a bucket is {str(gradients.dtype).removeprefix("torch.")}; legal: float32', subject="wire")
        indices, values = dropping.select(bucket.parameters(), gradients)
        if bucket.is_last():
            dropping.next_iteration()
        mine = torch.cat((indices.to(torch.int32), values.view(torch.int32)))
        all_ranks = torch.empty(self._collectives.ranks, mine.numel(), dtype=torch.int32, device=gradients.device)

        def add_up() -> None:
            gradients.zero_()
            for one in all_ranks:  # in the order of the ranks
                where, what = one.view(2, -1)
                gradients.index_add_(0, where, what.view(torch.float32))
            gradients.div_(self._collectives.ranks)
            self._collectives.settle(gradients)  # this thread's stream need not be the one of who waits

        return self._collectives.allgather_flat(all_ranks, mine).then(None, add_up)


def parsed(wire: str) -> tuple[str, float]:
    if wire in connected.WIRES:
        return wire, 1.0
    found = re.fullmatch(r"(dropping|dgc):(\d*\.?\d+(?:[eE][-+]?\d+)?)", wire)
    if not found or not 0 < float(found.group(2)) <= 1:
        raise PacelineError(f"HookState({wire!r}); legal: {LEGAL}", code="illegal", subject="wire")
    return found.group(1), float(found.group(2))


def ddp_hook(state: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """model.register_comm_hook(HookState(...), ddp_hook)"""
    if not isinstance(state, HookState):
        raise PacelineError(f"ddp_hook has the state {state!r}; legal: a paceline.torch.HookState", subject="state")
    return state.mean_of(bucket)
