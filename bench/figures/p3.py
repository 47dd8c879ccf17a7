"""P3, priority-based parameter propagation. Jayarajan et al., MLSys 2019."""

import json

from catalogue import DIFFERS, REPRODUCED, TABLES, Answers, Cell, Figure, Reading, by_machines, close, machines_of, not_here, plain, spreads_of, within
from drawing import panels, stacks
from p3_runs import BANDWIDTH, BASELINE, NAMES, OURS, SLICING, schedules
from p3_traffic import SHOWN, read_traffic

PAPER = "P3"
GAIN = {"resnet50": 0.26, "inception_v3": 0.18, "vgg19": 0.66, "sockeye_like": 0.38}  # of P3 over the baseline at most, section 5.2


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
    rows, verdicts, series, again = [], [], {}, set()
    for model, name in NAMES.items():
        cell = f"p3-bandwidth-{model}"
        series[model] = of = seconds_of(answers[cell], model=model)
        p3, where = gain(of[OURS], of[BASELINE])
        sliced, _ = gain(of[SLICING], of[BASELINE])
        rows.append((f"{name}: P3 over the baseline at most", f"+{100 * GAIN[model]:.0f} %", f"+{100 * p3:.0f} % at {where / 1e9:g} Gb/s"))
        rows.append((f"{name}: slicing alone", "+49 %" if model == "vgg19" else "", f"+{100 * sliced:.0f} %"))
        limits = (1 + 0.5 * GAIN[model], 1 + 1.5 * GAIN[model])
        verdicts.append(within(1 + p3, *limits))
        spreads = spreads_of(answers[cell], model=model, stands_for_bits_per_second=where)
        if close(1 + p3, spreads[OURS] + spreads[BASELINE], *limits):
            again.add(cell)
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
    return Reading(verdict, sentence, rows, draw, frozenset(again))


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

    last, spreads = 1 + gains[hosts[-1]], spreads_of(answers["p3-hosts"], hosts=hosts[-1])
    again = frozenset(["p3-hosts"] if close(last, spreads[OURS] + spreads[BASELINE], 1.3, 1.9) else [])
    sentence = (
        "up to 8 hosts; two cores cannot run 16. Our KVStore loses no more with 8 hosts than with 2, unlike the paper's baseline. "
        "Reproduced: between half and one and a half of its gain"
    )
    return Reading(within(last, 1.3, 1.9), sentence, rows, draw, again)


def read_slices(answers: Answers) -> Reading:
    points = {int(name.partition(" --slice ")[2]): next(iter(by.values())) for name, by in seconds_of(answers["p3-slices"]).items() if " --slice " in name}
    best = min(points, key=lambda size: points[size])
    rows = [(f"slices of {size} parameters, iterations a second", "the peak" if size == 50_000 else "", plain(1 / seconds)) for size, seconds in sorted(points.items())]

    def draw(figure):
        axes = figure.subplots()
        axes.semilogx(sorted(points), [1 / points[size] for size in sorted(points)], marker=".")
        axes.set_xlabel("parameters in a slice")
        axes.set_ylabel("iterations a second")

    ratio = points.get(50_000, float("inf")) / points[best]
    spreads = spreads_of(answers["p3-slices"])
    again = frozenset(["p3-slices"] if 50_000 in points and close(ratio, sum(spreads[f"p3 --slice {size}"] for size in {50_000, best}), 1.03) else [])
    return Reading(REPRODUCED if ratio <= 1.03 else DIFFERS, f"the fastest here: {best} parameters; how small is too small depends on what a message costs a processor", rows, draw, again)


def read_gaps(_: Answers) -> Reading:
    """From the end of a layer's backward pass to the begin of its next forward pass all lower layers compute."""
    layers = json.loads((TABLES / "resnet50.json").read_text())["layers"]
    gaps, below = {}, 0.0
    for place, layer in enumerate(layers, 1):
        gaps[place] = 1e3 * below
        below += layer["forward_s"] + layer["backward_s"]
    last = gaps[len(layers)] / 1e3 / below
    rows = [("ResNet-50: between gradient and use, first layer", "the shortest", f"{gaps[1]:.0f} ms"), ("last layer", "the longest", f"{gaps[len(layers)]:.0f} ms, {100 * last:.0f} % of an iteration")]
    return Reading(REPRODUCED if last > 0.9 else DIFFERS, "the paper sketches it; times are the table's", rows, panels({"ResNet-50": {"gap": gaps}}, "layer", "ms from gradient to use"))


UNIT, RATE = 0.1, 40e6  # seconds, bytes/s


def example(name: str, schedule: str, sizes: tuple[float, ...]) -> Cell:
    """Three layers, each a unit forward and a unit backward, that take so many units to a server of its own."""
    layers = [{"parameters": round(size * UNIT * RATE / 4), "forward": UNIT, "backward": UNIT} for size in sizes]
    return Cell(name, ("plan", "speedup", "--bandwidth", f"{RATE / 1e6:g}MB/s", "--machines", "1", "--servers", "1", "--payload", "1", "--start-up", "0s", "--schedule", schedule, "--layers", json.dumps(layers)))


