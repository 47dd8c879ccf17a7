"""README: its length, and that every number of its picture is the one of a page of results. Its commands are run by test_pages."""

import importlib.util
import re

import pages
from jobs import ROOT

README = (ROOT / "README.md").read_text()


def drawing():
    spec = importlib.util.spec_from_file_location("draw_explanations", ROOT / "scripts/draw_explanations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_has_at_most_90_lines():
    assert len(README.splitlines()) <= 90


def test_numbers_of_gain_are_those_of_the_results():
    gains = drawing().GAINS
    assert len(gains) >= 4
    for what, ddp, ours, file in gains:
        assert f"]({file}#" in README
        page = (ROOT / file).read_text()
        # A row with a network and its rate, or two rows of one network, ours and DDP's, with a column for the rate.
        name, rate = re.match(r"(\S+).*, (\d+ Gb/s)", what).groups()
        network = name.lower().replace("-", "").replace("inceptionv3", "inception_v3")
        single = re.search(rf"^\| {name}, {rate} \|.*$", page, re.MULTILINE)
        if single:
            assert ddp in single[0] and ours in single[0], what
        else:
            rates = re.search(r"^\| model \| \|(.*)\|$", page, re.MULTILINE)[1].split("|")
            place = [one.strip() for one in rates].index(rate)
            for who, told in (("tuned", ours), ("ddp", ddp)):
                cells = re.search(rf"^\| {network} \| `{who}` \|(.*)\|$", page, re.MULTILINE)[1].split("|")
                assert cells[place].strip().startswith(f"{told} s"), what


def test_the_picture_has_these_numbers_and_the_text_none_of_them_twice():
    picture = (ROOT / "docs/gain.svg").read_text()
    assert picture == drawing().gain(), "run scripts/draw_explanations.py"
    for what, ddp, ours, _ in drawing().GAINS:
        assert what in picture and f">{ddp} s<" in picture and f">{ours} s, {100 * float(ours) / float(ddp):.0f} %<" in picture
        assert f"{ddp} s" not in README and f"{ours} s" not in README
    most = max(1 - float(ours) / float(ddp) for _, ddp, ours, _ in drawing().GAINS)
    assert f"up to {100 * most:.0f} % less time" in README


def test_code_stands_in_the_examples_that_are_run():
    sources = {"diff": "torch/mnist_cnn.py", "cpp": "own_module/main.cc"}
    shown = [block for block in pages.blocks(ROOT / "README.md") if block.language in sources]
    assert {block.language for block in shown} == set(sources)
    for block in shown:
        source = (ROOT / "examples" / sources[block.language]).read_text().splitlines()
        there = [re.sub(r"\s*(# \+|// \(\+\))$", "", line).strip() for line in source]
        shown_lines = [line.removeprefix("+") for line in block.text.splitlines() if not line.startswith("-")]
        assert len(shown_lines) <= 15
        assert [line for line in shown_lines if line.strip() not in there] == []
