"""The page of all figures: index.html, a picture each, and figures.json."""

import html
import json
from collections import Counter
from pathlib import Path

from catalogue import VERDICTS, Figure, Reading

STYLE = """body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0}td,th{border-bottom:1px solid #ccc;padding:.2em .8em .2em 0;text-align:left}
img{max-width:100%}code{background:#f3f3f3;font-size:85%}.reproduced,.better{color:#176d2c}.differs{color:#a33a00}.not{color:#666}"""


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


def section(one: dict) -> str:
    say = html.escape
    kind = one["verdict"].split()[0]
    text = [f"<h3 id='{one['figure']}'>{say(one['title'])}</h3>", f"<p><b class='{kind}'>{say(one['verdict'])}</b>, {say(one['how'] or 'not run')}. {say(one['sentence'])}.</p>"]
    if one["picture"]:
        text.append(f"<img src='{one['picture']}' alt='{say(one['title'])}'>")
    if one["rows"]:
        rows = "".join(f"<tr><td>{say(row['what'])}</td><td>{say(row['paper'])}</td><td>{say(row['ours'])}</td></tr>" for row in one["rows"])
        text.append(f"<table><tr><th></th><th>paper</th><th>here</th></tr>{rows}</table>")
    if one["commands"]:
        text.append("<details><summary>commands</summary>" + "".join(f"<p><code>{say(command)}</code></p>" for command in one["commands"]) + "</details>")
    return "\n".join(text)


def write(folder: Path, readings: list[tuple[Figure, Reading]], store) -> list[dict]:
    figures = [entry(folder, figure, reading, store) for figure, reading in readings]
    (folder / "figures.json").write_text(json.dumps(figures, indent=1))
    counts = Counter(one["verdict"] for one in figures)
    origin = f"{store.release}; {'; '.join(store.machines()) or 'no cell was run'}{'; quick: numbers mean little' if store.quick else ''}"
    body = [f"<h1>Five papers, redone</h1><p>{html.escape(origin)}. {said(counts)}.</p>"]
    for paper in dict.fromkeys(one["paper"] for one in figures):
        body += [f"<h2>{html.escape(paper)}</h2>", *(section(one) for one in figures if one["paper"] == paper)]
    (folder / "index.html").write_text(f"<!doctype html><meta charset='utf-8'><title>Five papers, redone</title><style>{STYLE}</style>" + "\n".join(body))
    return figures


def said(counts: Counter) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def summary(figures: list[dict], folder: Path) -> str:
    lines = [f"{one['figure']:<18} {one['verdict']:<18} {one['sentence']}" for one in figures]
    return "\n".join([*lines, "", f"{said(Counter(one['verdict'] for one in figures))}; {folder}/index.html"])
