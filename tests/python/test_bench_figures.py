"""`paceline bench figures`: the page of the papers' figures."""

import json
import subprocess
import sys

import pytest
from jobs import PROGRAM, ROOT, wait_until
from test_lab import rights

COMPUTED = "ibatch-fig3,ibatch-fig4,ibatch-fig7,ibatch-table1,p3-fig1,p3-fig5,htc-table2,htc-lemma31,lp-fig2,elastic-fig2,elastic-fig3,ibatch-fig1"
STEPPED = "p3-fig4,p3-fig6,htc-lemma32"
FIGURES = {"ibatch": (7, 1), "p3": (12, 0), "htc": (4, 2), "lp": (5, 2), "elastic": (4, 2)}  # figures and tables that the papers number
VERDICTS = {"reproduced", "better", "differs", "not runnable here"}


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, "bench", "figures", *map(str, arguments)], capture_output=True, text=True, timeout=1800)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def test_the_list_says_what_there_is_and_what_is_wrong_is_named(tmp_path):
    listed = run("--list").stdout.splitlines()
    assert all(line.split()[1] in ("measured", "computed", "stepped", "-") for line in listed)
    assert all(float(line.split()[2]) <= 60 for line in listed)
    ids = {line.split()[0] for line in listed}
    for paper, (figures, tables) in FIGURES.items():
        numbered = [f"{paper}-fig{number}" for number in range(1, figures + 1)] + [f"{paper}-table{number}" for number in range(1, tables + 1)]
        assert not [one for one in numbered if one not in ids and f"{one}a" not in ids]
    assert sum(line.split()[1] == "-" for line in listed) == 6
    assert [one["figure"] for one in json.loads(run("--list", "--json").stdout)] == [line.split()[0] for line in listed]
    assert "legal: iBatch, P3, HTC guidelines, Linear Pipeline, ElasticBSP" in run("--paper", "P4", code=2).stderr
    (tmp_path / "other").mkdir()
    (tmp_path / "other/release.json").write_text("{}")
    assert "does not say which release" in run("--only", "p3-fig5", "--output", tmp_path / "other", code=2).stderr
    assert "--only knows no 'p3-fig77'" in run("--only", "p3-fig77", code=2).stderr
    (tmp_path / "file").write_text("")
    assert "--output" in run("--only", "p3-fig5", "--output", tmp_path / "file/x", code=2).stderr