ORDER = {name: example(f"p3-order-{name}", name, (2, 2, 2)) for name in ("slicing", "p3")}
GRAIN = {name: example(f"p3-grain-{name}", name, (1, 3, 1)) for name in ("layer-wise", "slicing", "p3")}


def delays(cells, answers: Answers) -> dict[str, float]:
    """Units of an iteration in which nothing is computed."""
    return {name: answers[cell.name][0]["paceline"] / UNIT - 6 for name, cell in cells.items()}


def read_order(answers: Answers) -> Reading:
    of = delays(ORDER, answers)
    rows = [("delay between two iterations, as gradients come", "4 units", f"{plain(of['slicing'])} units"), ("by priority", "2 units", f"{plain(of['p3'])} units")]
    draw = stacks({"three layers of 2 units": {name: {"computing": 6, "delay": value} for name, value in of.items()}}, "units of time")
    sentence = "one worker and one server, gradients in slices both times, first come first served and by priority. Reproduced: priorities take away two fifths of the delay or more"
    return Reading(REPRODUCED if of["p3"] <= 0.6 * of["slicing"] else DIFFERS, sentence, rows, draw)


def read_grain(answers: Answers) -> Reading:
    of = delays(GRAIN, answers)
    saved = 1 - of["slicing"] / of["layer-wise"]
    rows = [("delay by whole layers", "", f"{plain(of['layer-wise'])} units"), ("by slices", "-30 %", f"{plain(of['slicing'])} units, {-100 * saved:.0f} %"), ("by slices and priority", "", f"{plain(of['p3'])} units")]
    draw = stacks({"three layers of 1, 3 and 1 units": {name: {"computing": 6, "delay": value} for name, value in of.items()}}, "units of time")
    return Reading(within(saved, 0.15, 0.45), "one worker and one server. Reproduced: slices save between half and one and a half of the paper's 30 %", rows, draw)


TO_16 = {(model, way): machines_of(f"p3-to-16-{model}-{way}", model, "2,4,8,16", "10gbit", way, "--start-up", "10us", quick="2,4") for model in ("resnet50", "vgg19", "sockeye_like") for way in (BASELINE, OURS)}
SLOW_START = {way: machines_of(f"p3-slow-start-{way}", "vgg19", "8", "10gbit", way, "--start-up", "100us", quick="4") for way in (BASELINE, OURS)}
AT_8 = {"resnet50": ("+0 %", -0.05, 0.1), "vgg19": ("+61 %", 0.3, 0.92), "sockeye_like": ("+18 %", 0.09, 0.27)}


def read_machines(answers: Answers) -> Reading:
    of = {key: by_machines(answers[cell.name]) for key, cell in TO_16.items()}
    rows, verdicts = [], []
    for model, (paper, low, high) in AT_8.items():
        gains = {count: of[model, OURS][count] / of[model, BASELINE][count] - 1 for count in of[model, OURS]}
        rows += [(f"{NAMES[model]}, {count} machines: P3 over the baseline", paper if count == 8 else "", f"{100 * value:+.0f} %") for count, value in gains.items()]
        verdicts.append(within(gains.get(8, gains[max(gains)]), low, high))
    slow = {way: answers[cell.name] for way, cell in SLOW_START.items()}
    lost = slow[OURS][0]["speedup"] / slow[BASELINE][0]["speedup"] - 1
    rows.append((f"VGG-19, {slow[OURS][0]['machines']} machines, messages that take 100 us to start", "", f"{100 * lost:+.0f} %"))
    draw = panels({NAMES[model]: {way: of[model, way] for way in (BASELINE, OURS)} for model in AT_8}, "machines at 10 Gb/s", "speed-up", linear=True)
    sentence = "links alone, whose messages take 10 us to start: the servers' processors, which may hold the paper's baseline up, take no time here. Reproduced: between half and one and a half of the paper's gain at 8 machines"
    return Reading(DIFFERS if DIFFERS in verdicts else max(verdicts, key=verdicts.count), sentence, rows, draw)


RATES_TRIED = ("0.005", "0.01", "0.02", "0.04", "0.08")
WIRES = {"p3": ("float32",), "dgc": ("dgc:0.001", "--dgc-warm-up")}
LEARNERS = {
    "lenet": ("LeNet on 4000 digits", ("--dataset", "mnist-5k"), 310, 31, "60", 15.0),
    "resnet-20": ("ResNet-20 on 2000 made images of 32x32", ("--dataset", "synthetic:3x32x32,classes=10,samples=2000,test=400"), 100, 10, "20", 75.0),
}


