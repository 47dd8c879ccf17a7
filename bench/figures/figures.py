"""Draws the papers' figures and tables from our own runs (`paceline bench figures`).

    figures.py --program build/release/bin/paceline --output runs/figures [--paper NAME] [--only ID,...] [--quick] [--list]

A cell is one command of the program that prints JSON. Finished cells are kept in OUTPUT/cells and not run again; a cell that fails is no
point of any figure. Writes OUTPUT/index.html, a picture for each figure that has one, and OUTPUT/figures.json.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import elastic_bsp
import htc
import ibatch
import ibatch_live
import linear_pipeline
import p3
import page
from catalogue import BETTER, DIFFERS, NOT_HERE, REPRODUCED, Cell, Figure, Reading

FIGURES: list[Figure] = [*ibatch.FIGURES, *ibatch_live.FIGURES, *p3.FIGURES, *htc.FIGURES, *linear_pipeline.FIGURES, *elastic_bsp.FIGURES]
PAPERS = list(dict.fromkeys(figure.paper for figure in FIGURES))


def fail(sentence: str) -> None:
    print(f"paceline: error: {sentence} [paceline help PL-BAD-REQUEST]", file=sys.stderr)
    sys.exit(2)


def chosen(paper: str | None, only: str | None) -> list[Figure]:
    names = only.split(",") if only is not None else []
    for name in names:
        if name not in {figure.id for figure in FIGURES}:
            fail(f"--only knows no '{name}'; legal: {', '.join(figure.id for figure in FIGURES)}")
    if paper is not None and paper not in PAPERS:
        fail(f"--paper knows no '{paper}'; legal: {', '.join(PAPERS)}")
    found = [figure for figure in FIGURES if (not names or figure.id in names) and (not paper or figure.paper == paper)]
    if not found:
        fail(f"--only {only} is of no figure of --paper {paper}; leave one of them out")
    return found


def whole(answer):
    """With the runs of a benchmark's ledger in place of the file's name, but for their jobs' reports: a cell stands for itself."""
    if isinstance(answer, dict) and isinstance(answer.get("cells"), str):
        lines = Path(answer["cells"]).read_text().splitlines()
        answer["cells"] = [{key: value for key, value in json.loads(line).items() if key != "report"} for line in lines]
    return answer


