"""iBatch's plans between a server and a worker, hosts of a lab: values are asked for when all gradients have arrived, and each message of
them pays a start-up.

A link's burst is at most a third of a millisecond: with the lab's own, of 4 ms and more, a pause between two messages would cost the link nothing.
"""

import json
import statistics

from catalogue import BETTER, DIFFERS, REPRODUCED, TABLES, Answers, Cell, Figure, Reading, close, half_range, plain

PAPER = "iBatch"
START_UPS = {"30us": 30e-6, "200us": 200e-6, "1ms": 1e-3, "5ms": 5e-3, "20ms": 20e-3}
NETWORKS = {"googlenet": ("GoogLeNet", "1gbit", "4KB"), "inception_v3": ("Inception-v3", "4gbit", "8KB"), "vgg19": ("VGG-19", "20gbit", "40KB"), "vgg19_22k": ("VGG19-22K", "20gbit", "40KB")}
LAYERS = {network: len(json.loads((TABLES / f"{network}.json").read_text())["layers"]) for network in NETWORKS}
NAMES = {"default": "default", "layer-wise": "layer by layer", "greedy": "greedy, the paper's", "ibatch": "exact"}
DEAR, GAIN, LOSS, OFF = "5ms", 0.6, 1.03, 0.1


def cell(network: str, start_up: str, name: str, contestants: str, seconds: float, *more: str) -> Cell:
    _, rate, burst = NETWORKS[network]

    def words(model: str, link: str, cost: str, *how: str) -> tuple[str, ...]:
        options = ",".join(["--push=at-end", f"--message-start-up={cost}", *more])
        hosts = ("--hosts", "2", "--apart", "--burst", burst, "--contestants", contestants, f"--job-options={options}", "--no-pictures", "--output", "{work}")
        return ("bench", "schedules", "--models", model, "--rates", link, *hosts, *how)

    full = words(network, rate, start_up, "--turns", "2", "--length", "3")
    quick = words("googlenet", "40gbit", "30us", "--turns", "1", "--length", "0.1")
    return Cell(f"ibatch-live-{network}-{start_up}{name}", full, quick, needs=("lab",), seconds=seconds)


SECONDS = {"googlenet": 48, "inception_v3": 60, "vgg19": 72, "vgg19_22k": 120}
PLANNED = {(network, start_up): cell(network, start_up, "", "default,layer-wise,ibatch", SECONDS[network]) for network in NETWORKS for start_up in START_UPS}
GREEDY = {key: cell(*key, "-greedy", "ibatch", SECONDS[key[0]] / 3, "--batching=ibatch") for key in PLANNED}


def rows_of(answers: Answers, key: tuple[str, str]) -> dict[str, dict]:
    found = {row["contestant"]: row for row in answers[PLANNED[key].name]["rows"]}
    return {**found, "greedy": answers[GREEDY[key].name]["rows"][0]}


def pull_and_forward(answers: Answers, key: tuple[str, str]) -> dict[str, float]:
    """What is left of an iteration after backward, and after the pushes at the link's measured rate."""
    runs = [*answers[PLANNED[key].name]["cells"], *answers[GREEDY[key].name]["cells"]]
    pushes = statistics.median(run["lower_bound"]["transfer"] for run in runs)
    return {name: row["iteration_seconds"]["median"] - row["phases"]["backward"] - pushes for name, row in rows_of(answers, key).items()}


def read(answers: Answers) -> Reading:
    of = {key: pull_and_forward(answers, key) for key in PLANNED}
    foreseen = {key: rows_of(answers, key)["ibatch"]["batching"]["makespan"] for key in PLANNED}
    rows, again = [], set()
    losses, gains, greedy_losses = {}, {}, {}
    for key, seconds in of.items():
        network, start_up = NETWORKS[key[0]][0], key[1]
        best = min(seconds["default"], seconds["layer-wise"])
        losses[key], greedy_losses[key] = seconds["ibatch"] / best, seconds["greedy"] / best
        # Dear: the start-ups are more than half of what layer by layer takes.
        if start_up == DEAR and LAYERS[key[0]] * START_UPS[DEAR] > seconds["layer-wise"] / 2:
            gains[key] = seconds["ibatch"] / seconds["layer-wise"]
        # Pulls and forward vary by as many seconds as the whole iteration.
        spread = {name: half_range(row["iteration_seconds"]) * row["iteration_seconds"]["median"] / seconds[name] for name, row in rows_of(answers, key).items()}
        near = close(losses[key], spread["ibatch"] + max(spread["default"], spread["layer-wise"]), LOSS)
        if near or (key in gains and close(gains[key], spread["ibatch"] + spread["layer-wise"], GAIN)):
            again |= {PLANNED[key].name, GREEDY[key].name}
        words = ", ".join(f"{NAMES[name]} {1e3 * seconds[name]:.0f}" for name in NAMES)
        rows.append((f"{network}, start-up {start_up}: pull and forward, ms", "", f"{words}; exact foreseen {1e3 * foreseen[key]:.0f}"))
    off = {key: abs(foreseen[key] / of[key]["ibatch"] - 1) for key in of}
    rows += [
        (f"exact over layer by layer, start-up {DEAR}, where {DEAR} a layer is more than half of its time", f"at most {GAIN} wanted", ", ".join(f"{NETWORKS[key[0]][0]} {plain(one)}" for key, one in gains.items()) or "nowhere"),
        ("exact over the better of default and layer by layer, worst cell", f"at most {LOSS} wanted", plain(max(losses.values()))),
        ("greedy over the better of the two, worst cell", "", plain(max(greedy_losses.values()))),
        ("foreseen beside measured, worst cell", f"within {100 * OFF:.0f} % wanted", f"{100 * max(off.values()):.0f} % off"),
    ]
    wins = max(losses.values()) <= LOSS and bool(gains) and max(gains.values()) <= GAIN
    no_worse = max(losses.values()) <= max(greedy_losses.values())
    exact, greedy = ("never" if max(of_plan.values()) <= LOSS else "somewhere" for of_plan in (losses, greedy_losses))
    said = f"exact is {exact} more than {100 * (LOSS - 1):.0f} % slower than the better of the baselines, the greedy {greedy}"

    def draw(figure):
        for axes, network in zip(figure.subplots(1, len(NETWORKS)), NETWORKS, strict=True):
            for name, word in NAMES.items():
                axes.loglog([1e3 * x for x in START_UPS.values()], [1e3 * of[network, start_up][name] for start_up in START_UPS], marker=".", label=word)
            axes.set_title(NETWORKS[network][0], fontsize=9)
            axes.set_xlabel("start-up, ms")
        axes.legend(fontsize=7)

    return Reading((BETTER if no_worse else REPRODUCED) if wins else DIFFERS, said, rows, draw, frozenset(again))


FIGURES = [Figure("ibatch-live", PAPER, "Pull and forward by four plans against the start-up, a worker and its server, four networks (the experiment of its Figures 4 and 5)", (*PLANNED.values(), *GREEDY.values()), read)]
