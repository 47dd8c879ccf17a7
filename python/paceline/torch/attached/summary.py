"""What a job says of its time: what of the exchange was exposed and what was hidden, the bound, and one sentence on what would help. Decides only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WORTH = 0.02  # of the time: less is not worth a word
LATE_SHARE = 0.1  # of an iteration, that it is late
LATE = 0.25  # of the others' own time, that a rank takes longer: less is how equal ranks differ on a machine that others use too
REMEDIES = {
    "unscale_": "only the loss scaler needs them there: bfloat16 needs none",
    "clip_grad_value_": "it needs all means before step()",
    "a gradient read": "it looks at gradients between backward() and step(); do that less often",
    "parameters()": "it goes through all parameters right after step(); do that before step(), or less often",
    "a held reference": "it reads parameters right after step() by references that are older than attach; do that before step(), or less often",
    "state_dict": "it asks for a state dict right after step(); do that less often",
    "zero_grad": "it throws gradients away that were sent; `with job.no_sync():` sends none",
}


@dataclasses.dataclass(frozen=True)
class Exchanged:
    """Of one iteration, mean over the ranks."""

    hidden: float  # seconds of the exchange behind computing
    bytes: float  # that a rank sends over its link, and as many come back
    rate: float | None  # bytes a second of a link, if it was measured
    own: tuple[float, ...] = ()  # seconds of each rank that it did not wait: loading, computing and the rest of its script
    loading: tuple[float, ...] = ()  # of these

    @property
    def seconds(self) -> float | None:
        """That the bytes need at least."""
        return self.bytes / self.rate if self.rate else None


def exchanged(report: Mapping[str, Any]) -> Exchanged:
    """Of the coordinator's report (docs/reference/report.md)."""
    workers, iterations = report["workers"], max(1, report["iterations"])
    pushed = report["bytes_pushed"] / (iterations * workers)
    collective = report.get("collective")
    rate = (report.get("link") or {}).get("bandwidth") or (report.get("tuned") or {}).get("bandwidth")
    if collective:
        rate = 1.0 / collective["beta"] if collective.get("beta") else rate
    elif report["role"] == "both":  # a server beside each worker: what it answers leaves by the same link, its own worker's part by none
        pushed = (pushed + report["bytes_pulled"] / (iterations * workers)) * (workers - 1) / workers
    ranks = sorted(report.get("per_worker", ()), key=lambda one: one["rank"])

    def each(seconds: Callable[[Mapping[str, Any]], float]) -> tuple[float, ...]:
        return tuple(seconds(one) / max(1, one["iterations"]) for one in ranks)

    own = each(lambda one: one["seconds"] - one["waiting"])
    return Exchanged(sum(report["overlapped"].values()), pushed, rate, own, each(lambda one: one["seconds"] - one["waiting"] - one["computing"]))


def complete(lines: Mapping[str, float], told: Exchanged | None) -> dict[str, float]:
    """The account's lines with "hidden", "link" (seconds that the bytes of an iteration need on the link) and "bound", as far as they are known."""
    if told is None or "computing" not in lines:
        return dict(lines)
    more = {"hidden": told.hidden}
    if told.seconds is not None:
        more.update({"link": told.seconds, "bound": max(lines["computing"], told.seconds)})
    return {**lines, **more}


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def late(told: Exchanged | None) -> tuple[int, float, float] | None:
    """The rank that the others wait for, its own seconds in an iteration, and theirs in the mean; None: no rank stands out."""
    if told is None or len(told.own) < 2:
        return None
    rank = max(range(len(told.own)), key=lambda one: told.own[one])
    others = (sum(told.own) - told.own[rank]) / (len(told.own) - 1)
    return (rank, told.own[rank], others) if told.own[rank] > (1 + LATE) * others else None


def of_late(told: Exchanged, rank: int, own: float, others: float) -> str:
    more = told.loading[rank] - (sum(told.loading) - told.loading[rank]) / (len(told.loading) - 1)
    of = f", {milliseconds(told.loading[rank])} of it loading" if more > (own - others) / 2 else ""
    return f"rank {rank} is late: it takes {milliseconds(own)} of its own each iteration{of}, the others {milliseconds(others)}, and they wait for it"