def test_a_page_with_pictures_verdicts_and_commands_that_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "out"
    document = json.loads(run("--only", COMPUTED, "--quick", "--output", folder, "--json").stdout)
    of = {one["figure"]: one for one in document}
    assert set(of) == set(COMPUTED.split(",")) and all(one["verdict"] in VERDICTS and one["sentence"] for one in of.values())
    assert of["htc-table2"]["verdict"] == "reproduced" and [row["paper"] for row in of["htc-table2"]["rows"]] == ["11.6", "1.6", "2.3", "2.7", "2.3"]
    assert of["p3-fig5"]["rows"][0]["ours"] == "71.5 %"
    assert {key: of["htc-table2"][key] for key in ("paper", "source", "paper_value", "command")} == {
        "paper": "HTC guidelines", "source": "simulated", "paper_value": "11.6", "command": "paceline bench figures --only htc-table2 --quick"
    }  # fmt: skip
    assert of["ibatch-fig1"]["source"] is None and of["ibatch-fig1"]["value"] is None
    assert of["ibatch-fig4"]["verdict"] == "better" and of["ibatch-fig4"]["how"] == "computed"
    assert of["ibatch-fig1"]["verdict"] == "not runnable here" and not of["ibatch-fig1"]["commands"]
    assert of["lp-fig2"]["rows"][0]["ours"] == "9 steps" and of["elastic-fig3"]["verdict"] == "reproduced"
    page = (folder / "index.html").read_text()
    told, details = page.split("</table>", 1)
    assert "name='viewport'" in told and "prefers-color-scheme:dark" in told and told.count("<tr><td><b class=") == len(of)
    for one in of.values():
        assert f"{one['verdict']}</b></td><td><a href='#{one['figure']}'>" in told and f"id='{one['figure']}'" in details
        assert (one["picture"] == "") or (folder / one["picture"]).read_bytes().startswith(b"\x89PNG")
    assert details.index("Where it ran") > max(details.index(f"id='{name}'") for name in of) and "cores of" not in told
    assert json.loads((folder / "figures.json").read_text()) == document
    # Each command answers what its cell has.
    words = of["htc-table2"]["commands"][0].split()
    again = subprocess.run([PROGRAM, *words[1:]], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == json.loads((folder / "cells/htc-fft-1.json").read_text())["answer"]
    kept = {file: file.stat().st_mtime_ns for file in (folder / "cells").iterdir()}
    assert json.loads(run("--only", COMPUTED, "--quick", "--output", folder, "--json").stdout) == document
    assert kept == {file: file.stat().st_mtime_ns for file in (folder / "cells").iterdir()}
    assert json.loads(run("--only", COMPUTED, "--quick", "--finished", "--output", folder, "--json").stdout) == document
    assert "give another folder" in run("--only", "p3-fig5", "--output", folder, code=2).stderr
    (nothing,) = json.loads(run("--only", "htc-table2", "--finished", "--output", tmp_path / "empty", "--json").stdout)
    assert nothing["verdict"] == "not runnable here" and "has not been run" in nothing["sentence"] and not list((tmp_path / "empty/cells").iterdir())


def test_stepped_figures_are_drawn_and_the_papers_sketches_come_out(tmp_path):
    document = json.loads(run("--only", STEPPED, "--quick", "--output", tmp_path, "--json").stdout)
    assert {one["figure"]: (one["how"], one["verdict"]) for one in document} == {name: ("stepped", "reproduced") for name in STEPPED.split(",")}
    assert all((tmp_path / one["picture"]).exists() and one["rows"] for one in document)


STAND_IN = """#!{python}
import sys
words = sys.argv[1:]
if words[0] == "--version":
    print("paceline 0.0.0")
elif words[0] == "doctor":
    print('{{"lab": {{"namespaces": false, "ip": "", "tc": "", "reason": "lacks CAP_SYS_ADMIN"}}}}')
else:
    print('{{"ratio": 11.6}}')
    print("paceline: error: the values are not verified", file=sys.stderr)
    sys.exit(1)
"""


def drawing(folder, text, only, **values):
    """The command for the page of these figures when `text` stands in for the program."""
    program = folder / "paceline"
    program.write_text(text.format(python=sys.executable, **values))
    program.chmod(0o700)
    return [sys.executable, ROOT / "bench/figures/figures.py", "--program", program, "--output", folder / "out", "--json", "--only", only]


def drawn_by(folder, text, only, **values):
    """What the page has of them."""
    done = subprocess.run(drawing(folder, text, only, **values), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {one["figure"]: one for one in json.loads(done.stdout)}


def test_what_fails_or_is_lacking_is_no_point_and_the_others_are_drawn(tmp_path):
    of = drawn_by(tmp_path, STAND_IN, "htc-table2,p3-fig12,elastic-fig4b,p3-fig5")
    assert of["htc-table2"]["verdict"] == "not runnable here" and "the values are not verified" in of["htc-table2"]["sentence"] and not of["htc-table2"]["rows"]
    assert "lacks CAP_SYS_ADMIN" in of["p3-fig12"]["sentence"] and "no trainer" in of["elastic-fig4b"]["sentence"]
    assert of["p3-fig5"]["verdict"] == "reproduced"
    assert not list((tmp_path / "out/cells").iterdir())


RUNS_FOR_EVER = """#!{python}
import signal, sys
from pathlib import Path
words = sys.argv[1:]
if words[0] == "--version":
    print("paceline 0.0.0")
elif words[0] == "doctor":
    print("{{}}")
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    Path(sys.argv[0]).with_name("runs").touch()
    signal.sigwait([signal.SIGTERM])
    Path(sys.argv[0]).with_name("was told").touch()
"""


def test_who_ends_the_drawing_ends_what_it_runs(tmp_path):
    with subprocess.Popen(drawing(tmp_path, RUNS_FOR_EVER, "htc-table2"), stderr=subprocess.PIPE, text=True) as process:
        wait_until("a cell runs", (tmp_path / "runs").exists)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.endswith("paceline: interrupted; finished cells are kept, the same command goes on\n")
    assert (tmp_path / "was told").exists()


TWO_RUNS = """#!{python}
import json, sys
words = sys.argv[1:]
if words[0] == "--version":
    print("paceline 0.0.0")
elif words[0] == "doctor":
    print('{{"lab": {{"namespaces": true, "ip": "ip", "tc": "tc"}}}}')
else:
    seconds = {{"p3": 1.0, "kvstore": {second} if words[words.index("--output") + 1].endswith("-again") else 1.31}}
    rows = [{{"contestant": name, "hosts": 8, "stands_for_bits_per_second": 1e10, "iteration_seconds": {{"median": median, "lowest": 0.98 * median, "highest": 1.02 * median}}}} for name, median in seconds.items()]
    print(json.dumps({{"rows": rows}}))
"""


@pytest.mark.parametrize(("second", "verdict"), [(1.28, "differs"), (1.33, "reproduced")])
def test_what_is_near_its_limit_runs_twice_and_the_worse_verdict_counts(tmp_path, second, verdict):
    one = drawn_by(tmp_path, TWO_RUNS, "p3-fig10", second=second)["p3-fig10"]
    assert one["verdict"] == verdict and f"reproduced, then {verdict}" in one["sentence"]
    assert one["value"] == f"+31 %; again +{100 * (second - 1):.0f} %"
    assert {file.name for file in (tmp_path / "out/cells").iterdir()} == {"p3-hosts.json", "p3-hosts-again.json"}
    assert len(one["commands"]) == 2, "a reader may run both"
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/cells").iterdir()}
    assert drawn_by(tmp_path, TWO_RUNS, "p3-fig10", second=second) == {"p3-fig10": one}
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "out/cells").iterdir()}


