"""iBatch. Wang et al., AAAI 2019."""

import json

from catalogue import BETTER, DIFFERS, REPRODUCED, TABLES, Answers, Cell, Figure, Reading, by_machines, machines_of, not_here, plain
from drawing import pairs, panels, stacks

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


# Up to 72 virtual machines behind the cards of 8 blades, 10 Gb/s each. The paper does not say how long its networks compute: `speed` is that with which a machine that computes as long as
# its table says reaches, without any overlap, the paper's speed-up of the default at 30 nodes. All else follows.
CARDS = ("--cards", "8")
FITTED = "default"  # at 30 nodes
COUNTS, QUICK_COUNTS = "1,2,6,8,16,30,48,72", "4,9"
NETWORKS = {
    "googlenet": ("GoogLeNet", "0.06", {"default": 26, "layer-wise": 25, "ibatch": 29}),
    "inception_v3": ("Inception-v3", "0.14", {"default": 25, "layer-wise": 24, "ibatch": 28}),
    "vgg19": ("VGG-19", "0.058", {"default": 23, "layer-wise": 22, "ibatch": 26}),
    "vgg19_22k": ("VGG19-22K", "0.055", {"default": 22, "layer-wise": 21, "ibatch": 25}),
}
AT_72 = {"default": 26, "layer-wise": 32, "ibatch": 45}  # VGG19-22K
# Pushes wait for the end of backward, as in the paper; the last one is ours, which overlaps them too.
PULLS = {"default": ("default", "--push", "at-end"), "layer-wise": ("layer-wise", "--push", "at-end"), "ibatch": ("ibatch", "--push", "at-end", "--batching", "ibatch")}
SCHEDULES = {**PULLS, "tuned": ("tuned",)}
NAMES = {"default": "default", "layer-wise": "layer by layer", "ibatch": "iBatch", "tuned": "ours, pushes overlapped too"}
DROPPED = 0.02  # 1 % of the elements, each with its place


DRIFT = (
    "Every node is a worker and a server here; with servers apart, pulls under forward do shorten an iteration. "
    "A likely reason, not measured: the first layers are at home on some nodes, which are ahead then, and their gradients meet the others' values on one link"
)


def scaled(network: str, way: str, *more: str, name: str = "") -> Cell:
    schedule, *how = SCHEDULES[way]
    speed = NETWORKS[network][1]
    return machines_of(f"ibatch-{name or 'scale'}-{network}-{way}", network, COUNTS, "10gbit", schedule, *how, *CARDS, "--speed", speed, *more, quick=QUICK_COUNTS, seconds=20)


SCALE = {(network, way): scaled(network, way) for network in NETWORKS for way in SCHEDULES}
SPARSE = {(network, way): scaled(network, way, "--pushed", str(DROPPED), name="sparse") for network in ("inception_v3", "vgg19") for way in PULLS}


def drawn(cells, answers: Answers, paper=None):
    titles = dict.fromkeys(network for network, _ in cells)
    lines = {NETWORKS[one][0]: {NAMES[way]: by_machines(answers[cell.name]) for (network, way), cell in cells.items() if network == one} for one in titles}
    return panels(lines, "nodes", "speed-up", linear=True, paper=paper)


def printed(network: str) -> dict[str, dict[int, float]]:
    """The paper's speed-ups of its Figure 5, by line and nodes."""
    name, _, at_30 = NETWORKS[network]
    at_72 = AT_72 if network == "vgg19_22k" else {}
    return {NAMES[way]: {30: value} | ({72: at_72[way]} if way in at_72 else {}) for way, value in at_30.items()}


