"""Linear Pipeline. Wang et al., ICLR 2018."""

import statistics

from catalogue import DIFFERS, REPRODUCED, Answers, Cell, Figure, Reading, close, half_range, names, not_here, plain, spreads_of, within
from drawing import panels, stacks

PAPER = "Linear Pipeline"
OPERATIONS = ("broadcast", "reduce", "allreduce")
RIVALS = {"paceline-be": "BE", "paceline-mst": "MST"}
OURS = "paceline-lp"
AVERAGE = {"broadcast": ("29.2x", "2.3x"), "reduce": ("360.55x", "8.7x"), "allreduce": ("109.2x", "7.9x")}  # over BE and MST, section 4.1
# Blocks of 64 KB are the paper's, section 3.2.
FIXED = ("--contestants", "paceline-lp,paceline-mst,paceline-be", "--block", "64KB", "--operations", ",".join(OPERATIONS), "--no-pictures", "--output", "{work}")

SIZES = Cell(
    "lp-sizes",
    ("bench", "collectives", "--hosts", "4", "--sizes", "4KB,64KB,1MB,16MB,64MB", *FIXED),
    ("bench", "collectives", "--hosts", "2", "--sizes", "64KB,1MB", "--quick", *FIXED),
    needs=("lab",),
    seconds=400,
)
HOSTS = Cell(
    "lp-hosts",
    ("bench", "collectives", "--hosts", "2,3,4,5,6,8", "--sizes", "16MB", *FIXED),
    ("bench", "collectives", "--hosts", "2,3", "--sizes", "1MB", "--quick", *FIXED),
    needs=("lab",),
    seconds=400,
)
# Links on which two processors keep eight hosts busy.
LARGE = Cell(
    "lp-large",
    ("bench", "collectives", "--hosts", "8", "--sizes", "64MB", "--rate", "200mbit", "--turns", "3", *FIXED),
    ("bench", "collectives", "--hosts", "3", "--sizes", "1MB", "--quick", *FIXED),
    needs=("lab",),
    seconds=200,
)
LOOPS = ("loop1-mst", "loop1-be", "loop3-overlap-be", "loop1-lp", "loop2-lp", "loop3-lp", "loop3-overlap-lp")
LOOP_CELL = Cell(
    "lp-loops",
    ("bench", "schedules", "--models", "alexnet,googlenet", "--rates", "10gbit", "--hosts", "4", "--turns", "3", "--length", "6", "--contestants", ",".join(LOOPS), "--no-pictures", "--output", "{work}"),
    ("bench", "schedules", "--models", "googlenet", "--rates", "10gbit", "--hosts", "2", "--turns", "1", "--length", "1", "--contestants", "loop1-mst,loop1-be,loop1-lp", "--no-pictures", "--output", "{work}"),
    needs=("lab",),
    seconds=500,
)


def seconds_of(answer, operation, by):
    found: dict[str, dict[int, float]] = {}
    for row in answer["rows"]:
        if row["operation"] == operation:
            found.setdefault(row["contestant"], {})[row[by]] = row["seconds"]["median"]
    return found


def read_over(cell, by, label):
    def read(answers: Answers) -> Reading:
        series = {operation: seconds_of(answers[cell.name], operation, by) for operation in OPERATIONS}
        rows, factors, spreads = [], [], []
        for operation, of in series.items():
            largest = max(of[OURS])
            for (rival, name), paper in zip(RIVALS.items(), AVERAGE[operation], strict=True):
                factor = of[rival][largest] / of[OURS][largest]
                factors.append(factor)
                at_largest = [row for row in answers[cell.name]["rows"] if row["operation"] == operation and row[by] == largest and row["contestant"] in (OURS, rival)]
                spreads.append(sum(half_range(row["seconds"]) for row in at_largest))
                rows.append((f"{operation}, {largest} {label}: LP over {name}", f"{paper} in the mean of its sizes", f"{plain(factor)}x"))

        def draw(figure):
            for axes, (operation, of) in zip(figure.subplots(1, len(OPERATIONS)), series.items(), strict=True):
                for contestant, points in of.items():
                    axes.loglog(sorted(points), [points[x] for x in sorted(points)], marker=".", label=contestant.removeprefix("paceline-").upper())
                axes.set_title(operation)
                axes.set_xlabel(label)
            figure.axes[0].set_ylabel("seconds")
            figure.axes[0].legend()

        fastest = min(factors) >= 1 / 1.03
        sentence = (
            f"LP is {'nowhere slower' if fastest else 'slower in places'} with the most {label}; all three are ours, over TCP, where the paper sets its own between GPUs "
            "beside OpenMPI's BE and Caffe's MST. Its costs (Table 1) allow 2x over BE for large messages"
        )
        near = any(close(factor, spread, 1 / 1.03) for factor, spread in zip(factors, spreads, strict=True))
        return Reading(REPRODUCED if fastest else DIFFERS, sentence, rows, draw, names([cell] if near else []))

    return read


