"""Guidelines for distributed deep learning on clusters of GPUs. Gu et al. (HTC)."""

from catalogue import DIFFERS, REPRODUCED, Answers, Cell, Figure, Reading, by_machines, machines_of, not_here, plain
from drawing import pairs, panels

PAPER = "HTC guidelines"
# AlexNet's convolutions at a mini-batch of 128, and the ratio that Table 2 prints.
LAYERS = [((224, 55, 3, 96), 11.6), ((27, 27, 96, 256), 1.6), ((13, 13, 256, 384), 2.3), ((13, 13, 384, 384), 2.7), ((13, 13, 384, 256), 2.3)]


def fft(number: int, layer: tuple[int, int, int, int]) -> Cell:
    size, out, depth, filters = layer
    words = ("plan", "fft-ratio", "--mini-batch", "128", "--input-size", f"{size},{size}", "--output", f"{out},{out}", "--depth", str(depth), "--filters", str(filters))
    return Cell(f"htc-fft-{number}", words)


FFT = tuple(fft(number, layer) for number, (layer, _) in enumerate(LAYERS, 1))
COUNTS = (2, 4, 8, 16)
LIMITS = tuple(Cell(f"htc-gpus-{count}", ("plan", "gpus", "--overhead", "0.1", "--gpus", str(count))) for count in COUNTS)
WORKED = Cell("htc-gpus-worked", ("plan", "gpus", "--gpus", "4", "--efficiency", "0.8"))  # the example beside the lemma: 9 %


def read_fft(answers: Answers) -> Reading:
    rows, close = [], True
    for cell, (layer, printed) in zip(FFT, LAYERS, strict=True):
        ours = answers[cell.name]["ratio"]
        close = close and abs(ours - printed) <= 0.05
        rows.append((f"convolution {layer[0]} to {layer[1]}, {layer[2]} to {layer[3]} channels", plain(printed, 1), plain(ours)))
    draw = pairs({f"convolution {number}": (printed, answers[cell.name]["ratio"]) for number, (cell, (_, printed)) in enumerate(zip(FFT, LAYERS, strict=True), 1)}, "memory of FFT over that of GEMM")
    return Reading(REPRODUCED if close else DIFFERS, "memory of FFT over that of GEMM, by the paper's formula", rows, draw)


def read_gpus(answers: Answers) -> Reading:
    most = answers[WORKED.name]["max_overhead"]
    rows = [("largest R_O for 4 GPUs at an efficiency of 80 %", "9 %", f"{100 * most:.1f} %")]
    rows += [(f"speed-up of {count} GPUs at R_O = 0.1", "", plain(answers[cell.name]["speedup"])) for cell, count in zip(LIMITS, COUNTS, strict=True)]

    def draw(figure):
        axes = figure.subplots()
        axes.plot(COUNTS, [answers[cell.name]["speedup"] for cell in LIMITS], marker=".", label="R_O = 0.1")
        axes.plot(COUNTS, COUNTS, linestyle=":", color="grey", label="linear")
        axes.set_xlabel("GPUs")
        axes.set_ylabel("speed-up")
        axes.legend()

    return Reading(REPRODUCED if round(100 * most) == 9 else DIFFERS, "Lemma 3.1 as it is printed; `scripts/lemmas` sets jobs beside it, on processors", rows, draw)


MEASURE = ("profile", "--convolutions", "--model", "lenet", "--mini-batches")
MEASURED = Cell("htc-convolutions", (*MEASURE, "8,16,32,64,128"), (*MEASURE, "8,16"), needs=("trainer",), seconds=60)
MEMORY = (*(f"{megabytes}MB" for megabytes in range(136, 188, 4)), "1GB")  # a step of LeNet and LibTorch itself take most of it
PLANNED = {memory: Cell(f"htc-memory-{memory}", ("plan", "job", "--model", "lenet", "--dataset-size", "4000", "--memory", memory), needs=("trainer",), seconds=0.1) for memory in MEMORY}


