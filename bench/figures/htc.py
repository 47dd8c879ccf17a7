"""Guidelines for distributed deep learning on clusters of GPUs. Gu et al. (HTC)."""

from catalogue import DIFFERS, REPRODUCED, Answers, Cell, Figure, Reading, not_here, plain

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
    return Reading(REPRODUCED if close else DIFFERS, "memory of FFT over that of GEMM, by the paper's formula", rows)


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


FIGURES = [
    Figure("htc-table2", PAPER, "Memory of FFT over GEMM for AlexNet's convolutions (its Table 2)", FFT, read_fft, how="computed"),
    Figure("htc-lemma31", PAPER, "Speed-up against GPUs by Lemma 3.1", (*LIMITS, WORKED), read_gpus, how="computed"),
    not_here("htc-table1", PAPER, "Instances of a cloud, and a sketch (its Table 1 and Figure 1)", "prices and types of 2016; there is nothing to measure"),
]
