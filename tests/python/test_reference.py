"""The pages of docs/reference are what their sources say, and have every key of what a job prints and writes."""

import ast
import json
import re
import shutil
import subprocess

import pytest

from binding import PROGRAM
from jobs import BRIEF, PATIENCE, ROOT, train

MAKE = ROOT / "scripts/make_reference.py"
PAGES = ROOT / "docs/reference"


def test_pages_are_what_they_describe():
    done = subprocess.run([MAKE, "--check"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_a_page_that_is_not_is_named_with_the_command_that_mends_it(tmp_path):
    folder = tmp_path / "reference"
    shutil.copytree(PAGES, folder)
    text = (folder / "options.md").read_text()
    (folder / "options.md").write_text(text.replace("| 0 up to below 1 |", "| any |", 1))
    (folder / "c.md").unlink()
    done = subprocess.run([MAKE, "--check", "--folder", folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "options.md, c.md" in done.stderr and done.stderr.endswith("run scripts/make_reference.py\n")
    subprocess.run([MAKE, "--folder", folder], check=True, timeout=300)
    assert (folder / "options.md").read_text() == text and (folder / "c.md").exists()


def test_no_default_is_a_path_of_this_machine():
    told = [line for page in PAGES.glob("*.md") for line in page.read_text().splitlines()]
    assert [line for line in told if re.search(r"=/\w|" + re.escape(str(ROOT)), line)] == []


def headings(page):
    return set(re.findall(r"^#+ (\S+)$", (PAGES / page).read_text(), re.MULTILINE))


def test_every_call_of_the_c_interface_has_its_place():
    assert set((ROOT / "src/library/symbols.txt").read_text().split()) <= headings("c.md")


@pytest.mark.parametrize("module", ["__init__.py", "torch/__init__.py"])
def test_every_public_name_of_the_python_interface_has_its_place(module):
    tree = ast.parse((ROOT / "python/paceline" / module).read_text())
    (names,) = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    assert {name for name in names if name not in ("plan", "profile", "report")} <= headings("python.md")
    assert {"paceline.plan", "paceline.profile", "paceline.report"} <= headings("python.md")


def told_keys(page, heading=""):
    """The keys in the first column of the tables of a page, or of the part of it below `heading` alone."""
    text = (PAGES / page).read_text()
    if heading:
        text = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return {key for line in text.splitlines() for key in re.findall(r"^\| `([^`]+)` \|", line)}


def keys_of(value, name=""):
    """The keys of a document as a page tells them: `a.b`, and `a[].b` of each element of a. An array of numbers is one key."""
    if isinstance(value, dict):
        return {key for one, inside in value.items() for key in keys_of(inside, f"{name}.{one}" if name else one)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {key for inside in value for key in keys_of(inside, f"{name}[]")}
    return {name}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


PULLS = ("--schedule", "ibatch", "--push", "in-batches", "--return", "pull-in-batches")
JOBS = {
    "tuned": ("--model", f"replay:{ROOT}/bench/tables/alexnet.json", "--scale", 1000, "--workers", 2, "--servers", 2),
    "batches": (*BRIEF, *PULLS, "--servers", 2, "--evaluate-every", 2),
    "elastic": (*BRIEF, "--sync", "elastic-bsp", "--history", 1, "--lookahead", 2, "--workers", 2),
    "collective": (*BRIEF, "--workers", 2, "--collective", "loop3"),
    "reference": (*BRIEF, "--reference"),
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Of each job its report, and a folder with all files that it can write."""
    done = {}
    for name, more in JOBS.items():
        folder = tmp_path_factory.mktemp(name)
        files = () if name == "reference" else ("--metrics", folder / "metrics", "--trace", folder / "trace")
        files += ("--pace", folder / "pace") if name in ("tuned", "elastic") else ()
        files += ("--checkpoint", folder / "kept") if name == "batches" else ()
        done[name] = (train(*more, "--iterations", 8, *files), folder)
    return done


def test_every_key_of_a_report_is_told_and_no_other(jobs):
    text = (PAGES / "report.md").read_text()
    headings = [heading for heading in re.findall(r"^## (.+)$", text, re.MULTILINE) if not heading.startswith("A line")]
    told = {key for heading in headings for key in told_keys("report.md", heading)}
    found = {key for report, _ in jobs.values() for key in keys_of(report)}
    parents = {key[: part.start()] for key in told for part in re.finditer(r"\.|\[\]", key)}  # null or empty in some job
    assert found - parents == told, (sorted(found - parents - told), sorted(told - found))


@pytest.mark.parametrize("file", ["metrics", "pace"])
def test_every_key_of_metrics_and_pace_is_told_and_no_other(jobs, file):
    found = {key for _, folder in jobs.values() if (folder / file).exists() for line in lines(folder / file) for key in line if file == "pace" or "superstep" not in line}
    assert found == told_keys("report.md", f"A line of `--{file}`")


def told_in(heading):
    return told_keys("files.md", heading)


def test_every_key_of_a_manifest_and_of_a_timeline_is_told(jobs):
    _, folder = jobs["batches"]
    (manifest,) = folder.glob("kept/*/manifest.json")
    found = {"settings" if key.startswith("settings.") else key for key in keys_of(json.loads(manifest.read_text()))}
    assert found == told_in("Checkpoint")
    trace = json.loads((folder / "trace").read_text())
    assert keys_of(trace | {"traceEvents": 0}) <= told_in("Timeline")


def test_every_key_of_a_profile_and_a_table_is_told(tmp_path):
    words = [PROGRAM, "profile", "--model", "lenet", "--rounds", "1", "--record", tmp_path / "table", "--json"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert keys_of(json.loads(said)) == told_in("Profile")
    assert keys_of(json.loads((tmp_path / "table").read_text())) == told_in("Replay table")


LIMITS = {  # row of docs/reference/limits.md -> where the number stands, and how the page writes it
    "workers, servers": ("src/library/coordinator_node.cc", r"kMostMembers = ([\d']+)", "{:,}".format),
    "ranks of a communicator": ("src/wire/collective.h", r"kMostCollectiveRanks = 1 << (\d+)", lambda shift: str(1 << shift)),
    "ranks whose links are measured one by one": ("src/collectives/exec/link_measurement.h", r"kMostRanksMeasured = (\d+)", str),
    "hosts of a lab": ("src/lab/script.h", r"kMostHosts = (\d+)", str),
    "tensors that share a message": ("src/scheduling/unit_plan.h", r"kMostParts = (\d+)", str),
    "a chunk": ("src/scheduling/window.h", r"kLargestChunk\{([\d']+)\}", lambda size: f"{size // 1024} KiB"),
    "window of one process, `auto`": ("src/scheduling/window.h", r"kLargestFollowing\{std::int64_t\{(\d+)\} << 20\}", "{} MiB".format),
    "processes that ask to join while no place is free": ("src/membership/joiners.h", r"kMost = (\d+)", str),
    "evaluations in a report": ("src/report/report.cc", r"kMost = ([\d']+)", "{:,}".format),
    "a replay table": ("src/replay/table.cc", r"kLargestTable\{std::int64_t\{(\d+)\} << 20\}", "{} MiB".format),
}


@pytest.mark.parametrize("row", LIMITS)
def test_a_limit_is_the_one_of_the_source(row):
    file, pattern, written = LIMITS[row]
    number = int(re.search(pattern, (ROOT / file).read_text())[1].replace("'", ""))
    (told,) = re.findall(rf"^\| {re.escape(row)} \| ([^|]*) \|", (PAGES / "limits.md").read_text(), re.MULTILINE)
    assert written(number).replace(",", " ") in told
