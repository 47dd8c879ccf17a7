"""ElasticBSP. Zhao et al., ICDM 2019."""

from catalogue import BETTER, DIFFERS, REPRODUCED, Answers, Cell, Figure, Reading, not_here, plain

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
    rows, factors, series = [], [], {}
    for one in answers[PREDICTION.name]["prediction"]:
        if one["paper_seconds"] is None or one["seconds"] is None:  # not in the paper, or too long here
            continue
        median = one["seconds"]["median"]
        factors.append(one["paper_seconds"] / median)
        series.setdefault(one["algorithm"], {})[one["workers"], one["lookahead"]] = median
        rows.append((f"{one['algorithm']}, {one['workers']} workers, R = {one['lookahead']}", f"{one['paper_seconds'] * 1e6:.3g} us", f"{median * 1e6:.3g} us"))

    def draw(figure):
        axes = figure.subplots()
        for algorithm, points in series.items():
            for lookahead in sorted({at[1] for at in points}):
                line = {at[0]: value for at, value in points.items() if at[1] == lookahead}
                axes.loglog(sorted(line), [line[x] for x in sorted(line)], marker=".", label=f"{algorithm}, R = {lookahead}")
        axes.set_xlabel("workers")
        axes.set_ylabel("seconds")
        axes.legend()

    return Reading(BETTER if min(factors) > 1 else DIFFERS, f"{plain(min(factors), 0)} to {plain(max(factors), 0)} times as fast as the paper's, on other processors; each found barrier is compared with ZipLine's", rows, draw)


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
    best = elastic(rows)["waiting_barrier_share"]["median"]
    listed = [(f"{name}: share of the workers' time spent waiting for others", "", f"{100 * share:.1f} %") for name, share in waits.items()]
    sentence = "four workers of speeds 1, 1, 1/2, 1/4 with 10 % jitter; the paper shows lanes and gives no number"
    draw = bars(rows, lambda row: row["waiting_barrier_share"]["median"], "share of time spent waiting")
    return Reading(REPRODUCED if best < waits["bsp"] else DIFFERS, sentence, listed, draw)


def read_accuracy(answers: Answers) -> Reading:
    rows = of_part(answers[TRAINING.name], "lenet")
    listed = []
    for name, row in rows.items():
        reached = f"{row['time_to_goal']['median']:.0f} s" if row["time_to_goal"] else "goal not reached"
        listed.append((f"{name}: accuracy, seconds to the goal", "", f"{100 * row['accuracy']['median']:.1f} %, {reached}"))
    best = max(row["accuracy"]["median"] for name, row in rows.items() if name.startswith("elastic"))
    sentence = "LeNet on 5000 digits instead of AlexNet and ResNet-50 on CIFAR; one rate for all models"
    return Reading(REPRODUCED if best >= rows["bsp"]["accuracy"]["median"] - 0.01 else DIFFERS, sentence, listed, bars(rows, lambda row: row["accuracy"]["median"], "accuracy"))


FIGURES = [
    Figure("elastic-table2", PAPER, "Time to place a barrier (its Table II)", (PREDICTION,), read_prediction),
    Figure("elastic-fig1-3", PAPER, "Waiting of the synchronisation models, workers of unequal speed (its Figures 1 to 3)", (REPLAY,), read_waiting),
    Figure("elastic-fig4", PAPER, "Accuracy of the synchronisation models (its Figure 4)", (TRAINING,), read_accuracy),
    not_here("elastic-table1", PAPER, "Complexities (its Table I)", "stated in src/sync/barrier.h; there is nothing to measure"),
]
