"""iBatch. Wang et al., AAAI 2019."""

import json

from catalogue import BETTER, DIFFERS, REPRODUCED, TABLES, Answers, Cell, Figure, Reading, not_here, plain

PAPER = "iBatch"
LINK = 125e6  # bytes/s: the paper's machines have 1 Gb/s
LAYERS = json.loads((TABLES / "googlenet.json").read_text())["layers"]
FORWARD = [layer["forward_s"] for layer in LAYERS]
TRANSFER = [4 * layer["parameters"] / LINK for layer in LAYERS]
START_UPS = {"30us": 30e-6, "200us": 200e-6, "1ms": 1e-3, "5ms": 5e-3, "20ms": 20e-3}
WAYS = {"default": "default", "layer-wise": "layer by layer", "ibatch": "iBatch's greedy", "exact": "exact (ours)"}


def planned(way: str, start_up: str) -> Cell:
    times = ("--transfer", ",".join(f"{x:.9f}" for x in TRANSFER), "--forward", ",".join(f"{x:.9f}" for x in FORWARD))
    return Cell(f"ibatch-{way}-{start_up}", ("plan", "batches", "--algorithm", way, "--start-up", start_up, *times), seconds=0.1)


PLANS = tuple(planned(way, start_up) for way in WAYS for start_up in START_UPS)


def read_layers(_: Answers) -> Reading:
    def draw(figure):
        axes = figure.subplots()
        places = range(1, len(LAYERS) + 1)
        axes.bar([place - 0.2 for place in places], [1e3 * x for x in TRANSFER], 0.4, label="transfer")
        axes.bar([place + 0.2 for place in places], [1e3 * x for x in FORWARD], 0.4, label="forward")
        axes.set_xlabel("layer")
        axes.set_ylabel("ms")
        axes.legend()

    ratios = [transfer / forward for transfer, forward in zip(TRANSFER, FORWARD, strict=True)]
    rows = [
        (f"{LAYERS[-1]['name']} (fully connected): transfer over forward", "much longer", f"{ratios[-1]:.0f}x"),
        (f"{LAYERS[0]['name']} (convolution): forward over transfer", "much longer", f"{1 / ratios[0]:.1f}x"),
    ]
    return Reading(REPRODUCED if ratios[-1] > 2 and ratios[0] < 0.5 else DIFFERS, "times are the table's and a link of 1 Gb/s, not BigDL's on Xeons, where convolutions take longer", rows, draw)


def read_plans(answers: Answers) -> Reading:
    of = {way: [answers[f"ibatch-{way}-{start_up}"]["makespan"] for start_up in START_UPS] for way in WAYS}
    rows = [(f"pull and forward, {way}, start-up {start_up}", "", f"{1e3 * of[name][at]:.1f} ms") for name, way in WAYS.items() for at, start_up in enumerate(START_UPS)]
    dear = list(START_UPS).index("5ms")
    rows.append(("exact over layer by layer, start-up 5 ms", "", plain(of["exact"][dear] / of["layer-wise"][dear])))
    best = [min(of["default"][at], of["layer-wise"][at]) for at in range(len(START_UPS))]
    greedy_wins = all(of["ibatch"][at] <= best[at] * (1 + 1e-9) for at in range(len(START_UPS)))
    exact_wins = all(of["exact"][at] <= min(best[at], of["ibatch"][at]) * (1 + 1e-9) for at in range(len(START_UPS)))

    def draw(figure):
        axes = figure.subplots()
        for name, way in WAYS.items():
            axes.loglog([1e3 * x for x in START_UPS.values()], [1e3 * x for x in of[name]], marker=".", label=way)
        axes.set_xlabel("start-up of a pull, ms")
        axes.set_ylabel("pull and forward, ms")
        axes.legend()

    said = "the greedy is never slower than default or layer by layer" if greedy_wins else "the greedy is slower than the better of default and layer by layer at some start-ups"
    return Reading((BETTER if exact_wins else REPRODUCED) if greedy_wins or exact_wins else DIFFERS, f"{said}; the exact plan is never slower than any", rows, draw)


FIGURES = [
    Figure("ibatch-fig3", PAPER, "Transfer and forward time by layer, GoogLeNet (its Figure 3)", (), read_layers, how="computed"),
    Figure("ibatch-fig4", PAPER, "Pull and forward by four plans against the start-up, GoogLeNet (its Figure 4)", PLANS, read_plans, how="computed"),
    not_here("ibatch-fig1-2", PAPER, "Sketches of parameter servers and of overlap (its Figures 1 and 2)", "there is nothing to measure"),
]
