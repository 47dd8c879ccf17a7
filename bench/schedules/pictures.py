"""Pictures of what `paceline bench schedules` measured: bench/schedules/pictures.py CELLS.jsonl FOLDER

Writes, as far as the cells give them: bandwidth.png (iteration time against bandwidth, a panel per model; P3's Figure 7), utilisation-*.png
(what passes through host 0's link over time; its Figures 8 and 9), hosts.png (throughput for several numbers of hosts; its Figure 10),
slices.png (throughput against the size of slices; its Figure 12) and overlap.png (exposed and hidden communication; iBatch's Figure 7).
Prints the names of the files as one JSON array.
"""

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BOUND = "lower bound"


def median_by(cells, key, value):
    groups = defaultdict(list)
    for cell in cells:
        groups[key(cell)].append(value(cell))
    return {name: statistics.median(values) for name, values in groups.items()}


def iteration(cell):
    return cell["iteration_seconds"]["median"]


def bound(cell):
    return cell["lower_bound"]["seconds"]


def gigabits(cell):
    return cell["stands_for_bits_per_second"] / 1e9


def contestants(cells):
    return sorted({cell["contestant"] for cell in cells})


def panels(count):
    figure, axes = plt.subplots(1, count, figsize=(4.2 * count, 3.6), squeeze=False)
    return figure, axes[0]


def line(axes, points, label, **style):
    points = sorted(points.items())
    axes.plot([x for x, _ in points], [y for _, y in points], marker=".", label=label, **style)


def bandwidth(cells):
    hosts = max({cell["hosts"] for cell in cells}, key=lambda n: len({gigabits(one) for one in cells if one["hosts"] == n}))
    cells = [cell for cell in cells if cell["hosts"] == hosts]
    if len({gigabits(cell) for cell in cells}) < 2:
        return None
    models = sorted({cell["model"] for cell in cells})
    figure, axes = panels(len(models))
    for one, model in zip(axes, models):
        mine = [cell for cell in cells if cell["model"] == model]
        for name in contestants(mine):
            line(one, median_by([cell for cell in mine if cell["contestant"] == name], gigabits, iteration), name)
        line(one, median_by(mine, gigabits, bound), BOUND, color="black", linestyle="--")
        one.set(title=f"{model}, {hosts} hosts", xlabel="link (Gb/s)", ylabel="iteration (s)", xscale="log", yscale="log")
    axes[0].legend(fontsize=7)
    return figure


def utilisation(cells):
    shown = [cell for cell in cells if len(cell.get("host_0", {}).get("seconds", [])) > 10]
    if not shown:
        return None
    figure, axes = plt.subplots(len(shown), 1, figsize=(8, 1.6 * len(shown)), squeeze=False, sharex=True)
    for one, cell in zip(axes[:, 0], shown):
        seconds = cell["host_0"]["seconds"]
        widths = [b - a for a, b in zip(seconds, seconds[1:])]
        for way in ("sent", "received"):
            rates = [8 * count / width / 1e6 for count, width in zip(cell["host_0"][way][1:], widths)]
            one.plot([at - seconds[0] for at in seconds[1:]], rates, linewidth=0.8, label=way)
        one.axhline(8e-6 * cell["link_bytes_per_second"], color="grey", linewidth=0.5)
        one.set(ylabel="Mb/s", title=f"{cell['contestant']}: {iteration(cell):.3f} s, {cell['of_lower_bound']:.2f} of the bound")
    axes[0, 0].legend(fontsize=7)
    axes[-1, 0].set_xlabel("s")
    return figure


def by_hosts(cells):
    if len({cell["hosts"] for cell in cells}) < 2:
        return None
    several = [cell for cell in cells if len({one["hosts"] for one in cells if (one["model"], gigabits(one)) == (cell["model"], gigabits(cell))}) > 1]
    titles = sorted({(cell["model"], gigabits(cell)) for cell in several})
    figure, axes = panels(len(titles))
    for one, title in zip(axes, titles):
        mine = [cell for cell in several if (cell["model"], gigabits(cell)) == title]
        for name in contestants(mine):
            line(one, median_by([cell for cell in mine if cell["contestant"] == name], lambda cell: cell["hosts"], lambda cell: cell["hosts"] / iteration(cell)), name)
        line(one, median_by(mine, lambda cell: cell["hosts"], lambda cell: cell["hosts"] / bound(cell)), BOUND, color="black", linestyle="--")
        one.set(title=f"{title[0]}, {title[1]:g} Gb/s", xlabel="hosts", ylabel="mini-batches per second")
    axes[0].legend(fontsize=7)
    return figure


def slices(cells):
    sliced = [cell for cell in cells if "--slice" in cell["contestant"]]
    if not sliced:
        return None
    titles = sorted({(cell["model"], gigabits(cell)) for cell in sliced})
    figure, axes = panels(len(titles))
    for one, title in zip(axes, titles):
        mine = [cell for cell in sliced if (cell["model"], gigabits(cell)) == title]
        line(one, median_by(mine, lambda cell: float(re.search(r"--slice (\d+)", cell["contestant"]).group(1)), lambda cell: cell["hosts"] / iteration(cell)), "p3")
        one.set(title=f"{title[0]}, {title[1]:g} Gb/s", xlabel="parameters in a slice", ylabel="mini-batches per second", xscale="log")
    return figure


def overlap(cells):
    timed = [cell for cell in cells if (cell.get("report") or {}).get("phases")]
    if not timed:
        return None
    titles = sorted({(cell["model"], gigabits(cell)) for cell in timed})
    figure, axes = plt.subplots(len(titles), 1, figsize=(7, 2.2 * len(titles)), squeeze=False)
    for one, title in zip(axes[:, 0], titles):
        mine = [cell for cell in timed if (cell["model"], gigabits(cell)) == title]
        names = contestants(mine)
        left = [0.0] * len(names)
        for label, value in (
            ("computing", lambda c: sum(c["report"]["phases"][name] for name in ("forward", "backward"))),
            ("exposed communication", lambda c: sum(c["report"]["phases"][name] for name in ("push", "pull", "update", "wait"))),
            ("hidden communication", lambda c: sum(c["report"]["overlapped"].values())),
        ):
            values = median_by(mine, lambda cell: cell["contestant"], value)
            hidden = {"alpha": 0.35, "hatch": "//"} if label.startswith("hidden") else {}
            one.barh(names, [values[name] for name in names], left=left, label=label, **hidden)
            left = [a + values[name] for a, name in zip(left, names)]
        one.set(title=f"{title[0]}, {title[1]:g} Gb/s", xlabel="s per iteration (hidden: beside the computing)")
    axes[0, 0].legend(fontsize=7)
    return figure


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    cells = [json.loads(text) for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines() if text.endswith("}")]
    folder = Path(sys.argv[2])
    written = []

    def save(name, figure):
        if figure is None:
            return
        figure.tight_layout()
        figure.savefig(folder / name, dpi=130)
        plt.close(figure)
        written.append(str(folder / name))

    plain = [cell for cell in cells if "--slice" not in cell["contestant"]]
    if plain:
        save("bandwidth.png", bandwidth(plain))
        for model, rate, hosts in sorted({(cell["model"], gigabits(cell), cell["hosts"]) for cell in plain}):
            same = [cell for cell in plain if (cell["model"], gigabits(cell), cell["hosts"]) == (model, rate, hosts)]
            save(f"utilisation-{model}-{rate:g}gbit-{hosts}.png", utilisation(same))
        save("hosts.png", by_hosts(plain))
        save("overlap.png", overlap(plain))
    save("slices.png", slices(cells))
    print(json.dumps(written))


main()