def read_scale(answers: Answers) -> Reading:
    of = {key: by_machines(answers[cell.name]) for key, cell in SCALE.items()}
    rows, far = [], []
    for (network, way), points in of.items():
        name, _, paper = NETWORKS[network]
        if 30 in points:
            rows.append((f"{name}, 30 nodes, {NAMES[way]}", f"{paper[way]}x" if way in paper else "", f"{points[30]:.1f}x{', fitted' if way == FITTED else ''}"))
            if way in paper and way != FITTED and abs(points[30] / paper[way] - 1) > 0.1:
                far.append(f"{NAMES[way]} of {name}")
        if 72 in points:
            rows.append((f"{name}, 72 nodes, {NAMES[way]}", f"{AT_72[way]}x" if network == "vgg19_22k" and way in AT_72 else "", f"{points[72]:.1f}x"))
    most = max(of["vgg19_22k", "default"])
    gain = of["vgg19_22k", "ibatch"][most] / of["vgg19_22k", "default"][most] - 1
    rows.append((f"VGG19-22K, {most} nodes: iBatch over the default", "+73 %", f"+{100 * gain:.0f} %"))
    at_30 = f"more than a tenth off at 30 nodes: {', '.join(far) or 'none'}" if 30 in of["vgg19", "ibatch"] else "a run too small for 30 nodes"
    sentence = (
        f"{at_30}. {DRIFT}. "
        "Overlapping pulls with forward saves at most the forward time, a third of computing, so the paper's 26x and 45x at 72 nodes cannot both come from it; "
        "how long its networks compute is fitted to the default at 30 nodes, and a message takes 100 us to start"
    )
    return Reading(REPRODUCED if not far and gain >= 0.365 else DIFFERS, sentence, rows, drawn(SCALE, answers, {NETWORKS[network][0]: printed(network) for network in NETWORKS}))


def read_sparse(answers: Answers) -> Reading:
    of = {key: by_machines(answers[cell.name]) for key, cell in SPARSE.items()}
    most = max(of["vgg19", "ibatch"])
    rows = [(f"{NETWORKS[network][0]}, {most} nodes, {NAMES[way]}, 1 % of the gradients sent", "almost linear" if way == "ibatch" else "", f"{points[most]:.1f}x") for (network, way), points in of.items()]
    least = min(of[network, "ibatch"][most] for network in ("inception_v3", "vgg19"))
    sentence = f"iBatch reaches {100 * least / most:.0f} % of linear or more; reproduced from 80 % on"
    return Reading(REPRODUCED if least >= 0.8 * most else DIFFERS, sentence, rows, drawn(SPARSE, answers))


# Of one pull at 72 nodes: a request to each server and a reply from each, 100 us of start-up apiece; and nine machines' share of a card.
PULL_START_UP = 2 * 72 * 100e-6
NODE_LINK = 1.25e9 / (9 * 63 / 72)


def profile_of(network: str) -> tuple[list[float], list[float]]:
    layers = json.loads((TABLES / f"{network}.json").read_text())["layers"]
    speed = float(NETWORKS[network][1])
    return [4 * layer["parameters"] / NODE_LINK for layer in layers], [layer["forward_s"] / speed for layer in layers]


def pulled(network: str, way: str) -> Cell:
    transfer, forward = profile_of(network)
    times = ("--transfer", ",".join(f"{x:.9f}" for x in transfer), "--forward", ",".join(f"{x:.9f}" for x in forward))
    return Cell(f"ibatch-time-{network}-{way}", ("plan", "batches", "--algorithm", way, "--start-up", f"{1e3 * PULL_START_UP}ms", *times), seconds=0.1)


TIMED = {(network, way): pulled(network, way) for network in ("inception_v3", "vgg19") for way in PULLS}


def read_time(answers: Answers) -> Reading:
    """A pull transfers without a break, so what is not one after the other is at the same time."""
    bars: dict[str, dict[str, dict[str, float]]] = {}
    rows, overlap = [], {}
    for (network, way), cell in TIMED.items():
        transfer, forward = profile_of(network)
        answer = answers[cell.name]
        communication, makespan = len(answer["bounds"]) * PULL_START_UP + sum(transfer), answer["makespan"]
        both = overlap[network, way] = communication + sum(forward) - makespan
        whole = PULL_START_UP + sum(transfer) + sum(forward)
        both = max(0.0, both)
        parts = {"overlapping": both / whole, "communication alone": (communication - both) / whole, "computation alone": (sum(forward) - both) / whole}
        bars.setdefault(NETWORKS[network][0], {})[NAMES[way]] = parts
        rows.append((f"{NETWORKS[network][0]}, {NAMES[way]}: overlapping, communication alone, computation alone", "overlap 0" if way == "default" else "", ", ".join(plain(part) for part in parts.values())))
    good = all(abs(overlap[network, "default"]) < 1e-6 and overlap[network, "ibatch"] > 0 for network, _ in TIMED)
    shorter = all(answers[TIMED[network, "ibatch"].name]["makespan"] <= answers[TIMED[network, "layer-wise"].name]["makespan"] for network, _ in TIMED)
    said = "iBatch takes the least time" if shorter else "layer by layer takes the least time, as a pull's start-up is small beside these layers' transfers"
    return Reading(REPRODUCED if good and shorter else DIFFERS, f"pull and forward at 72 nodes, as shares of the default's time; {said}", rows, stacks(bars, "share of the default's time"))


