"""P3, priority-based parameter propagation. Jayarajan et al., MLSys 2019."""

import json

from catalogue import DIFFERS, REPRODUCED, TABLES, Answers, Cell, Figure, Reading, not_here, plain, within

PAPER = "P3"
NAMES = {"resnet50": "ResNet-50", "inception_v3": "Inception-v3", "vgg19": "VGG-19", "sockeye_like": "Sockeye (alike)"}
GAIN = {"resnet50": 0.26, "inception_v3": 0.18, "vgg19": 0.66, "sockeye_like": 0.38}  # of P3 over the baseline at most, section 5.2
RATES = {"resnet50": "2,4,6,10", "inception_v3": "1,2,4,10", "vgg19": "5,10,15,30", "sockeye_like": "1,2,4,10"}
BASELINE, SLICING, OURS = "kvstore", "slicing", "p3"


def schedules(name: str, models: str, rates: str, contestants: str, hosts: str, seconds: float, *more: str) -> Cell:
    fixed = ("--contestants", contestants, "--no-pictures", "--output", "{work}", *more)
    full = ("bench", "schedules", "--models", models, "--rates", rates, "--hosts", hosts, "--turns", "3", "--length", "6", *fixed)
    first, last = rates.split(",")[0], hosts.split(",")[-1]
    quick = ("bench", "schedules", "--models", models.split(",")[0], "--rates", first, "--hosts", min(last, "2"), "--turns", "1", "--length", "1", *fixed)
    return Cell(name, full, quick, needs=("lab",), seconds=seconds)


def gigabits(rates: str) -> str:
    return ",".join(f"{rate}gbit" for rate in rates.split(","))


def seconds_of(answer, **wanted):
    """{contestant: {x: seconds}} of the rows that fit, by the rate that a link stands for, or by `of`."""
    of = wanted.pop("of", "stands_for_bits_per_second")
    found: dict[str, dict[float, float]] = {}
    for row in answer["rows"]:
        if all(row[key] == value for key, value in wanted.items()):
            found.setdefault(row["contestant"], {})[row[of]] = row["iteration_seconds"]["median"]
    return found


def gain(of, over):
    """The largest gain in throughput over a baseline, and where."""
    return max((over[x] / of[x] - 1, x) for x in of if x in over)


def read_distribution(_: Answers) -> Reading:
    shares = {}
    for model in NAMES:
        layers = json.loads((TABLES / f"{model}.json").read_text())["layers"]
        shares[model] = [layer["parameters"] for layer in layers]
    largest = {model: max(sizes) / sum(sizes) for model, sizes in shares.items()}

    def draw(figure):
        for axes, (model, name) in zip(figure.subplots(1, len(NAMES)), NAMES.items(), strict=True):
            axes.bar(range(1, len(shares[model]) + 1), [size / 1e6 for size in shares[model]])
            axes.set_title(name)
            axes.set_xlabel("layer")
        figure.axes[0].set_ylabel("million parameters")

    rows = [("VGG-19: share of the largest layer", "71.5 %", f"{100 * largest['vgg19']:.1f} %")]
    rows += [(f"{NAMES[model]}: share of the largest layer", "", f"{100 * largest[model]:.1f} %") for model in NAMES if model != "vgg19"]
    return Reading(REPRODUCED if abs(largest["vgg19"] - 0.715) < 0.005 else DIFFERS, "from the published networks' shapes; Sockeye's are alike, not the same", rows, draw)


