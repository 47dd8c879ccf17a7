"""What to do, from numbers, without running anything: the questions of `paceline plan`, answered by the library.

    paceline.plan.servers(parameter_bytes=244e6, workers=8, bandwidth=1.25e9, compute_time=1.0, duplex="full")["servers"]

Each function is one question. Its arguments are the keys: sizes in bytes, rates in bytes/s, times in seconds, or texts with a unit
("8GB", "10gbit", "100us"). It returns the answer as `paceline plan ... --json` prints it; `speedup` returns a list, a row for each number of
machines. A case without an answer is one with "feasible": False and a "reason"; a mistake is a PacelineError that names the key. `ask`
answers many cases at once, `frame` the same as a pandas DataFrame. Arrays of NumPy are taken too.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from paceline._errors import PacelineError

if typing.TYPE_CHECKING:
    import pandas

Answer = dict[str, object]
Case = Mapping[str, object]
Numbers = Sequence[float]
Amount = typing.Union[float, str]  # bytes, bytes/s or seconds; or a text with its unit


def questions() -> list[Answer]:
    """name, purpose, keys (name, type, required, help) and choices (name, values, help) of each question."""
    from paceline import _library

    return typing.cast("list[Answer]", _library.ask("plan"))


def ask(question: str, cases: Sequence[Case]) -> list[Answer]:
    """The answer to each of the cases of one question, by its name on the command line: "mini-batch". A choice ("algorithm") is a key
    of the case."""
    return typing.cast("list[Answer]", _answered(question, list(cases)))


def frame(question: str, cases: Sequence[Case]) -> pandas.DataFrame:
    """A row for each case, and for each row of its answer: its keys, then the answer's in place of those of the same name."""
    from paceline._frames import frame as framed

    answers = [(case, answer if isinstance(answer, list) else [answer]) for case, answer in zip(cases, ask(question, cases))]
    return framed([{**case, **row} for case, rows in answers for row in rows])


def _answered(question: str, settings: object) -> object:
    from paceline import _library

    return _library.ask(f"plan {question}", settings)


def _one(question: str, given: Mapping[str, object]) -> Answer:
    return typing.cast(Answer, _answered(question, {key: value for key, value in given.items() if value is not None}))


def batches(
    *,
    start_up: Amount,
    transfer: Numbers,
    forward: Numbers | None = None,
    backward: Numbers | None = None,
    bounds: Sequence[int] | None = None,
    algorithm: str = "ibatch",
    side: str = "pull",
) -> Answer:
    """Which layers to pull (or push) together so that the transfer hides behind the forward (or backward) pass."""
    return _one("batches", locals())


def iteration(*, nodes: int, bandwidth: Amount, layers: Sequence[Case]) -> Answer:
    """The least time of one iteration that any schedule can reach. A layer has "bytes" (or "parameters"), "forward" and "backward"."""
    return _one("iteration", locals())


def speedup(
    *,
    bandwidth: Amount,
    layers: Sequence[Case],
    machines: Sequence[int] | None = None,
    start_up: Amount | None = None,
    cards: int | None = None,
    workers_per_machine: int | None = None,
    host_rate: Amount | None = None,
    servers: int | None = None,
    speed: float | None = None,
    pushed: float | None = None,
    payload: float | None = None,
    schedule: str = "tuned",
    push: str = "own",
    batching: str = "exact",
) -> list[Answer]:
    """Seconds of an iteration and speed-up on 1, 2, 4, 8, 16 (or `machines`) machines, beside DDP's and the split baseline's."""
    return typing.cast("list[Answer]", _answered("speedup", {key: value for key, value in locals().items() if value is not None}))


def slice(*, nodes: int, bytes: Amount, alpha: Amount, bandwidth: Amount) -> Answer:
    """The slice size that balances start-up costs against the wait for a slice under way."""
    return _one("slice", locals())


def collective(
    *,
    ranks: int,
    bytes: Amount,
    alpha: Amount,
    gamma: Amount,
    beta: Amount | None = None,
    rates: Sequence[Amount] | None = None,
    root: int | None = None,
    block: Amount | None = None,
    operation: str = "broadcast",
    algorithm: str = "best",
) -> Answer:
    """What a broadcast, reduce or allreduce costs, and which algorithm is cheapest. `beta`, or the `rates` of all ranks' links."""
    return _one("collective", locals())


def barrier(
    *,
    ends: Sequence[Numbers] | None = None,
    last_end: Numbers | None = None,
    interval: Numbers | None = None,
    lookahead: int | None = None,
    now: float | None = None,
    algorithm: str = "zipline",
    objective: str = "span",
) -> Answer:
    """Where the next barrier should be, so that workers of different speed wait least (ElasticBSP)."""
    return _one("barrier", locals())


def gpus(*, overhead: float | None = None, gpus: int | None = None, efficiency: float | None = None, speedup: float | None = None) -> Answer:
    """Efficiency and speed-up of several GPUs, the overhead they allow, or how many a speed-up needs (Lemma 3.1): give two."""
    return _one("gpus", locals())


def servers(
    *, parameter_bytes: Amount, workers: int, bandwidth: Amount, compute_time: Amount, duplex: str, worker_bandwidth: Amount | None = None
) -> Answer:
    """How many parameter servers hide the traffic behind the computation (Lemma 3.2), and whether the workers' own links can."""
    return _one("servers", locals())


def memory(*, mini_batch: int, memory: Amount, model: str | None = None, layers: Sequence[Case] | None = None) -> Answer:
    """What a training step of a convolutional network needs by formula, in bits, and what is left of the device."""
    return _one("memory", locals())


def algorithms(*, bound: float, layers: Sequence[Sequence[Case]]) -> Answer:
    """Which algorithm each layer should run so that the time is least and the memory within the bound. An algorithm has "time" and
    "memory". Needs the solver CBC, unless everything fits."""
    return _one("algorithms", locals())


def mini_batch(*, samples: int, candidates: Sequence[Case]) -> Answer:
    """The mini-batch whose data epoch is shortest, each layer running the fastest algorithm that fits beside it. A candidate has
    "mini_batch", "bound" and "layers" as in `algorithms`. Needs the solver CBC, unless everything fits."""
    return _one("mini-batch", locals())


def fft_ratio(*, mini_batch: int, input: Sequence[int], output: Sequence[int], depth: int, filters: int) -> Answer:
    """Memory of a convolution by Fourier transform, relative to one by matrix multiplication."""
    return _one("fft-ratio", locals())


def job(
    *,
    model: str,
    dataset_size: int,
    memory: Amount,
    measurements: Case,
    mini_batches: Sequence[int] | None = None,
    workers: int | None = None,
    speedup: float | None = None,
    efficiency: float | None = None,
    overhead: float | None = None,
    bandwidth: Amount | None = None,
    worker_bandwidth: Amount | None = None,
    dataset: str | None = None,
    duplex: str = "full",
) -> Answer:
    """Mini-batch, convolution algorithms, workers and servers for a job. `measurements`: as `paceline.profile.read` gives what
    `paceline profile --convolutions --json` printed; without a choice for which R_O was measured, give `overhead`."""
    return _one("job", locals())
