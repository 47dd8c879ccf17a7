#!/usr/bin/env python3
"""Draws the pictures of docs that are calculated, or that show a job's pace.

    scripts/draw_explanations.py                                  writes gain.svg, collectives.svg and planner.svg, which follow from numbers and formulas
    scripts/draw_explanations.py bsp:runs/bsp.pace asp:runs/asp.pace    writes synchronisation.svg too, a part for each NAME:FILE of --pace

schedules.svg and timelines.svg are drawn from traces, by `paceline timeline`.
"""

import json
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIDTH = 480  # so that letters of 14 can be read on a telephone's screen
STYLE = """.paper { fill: #fff } text { fill: #1c2730 } .title { font-weight: bold } .note { fill: #53606c; font-size: 13px } line { stroke: #c3ccd4 }
.blue { fill: #8fbbe3 } .strong { fill: #1f6fb2 } .orange { fill: #eeb48a } .ddp { fill: #c3ccd4 } .edge { stroke: #fff; stroke-width: 0.5 } .met { stroke: #c03030; stroke-width: 1.5 }
polyline { fill: none; stroke-width: 2.5 } polyline.grey { stroke: #53606c } polyline.green { stroke: #6f8f3f } polyline.blue { fill: none; stroke: #4d8fc9 } polyline.orange { fill: none; stroke: #d08a55 }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } text { fill: #e6edf3 } .note { fill: #9aa7b4 } line { stroke: #3d4650 } .edge { stroke: #0d1117 } .met { stroke: #ff7b72 }
.blue { fill: #5b93c4 } .strong { fill: #58a6ff } .orange { fill: #d08a55 } .ddp { fill: #59636e } polyline.grey { stroke: #9aa7b4 } polyline.green { stroke: #8bb04f }
}"""


def svg(height, label, drawn):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="560" font-family="sans-serif" font-size="14" role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>\n{STYLE}\n</style>", f'<rect class="paper" width="{WIDTH}" height="{height}"/>', *drawn, "</svg>", ""])


def box(x, y, width, height, kind):
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def words(x, y, text, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{text}</text>'


NOTE, MIDDLE, END = ' class="note"', ' class="note" text-anchor="middle"', ' class="note" text-anchor="end"'

# Seconds of an iteration between four hosts, DistributedDataParallel's and ours, as the pages of results have them (tests/python/test_readme.py).
REPLAYS, SCRIPTS = "docs/results/2026-11-schedules.md", "docs/results/2026-11-front.md"
GAINS = (
    ("ResNet-50, 4 Gb/s", "0.427", "0.327", REPLAYS),
    ("VGG-19, 10 Gb/s", "0.943", "0.727", REPLAYS),
    ("Inception-v3, 2 Gb/s", "0.753", "0.611", REPLAYS),
    ("GPT in PyTorch, 1 Gb/s", "0.691", "0.525", SCRIPTS),
    ("VGG-19, 1 Gb/s", "7.437", "7.349", REPLAYS),
)


def gain():
    left, width, row, y = 8, 330, 54, 50
    drawn = [words(left, 20, "Time of a training iteration between four hosts", ' class="title"')]
    drawn += [box(left, 32, 14, 12, "ddp"), words(left + 20, 43, "DistributedDataParallel"), box(left + 200, 32, 14, 12, "strong"), words(left + 220, 43, "Paceline")]
    for name, ddp, ours, _ in GAINS:
        share = float(ours) / float(ddp)
        drawn.append(words(left, y + 14, name))
        drawn.append(box(left, y + 20, width, 13, "ddp") + words(left + width + 8, y + 31, f"{ddp} s", NOTE))
        drawn.append(box(left, y + 35, width * share, 13, "strong") + words(left + width + 8, y + 47, f"{ours} s, {100 * share:.0f} %"))
        y += row
    return svg(y + 6, "Seconds of a training iteration with DistributedDataParallel (gloo) and with Paceline, for five networks and links", drawn)


def pipeline(ranks, blocks):
    """What each rank receives in a broadcast along the chain: (rank, begin, end), in units of the time of the whole message."""
    return [(rank, (rank - 1 + block) / blocks, (rank + block) / blocks) for rank in range(1, ranks) for block in range(blocks)]


def tree(ranks):
    """The same in a binomial tree: in each round who has the message sends it whole."""
    received, have = [], 1
    while have < ranks:
        rounds = have.bit_length() - 1
        received += [(rank, rounds, rounds + 1) for rank in range(have, min(2 * have, ranks))]
        have *= 2
    return received


def collectives(ranks=8, blocks=8):
    left, unit, row = 66, 134, 17
    drawn, y = [], 26
    for title, received in ((f"a chain, in {blocks} blocks", pipeline(ranks, blocks)), ("a tree, the message whole", tree(ranks))):
        last = max(end for _, _, end in received)
        drawn.append(words(8, y, f"{title}: {last:g} times sending it once", ' class="title"'))
        drawn += [words(8, y + 22 + rank * row, f"rank {rank}", NOTE) for rank in range(ranks)]
        drawn += [box(left + begin * unit, y + 11 + rank * row, (end - begin) * unit, row - 4, f"edge {'blue' if rank % 2 else 'orange'}") for rank, begin, end in received]
        y += 10 + ranks * row + 34
    drawn += [words(left + time * unit, y - 20, f"{time}", MIDDLE) for time in range(4)]
    return svg(y - 8, "When each of eight ranks receives a broadcast message, along a chain in blocks and down a tree", drawn)


def speed_up(workers, overhead):
    """Lemma 3.1 of the HTC guidelines."""
    return workers * (1 + overhead) / (1 + workers * overhead)


def planner(most=16):
    left, top, width, height = 36, 20, 270, 260
    drawn = []
    for tick in (1, 4, 8, 12, 16):
        x, y = left + width * tick / most, top + height - height * tick / most
        drawn.append(words(x, top + height + 18, str(tick), MIDDLE))
        drawn.append(words(left - 8, y + 4, str(tick), END))
        drawn.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}"/>')
    for overhead, colour in ((0, "grey"), (0.02, "green"), (0.1, "blue"), (0.3, "orange")):
        points = " ".join(f"{left + width * n / most:.1f},{top + height - height * speed_up(n, overhead) / most:.1f}" for n in range(1, most + 1))
        last = speed_up(most, overhead)
        drawn.append(f'<polyline class="{colour}" points="{points}"/>')
        drawn.append(words(left + width + 8, top + height - height * last / most + 4, f"overhead {100 * overhead:g} %: {last:.1f}x"))
    drawn.append(words(left + width / 2, top + height + 36, "workers", MIDDLE))
    return svg(top + height + 48, "Speed-up against the number of workers for four overheads", drawn)


