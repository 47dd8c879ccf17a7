"""ElasticBSP. Zhao et al., ICDM 2019."""

import math

from catalogue import BETTER, DIFFERS, REPRODUCED, Answers, Cell, Figure, Reading, close, half_range, names, plain
from drawing import panels

PAPER = "ElasticBSP"
PREDICTION = Cell("elastic-prediction", ("bench", "sync", "--parts", "prediction"), ("bench", "sync", "--parts", "prediction", "--quick"), seconds=60)
REPLAY = Cell(
    "elastic-replay",
    ("bench", "sync", "--parts", "replay", "--seeds", "3", "--no-pictures", "--output", "{work}"),
    ("bench", "sync", "--parts", "replay", "--quick", "--no-pictures", "--output", "{work}"),
    needs=("trainer",),
    seconds=400,
)
TRAINING = Cell(
    "elastic-training",
    ("bench", "sync", "--parts", "lenet", "--seeds", "3", "--no-pictures", "--output", "{work}"),
    ("bench", "sync", "--parts", "lenet", "--quick", "--no-pictures", "--output", "{work}"),
    needs=("trainer",),
    seconds=600,
)


def read_prediction(answers: Answers) -> Reading:
    rows, factors, near = [], [], False
    series: dict[str, dict[str, dict[int, float]]] = {}
    printed: dict[str, dict[str, dict[int, float]]] = {}
    for one in answers[PREDICTION.name]["prediction"]:
        if one["paper_seconds"] is None or one["seconds"] is None:  # not in the paper, or too long here
            continue
        median = one["seconds"]["median"]
        factors.append(one["paper_seconds"] / median)
        near = near or close(factors[-1], half_range(one["seconds"]), 1)
        for of, seconds in ((series, median), (printed, one["paper_seconds"])):
            of.setdefault(f"R = {one['lookahead']}", {}).setdefault(one["algorithm"], {})[one["workers"]] = seconds
        rows.append((f"{one['algorithm']}, {one['workers']} workers, R = {one['lookahead']}", f"{one['paper_seconds'] * 1e6:.3g} us", f"{median * 1e6:.3g} us"))

    draw = panels(series, "workers", "seconds", scale=("log", "log"), paper=printed)

    sentence = f"{plain(min(factors), 0)} to {plain(max(factors), 0)} times as fast as the paper's, on other processors; each found barrier is compared with ZipLine's"
    return Reading(BETTER if min(factors) > 1 else DIFFERS, sentence, rows, draw, names([PREDICTION] if near else []))


def of_part(answer, part):
    return {row["contestant"]: row for row in answer["rows"] if row["part"] == part}


def bars(rows, value, label):
    def draw(figure):
        axes = figure.subplots()
        axes.bar(list(rows), [value(row) for row in rows.values()])
        axes.set_ylabel(label)

    return draw


def elastic(rows):
    return min((row for name, row in rows.items() if name.startswith("elastic")), key=lambda row: row["waiting_barrier_share"]["median"])


def read_waiting(answers: Answers) -> Reading:
    rows = of_part(answers[REPLAY.name], "replay")
    waits = {name: row["waiting_barrier_share"]["median"] for name, row in rows.items()}
    best, bsp = elastic(rows)["waiting_barrier_share"], rows["bsp"]["waiting_barrier_share"]
    near = abs(bsp["median"] - best["median"]) <= 3 * sum((share["highest"] - share["lowest"]) / 2 for share in (best, bsp))
    listed = [(f"{name}: share of the workers' time spent waiting for others", "", f"{100 * share:.1f} %") for name, share in waits.items()]
    sentence = "four workers of speeds 1, 1, 1/2, 1/4 with 10 % jitter; the paper shows lanes and gives no number"
    draw = bars(rows, lambda row: row["waiting_barrier_share"]["median"], "share of time spent waiting")
    return Reading(REPRODUCED if best["median"] < waits["bsp"] else DIFFERS, sentence, listed, draw, names([REPLAY] if near else []))


