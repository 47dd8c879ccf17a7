"""The pages of docs/reference are what their sources say, and docs/cli.md has every key of a report."""

import ast
import re
import shutil
import subprocess

import pytest

from jobs import BRIEF, ROOT, train

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
    (folder / "options.md").write_text(text.replace("| number | 0 up to below 1 |", "| number | any |", 1))
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


def told_keys():
    """The keys in the first column of the table below "Report" in docs/cli.md."""
    text = (ROOT / "docs/cli.md").read_text().split("### Report (`--json`)", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split(" | ", 1)[0] for line in text.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


JOBS = {"servers": ("--workers", 2, "--servers", 2), "collective": ("--workers", 2, "--collective", "loop3"), "reference": ("--reference",)}


@pytest.mark.parametrize("more", JOBS.values(), ids=JOBS)
def test_every_key_of_a_report_is_told(more):
    report = train(*BRIEF, "--iterations", 2, *more)
    assert set(report) <= told_keys(), f"docs/cli.md lacks {sorted(set(report) - told_keys())}"
    if "--servers" in more:
        assert told_keys() <= set(report), f"no report has {sorted(told_keys() - set(report))}"