def read_large(answers: Answers) -> Reading:
    """Beside what the bytes of Table 1's forms allow: BE moves 2 (p - 1) / p of a message one after another; LP moves it once, or twice in an allreduce."""
    rows, factors, near = [], [], False
    wanted = 1.8
    for operation in OPERATIONS:
        of = {row["contestant"]: row for row in answers[LARGE.name]["rows"] if row["operation"] == operation}
        factors.append(of["paceline-be"]["seconds"]["median"] / of[OURS]["seconds"]["median"])
        near = near or close(factors[-1], half_range(of["paceline-be"]["seconds"]) + half_range(of[OURS]["seconds"]), wanted)
        rows.append((f"{operation}: LP over BE", AVERAGE[operation][0] + " in the mean of its sizes", f"{plain(factors[-1])}x"))
    hosts = answers[LARGE.name]["rows"][0]["hosts"]
    allowed = 2 * (hosts - 1) / hosts
    sentence = (
        f"Reproduced: LP is {wanted} times as fast as BE in all three. By bytes alone Table 1's forms allow {plain(allowed)} for {hosts} hosts in broadcast and reduce, "
        f"and {plain(allowed / 2)} in allreduce, whose chain carries the message twice"
    )
    return Reading(REPRODUCED if min(factors) >= wanted else DIFFERS, sentence, rows, again=names([LARGE] if near else []))


