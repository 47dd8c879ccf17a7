"""README: its length, and that every number of gain is the one of the page that it links. Its commands are run by test_pages."""

import re

import pages
from jobs import ROOT

README = (ROOT / "README.md").read_text()
ROW = re.compile(
    r"^\| (?P<what>[^|]+) \| (?P<ddp>[\d.]+) s \| (?P<ours>[\d.]+) s \| (?P<share>\d+) % "
    r"\| \[[^]]+\]\((?P<page>[^)#]+)[^)]*\) \|$",
    re.MULTILINE,
)
BAR = re.compile(
    r'text-anchor="end">([^<]+)</text>.*?width="([\d.]+)" height="15"/>'
    r'<rect class="ours"[^>]*width="([\d.]+)".*?>([\d.]+) s</text>.*?>(\d+) %<'
)


def rows():
    found = list(ROW.finditer(README))
    assert len(found) >= 4
    return found


def test_it_has_at_most_90_lines():
    assert len(README.splitlines()) <= 90


def test_numbers_of_gain_are_those_of_the_results():
    for row in rows():
        page = (ROOT / row["page"]).read_text()
        # A row with a network and its rate, or two rows of one network, ours and DDP's, with a column for the rate.
        name, rate = re.match(r"(\S+).*, (\d+ Gb/s)", row["what"]).groups()
        network = name.lower().replace("-", "").replace("inceptionv3", "inception_v3")
        single = re.search(rf"^\| {name}, {rate} \|.*$", page, re.MULTILINE)
        if single:
            assert row["ddp"] in single[0] and row["ours"] in single[0], row[0]
        else:
            rates = re.search(r"^\| model \| \|(.*)\|$", page, re.MULTILINE)[1].split("|")
            place = [one.strip() for one in rates].index(rate)
            for who, told in (("tuned", row["ours"]), ("ddp", row["ddp"])):
                cells = re.search(rf"^\| {network} \| `{who}` \|(.*)\|$", page, re.MULTILINE)[1].split("|")
                assert cells[place].strip().startswith(f"{told} s"), row[0]
        assert round(100 * float(row["ours"]) / float(row["ddp"])) == int(row["share"]), row[0]


def test_the_chart_has_the_numbers_of_the_table():
    chart = (ROOT / "docs/gain.svg").read_text()
    drawn = BAR.findall(chart)
    told = [(row["what"].split(":")[0], row["ddp"], row["share"]) for row in rows()]
    assert [(what, seconds, share) for what, _, _, seconds, share in drawn] == told
    for (_, ddp, ours, _, _), row in zip(drawn, rows()):
        assert abs(float(ours) / float(ddp) - float(row["ours"]) / float(row["ddp"])) < 0.001


def test_code_stands_in_the_examples_that_are_run():
    sources = {"python": "torch/mnist_cnn.py", "cpp": "own_module/main.cc"}
    shown = [block for block in pages.blocks(ROOT / "README.md") if block.language in sources]
    assert {block.language for block in shown} == set(sources)
    for block in shown:
        source = (ROOT / "examples" / sources[block.language]).read_text().splitlines()
        there = [re.sub(r"\s*(# \+|// \(\+\))$", "", line).strip() for line in source]
        assert len(block.text.splitlines()) <= 15
        assert [line for line in block.text.splitlines() if line.strip() not in there] == []