def read_memory(answers: Answers) -> Reading:
    of = {memory: {one["mini_batch"]: one["samples_per_second"] for one in answers[cell.name]["candidates"] if one["feasible"]} for memory, cell in PLANNED.items()}
    free = of[MEMORY[-1]]
    slower = {memory: {size for size, rate in rates.items() if rate < free[size] * (1 - 1e-9)} for memory, rates in of.items()}
    rows = []
    for memory, rates in of.items():
        fit = ", ".join(f"{size}: {rate:.0f}{' (slower algorithms)' if size in slower[memory] else ''}" for size, rate in sorted(rates.items()))
        rows.append((f"{memory}: samples a second by mini-batch", "", fit or "none fits"))
    drops = any(slower.values())
    lost = any(set(rates) < set(free) for rates in of.values())
    sentence = "LeNet's algorithms as measured on this machine, chosen by Eq 6 within the memory; "
    sentence += "with little memory large mini-batches have to run slower ones, as in the paper" if drops else "no memory in the list makes a mini-batch run slower algorithms" + (", only refuses the largest" if lost else "")
    return Reading(REPRODUCED if drops else DIFFERS, sentence, rows, panels({"LeNet": {memory: rates for memory, rates in of.items() if rates}}, "mini-batch", "samples a second", scale=("log", "linear")))


SIZES = (8, 16, 32, 64, 128)
DIGITS, EPOCHS = 4000, 8
LARGEST_RATE = 0.05  # of the largest mini-batch; the others' in proportion, so that an epoch moves as far


def learnt(size: int) -> Cell:
    rate = f"{LARGEST_RATE * size / SIZES[-1]:g}"
    common = ("train", "--model", "lenet", "--dataset", "mnist-5k", "--workers", "1", "--servers", "1", "--mini-batch", str(size), "--learning-rate", rate, "--optimizer", "momentum", "--evaluate-late")
    epoch = DIGITS // size
    return Cell(f"htc-curve-{size}", (*common, "--iterations", str(EPOCHS * epoch), "--evaluate-every", str(epoch)), (*common, "--iterations", "6", "--evaluate-every", "2"), needs=("trainer",), seconds=30)


LEARNT = {size: learnt(size) for size in SIZES}


def read_learning(answers: Answers) -> Reading:
    curves = {size: {one["iteration"] * size / DIGITS: 100 * (1 - one["accuracy"]) for one in answers[cell.name]["evaluations"]} for size, cell in LEARNT.items()}
    final = {size: 100 * (1 - answers[cell.name]["accuracy"]) for size, cell in LEARNT.items()}
    rows = [(f"mini-batch {size}: error at the end", "similar for a range of sizes", f"{error:.1f} %") for size, error in final.items()]
    alike = [size for size, error in final.items() if error <= min(final.values()) + 1]
    sentence = (
        f"LeNet on 4000 digits, top-1, instead of AlexNet's top-5 on ImageNet, learning rates in proportion to the mini-batch; "
        f"sizes {', '.join(map(str, alike))} end within a point of the best. Reproduced: three or more do; a second run has the same bits"
    )
    return Reading(REPRODUCED if len(alike) >= 3 else DIFFERS, sentence, rows, panels({"LeNet": {f"mini-batch {size}": curve for size, curve in curves.items()}}, "epoch", "error, %"))


NETWORKS = {"alexnet": "AlexNet", "googlenet": "GoogLeNet", "inception_v3": "Inception-v3", "resnet50": "ResNet-50"}
MACHINES = (1, 2, 4, 8)
# One server, whose link is the bus that all workers share; nothing is overlapped, so that what one worker loses is R_O.
ACTUAL = {model: machines_of(f"htc-speedup-{model}", model, ",".join(map(str, MACHINES)), "100gbit", "default", "--servers", "1", quick="1,2,4") for model in NETWORKS}


def overhead_of(answers: Answers, model: str) -> float:
    """The bound of one worker with a server of its own is its computing."""
    answer = answers[ACTUAL[model].name]
    return answer[0]["paceline"] / answer[0]["lower_bound"] - 1


