"""The command blocks of a page, run as a reader types them.

A fenced block says what it is: `sh` is run, `text` behind it is what it printed. A block that no test of pages can run stands behind a
comment that names what runs it: <!-- not run here: tests/python/test_wheel.py -->
"""

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from binding import PROGRAM, ROOT
from jobs import environment

FENCE = re.compile(r"^(?P<fence>```+) *(?P<language>\S*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
EXCUSE = re.compile(r"<!-- not run here: (.+?) -->\n+\Z")
LABEL = re.compile(r"^ *([a-z][a-z ]*?)(?=  |$)", re.MULTILINE)  # the first words of a line of a report


@dataclass
class Block:
    language: str
    text: str
    excuse: str | None  # what runs it instead


def blocks(page):
    text = Path(page).read_text()
    found = []
    for match in FENCE.finditer(text):
        excuse = EXCUSE.search(text[: match.start()])
        found.append(Block(match["language"], match["text"], excuse and excuse[1]))
    return found


def tree_for(folder):
    """A checkout in which files may be written: what is in git by links, and the programs under test."""
    (folder / "build").mkdir(parents=True)
    (folder / "runs").mkdir()
    (folder / "build/release").symlink_to(PROGRAM.parents[1])
    for name in (".venv", "bench", "docs", "examples", "include", "python", "scripts", "src"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def variables(front, folder):
    """`front`: a folder whose programs come first. What a page compiles in `folder` is remembered, wherever that is."""
    path = os.pathsep.join([str(front), os.environ["PATH"]])
    remembered = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    return environment("") | remembered | {"PATH": path, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}


def run(page_blocks, folder, front, seconds=600):
    """Runs all `sh` blocks in one shell, in `folder`; the output of each. A command that fails ends it, and nothing of it is left."""
    parts = [block.text + f"\nprintf '%s\\n' '@@{i}'" for i, block in enumerate(page_blocks)]
    with open(folder / "output", "w+") as output:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", "\n".join(parts)], cwd=folder, env=variables(front, folder), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = shell.wait(seconds)
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            shell.wait()
        output.seek(0)
        said = output.read()
    assert code == 0, f"a command of the page ended with {code}:\n{said[-3000:]}"
    return re.split(r"^@@\d+\n", said, flags=re.MULTILINE)[:-1]


def missing(shown, said):
    """Labels of the lines that a page shows, which the command does not print."""
    return [label for label in LABEL.findall(shown) if label not in LABEL.findall(said)]
