"""Every command block of a tutorial, a how-to page and README runs, and prints what the page shows."""

import importlib.util
import os
import re
import shutil

import pytest

import pages
from jobs import ROOT, full, keep_port
from ssh_hosts import Sshd, ssh_command
from test_lab import rights

NAMES = {"node1": "127.0.0.1", "node2": "127.0.0.1"}
RUN = sorted(page.relative_to(ROOT) for pattern in ("README.md", "docs/tutorials/*.md", "docs/how-to/*.md") for page in ROOT.glob(pattern))
# Pages of what stands in a cluster, in a framework or on a GPU: tests of their own start it.
ELSEWHERE = [page.relative_to(ROOT) for page in [*(ROOT / "docs/engines").glob("*.md"), ROOT / "docs/frameworks.md", ROOT / "docs/gpu.md"]]
ALWAYS = ("README.md", "first-job.md")  # for what a newcomer types first
PORTS = ("4100", "4170")  # what pages write; another one of this machine's is taken


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """A folder with an `ssh` that knows node1 and node2, both this machine."""
    folder = tmp_path_factory.mktemp("ssh")
    with Sshd(folder) as server:
        command = ssh_command(folder, NAMES, server.port).replace("ssh ", f"{shutil.which('ssh')} ", 1)
        (folder / "front").mkdir()
        (folder / "front/ssh").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / "front/ssh").chmod(0o755)
        yield folder / "front"


@pytest.mark.parametrize("page", [page if page.name in ALWAYS else full(page) for page in RUN], ids=str)
def test_what_a_page_has_its_reader_type_works(page, front, tmp_path):
    found = pages.blocks(ROOT / page)
    typed = [block for block in found if block.language == "sh" and not block.excuse]
    assert typed, "a page that teaches or helps has a command"
    if not rights() and any(word in block.text for block in typed for word in ("paceline lab", "bench schedules")):
        return  # test_lab holds how a lab is refused
    held = [keep_port() for _ in PORTS]
    try:
        for block in typed:
            block.text = re.sub(r"--start node1( node2)?", "--start node1:4170", block.text)
            for port, socket in zip(PORTS, held):
                block.text = re.sub(rf"\b{port}\b", str(socket.getsockname()[1]), block.text)
        said = pages.run(typed, pages.tree_for(tmp_path / "tree"), front)
    finally:
        for socket in held:
            socket.close()
    for block, before in zip(found[1:], found):
        if block.language == "text" and any(before is one for one in typed):
            assert pages.missing(block.text, said[typed.index(before)]) == [], (page, said[typed.index(before)])
    for block, output in zip(typed, said):
        if "--reference" in block.text:
            assert len(set(re.findall("^parameters .*", output, re.MULTILINE))) == 1, "the reference has other bits"


@pytest.mark.parametrize("page", [*RUN, *sorted(ELSEWHERE)], ids=str)
def test_a_block_says_what_it_is_and_what_runs_it(page):
    found = pages.blocks(ROOT / page)
    assert {block.language for block in found} <= {"sh", "text", "python", "cpp", "toml", "json", "diff"}
    excused = [block for block in found if block.excuse]
    assert len(excused) <= 1 or page in ELSEWHERE
    for block in excused:
        named = re.search(r"[\w./-]+", block.excuse)[0]
        assert (ROOT / named).exists(), f"{page}: what runs this block instead does not exist: {named}"
    assert page in RUN or excused == found, "a block here names the test that runs it"


def test_python_of_a_tutorial_stands_in_the_script_that_it_shows():
    blocks = [block for block in pages.blocks(ROOT / "docs/tutorials/pytorch-script.md") if block.language == "python"]
    script = (ROOT / "examples/torch/mnist_cnn.py").read_text()
    marked = [line.split("  # +")[0].strip() for line in script.splitlines() if line.endswith("# +")]
    assert [line for block in blocks for line in block.text.splitlines()] == marked


@pytest.mark.parametrize("page, program, count", [("tutorials/own-module.md", "own_module", 5), ("how-to/collectives.md", "collectives", 1)])
def test_cpp_of_a_page_stands_in_the_program_that_it_shows(page, program, count):
    shown = [block for block in pages.blocks(ROOT / "docs" / page) if block.language == "cpp"]
    there = [line.split("  // (+)")[0].rstrip() for line in (ROOT / "examples" / program / "main.cc").read_text().splitlines()]
    assert len(shown) == count
    for block in shown:
        lines = block.text.splitlines()
        assert any(there[i : i + len(lines)] == lines for i in range(len(there))), block.text


def test_the_home_page_of_the_site_shows_the_lines_of_the_readme():
    shown = [[block.text for block in pages.blocks(ROOT / page) if block.language == "diff"] for page in ("README.md", "docs/index.md")]
    assert len(shown[0]) == 1 and shown[0] == shown[1]


def test_every_picture_can_be_read_in_the_dark_and_on_a_telephone():
    for file in sorted((ROOT / "docs").rglob("*.svg")):
        text = file.read_text()
        assert "@media (prefers-color-scheme: dark)" in text and 'class="paper"' in text, file
        width = float(re.search(r'viewBox="0 0 ([\d.]+) ', text)[1])
        assert min(map(float, re.findall(r"font-size[:=]\W*([\d.]+)", text))) * 368 / width >= 9.9, file


def test_pictures_that_are_calculated_are_what_the_script_draws():
    spec = importlib.util.spec_from_file_location("draw_explanations", ROOT / "scripts/draw_explanations.py")
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    for name in ("collectives", "planner"):
        assert (ROOT / f"docs/explanation/{name}.svg").read_text() == getattr(drawing, name)(), "run scripts/draw_explanations.py"


def test_a_command_that_fails_is_told(tmp_path):
    blocks = [pages.Block("sh", "echo before", None), pages.Block("sh", "false\necho behind", None)]
    with pytest.raises(AssertionError, match=r"ended with 1[^$]*before"):
        pages.run(blocks, pages.tree_for(tmp_path / "tree"), tmp_path)
    assert pages.missing("speed    5 s\n\nnothing   such", "speed   7 s\nother  2") == ["nothing"]
    assert os.listdir(tmp_path / "tree/runs") == []