def read_actual(answers: Answers) -> Reading:
    rows, errors, lines = [], [], {}
    for model, name in NETWORKS.items():
        seconds = by_machines(answers[ACTUAL[model].name], "paceline")
        r = overhead_of(answers, model)
        actual = {count: count * seconds[1] / took for count, took in seconds.items()}
        estimated = {count: count * (1 + r) / (1 + count * r) for count in seconds}
        errors += [abs(estimated[count] / actual[count] - 1) for count in seconds if count > 1]
        lines[name] = {"stepped": actual, "by Lemma 3.1": estimated}
        rows += [(f"{name}, R_O = {r:.3f}, {count} workers: by the lemma, stepped", "alike", f"{estimated[count]:.2f}, {actual[count]:.2f}") for count in seconds if count > 1]
    draw = panels(lines, "workers", "speed-up", linear=True)
    sentence = (
        f"R_O of one worker; the lemma is off by {100 * max(errors):.0f} % at most. It takes overheads one after another, and here a push of one worker "
        "and a pull of another share a link's two ways. Reproduced: within 15 %"
    )
    return Reading(REPRODUCED if max(errors) <= 0.15 else DIFFERS, sentence, rows, draw)


SERVERS = (1, 2, 3, 4)
SERVED = {count: machines_of(f"htc-servers-{count}", "resnet50", "4", "10gbit", "p3", "--servers", str(count)) for count in SERVERS}
LEMMA_32 = {duplex: Cell(f"htc-lemma32-{duplex}", ("plan", "servers", "--parameter-bytes", "102228128", "--workers", "4", "--bandwidth", "10gbit", "--compute-time", "0.32s", "--duplex", duplex)) for duplex in ("full", "half")}


def read_servers(answers: Answers) -> Reading:
    seconds = {count: answers[cell.name][0]["paceline"] for count, cell in SERVED.items()}
    knee = next((count for count in SERVERS[:-1] if seconds[count + 1] > 0.95 * seconds[count]), SERVERS[-1])
    said = {duplex: answers[cell.name]["servers"] for duplex, cell in LEMMA_32.items()}
    rows = [(f"ResNet-50, 4 workers, 10 Gb/s, {count} servers: an iteration", "", f"{1e3 * value:.0f} ms") for count, value in seconds.items()]
    rows += [("servers by the lemma, full duplex and half", "", f"{said['full']} and {said['half']}"), ("the next one saves less than 5 %", "", str(knee))]
    draw = panels({"ResNet-50, 4 workers": {"stepped": {count: 1e3 * value for count, value in seconds.items()}}}, "servers", "ms of an iteration")
    return Reading(REPRODUCED if said["full"] <= knee <= said["half"] else DIFFERS, "reproduced: the knee lies between what the lemma gives for full and for half duplex", rows, draw)


FIGURES = [
    not_here("htc-fig1", PAPER, "Sketch of the steps of training (its Figure 1)", "the report of `train` has a time for each step; there is nothing to measure"),
    not_here("htc-table1", PAPER, "Instances of a cloud (its Table 1)", "prices and types of 2016; there is nothing to measure"),
    Figure("htc-table2", PAPER, "Memory of FFT over GEMM for AlexNet's convolutions (its Table 2)", FFT, read_fft, how="computed"),
    Figure("htc-fig2", PAPER, "Throughput against the mini-batch, with little memory and with much (its Figure 2)", (MEASURED, *PLANNED.values()), read_memory),
    Figure("htc-fig3", PAPER, "Learning curves by mini-batch (its Figure 3)", tuple(LEARNT.values()), read_learning),
    Figure("htc-fig4", PAPER, "Speed-up by Lemma 3.1 and stepped, four networks (its Figure 4)", tuple(ACTUAL.values()), read_actual, how="stepped"),
    Figure("htc-lemma31", PAPER, "Speed-up against GPUs by Lemma 3.1", (*LIMITS, WORKED), read_gpus, how="computed"),
    Figure("htc-lemma32", PAPER, "Servers by Lemma 3.2 and stepped", (*SERVED.values(), *LEMMA_32.values()), read_servers, how="stepped"),
]
