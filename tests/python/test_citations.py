"""What comments and documents cite exists: sections of the papers, and files of this repository."""

import re

import pytest

from jobs import ROOT

# The sections that each paper numbers; iBatch numbers none, so a part of it is cited by its heading.
SECTIONS = {
    "iBatch": set(),
    "P3": {"1", "2", "3", "4", "4.1", "4.2", "5", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "6", "7"},
    "Linear Pipeline": {"1", "2", "3", "3.1", "3.2", "3.3", "4", "4.1", "4.2", "5"},
    "ElasticBSP": {"I", "II", "III", "IV", "V", "VI", "VII"},
}
PLACES = ("src", "apps", "bench", "trainer", "include", "docs", "tests", "scripts", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
CITATION = re.compile(r"(iBatch|P3|Linear Pipeline|ElasticBSP),? sections? ([IV]+|[0-9](?:\.[0-9])*)(?:(?:-|, | and | to )([IV]+|[0-9](?:\.[0-9])*))?\b")
DOCUMENT = re.compile(r"\b(docs/[\w/-]+\.md)\b")


def texts():
    for place in PLACES:
        for file in sorted((ROOT / place).rglob("*")) if (ROOT / place).is_dir() else [ROOT / place]:
            if file.suffix in (".h", ".cc", ".md", ".py", ".cu") and file.name != "test_citations.py":
                # A comment that is wrapped reads as one line.
                yield file.relative_to(ROOT), re.sub(r"\s*\n\s*(//|#)?\s*", " ", file.read_text())


@pytest.fixture(scope="module")
def all_texts():
    return list(texts())


def test_every_cited_section_of_a_paper_exists(all_texts):
    cited = [(file, match) for file, text in all_texts for match in CITATION.finditer(text)]
    assert len(cited) > 5, "the papers are cited"
    wrong = [f"{file}: {match[0]}" for file, match in cited for section in match.groups()[1:] if section and section not in SECTIONS[match[1]]]
    assert not wrong


def test_every_document_that_is_mentioned_exists(all_texts):
    wrong = [f"{file}: {name}" for file, text in all_texts for name in DOCUMENT.findall(text) if not (ROOT / name).exists()]
    assert not wrong