TRAINS = """#!{python}
import json, sys
words = sys.argv[1:]
if words[0] == "--version":
    print("paceline 0.0.0")
elif words[0] == "doctor":
    print('{{"lab": {{"namespaces": true, "ip": "ip", "tc": "tc"}}}}')
else:
    from pathlib import Path
    runs = Path(sys.argv[0]).with_name("runs")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    early = "elastic-bsp" in words and len(runs.read_text()) <= 24  # only in the first of two runs of 24 cells
    print(json.dumps({{"accuracy": 0.9, "seconds": 10.0, "evaluations": [{{"iteration": 1, "seconds": 1.0 if early else 5.0, "accuracy": 0.9}}]}}))
"""


def test_a_row_that_only_one_of_two_runs_has_is_told_as_such(tmp_path):
    (tmp_path / "paceline-trainer").write_text("")
    (tmp_path / "paceline-trainer").chmod(0o700)
    one = drawn_by(tmp_path, TRAINS, "elastic-fig4b")["elastic-fig4b"]
    assert one["verdict"] == "differs" and "reproduced, then differs" in one["sentence"]
    assert [row["ours"] for row in one["rows"] if row["what"].startswith("BSP's time to it")] == ["5.00x; again none"]


@pytest.mark.full
def test_every_figure_but_sketches_and_prices_is_drawn_from_small_runs(tmp_path):
    if not rights():
        return
    document = json.loads(run("--quick", "--output", tmp_path, "--json").stdout)
    lacking = {one["figure"]: one["sentence"] for one in document if one["verdict"] == "not runnable here"}
    assert set(lacking) == {line.split()[0] for line in run("--list").stdout.splitlines() if line.split()[1] == "-"}, lacking
    for one in document:
        assert one["figure"] in lacking or (one["rows"] and all(row["ours"] for row in one["rows"])), one
    assert sum(one["picture"] != "" for one in document) >= 30