def advice(lines: Mapping[str, float], max_norm: float | None, *, is_narrow: bool = False, told: Exchanged | None = None) -> str:
    """One sentence on what would save most waiting, "" if nothing is worth it. is_narrow: gradients travel in 16 bits already."""
    waits = {reason.removeprefix("waited: "): seconds for reason, seconds in lines.items() if reason.startswith("waited: ")}
    worth = {reason: seconds for reason, seconds in waits.items() if seconds > WORTH * lines["seconds"] and reason in (*REMEDIES, "forward", "clip_grad_norm_")}
    slow = late(told)  # rank 0, which asks, is one that others wait for, or waits for it
    most = max(worth.values(), default=0.0)
    if told is not None and slow is not None and (slow[0] == 0 or slow[1] - slow[2] >= most / 2) and slow[1] - slow[2] > LATE_SHARE * lines.get("seconds", 0.0):
        return of_late(told, *slow)
    if not worth:
        return ""
    reason = max(worth, key=lambda name: worth[name])
    if reason == "forward":
        return of_forward(worth[reason], lines, is_narrow, told)
    if reason == "clip_grad_norm_":
        return of_clipping(worth[reason], lines, max_norm)
    return f"your script waits {milliseconds(worth[reason])} each iteration in {reason}: {REMEDIES[reason]}"


def of_clipping(waited: float, lines: Mapping[str, float], max_norm: float | None) -> str:
    """With clip_norm the norm is known while means travel, so that what the link needs beyond computing is all that has to be waited for."""
    norm = "..." if max_norm is None else f"{max_norm:g}"
    least = f" waits {milliseconds(max(0.0, lines['link'] - lines['computing']))} at best" if "link" in lines else " waits for a mean where the next forward pass needs it"
    return f"your script calls clip_grad_norm_, which waits {milliseconds(waited)} each iteration; attach(clip_norm={norm}) in its place{least}"


def of_forward(waited: float, lines: Mapping[str, float], is_narrow: bool, told: Exchanged | None) -> str:
    said = f"the forward pass waits {milliseconds(waited)} each iteration for means: "
    if "link" not in lines:
        return said + "the link is slower than computing, or another rank is"
    took = f"computing takes {milliseconds(lines['computing'])}, the bytes {milliseconds(lines['link'])} on the link"
    if lines["link"] <= waited / 2:
        # Where the ranks' own times are known and alike, they take turns: nothing of the job's would help.
        return said + took + ", so it is another rank that is late" if told is None or len(told.own) < 2 else ""
    return said + took + ("" if is_narrow else "; settings={'wire': 'bfloat16'} moves half of them")


def name_of(kinds: Sequence[str], number: int) -> str:
    """Of one of a script's jobs, by the classes of all their models in the order of attach; of an only one "", of a class that several have with its number."""
    kind = kinds[number]
    if len(kinds) == 1:
        return ""
    return kind if kinds.count(kind) == 1 else f"{kind} {kinds[: number + 1].count(kind)}"


def sentence(lines: Mapping[str, float], workers: int) -> str:
    """What `paceline train` prints of an iteration."""
    waits = ", ".join(f"{name.removeprefix('waited: ')} {milliseconds(seconds)}" for name, seconds in lines.items() if name.startswith("waited: ") and seconds > WORTH * lines["seconds"])
    said = f"{workers} ranks, {lines['iterations'] + 1:.0f} iterations of {milliseconds(lines['seconds'])}: computing {milliseconds(lines['computing'])}, exposed {milliseconds(lines['exposed'])}"
    said += f" ({waits})" if waits else ""
    said += f", hidden {milliseconds(lines['hidden'])}" if "hidden" in lines else ""
    if "bound" in lines:
        said += f"; bound {milliseconds(lines['bound'])}, by {'computing' if lines['bound'] > lines['link'] else 'the link'}"
    return said