def read_costs(answers: Answers) -> Reading:
    rows, ratios = [], []
    for cost in answers[SIZES.name]["costs"]:
        ratios.append(cost["measured_seconds"] / cost["predicted_seconds"])
        what = f"{cost['algorithm']} {cost['operation']}, {cost['bytes']} bytes, {cost['hosts']} hosts: {cost['formula']}"
        rows.append((what, f"{1e3 * cost['predicted_seconds']:.2f} ms by its form", f"{1e3 * cost['measured_seconds']:.2f} ms"))
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    middle = errors[len(errors) // 2] if errors else 1
    spread = statistics.median(half_range(row["seconds"]) for row in answers[SIZES.name]["rows"])
    near = close(1 + middle, spread, 1.15)
    return Reading(REPRODUCED if middle < 0.15 else DIFFERS, f"half of the {len(errors)} times are within {100 * middle:.0f} % of the closed forms, whose constants are fitted here", rows, again=names([SIZES] if near else []))


def read_loops(answers: Answers) -> Reading:
    rows, speedups, bars, near = [], [], {}, False
    profiles = answers[LOOP_CELL.name]["loops"]
    for model in dict.fromkeys(row["model"] for row in profiles):
        of = {row["column"]: row for row in profiles if row["model"] == model}
        bars[model] = {column.replace(" ", "\n"): {"computation": row["computation_seconds"], "communication": row["communication_seconds"]} for column, row in of.items()}
        for column, row in of.items():
            rows.append((f"{model}, {column}: exposed communication, share", "", f"{row['communication_seconds']:.3f} s, {100 * row['communication_share']:.0f} %"))
        for rival, paper in (("BE", {"alexnet": "1.91x", "googlenet": "1.6x"}), ("MST", {"alexnet": "1.74x", "googlenet": "1.1x"})):
            whole = [of[f"{name} Alg.1"]["communication_seconds"] + of[f"{name} Alg.1"]["computation_seconds"] for name in ("LP", rival)]
            speedups.append(whole[1] / whole[0])
            spreads = spreads_of(answers[LOOP_CELL.name], model=model)
            near = near or close(speedups[-1], spreads["loop1-lp"] + spreads[f"loop1-{rival.lower()}"], 1.0, 2.2)
            rows.append((f"{model}: Alg. 1, LP over {rival}", paper.get(model, ""), f"{plain(speedups[-1])}x"))
    sentence = "layers' times are the tables', the links TCP; Alg. 3 hides what its columns lack. Reproduced: LP under Alg. 1 is 1 to 2.2 times as fast as both others"
    return Reading(within(min(speedups), 1.0, 2.2), sentence, rows, stacks(bars, "seconds of an iteration"), names([LOOP_CELL] if near else []))


def steps_of(operation: str) -> Cell:
    """A step for each message: start-ups of a second, and no time for bytes."""
    return Cell(f"lp-steps-{operation}", ("plan", "collective", "--operation", operation, "--algorithm", "lp", "--ranks", "3", "--bytes", "4000", "--block", "1000", "--alpha", "1s", "--beta", "0", "--gamma", "0s"))


STEPS = {operation: steps_of(operation) for operation in OPERATIONS}


def read_steps(answers: Answers) -> Reading:
    of = {operation: answers[cell.name]["steps"] for operation, cell in STEPS.items()}
    rows = [("allreduce of 4 blocks on 3 ranks", "9 steps", f"{of['allreduce']:g} steps"), ("reduce and then broadcast", "10 steps, as the text says", f"{of['reduce'] + of['broadcast']:g} steps")]
    draw = stacks({"4 blocks, 3 ranks": {**{operation: {"steps": value} for operation, value in of.items()}, "reduce, broadcast": {"steps": of["reduce"] + of["broadcast"]}}}, "steps")
    return Reading(REPRODUCED if of["allreduce"] == 9 else DIFFERS, "steps of the closed form; a chain of K blocks and p ranks takes K + p - 2 steps each way", rows, draw)


CURVES = ("loop1-mst", "loop1-be", "loop3-overlap-be", "loop1-lp", "loop2-lp", "loop3-lp", "loop3-overlap-lp")


def trained(name: str) -> Cell:
    loop, _, algorithm = name.rpartition("-")
    common = ("train", "--model", "lenet", "--dataset", "mnist-5k", "--workers", "4", "--mini-batch", "16", "--optimizer", "momentum", "--learning-rate", "0.02", "--evaluate-late", "--collective", loop, "--algorithm", algorithm)
    return Cell(f"lp-curve-{name}", (*common, "--iterations", "310", "--evaluate-every", "31"), (*common, "--iterations", "10", "--evaluate-every", "5"), needs=("trainer",), seconds=15)


LEARNT = {name: trained(name) for name in CURVES}


def read_curves(answers: Answers) -> Reading:
    of = {name: answers[cell.name] for name, cell in LEARNT.items()}
    rows = [(f"{name}: loss and accuracy at the end, seconds", "", f"{one['loss_last']:.3f}, {100 * one['accuracy']:.1f} %, {one['evaluations'][-1]['seconds']:.1f} s") for name, one in of.items()]
    faster = of["loop1-be"]["evaluations"][-1]["seconds"] / of["loop3-overlap-lp"]["evaluations"][-1]["seconds"]
    rows.append(("LP under overlapped Alg. 3 over BE under Alg. 1", "2.12x and 2.19x", f"{plain(faster)}x"))
    accuracies = [one["accuracy"] for one in of.values()]
    alike = max(accuracies) - min(accuracies) <= 0.01
    sentence = (
        f"all loops learn {'alike, as in the paper' if alike else 'differently'}: LeNet on 4000 digits, error instead of loss against time, over the loopback, whose links cost little. "
        "Reproduced: accuracies within a point, and at least half of the paper's gain in time"
    )
    draw = panels({"LeNet": {name: {at["seconds"]: 100 * (1 - at["accuracy"]) for at in one["evaluations"]} for name, one in of.items()}}, "s", "error, %")
    return Reading(REPRODUCED if alike and faster >= 1.56 else DIFFERS, sentence, rows, draw, names(LEARNT.values()))


FIGURES = [
    not_here("lp-fig1", PAPER, "Sketch of computing and communication (its Figure 1)", "there is nothing to measure; lp-table2 has both parts of an iteration"),
    Figure("lp-fig2", PAPER, "Steps of a chain of three ranks (its Figure 2)", tuple(STEPS.values()), read_steps, how="computed"),
    Figure("lp-table1", PAPER, "Costs by the closed forms (its Table 1)", (SIZES,), read_costs),
    Figure("lp-fig3", PAPER, "Time against size: LP, MST, BE (its Figure 3)", (SIZES,), read_over(SIZES, "bytes", "bytes")),
    Figure("lp-fig4", PAPER, "Time against the number of ranks (its Figure 4)", (HOSTS,), read_over(HOSTS, "hosts", "hosts")),
    Figure("lp-large", PAPER, "A large message between eight hosts (its section 4.1)", (LARGE,), read_large),
    Figure("lp-table2", PAPER, "Iteration profile by algorithm and collective (its Table 2)", (LOOP_CELL,), read_loops),
    Figure("lp-fig5", PAPER, "Error against time by loop and algorithm (its Figure 5)", tuple(LEARNT.values()), read_curves),
]
