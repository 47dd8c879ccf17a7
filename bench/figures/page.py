"""The page of all figures: index.html, a picture each, and figures.json."""

import html
import json
from collections import Counter
from pathlib import Path

from catalogue import VERDICTS, Figure, Reading

STYLE = """:root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#ccc;--code:#f3f3f3;--good:#176d2c;--bad:#a33a00;--none:#666;--link:#0b57d0}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--line:#3d4650;--code:#1c232c;--good:#56d364;--bad:#ffa657;--none:#9aa7b4;--link:#79b8ff}}
body{font:16px/1.5 sans-serif;max-width:60em;margin:0 auto;padding:1em;color:var(--ink);background:var(--paper)}a{color:var(--link)}
table{border-collapse:collapse;margin:.6em 0}td,th{border-bottom:1px solid var(--line);padding:.2em .8em .2em 0;text-align:left;vertical-align:top}.wide{overflow-x:auto}
img{display:block;width:100%;min-width:40em;background:#fff}code{background:var(--code);font-size:85%;overflow-wrap:anywhere}
.reproduced,.better{color:var(--good)}.differs{color:var(--bad)}.not{color:var(--none)}"""


def check() -> None:
    import matplotlib

    matplotlib.use("Agg")


def picture(folder: Path, figure: Figure, reading: Reading) -> str:
    """The file's name; "": it has none."""
    if reading.draw is None:
        return ""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(11, 3.4), layout="constrained")
    reading.draw(canvas)
    name = f"{figure.id}.png"
    canvas.savefig(folder / name, dpi=110)
    return name


SOURCE = {"measured": "measured", "stepped": "simulated", "computed": "simulated"}


def entry(folder: Path, figure: Figure, reading: Reading, store) -> dict:
    """`paper_value` and `value`: of the first row that has both; all of them stand in `rows`."""
    _, paper_value, value = next((row for row in reading.rows if row[1]), (reading.rows or [("", "", "")])[0])
    again = [cell.again() for cell in figure.cells if cell.name in reading.again and not store.quick]
    commands = [" ".join(["paceline", *store.words(cell, f"runs/{cell.name}")]) for cell in (*figure.cells, *again)]  # for a reader's own folder
    return {
        "paper": figure.paper,
        "figure": figure.id,
        "title": figure.title,
        "source": SOURCE.get(figure.how),
        "how": figure.how,
        "paper_value": paper_value or None,
        "value": value or None,
        "verdict": reading.verdict,
        "sentence": reading.sentence,
        "command": f"paceline bench figures --only {figure.id}{' --quick' if store.quick else ''}",
        "commands": commands,
        "rows": [{"what": what, "paper": paper, "ours": ours} for what, paper, ours in reading.rows],
        "picture": picture(folder, figure, reading),
        "release": store.release,
        "quick": store.quick,
    }


def verdict(one: dict) -> str:
    return f"<b class='{one['verdict'].split()[0]}'>{html.escape(one['verdict'])}</b>"


def overview(figures: list[dict]) -> str:
    """A row for each figure; of its numbers those of the first row that has the paper's."""
    say = html.escape
    rows, paper = [], ""
    for one in figures:
        if one["paper"] != paper:
            paper = one["paper"]
            rows.append(f"<tr><th colspan='4'>{say(paper)}</th></tr>")
        both = (one["paper_value"], one["value"]) if one["paper_value"] else ("–", "–")
        rows.append(f"<tr><td>{verdict(one)}</td><td><a href='#{one['figure']}'>{say(one['title'])}</a></td><td>{say(both[0])}</td><td>{say(both[1])}</td></tr>")
    return f"<div class='wide'><table><tr><th>verdict</th><th>figure or table</th><th>the paper's</th><th>ours</th></tr>{''.join(rows)}</table></div>"


def section(one: dict) -> str:
    say = html.escape
    text = [f"<h3 id='{one['figure']}'>{say(one['title'])}</h3>", f"<p>{verdict(one)}, {say(one['how'] or 'not run')}. {say(one['sentence'])}.</p>"]
    if one["picture"]:
        text.append(f"<div class='wide'><img src='{one['picture']}' alt='{say(one['title'])}' loading='lazy'></div>")
    if one["rows"]:
        rows = "".join(f"<tr><td>{say(row['what'])}</td><td>{say(row['paper'])}</td><td>{say(row['ours'])}</td></tr>" for row in one["rows"])
        text.append(f"<div class='wide'><table><tr><th></th><th>paper</th><th>here</th></tr>{rows}</table></div>")
    if one["commands"]:
        text.append("<details><summary>commands</summary>" + "".join(f"<p><code>{say(command)}</code></p>" for command in one["commands"]) + "</details>")
    text.append("<p><a href='#'>all verdicts</a></p>")
    return "\n".join(text)


HEAD = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'><title>Five papers, redone</title>"
BACK = "2026-11-papers"  # the page that leads here, where this one stands in docs/results


def write(folder: Path, readings: list[tuple[Figure, Reading]], store) -> list[dict]:
    figures = [entry(folder, figure, reading, store) for figure, reading in readings]
    (folder / "figures.json").write_text(json.dumps(figures, indent=1))
    counts = Counter(one["verdict"] for one in figures)
    quick = " A quick run: its numbers mean little." if store.quick else ""
    body = [f"<p><a href='../{BACK}.html'>What the papers claim, and why ours differs</a> · <a href='../../index.html'>Paceline</a></p>"] if (folder.parent / f"{BACK}.md").exists() else []
    body += [f"<h1>Five papers, redone</h1><p>{said(counts)}.{quick} Of a figure's numbers the first that the paper prints too; rings in pictures are the paper's.</p>", overview(figures)]
    for paper in dict.fromkeys(one["paper"] for one in figures):
        body += [f"<h2>{html.escape(paper)}</h2>", *(section(one) for one in figures if one["paper"] == paper)]
    body.append(f"<h2>Where it ran</h2><p>{html.escape('; '.join((store.release, *(store.machines() or ['no cell was run']))))}.</p>")
    (folder / "index.html").write_text(f"{HEAD}<style>{STYLE}</style>" + "\n".join(body))
    return figures


def said(counts: Counter) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def summary(figures: list[dict], folder: Path) -> str:
    lines = [f"{one['figure']:<18} {one['verdict']:<18} {one['sentence']}" for one in figures]
    return "\n".join([*lines, "", f"{said(Counter(one['verdict'] for one in figures))}; {folder}/index.html"])
