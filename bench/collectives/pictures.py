"""Pictures of what `paceline bench collectives` measured: bench/collectives/pictures.py CELLS.jsonl FOLDER

Writes, as far as the cells give them: sizes.png (time against message size, a panel per operation, at the number of hosts with the most
sizes; Linear Pipeline's Figure 3), hosts.png (time against the number of hosts for the largest message that was run with the most numbers
of hosts; its Figure 4). Prints the names of the files as one JSON array.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

OPERATIONS = ["broadcast", "reduce", "allreduce", "reduce-scatter", "allgather"]


def name_of(cell):
    blocks = f", blocks of {cell['block_bytes'] / 1e3:g} KB" if "block_bytes" in cell else ""
    return cell["contestant"] + blocks


def draw(cells, x_of, labels, path):
    """A panel per operation, a line per contestant; False when there is nothing to compare."""
    if len({x_of(cell) for cell in cells}) < 2:
        return False
    operations = [name for name in OPERATIONS if any(cell["operation"] == name for cell in cells)]
    figure, panels = plt.subplots(1, len(operations), figsize=(4.6 * len(operations), 3.8), squeeze=False)
    for axes, operation in zip(panels[0], operations):
        lines = defaultdict(dict)
        for cell in cells:
            if cell["operation"] == operation:
                lines[name_of(cell)][x_of(cell)] = cell
        bound = {}
        for name, points in lines.items():
            xs = sorted(points)
            axes.errorbar(xs, [points[x]["seconds"]["median"] for x in xs],
                          yerr=[[points[x]["seconds"]["median"] - points[x]["seconds"]["lowest"] for x in xs],
                                [points[x]["seconds"]["highest"] - points[x]["seconds"]["median"] for x in xs]],
                          marker=".", label=name, linewidth=2 if name == "paceline" else 1)  # fmt: skip
            bound.update({x: points[x]["bound_seconds"] for x in xs})
        axes.plot(sorted(bound), [bound[x] for x in sorted(bound)], color="black", linestyle=":", label="bound")
        axes.set_title(operation)
        axes.set_xlabel(labels["x"])
        axes.set_ylabel("seconds")
        axes.set_xscale(labels["scale"])
        axes.set_yscale(labels["scale"])
        axes.grid(True, alpha=0.3)
    panels[0][0].legend(fontsize=7)
    figure.suptitle(labels["title"])
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def main():
    cells = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    cells = [cell for cell in cells if cell["operation"] in OPERATIONS]
    folder = Path(sys.argv[2])
    written = []
    if not cells:
        print("[]")
        return
    numbers = sorted({cell["hosts"] for cell in cells})
    sizes = sorted({cell["bytes"] for cell in cells})
    hosts = max(numbers, key=lambda n: (len({cell["bytes"] for cell in cells if cell["hosts"] == n}), n == 4, n))
    size = max(sizes, key=lambda b: (len({cell["hosts"] for cell in cells if cell["bytes"] == b}), b == 64_000_000, b))
    rate = cells[0]["link_bytes_per_second"] * 8 / 1e9
    if draw([cell for cell in cells if cell["hosts"] == hosts], lambda cell: cell["bytes"],
            {"x": "bytes", "scale": "log", "title": f"{hosts} hosts at {rate:g} Gb/s"}, folder / "sizes.png"):  # fmt: skip
        written.append("sizes.png")
    if draw([cell for cell in cells if cell["bytes"] == size], lambda cell: cell["hosts"],
            {"x": "hosts", "scale": "linear", "title": f"{size / 1e6:g} MB at {rate:g} Gb/s"}, folder / "hosts.png"):  # fmt: skip
        written.append("hosts.png")
    print(json.dumps([str(folder / name) for name in written]))


main()
