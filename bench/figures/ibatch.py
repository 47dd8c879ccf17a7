"""iBatch. Wang et al., AAAI 2019."""

from catalogue import DIFFERS, REPRODUCED, BETTER, Answers, Cell, Figure, Reading, plain

PAPER = "iBatch"
NODES = (1, 6, 12, 18, 30, 48, 72)
CARD, MACHINES_ON_IT = 10e9 / 8, 9  # nine virtual machines share a card of 10 Gb/s
NETWORKS = {"googlenet": "GoogLeNet", "inception_v3": "Inception-v3", "vgg19": "VGG-19", "vgg19_22k": "VGG19-22K"}
SCHEDULES = {"default": "default", "layer-wise": "layer by layer", "ibatch": "iBatch (exact plan)"}
AT_30 = {"default": (26, 25, 23, 22), "layer-wise": (25, 24, 22, 21), "ibatch": (29, 28, 26, 25)}  # as the text says them
AT_72 = {"default": 26, "layer-wise": 32, "ibatch": 45}  # of VGG19-22K


def cell_of(network: str, schedule: str, start_up: str = "1ms") -> Cell:
    rate = f"{CARD / MACHINES_ON_IT:.0f}"
    words = ("plan", "speedup", "--input", network, "--schedule", schedule, "--bandwidth", rate, "--start-up", start_up)
    return Cell(
        f"ibatch-{network}-{schedule}", (*words, "--machines", ",".join(map(str, NODES))), (*words, "--machines", "1,6,30"), seconds=20
    )


def read_speedups(answers: Answers) -> Reading:
    rows, better, faster = [], 0, []
    for column, (network, name) in enumerate(NETWORKS.items()):
        of = {schedule: answers[f"ibatch-{network}-{schedule}"] for schedule in SCHEDULES}
        for schedule, answer in of.items():
            at = answer["machines"].index(30)
            rows.append((f"{name}, {SCHEDULES[schedule]}, 30 nodes", f"{AT_30[schedule][column]}x", f"{plain(answer['speedup'][at], 1)}x"))
            if network == "vgg19_22k" and 72 in answer["machines"]:
                rows.append((f"{name}, {SCHEDULES[schedule]}, 72 nodes", f"{AT_72[schedule]}x", f"{plain(answer['speedup'][-1], 1)}x"))
        last = {schedule: answer["speedup"][-1] for schedule, answer in of.items()}
        better += last["ibatch"] >= 0.97 * max(last.values())
        faster.append(last["ibatch"] / last["default"])

    def draw(figure):
        for axes, (network, name) in zip(figure.subplots(1, len(NETWORKS), sharey=True), NETWORKS.items(), strict=True):
            for schedule, label in SCHEDULES.items():
                answer = answers[f"ibatch-{network}-{schedule}"]
                axes.plot(answer["machines"], answer["speedup"], marker=".", label=label)
            axes.plot(answer["machines"], answer["machines"], linestyle=":", color="grey", label="linear")
            axes.set_title(name)
            axes.set_xlabel("nodes")
        figure.axes[0].set_ylabel("speed-up")
        figure.axes[0].legend()

    all_best = better == len(NETWORKS)
    sentence = (
        f"iBatch is the fastest of the three for {better} of {len(NETWORKS)} networks, {plain(min(faster))} to {plain(max(faster))} times as fast as default at the largest "
        "number of nodes. Here pushes always overlap backward, each node has a ninth of a card, and layers' times are the tables', not BigDL's on Xeons"
    )
    return Reading(REPRODUCED if all_best else DIFFERS, sentence, rows, draw)


PLAN_START_UPS = ("30us", "200us", "1ms", "5ms", "20ms")


def profile_cells() -> tuple[Cell, ...]:
    return (Cell("googlenet-layers", ("plan", "speedup", "--input", "googlenet", "--bandwidth", "1gbit", "--machines", "1", "--json")),)


FIGURES = [
    Figure(
        "ibatch-fig5",
        PAPER,
        "Speed-up against the number of nodes, four networks, three ways to pull (its Figure 5)",
        tuple(cell_of(network, schedule) for network in NETWORKS for schedule in SCHEDULES),
        read_speedups,
        how="stepped",
    ),
]