OVERLAPS = {"(a) none": ("default", "--push", "at-end"), "(b) pulls under forward": PULLS["ibatch"], "(c) pushes under backward": ("default", "--push", "as-ready")}
OVERLAPPED = {"googlenet": "1gbit", "vgg19": "10gbit"}  # as in Figure 3, and a network whose parameters are in few layers
SKETCHED = {(network, name): machines_of(f"ibatch-procedure-{network}-{name[1]}", network, "6", rate, *words) for network, rate in OVERLAPPED.items() for name, words in OVERLAPS.items()}


def read_overlaps(answers: Answers) -> Reading:
    seconds = {key: by_machines(answers[cell.name], "paceline")[6] for key, cell in SKETCHED.items()}
    rows = [(f"{NETWORKS[network][0]}, 6 nodes, an iteration: {name}", "", f"{1e3 * value:.0f} ms") for (network, name), value in seconds.items()]
    none = next(iter(OVERLAPS))
    slower = [f"{NETWORKS[network][0]} {name}" for (network, name), value in seconds.items() if name != none and value >= seconds[network, none]]
    bars = {f"{NETWORKS[network][0]}, 6 nodes, {rate}": {name: {"iteration": seconds[network, name]} for name in OVERLAPS} for network, rate in OVERLAPPED.items()}
    sentence = f"the paper sketches them; here the three procedures are stepped. No shorter than without overlap: {', '.join(slower) or 'none'}. {DRIFT}"
    return Reading(DIFFERS if slower else REPRODUCED, sentence, rows, stacks(bars, "seconds"))


MODELS = Cell("ibatch-models", ("models",), seconds=0.1)
COUNTED = {"googlenet": ("GoogLeNet", 5), "inception-v3-aux": ("Inception-v3, with its auxiliary head", 27), "vgg-19": ("VGG-19", 143), "vgg-19-22k": ("VGG19-22K", 229)}


def read_models(answers: Answers) -> Reading:
    of = {one["name"]: one["parameters"] / 1e6 for one in answers[MODELS.name]}
    rows = [(name, f"{paper}M", f"{of[model]:.1f}M") for model, (name, paper) in COUNTED.items()]
    far = [name for model, (name, paper) in COUNTED.items() if abs(of[model] / paper - 1) > 0.01]
    draw = pairs({name.split(",")[0]: (paper, of[model]) for model, (name, paper) in COUNTED.items()}, "million parameters")
    return Reading(DIFFERS if far else REPRODUCED, f"{', '.join(far) or 'none'}: more than 1 % off; GoogLeNet has no count that gives the quoted 5M" if far else "all within 1 %", rows, draw)


FIGURES = [
    not_here("ibatch-fig1", PAPER, "Sketch of parameter servers (its Figure 1)", "there is nothing to measure"),
    Figure("ibatch-fig2", PAPER, "An iteration without overlap, with pulls and with pushes overlapped (its Figure 2)", tuple(SKETCHED.values()), read_overlaps, how="stepped"),
    Figure("ibatch-fig3", PAPER, "Transfer and forward time by layer, GoogLeNet (its Figure 3)", (), read_layers, how="computed"),
    Figure("ibatch-fig4", PAPER, "Pull and forward by four plans against the start-up, GoogLeNet (its Figure 4)", PLANS, read_plans, how="computed"),
    Figure("ibatch-table1", PAPER, "Parameters of the networks (its Table 1)", (MODELS,), read_models, how="computed"),
    Figure("ibatch-fig5", PAPER, "Speed-up against nodes, four networks, 8 shared cards (its Figure 5)", tuple(SCALE.values()), read_scale, how="stepped"),
    Figure("ibatch-fig6", PAPER, "Speed-up against nodes with sparse gradients (its Figure 6)", tuple(SPARSE.values()), read_sparse, how="stepped"),
    Figure("ibatch-fig7", PAPER, "Pull and forward at 72 nodes: what overlaps and what does not (its Figure 7)", tuple(TIMED.values()), read_time, how="computed"),
]