def lanes(named, seconds):
    """A lane for each worker, a bar for each iteration, lines where all have met. named: (name, workers, [(rank, begin, end, odd)], [when all have met]), times from 0 on."""
    left, width, row = 74, 398, 17
    drawn, y = [], 20
    for name, workers, iterations, met in named:
        drawn.append(words(8, y, name, ' class="title"'))
        y += 20
        drawn += [words(8, y + 4 + rank * row, f"worker {rank}", NOTE) for rank in range(workers)]
        drawn += [box(left + width * first / seconds, y - 7 + rank * row, width * (last - first) / seconds, row - 4, f"edge {'blue' if odd else 'strong'}") for rank, first, last, odd in iterations]
        drawn += [f'<line class="met" x1="{left + width * at / seconds:.1f}" y1="{y - 9}" x2="{left + width * at / seconds:.1f}" y2="{y - 7 + workers * row}"/>' for at in met]
        y += workers * row + 14
    drawn += [words(left + width * tick / seconds, y, f"{tick} s", END if tick == 4 else MIDDLE) for tick in range(5)]
    return svg(y + 10, "When four workers of unequal speed compute and when they wait, under four models of synchronisation", drawn)


def synchronisation(named, seconds=4.0):
    """Shortly before the end of each job."""
    parts = []
    for name, file in named:
        events = [json.loads(line) for line in Path(file).read_text().splitlines()]
        iterations = [event for event in events if "rank" in event]
        begin = max(event["ended"] for event in iterations) - 1.4 * seconds  # at its end no mini-batch is left for the fast ones
        shown = [(event["rank"], max(event["began"] - begin, 0), min(event["ended"] - begin, seconds), event["iteration"] % 2) for event in iterations]
        met = [event["began"] + max(event["arrived"]) - begin for event in events if "superstep" in event]
        parts.append((name, 1 + max(event["rank"] for event in iterations), [one for one in shown if one[2] > one[1]], [at for at in met if 0 < at < seconds]))
    return lanes(parts, seconds)


def main():
    pictures = {"gain.svg": gain(), "explanation/collectives.svg": collectives(), "explanation/planner.svg": planner()}
    if sys.argv[1:]:
        pictures["explanation/synchronisation.svg"] = synchronisation([word.split(":", 1) for word in sys.argv[1:]])
    for name, text in pictures.items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    if any(":" not in word for word in sys.argv[1:]):
        sys.exit(__doc__)
    main()