class Cells:
    """The finished cells of a folder; all are of one release and of one length."""

    def __init__(self, folder: Path, program: str, quick: bool) -> None:
        self.folder, self.program, self.quick = folder, program, quick
        self.doctor = json.loads(subprocess.run([program, "doctor", "--json"], capture_output=True, text=True).stdout or "{}")
        self.release = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        mark = folder / "release.json"
        own = {"release": self.release, "quick": quick}
        try:
            found = json.loads(mark.read_text()) if mark.exists() else own
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.keys() != own.keys():
            fail(f"--output {folder}: {mark.name} does not say which release's cells these are; give another folder")
        if found != own:
            fail(f"--output {folder} holds cells of {found['release']}{' --quick' if found['quick'] else ''}, and this is {self.release}{' --quick' if quick else ''}; give another folder")
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps(own))

    def file(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.name}.json"

    def command(self, cell: Cell) -> list[str]:
        return [self.program, *self.words(cell, str(self.folder / "work" / cell.name))]

    def words(self, cell: Cell, work: str) -> list[str]:
        return [*(word.replace("{work}", work) for word in cell.command(self.quick)), "--json"]

    def answer(self, cell: Cell):
        return json.loads(self.file(cell).read_text())["answer"] if self.file(cell).exists() else None

    def machine(self) -> str:
        found = self.doctor.get("machine", {})
        return f"{found.get('cores', '?')} cores of {found.get('processor', 'an unknown processor')}, {found.get('memory_bytes', 0) / 1e9:.0f} GB, {found.get('system', 'unknown system')}"

    def machines(self) -> list[str]:
        """Those that the cells were run on."""
        return sorted({json.loads(file.read_text()).get("machine", "a machine without a name") for file in (self.folder / "cells").glob("*.json")})

    def run(self, cell: Cell) -> str:
        """"": it is finished; else why not."""
        (self.folder / "work").mkdir(exist_ok=True)
        began = time.monotonic()
        done = run_command(self.command(cell))
        if done.returncode != 0:
            if done.returncode in (130, -signal.SIGINT):
                sys.exit(130)
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            return re.sub(r" \[paceline help [A-Z-]+\]$", "", last.removeprefix("paceline: error: "))
        kept = {"command": cell.command(self.quick), "machine": self.machine(), "seconds": time.monotonic() - began, "answer": whole(json.loads(done.stdout))}
        new = self.file(cell).with_suffix(".new")
        new.write_text(json.dumps(kept).replace(str((self.folder / "work" / cell.name).absolute()), "{work}"))
        os.replace(new, self.file(cell))
        return ""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which nobody sends to the running cell too, as a terminal does with Ctrl-C."""


def on_terminate(*_):
    raise Terminated


def run_command(words: list[str]) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate()
        except BaseException as reason:
            if isinstance(reason, Terminated):
                process.terminate()
            else:
                process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def lacking(store: Cells) -> dict[str, str]:
    """What this machine does not have, by the name of the need, and why not."""
    missing = {}
    lab = store.doctor.get("lab", {})
    if not (lab.get("namespaces") and lab.get("ip") and lab.get("tc")):
        missing["lab"] = f"no hosts can be made on this machine ({lab.get('reason', 'paceline doctor says why')})"
    if not shutil.which(str(Path(store.program).with_name("paceline-trainer"))):
        missing["trainer"] = "this build has no trainer (LibTorch)"
    return missing


def run_cells(cells: list[Cell], store: Cells, missing: dict[str, str]) -> dict[str, str]:
    """Why cells are not there, by name."""
    reasons: dict[str, str] = {}
    left = [cell for cell in cells if store.answer(cell) is None]
    began, spent = time.monotonic(), 0.0
    for number, cell in enumerate(left, 1):
        absent = [missing[need] for need in cell.needs if need in missing]
        total = sum(one.seconds for one in left)
        pace = (time.monotonic() - began + total / 10) / (spent + total / 10)  # a few short cells say little about the long ones
        print(f"[{number}/{len(left)}] {cell.name}, about {max(1, round((total - spent) * pace / 60))} min left", file=sys.stderr, flush=True)
        reason = absent[0] if absent else store.run(cell)
        if reason:
            reasons[cell.name] = reason
            print(f"  not there: {reason}", file=sys.stderr, flush=True)
        spent += cell.seconds
    return reasons


def read(figure: Figure, store: Cells, reasons: dict[str, str]) -> Reading:
    without = [cell.name for cell in figure.cells if store.answer(cell) is None]
    if without:
        return Reading(NOT_HERE, f"{without[0]}: {reasons.get(without[0], 'has not been run')}")
    return figure.read({cell.name: store.answer(cell) for cell in figure.cells})


def read_twice(figure: Figure, first: Reading, store: Cells, reasons: dict[str, str]) -> Reading:
    """The worse of two verdicts, the second with other runs of the cells in `first.again`; both stand in the sentence."""
    cells = {cell.name: cell.again() if cell.name in first.again else cell for cell in figure.cells}
    without = [cell.name for cell in cells.values() if store.answer(cell) is None]
    if without:
        return replace(first, sentence=f"{first.sentence}. It is within three spreads of its limit, and its second run is missing ({reasons.get(without[0], 'not run')})")
    second = figure.read({name: store.answer(cell) for name, cell in cells.items()})
    # A row may be of one run alone, such as a time to what the other did not reach.
    others = {what: value for what, _, value in second.rows}
    rows = [(what, paper, value if others.get(what) == value else f"{value}; again {others.get(what, 'none')}") for what, paper, value in first.rows]
    rows += [(what, paper, f"none; again {value}") for what, paper, value in second.rows if what not in {row[0] for row in first.rows}]
    verdict = max(first.verdict, second.verdict, key=[BETTER, REPRODUCED, DIFFERS].index)
    return replace(first, verdict=verdict, rows=rows, sentence=f"{first.sentence}. Run twice, as it is within three spreads of its limit: {first.verdict}, then {second.verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="paceline bench figures", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--paper", help="of one paper: " + ", ".join(PAPERS))
    parser.add_argument("--only", metavar="ID,...", help="these figures; --list names them")
    parser.add_argument("--quick", action="store_true", help="small runs, some minutes: for a look at the page, not at the numbers")
    parser.add_argument("--finished", action="store_true", help="run nothing: draw what the finished cells have")
    parser.add_argument("--output", default="runs/figures", metavar="FOLDER", help="finished cells, pictures, index.html and figures.json (%(default)s)")
    parser.add_argument("--list", action="store_true", help="only says which figures there are, and how long a full run of them takes")
    parser.add_argument("--json", action="store_true", help="print what figures.json has")
    options = parser.parse_args()
    figures = chosen(options.paper, options.only)
    if options.list:
        listed = [{"figure": figure.id, "paper": figure.paper, "title": figure.title, "how": figure.how or None, "seconds": sum(cell.seconds for cell in figure.cells)} for figure in figures]
        if options.json:
            print(json.dumps(listed, indent=1))
        else:
            for one in listed:
                print(f"{one['figure']:<18} {one['how'] or '-':<9} {one['seconds'] / 60:5.1f} min  {one['title']}")
        return 0
    try:
        page.check()
    except ImportError as error:
        fail(f"pictures need matplotlib, which {sys.executable} lacks ({error}); pip install matplotlib, or set PACELINE_PYTHON")
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        store = Cells(folder, options.program, options.quick)
    except OSError as error:
        fail(f"--output {folder}: {error.strerror}")
    cells = list({cell.name: cell for figure in figures for cell in figure.cells}.values())
    missing = lacking(store)
    reasons = {} if options.finished else run_cells(cells, store, missing)
    readings = [(figure, read(figure, store, reasons)) for figure in figures]
    if not options.quick:
        second = {cell.name: cell.again() for figure, reading in readings for cell in figure.cells if cell.name in reading.again}
        reasons |= {} if options.finished else run_cells(list(second.values()), store, missing)
        readings = [(figure, read_twice(figure, reading, store, reasons) if reading.again else reading) for figure, reading in readings]
    figures_json = page.write(folder, readings, store)
    print(json.dumps(figures_json, indent=1) if options.json else page.summary(figures_json, folder))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, on_terminate)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("paceline: interrupted; finished cells are kept, the same command goes on", file=sys.stderr)
        sys.exit(130)
