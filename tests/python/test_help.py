"""--help is short, --help all is everything, and both are as wide as what they are read on."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PACELINE", ROOT / "build/release/bin/paceline")).resolve()


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)


def options_in(text):
    return re.findall(r"^  (?:-\w,)?--([a-z0-9-]+)", text, re.MULTILINE)


def test_a_beginner_sees_few_options_and_how_to_see_all():
    short, everything = run("train", "--help").stdout, run("train", "--help", "all").stdout
    few, many = options_in(short), options_in(everything)
    assert {"model", "workers", "hosts", "checkpoint", "job-key-file"} <= set(few) < set(many) and len(few) <= 35, few
    assert short.splitlines()[-1] == f"{len(many) - len(few)} more options, for experts: paceline train --help all"
    assert {"jitter", "ordered-places", "prefetch"} <= set(many) and "more options" not in everything


def test_both_ways_to_ask_give_the_same():
    assert run("help", "train", "all").stdout == run("train", "--help", "all").stdout == run("train", "-h", "all").stdout
    assert run("help", "plan", "slice", "all").stdout == run("plan", "slice", "--help", "all").stdout


def test_the_words_of_another_program_are_its_own():
    done = run("run", "--workers", "1", "--servers", "0", "--", "bash", "-c", 'echo "given $*"; exit 3', "name", "--help", "all")
    assert "given --help all" in done.stdout + done.stderr, done


@pytest.mark.parametrize("words", (["--help"], ["train", "--help", "all"], ["profile", "--help"], ["plan", "--help"], ["lab", "--help"], ["bench", "collectives", "--help"]))
def test_no_line_is_wider_than_a_hundred_letters(words):
    lines = run(*words).stdout.split("Examples:")[0].splitlines()
    assert lines and [line for line in lines if len(line) > 100 and not line.startswith("  --")] == []  # a name is never broken


def shown_at(columns, *words):
    """What a terminal of that width shows."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen([PROGRAM, *words], stdout=inner, stdin=subprocess.DEVNULL) as process:
        os.close(inner)
        shown = b""
        while True:
            try:
                part = os.read(outer, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert process.wait(60) == 0
    os.close(outer)
    return shown.decode().replace("\r", "")


def test_lines_are_as_long_as_the_terminal_is_wide():
    narrow, wide = (shown_at(columns, "train", "--help").split("Examples:")[0].splitlines() for columns in (72, 120))
    assert max(map(len, narrow)) <= 72 and 100 < max(map(len, wide)) <= 120
