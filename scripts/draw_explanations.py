#!/usr/bin/env python3
"""Draws the pictures of docs/explanation that are calculated, or that show a job's pace.

    scripts/draw_explanations.py                                  writes collectives.svg and planner.svg, which follow from formulas
    scripts/draw_explanations.py bsp:runs/bsp.pace asp:runs/asp.pace    writes synchronisation.svg too, a part for each NAME:FILE of --pace

schedules.svg and timelines.svg are drawn from traces, by bench/schedules/timelines.py.
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs/explanation"
BLUE, ORANGE, GREEN, GREY, RED = "#8fbbe3", "#eeb48a", "#6f8f3f", "#53606c", "#c03030"


def svg(height, label, drawn):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="13" role="img" aria-label="{label}">'
    return "\n".join([head, f'<rect width="760" height="{height}" fill="#fff"/>', *drawn, "</svg>", ""])


def box(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" stroke="#fff" stroke-width="0.5"/>'


def words(x, y, text, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{text}</text>'


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
    left, unit, row = 70, 190, 14
    drawn, y = [], 34
    for title, received in ((f"along a chain, the message in {blocks} blocks", pipeline(ranks, blocks)), ("down a tree, the message whole", tree(ranks))):
        last = max(end for _, _, end in received)
        drawn.append(words(14, y, f"{title}: {last:g} times as long as sending it once", ' font-weight="bold"'))
        for rank in range(ranks):
            drawn.append(words(14, y + 20 + rank * row, f"rank {rank}", ' font-size="11"'))
        drawn += [box(left + begin * unit, y + 10 + rank * row, (end - begin) * unit, row - 3, BLUE if rank % 2 else ORANGE) for rank, begin, end in received]
        y += 10 + ranks * row + 34
    drawn += [words(left + time * unit, y - 12, f"{time}", f' text-anchor="middle" font-size="12" fill="{GREY}"') for time in range(4)]
    return svg(y, "When each of eight ranks receives a broadcast message, along a chain in blocks and down a tree", drawn)


def speed_up(workers, overhead):
    """Lemma 3.1 of the HTC guidelines."""
    return workers * (1 + overhead) / (1 + workers * overhead)


def planner(most=16):
    left, top, width, height = 60, 20, 480, 260
    drawn = []
    for tick in (1, 4, 8, 12, 16):
        x, y = left + width * tick / most, top + height - height * tick / most
        drawn.append(words(x, top + height + 18, str(tick), f' text-anchor="middle" font-size="12" fill="{GREY}"'))
        drawn.append(words(left - 8, y + 4, str(tick), f' text-anchor="end" font-size="12" fill="{GREY}"'))
        drawn.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#e3e8ec"/>')
    for overhead, colour in ((0, GREY), (0.02, GREEN), (0.1, BLUE), (0.3, ORANGE)):
        points = " ".join(f"{left + width * n / most:.1f},{top + height - height * speed_up(n, overhead) / most:.1f}" for n in range(1, most + 1))
        last = speed_up(most, overhead)
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        drawn.append(words(left + width + 10, top + height - height * last / most + 4, f"overhead {100 * overhead:g} %: {last:.1f} times"))
    drawn.append(words(left + width / 2, top + height + 36, "workers", ' text-anchor="middle"'))
    return svg(top + height + 48, "Speed-up against the number of workers for four overheads", drawn)


def synchronisation(named, seconds=4.0):
    """A lane for each worker, a bar for each iteration, lines where all have met; shortly before the end of each job."""
    left, width, row = 130, 600, 15
    drawn, y = [], 30
    for name, file in named:
        events = [json.loads(line) for line in Path(file).read_text().splitlines()]
        iterations = [event for event in events if "rank" in event]
        workers = 1 + max(event["rank"] for event in iterations)
        begin = max(event["ended"] for event in iterations) - 1.4 * seconds  # at its end no mini-batch is left for the fast ones
        drawn.append(words(4, y, name, ' font-weight="bold" font-size="11"'))
        for rank in range(workers):
            drawn.append(words(left - 8, y + 4 + rank * row, f"worker {rank}", ' text-anchor="end" font-size="11"'))
        for event in iterations:
            first, last = max(event["began"] - begin, 0), min(event["ended"] - begin, seconds)
            if last > first:
                colour = BLUE if event["iteration"] % 2 else "#5b93c4"
                drawn.append(box(left + width * first / seconds, y - 7 + event["rank"] * row, width * (last - first) / seconds, row - 3, colour))
        barriers = [event["began"] + max(event["arrived"]) - begin for event in events if "superstep" in event]
        drawn += [
            f'<line x1="{left + width * at / seconds:.1f}" y1="{y - 9}" x2="{left + width * at / seconds:.1f}" y2="{y - 7 + workers * row}" stroke="{RED}" stroke-width="1.5"/>'
            for at in barriers if 0 < at < seconds
        ]  # fmt: skip
        y += workers * row + 24
    drawn += [words(left + width * tick / seconds, y - 10, f"{tick} s", f' text-anchor="middle" font-size="12" fill="{GREY}"') for tick in range(5)]
    return svg(y, "When four workers of unequal speed compute and when they wait, under four models of synchronisation", drawn)


def main():
    pictures = {"collectives.svg": collectives(), "planner.svg": planner()}
    if sys.argv[1:]:
        pictures["synchronisation.svg"] = synchronisation([word.split(":", 1) for word in sys.argv[1:]])
    for name, text in pictures.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    if any(":" not in word for word in sys.argv[1:]):
        sys.exit(__doc__)
    main()
