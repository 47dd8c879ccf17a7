"""Pictures of what `paceline bench sync` measured, or of one job's `--pace`:

bench/sync/pictures.py FOLDER          lanes-*.png, accuracy.png and waiting.png into FOLDER, as far as its cells and traces give them
bench/sync/pictures.py TRACE.jsonl     TRACE.png: a lane per worker, a bar per iteration, barriers as lines (the ElasticBSP paper's
                                       Figures 1 and 3)

Prints the names of the files as one JSON array.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

SHADES = ("#4878a8", "#86b0d6")  # of a worker's iterations, in turn
SHOWN_ITERATIONS = 12  # of the slowest worker, in a picture of lanes


def read(file):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def excerpt(events):
    """From the middle of the job, as long as some iterations of the slowest worker."""
    iterations = [event for event in events if "rank" in event]
    if not iterations:
        return [], [], 0, 0
    end = max(event["ended"] for event in iterations)
    slowest = max(statistics.median([e["ended"] - e["began"] for e in iterations if e["rank"] == rank]) for rank in {e["rank"] for e in iterations})
    width = min(end, SHOWN_ITERATIONS * slowest)
    begin = (end - width) / 2
    inside = [event for event in iterations if event["ended"] >= begin and event["began"] <= begin + width]
    barriers = [event["began"] + max(event["arrived"]) for event in events if "superstep" in event]
    return inside, [at for at in barriers if begin <= at <= begin + width], begin, begin + width


def draw_lanes(axes, events, title):
    shown, barriers, begin, end = excerpt(events)
    for event in shown:
        axes.barh(event["rank"], event["ended"] - event["began"], left=event["began"], height=0.7, color=SHADES[event["iteration"] % 2])
    for at in barriers:
        axes.axvline(at, color="#c03030", linewidth=1)
    ranks = sorted({event["rank"] for event in shown})
    axes.set(title=title, xlim=(begin, end), yticks=ranks, yticklabels=[f"worker {rank}" for rank in ranks])
    axes.invert_yaxis()


def lanes(traces):
    figure, axes = plt.subplots(len(traces), 1, figsize=(10, 1.7 * len(traces)), squeeze=False)
    for one, (title, events) in zip(axes[:, 0], traces):
        draw_lanes(one, events, title)
    axes[-1, 0].set_xlabel("s; a bar: from the start that the server allowed to the last gradient; a line: a barrier; gaps: waiting")
    return figure


def by_contestant(cells):
    groups = defaultdict(list)
    for cell in cells:
        groups[cell["contestant"]].append(cell)
    return groups


def accuracy(cells):
    """Accuracy against time, mean over the seeds: the paper's Figure 4."""
    curves = {name: [cell["report"]["evaluations"] for cell in mine] for name, mine in by_contestant(cells).items()}
    curves = {name: [seed for seed in seeds if len(seed) > 1] for name, seeds in curves.items()}
    if not any(curves.values()):
        return None
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for name, seeds in curves.items():
        if not seeds:
            continue
        steps = min(len(seed) for seed in seeds)
        times = [statistics.mean(seed[i]["seconds"] for seed in seeds) for i in range(steps)]
        means = [statistics.mean(seed[i]["accuracy"] for seed in seeds) for i in range(steps)]
        axes.plot(times, means, marker=".", label=f"{name} ({len(seeds)} seeds)")
    axes.axhline(0.95, color="grey", linewidth=0.5)
    axes.set(xlabel="s", ylabel="accuracy on the test set", ylim=(0.8, 1.0), title="4 workers of speeds 1, 1, 0.5, 0.25")
    axes.legend(fontsize=8)
    return figure


def waiting(cells):
    parts = sorted({cell["part"] for cell in cells})
    figure, axes = plt.subplots(2, len(parts), figsize=(4.8 * len(parts), 6), squeeze=False)
    for column, part in enumerate(parts):
        groups = by_contestant([cell for cell in cells if cell["part"] == part])
        for row, (key, label) in enumerate((("samples_per_second", "samples/s"), ("waiting_share", "share of the workers' time spent waiting"))):
            medians = [statistics.median(cell[key] for cell in mine) for mine in groups.values()]
            axes[row, column].bar(range(len(groups)), medians, color=SHADES[0])
            for x, mine in enumerate(groups.values()):
                axes[row, column].plot([x] * len(mine), [cell[key] for cell in mine], "k.", markersize=3)
            axes[row, column].set(title=part if row == 0 else "", ylabel=label)
            axes[row, column].set_xticks(range(len(groups)), list(groups), rotation=20, fontsize=7)
    return figure


def save(figure, file):
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)
    return str(file)


def main(target):
    if target.is_file():
        return [save(lanes([(target.name, read(target))]), target.with_suffix(".png"))]
    cells = read(target / "cells.jsonl")
    written = []
    for part in sorted({cell["part"] for cell in cells}):
        traced = [cell for cell in cells if cell["part"] == part and cell["trace"] and Path(cell["trace"]).is_file()]
        if traced:
            written.append(save(lanes([(cell["contestant"], read(cell["trace"])) for cell in traced]), target / f"lanes-{part}.png"))
    for name, figure in (("accuracy", accuracy([cell for cell in cells if cell["part"] == "lenet"])), ("waiting", waiting(cells) if cells else None)):
        if figure is not None:
            written.append(save(figure, target / f"{name}.png"))
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(json.dumps(main(Path(sys.argv[1]))))