GROWTH = {"GridScan": (2, 1), "FullGridScan": (2, 2), "ZipLine": (1, 2)}  # exponents of R and of n in the paper's Table I


def read_growth(answers: Answers) -> Reading:
    """Exponents by the ends of the grid: R from 15 to 150 at each n, n from 10 to 1000 at each R."""
    of: dict[str, dict[tuple[int, int], float]] = {}
    spreads: dict[tuple[str, int, int], float] = {}
    for one in answers[PREDICTION.name]["prediction"]:
        if one["seconds"] is not None:
            of.setdefault(one["algorithm"], {})[one["lookahead"], one["workers"]] = one["seconds"]["median"]
            spreads[one["algorithm"], one["lookahead"], one["workers"]] = half_range(one["seconds"])
    rows, above, near = [], [], False
    for name, paper in GROWTH.items():
        algorithm, points = next(((algorithm, found) for algorithm, found in of.items() if algorithm.lower().replace("-", "") == name.lower()), ("", {}))
        for place, (letter, stated) in enumerate(zip("Rn", paper, strict=True)):
            slopes = []
            for first in points:
                for last in points:
                    if first[place] < last[place] and first[1 - place] == last[1 - place]:
                        distance = math.log(last[place] / first[place])
                        slopes.append((math.log(points[last] / points[first]) / distance, (spreads[algorithm, *first] + spreads[algorithm, *last]) / distance))
            if slopes:
                slopes.sort()
                middle, spread = slopes[len(slopes) // 2]
                rows.append((f"{name}: exponent of {letter}, median of {len(slopes)} pairs", str(stated), plain(middle)))
                near = near or abs(middle - stated - 0.25) <= 3 * spread
                if middle > stated + 0.25:
                    above.append(f"{name} in {letter}")
    if not rows:
        return Reading(DIFFERS, "the cell has no times of these algorithms", rows)
    draw = panels({name: {f"R = {r}": {n: value for (at, n), value in points.items() if at == r} for r in sorted({at for at, _ in points})} for name, points in of.items()}, "workers", "seconds", scale=("log", "log"))
    said = "faster than stated: " + ", ".join(above) if above else "none grows faster than stated, by more than a quarter"
    return Reading(DIFFERS if above else REPRODUCED, f"growth of the measured times; {said}", rows, draw, names([PREDICTION] if near else []))


INTERVALS = "1.0,1.1,1.9,4.2"


def barrier(name: str, lookahead: int, algorithm: str, intervals: str = INTERVALS) -> Cell:
    last = ",".join("0" for _ in intervals.split(","))
    return Cell(f"elastic-{name}-{algorithm}-{lookahead}", ("plan", "barrier", "--last-end", last, "--interval", intervals, "--lookahead", str(lookahead), "--algorithm", algorithm), seconds=0.1)


FORESEEN = barrier("barrier", 15, "zipline")
LOOKAHEADS = (1, 2, 4, 8, 15, 30, 60, 120, 240)
SCANNED = {lookahead: barrier("scan", lookahead, "zipline") for lookahead in LOOKAHEADS}
SEARCHED = {lookahead: barrier("scan", lookahead, "naive") for lookahead in LOOKAHEADS if lookahead <= 15}


def read_foreseen(answers: Answers) -> Reading:
    answer = answers[FORESEEN.name]
    intervals = [float(text) for text in INTERVALS.split(",")]
    ends = [count * interval for count, interval in zip(answer["iterations"], intervals, strict=True)]
    rows = [("iterations of the workers until the barrier", "one end of each worker", ", ".join(map(str, answer["iterations"]))), ("between the first and the last of these ends", "", f"{answer['span']:.2f} s")]

    def draw(figure):
        axes = figure.subplots()
        for place, interval in enumerate(intervals):
            axes.plot([step * interval for step in range(1, 16)], [place] * 15, marker="|", markersize=12, label=f"worker {place}")
            axes.plot([answer["iterations"][place] * interval], [place], marker="o", color="black")
        axes.axvline(answer["barrier"], color="black", linewidth=0.8)
        axes.set(xlabel="s; dots: the ends that ZipLine takes, line: the barrier", yticks=range(len(intervals)), ylabel="worker")

    fits = abs(max(ends) - min(ends) - answer["span"]) < 1e-9 and abs(max(ends) - answer["barrier"]) < 1e-9
    return Reading(REPRODUCED if fits else DIFFERS, "four workers whose next 15 iterations are foreseen; the paper sketches it", rows, draw)


def read_scanned(answers: Answers) -> Reading:
    spans = {lookahead: answers[cell.name]["span"] for lookahead, cell in SCANNED.items()}
    least = {lookahead: answers[cell.name]["span"] for lookahead, cell in SEARCHED.items()}
    exact = all(abs(spans[lookahead] - span) < 1e-9 for lookahead, span in least.items())
    rows = []
    for lookahead, span in spans.items():
        tried = lookahead in least
        rows.append((f"R = {lookahead}: span of ZipLine's set, of the best of all sets", "the same" if tried else "", f"{span:.3f} s, {f'{least[lookahead]:.3f} s' if tried else 'not tried'}"))
    draw = panels({"four workers": {"ZipLine": spans, "all sets": least}}, "R", "s between first and last end", scale=("log", "linear"))
    return Reading(REPRODUCED if exact else DIFFERS, f"ZipLine {'finds' if exact else 'misses'} the least span wherever all sets can be tried; the paper sketches the scan", rows, draw)


# The models of one network, each with a worker at full speed, another, and two slower ones, as `bench sync` has them.
SPAN = ("--sync", "elastic-bsp", "--objective", "span", "--lookahead")
PACES = {"bsp": ("--sync", "bsp"), "asp": ("--sync", "asp"), "ssp(3)": ("--sync", "ssp", "--staleness", "3"), **{f"elastic-bsp, R = {r}": (*SPAN, str(r)) for r in (15, 30, 60, 120, 240)}}
TASKS = {
    "lenet": (("--model", "lenet", "--dataset", "mnist-5k"), 400, 30, 40.0),
    "resnet-20": (("--model", "resnet-20", "--dataset", "synthetic:3x32x32,classes=10,samples=2000,test=400"), 100, 10, 75.0),
}


RATES = ("0.05", "0.1", "0.2")  # of which each model has its own best


def paced(model: str, pace: str, rate: str) -> Cell:
    data, iterations, every, seconds = TASKS[model]
    small = tuple(word.replace("samples=2000,test=400", "samples=200,test=50") for word in data)
    common = ("--workers", "4", "--servers", "2", "--schedule", "p3", "--jitter", "0.1", "--seed", "1", "--speed", "0.4,0.4,0.2,0.1", "--evaluate-late", *PACES[pace])
    full = ("--mini-batch", "16", "--learning-rate", f"cosine:{rate},total={iterations}", "--iterations", str(iterations), "--evaluate-every", str(every))
    quick = ("--mini-batch", "2", "--learning-rate", "0.05", "--iterations", "6", "--evaluate-every", "3")
    name = pace.replace(", R = ", "-").replace("(", "-").replace(")", "")
    return Cell(f"elastic-{model}-{name}-{rate}", ("train", *data, *common, *full), ("train", *small, *common, *quick), needs=("trainer",), seconds=seconds)


SWEEPS = {model: {(pace, rate): paced(model, pace, rate) for pace in PACES for rate in RATES} for model in TASKS}


def reached(answer, goal: float) -> float | None:
    return next((one["seconds"] for one in answer["evaluations"] if one["accuracy"] >= goal), None)


def read_sweep(model: str, sentence: str):
    def read(answers: Answers) -> Reading:
        tried = {key: answers[cell.name] for key, cell in SWEEPS[model].items()}
        best = {pace: max(RATES, key=lambda rate, pace=pace: tried[pace, rate]["accuracy"]) for pace in PACES}
        of = {pace: tried[pace, rate] for pace, rate in best.items()}
        goal = 0.98 * of["bsp"]["accuracy"]
        rows, curves = [], {}
        for pace, answer in of.items():
            at = reached(answer, goal)
            soon = f"{at:.1f} s" if at else "not reached"
            rows.append((f"{pace}: the best of its rates, accuracy, seconds to {100 * goal:.1f} %, seconds of the job", "", f"{best[pace]}, {100 * answer['accuracy']:.1f} %, {soon}, {answer['seconds']:.1f} s"))
            curves[pace] = {one["seconds"]: 100 * one["accuracy"] for one in answer["evaluations"]}
        elastic = {pace: answer for pace, answer in of.items() if pace.startswith("elastic") and reached(answer, goal)}
        soonest = min((reached(answer, goal) for answer in elastic.values()), default=None)
        bsp = reached(of["bsp"], goal)
        better = soonest is not None and bsp is not None and soonest < bsp
        most = max(answer["accuracy"] for pace, answer in of.items() if pace.startswith("elastic"))
        if better:
            rows.append(("BSP's time to it over the soonest ElasticBSP's", "above 1", f"{plain(bsp / soonest)}x"))
        good = better and most >= of["bsp"]["accuracy"] - 0.01
        rule = "Reproduced: some R reaches 98 % of BSP's accuracy sooner, and its best accuracy is within a point of BSP's or above"
        return Reading(REPRODUCED if good else DIFFERS, f"{sentence}. {rule}", rows, panels({model: curves}, "s", "accuracy, %"), names(SWEEPS[model][key] for key in best.items()))

    return read


def read_accuracy(answers: Answers) -> Reading:
    reading = read_sweep("lenet", "LeNet, which has fully connected layers, on 4000 digits instead of AlexNet on CIFAR-10; each model with the best of three rates")(answers)
    for name, row in of_part(answers[TRAINING.name], "lenet").items():
        at = f"{row['time_to_goal']['median']:.0f} s" if row["time_to_goal"] else "goal not reached"
        reading.rows.append((f"{name}, medians of {row['seeds']} seeds: accuracy, seconds to `bench sync`'s goal", "", f"{100 * row['accuracy']['median']:.1f} %, {at}"))
    return reading


RESIDUAL = "ResNet-20, which has only one fully connected layer, a small one, on made-up images instead of ResNet-50 on CIFAR-100; each model with the best of three rates"

FIGURES = [
    Figure("elastic-fig1", PAPER, "Waiting of the synchronisation models, workers of unequal speed (its Figure 1)", (REPLAY,), read_waiting),
    Figure("elastic-fig2", PAPER, "Foreseen ends of iterations and the barrier among them (its Figure 2)", (FORESEEN,), read_foreseen, how="computed"),
    Figure("elastic-fig3", PAPER, "ZipLine's scan against the lookahead (its Figure 3)", (*SCANNED.values(), *SEARCHED.values()), read_scanned, how="computed"),
    Figure("elastic-table1", PAPER, "Growth with the lookahead and the workers (its Table I)", (PREDICTION,), read_growth),
    Figure("elastic-table2", PAPER, "Time to place a barrier (its Table II)", (PREDICTION,), read_prediction),
    Figure("elastic-fig4a", PAPER, "Accuracy of the synchronisation models, R from 15 to 240 (its Figure 4a)", (TRAINING, *SWEEPS["lenet"].values()), read_accuracy),
    Figure("elastic-fig4b", PAPER, "The same on a network of convolutions (its Figure 4b)", tuple(SWEEPS["resnet-20"].values()), read_sweep("resnet-20", RESIDUAL)),
]
