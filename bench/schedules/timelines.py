#!/usr/bin/env python3
"""Draws what a worker computes and what passes through its links, for two traces of one job, one below the other on one scale.

    bench/schedules/timelines.py default:runs/default.json p3:runs/p3.json docs/explanation/timelines.svg

The traces are those of docs/tutorials/slow-network.md (`paceline train --trace`). Shown: worker 0, from the start of an iteration on.
"""

import argparse
import json
from pathlib import Path

LEFT, WIDTH, ROW = 110, 630, 26  # of the picture
COLOURS = {"forward": "#8fbbe3", "backward": "#eeb48a", "on its way": "#6f8f3f"}


def union(spans, gap=500):
    """Spans put together where less than `gap` microseconds lie between them."""
    whole = []
    for begin, end in sorted(spans):
        if whole and begin - whole[-1][1] < gap:
            whole[-1][1] = max(whole[-1][1], end)
        else:
            whole.append([begin, end])
    return whole


def read(file):
    """What is shown -> spans in microseconds; and when each iteration's forward pass began."""
    events = json.loads(Path(file).read_text())["traceEvents"]
    spans = {name: [] for name in COLOURS}
    begun, starts = {}, {}
    for event in events:
        name, at = event["name"], event.get("ts")
        what = event.get("cat")
        if event["ph"] == "X" and event["pid"] == 1 and what in ("forward", "backward"):
            spans[what].append((at, at + event["dur"]))
            if what == "forward":
                iteration = event["args"]["iteration"]
                starts[iteration] = min(starts.get(iteration, at), at)
        elif name in ("wire", "return wire"):
            key = (event["pid"], event["id"], name)
            if event["ph"] == "b":
                begun[key] = at
            elif key in begun:
                spans["on its way"].append((begun.pop(key), at))
    return {name: union(found) for name, found in spans.items()}, starts


def lane(spans, colour, y, origin, length):
    boxes = []
    for begin, end in spans:
        begin, end = max(begin - origin, 0), min(end - origin, length)
        if end > begin:
            x, width = LEFT + WIDTH * begin / length, WIDTH * (end - begin) / length
            boxes.append(f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.4):.1f}" height="{ROW - 6}" fill="{colour}"/>')
    return "".join(boxes)


def picture(named, first, length):
    height = 70 + len(named) * (2 * ROW + 34)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="13" role="img" '
        'aria-label="What a worker computes and what passes through its links, over time, for each schedule">',
        f'<rect width="760" height="{height}" fill="#fff"/>',
    ]
    for i, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + 110 * i
        drawn.append(f'<rect x="{x}" y="14" width="14" height="12" fill="{colour}"/><text x="{x + 20}" y="25">{name}</text>')
    y = 44
    for name, file in named:
        spans, starts = read(file)
        origin = starts[first]
        drawn.append(f'<text x="14" y="{y + 14}" font-weight="bold">{name}</text>')
        y += 20
        drawn.append(f'<text x="14" y="{y + 15}">computing</text><text x="14" y="{y + ROW + 15}">on its way</text>')
        drawn += [lane(spans[what], COLOURS[what], y, origin, length) for what in ("forward", "backward")]
        drawn.append(lane(spans["on its way"], COLOURS["on its way"], y + ROW, origin, length))
        for iteration, start in sorted(starts.items()):
            if 0 <= start - origin < length:
                x = LEFT + WIDTH * (start - origin) / length
                drawn.append(f'<line x1="{x:.1f}" y1="{y - 4}" x2="{x:.1f}" y2="{y + 2 * ROW}" stroke="#53606c" stroke-dasharray="3 3"/>')
        y += 2 * ROW + 14
    for tick in range(0, int(length / 1000) + 1, 200):
        x = LEFT + WIDTH * tick * 1000 / length
        anchor = "middle" if x < 730 else "end"  # the last one would be cut
        drawn.append(f'<text x="{x:.1f}" y="{y + 8}" text-anchor="{anchor}" fill="#53606c" font-size="12">{tick} ms</text>')
    return "\n".join([*drawn, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", help="NAME:FILE")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--iteration", type=int, default=4, help="the first one shown")
    parser.add_argument("--milliseconds", type=float, default=1100)
    options = parser.parse_args()
    named = [trace.split(":", 1) for trace in options.traces]
    options.picture.write_text(picture(named, options.iteration, options.milliseconds * 1000))


if __name__ == "__main__":
    main()