def trained(model: str, wire: str, rate: str) -> Cell:
    _, data, iterations, every, warm_up, seconds = LEARNERS[model]
    coded = (*WIRES[wire], warm_up) if wire == "dgc" else WIRES[wire]
    common = ("--model", model, *data, "--workers", "4", "--servers", "2", "--mini-batch", "16", "--schedule", "p3", "--optimizer", "momentum", "--learning-rate", rate, "--wire", *coded)
    full, quick = ("--iterations", str(iterations), "--evaluate-every", str(every), "--evaluate-late"), ("--iterations", "6", "--evaluate-every", "3", "--evaluate-late")
    return Cell(f"p3-accuracy-{model}-{wire}-{rate}", ("train", *common, *full), ("train", *common, *quick), needs=("trainer",), seconds=seconds)


TRAINED = {(model, wire, rate): trained(model, wire, rate) for model in LEARNERS for wire in WIRES for rate in RATES_TRIED}


def read_training(answers: Answers) -> Reading:
    curves = {key: {one["iteration"]: one["accuracy"] for one in answers[cell.name]["evaluations"]} for key, cell in TRAINED.items()}
    rows, good, said = [], True, []
    for model, (name, *_) in LEARNERS.items():
        final = {wire: [answers[TRAINED[model, wire, rate].name]["accuracy"] for rate in RATES_TRIED] for wire in WIRES}
        drop = sum(dense - sparse for dense, sparse in zip(final["p3"], final["dgc"], strict=True)) / len(RATES_TRIED)
        rows += [(f"{name}, {wire}: final accuracy of five learning rates", "", f"{100 * min(values):.1f} to {100 * max(values):.1f} %") for wire, values in final.items()]
        rows.append((f"{name}: drop in the mean with DGC", "0.004", f"{drop:.3f}"))
        ahead = max(final["p3"]) >= max(final["dgc"])
        good = good and ahead and drop > 0
        said.append(f"{name}: P3's best is {'not below' if ahead else 'below'} DGC's")

    def draw(figure):
        for axes, model in zip(figure.subplots(1, len(LEARNERS)), LEARNERS, strict=True):
            for wire in WIRES:
                of = [curves[model, wire, rate] for rate in RATES_TRIED]
                places = sorted(set.intersection(*(set(curve) for curve in of)))
                axes.fill_between(places, [min(curve[x] for curve in of) for x in places], [max(curve[x] for curve in of) for x in places], alpha=0.4, label=wire)
            axes.set(title=model, xlabel="iteration", ylabel="accuracy, worst to best")
            axes.legend()

    return Reading(REPRODUCED if good else DIFFERS, f"in place of ResNet-110 on CIFAR-10: {'; '.join(said)}; a second run has the same bits", rows, draw)


FIGURES = [
    Figure("p3-fig1", PAPER, "From a layer's gradient to its next use (its Figure 1)", (), read_gaps, how="computed"),
    not_here("p3-fig2", PAPER, "Sketch of a network (its Figure 2)", "there is nothing to measure"),
    not_here("p3-fig3", PAPER, "Sketch of parameter servers (its Figure 3)", "there is nothing to measure"),
    Figure("p3-fig4", PAPER, "Three layers as their gradients come, and by priority (its Figure 4)", tuple(ORDER.values()), read_order, how="stepped"),
    Figure("p3-fig5", PAPER, "Parameters by layer (its Figure 5)", (), read_distribution, how="computed"),
    Figure("p3-fig6", PAPER, "Three layers whole and in slices (its Figure 6)", tuple(GRAIN.values()), read_grain, how="stepped"),
    Figure(
        "p3-fig7",
        PAPER,
        "Throughput against bandwidth, four networks: baseline, slicing, P3 (its Figure 7)",
        tuple(BANDWIDTH.values()),
        read_bandwidth,
    ),
    Figure("p3-fig8", PAPER, "Use of the link by the baseline, three networks (its Figure 8)", tuple(BANDWIDTH[model] for model in SHOWN), read_traffic(BASELINE)),
    Figure("p3-fig9", PAPER, "Use of the link by P3, three networks (its Figure 9)", tuple(BANDWIDTH[model] for model in SHOWN), read_traffic(OURS)),
    Figure("p3-fig10", PAPER, "Throughput against the number of hosts, VGG-19 (its Figure 10)", (schedules("p3-hosts", "vgg19", "10gbit", "kvstore,p3", "2,4,8", 300),), read_hosts),
    Figure("p3-fig10-stepped", PAPER, "The same to 16 machines, three networks (its Figure 10)", (*TO_16.values(), *SLOW_START.values()), read_machines, how="stepped"),
    Figure("p3-fig11", PAPER, "Accuracy of P3 and of deep gradient compression (its Figure 11)", tuple(TRAINED.values()), read_training),
    Figure(
        "p3-fig12",
        PAPER,
        "Throughput against the size of slices, VGG-19 (its Figure 12)",
        (schedules("p3-slices", "vgg19", "10gbit", "p3", "4", 400, "--slices", "5000,20000,50000,200000,1000000"),),
        read_slices,
    ),
]
