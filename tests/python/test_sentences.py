"""Sentences that a stranger reads once: short in the mean on every page, in every header and help, and none of those that a newcomer had to read twice."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))
MOST = 25  # words of a sentence, in the mean of a page
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
HEADERS = sorted([*(ROOT / "include/paceline").glob("*.h"), *(ROOT / "trainer/include/paceline").glob("*.h")])


def sentences(text):
    """Of paragraphs: what ends with a full stop, a question or an exclamation mark, or with its paragraph."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        flat = " ".join(paragraph.split())
        found += [part for part in re.split(r"(?<=[.!?])[)\"”]?\s+(?=[^a-z])", flat) if re.search(r"\w", part)]
    return found


def words(sentence):
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def prose(markdown):
    """Without code, tables, headings and comments; each item of a list is a paragraph, and a link its text."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|    ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *([-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "code", text)


def mean(text):
    found = sentences(text)
    return sum(map(words, found)) / max(1, len(found))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_short_sentences(page):
    assert mean(prose(page.read_text())) <= MOST


def comments(header):
    """Each block of comment lines, and each comment behind code, is a paragraph. Indented further: code."""
    text = re.sub(r"^\s*//(   +\S.*)?$", "", header, flags=re.MULTILINE)
    text = re.sub(r"/\*(.*?)\*/", lambda found: "\n//" + found[1].replace("\n *", "\n//") + "\n", text, flags=re.DOTALL)
    lines = [line.strip().removeprefix("//") if line.strip().startswith("//") else "\n\n" + line.partition("//")[2] + "\n\n" for line in text.splitlines()]
    return "\n".join(lines)


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_a_public_header_has_short_sentences(header):
    text = comments(header.read_text())
    assert sentences(text) and mean(text) <= MOST


COMMANDS = ("train", "run", "coordinator", "options", "plan", "profile", "models", "datasets", "doctor", "lab", "key", "bench")


def helped(*command):
    """What stands beside each option and command, a paragraph each."""
    said = subprocess.run([PROGRAM, *command, "--help", "all"], capture_output=True, text=True, timeout=60, check=True).stdout.split("Examples:")[0]
    said = re.sub(r"^Usage:.*$", "", said, flags=re.MULTILINE)
    beside = re.sub(r"^  (?=\S)(.{0,26}?)(  +|$)", "\n\n", said, flags=re.MULTILINE)
    return re.sub(r"^\S.*:$", "\n\n", beside, flags=re.MULTILINE)


@pytest.mark.parametrize("command", ("", *COMMANDS))
def test_help_has_short_sentences(command):
    text = helped(*command.split())
    assert len(sentences(text)) > 1 and mean(text) <= MOST


TWICE = (  # a few words of each sentence that a newcomer had to read twice
    "Of those within", "that together have no more parameters", "what a gradient is multiplied by", "so that one which grows", "the most that was acknowledged, in",
    "A worker that finds none left", "is that of the iteration that", "up to the size of which", "must not be used any", "Without that the root", "are planned under the backward pass",
)  # fmt: skip


def test_no_sentence_is_back_that_was_read_twice():
    places = [*PAGES, *HEADERS, *(ROOT / "src/job").glob("options_*.cc")]
    found = [(str(place.relative_to(ROOT)), words) for place in places for words in TWICE if words in " ".join(place.read_text().split())]
    assert found == []


def test_the_measure_counts_what_a_reader_counts():
    page = "# A heading of five words\n\nOne two three. Four `five six`!\n\n| a | table |\n\n```sh\nsome code here. And more.\n```\n\n- seven [eight](x.md)\n- nine\n"
    assert sentences(prose(page)) == ["One two three.", "Four code!", "seven eight", "nine"] and mean(prose(page)) == 8 / 4
    header = "// One two.\n//   int code();\n// Three\n// four.\nint x;  // five\n/* six seven.\n * Eight */\n"
    assert [words(one) for one in sentences(comments(header))] == [2, 2, 1, 2, 1]