def read_bandwidth(answers: Answers) -> Reading:
    rows, verdicts, series = [], [], {}
    for model, name in NAMES.items():
        series[model] = of = seconds_of(answers[f"p3-bandwidth-{model}"], model=model)
        p3, where = gain(of[OURS], of[BASELINE])
        sliced, _ = gain(of[SLICING], of[BASELINE])
        rows.append((f"{name}: P3 over the baseline at most", f"+{100 * GAIN[model]:.0f} %", f"+{100 * p3:.0f} % at {where / 1e9:g} Gb/s"))
        rows.append((f"{name}: slicing alone", "+49 %" if model == "vgg19" else "", f"+{100 * sliced:.0f} %"))
        verdicts.append(within(1 + p3, 1 + 0.5 * GAIN[model], 1 + 1.5 * GAIN[model]))
    verdict = DIFFERS if DIFFERS in verdicts else max(verdicts, key=verdicts.count)

    def draw(figure):
        for axes, (model, name) in zip(figure.subplots(1, len(NAMES)), NAMES.items(), strict=True):
            for contestant, points in series[model].items():
                places = sorted(points)
                axes.plot([x / 1e9 for x in places], [1 / points[x] for x in places], marker=".", label=contestant)
            axes.set_title(name)
            axes.set_xlabel("Gb/s")
        figure.axes[0].set_ylabel("iterations a second")
        figure.axes[0].legend()

    sentence = (
        "four shaped hosts on two cores, layers' times replayed; the baseline is our KVStore, as fast as MXNet's where that was measured, so its losses are not MXNet's own. "
        "Reproduced: every gain between half and one and a half of the paper's"
    )
    return Reading(verdict, sentence, rows, draw)


def read_hosts(answers: Answers) -> Reading:
    of = seconds_of(answers["p3-hosts"], of="hosts")
    hosts = sorted(of[OURS])
    gains = {count: of[BASELINE][count] / of[OURS][count] - 1 for count in hosts if count in of[BASELINE]}
    rows = [(f"VGG-19 at 10 Gb/s, {count} hosts: P3 over the baseline", "+61 %" if count == 8 else "", f"+{100 * value:.0f} %") for count, value in gains.items()]

    def draw(figure):
        axes = figure.subplots()
        for contestant, points in of.items():
            axes.plot(sorted(points), [count / points[count] for count in sorted(points)], marker=".", label=contestant)
        axes.set_xlabel("hosts")
        axes.set_ylabel("mini-batches a second")
        axes.legend()

    return Reading(within(1 + gains[hosts[-1]], 1.3, 1.9), "up to 8 hosts; two cores cannot run 16. Reproduced: between half and one and a half of the paper's gain", rows, draw)


def read_slices(answers: Answers) -> Reading:
    points = {int(name.partition(" --slice ")[2]): next(iter(by.values())) for name, by in seconds_of(answers["p3-slices"]).items() if " --slice " in name}
    best = min(points, key=lambda size: points[size])
    rows = [(f"slices of {size} parameters, iterations a second", "the peak" if size == 50_000 else "", plain(1 / seconds)) for size, seconds in sorted(points.items())]

    def draw(figure):
        axes = figure.subplots()
        axes.semilogx(sorted(points), [1 / points[size] for size in sorted(points)], marker=".")
        axes.set_xlabel("parameters in a slice")
        axes.set_ylabel("iterations a second")

    near = points[50_000] <= 1.03 * points[best] if 50_000 in points else False
    return Reading(REPRODUCED if near else DIFFERS, f"the fastest here: {best} parameters; how small is too small depends on what a message costs a processor", rows, draw)


FIGURES = [
    Figure("p3-fig5", PAPER, "Parameters by layer (its Figure 5)", (), read_distribution, how="computed"),
    Figure(
        "p3-fig7",
        PAPER,
        "Throughput against bandwidth, four networks: baseline, slicing, P3 (its Figure 7)",
        tuple(schedules(f"p3-bandwidth-{model}", model, gigabits(RATES[model]), "kvstore,slicing,p3", "4", 500) for model in NAMES),
        read_bandwidth,
    ),
    Figure("p3-fig10", PAPER, "Throughput against the number of hosts, VGG-19 (its Figure 10)", (schedules("p3-hosts", "vgg19", "10gbit", "kvstore,p3", "2,4,8", 300),), read_hosts),
    Figure(
        "p3-fig12",
        PAPER,
        "Throughput against the size of slices, VGG-19 (its Figure 12)",
        (schedules("p3-slices", "vgg19", "10gbit", "p3", "4", 400, "--slices", "5000,20000,50000,200000,1000000"),),
        read_slices,
    ),
    not_here("p3-fig1-4", PAPER, "Sketches of an iteration and of two schedules (its Figures 1 to 4 and 6)", "the schedules of Figures 4 and 6 are played by p3_figures_test; there is nothing to measure"),
]
