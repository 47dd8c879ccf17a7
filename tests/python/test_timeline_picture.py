"""`paceline timeline`: a picture of what one worker computed and of what was on its way."""

import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from jobs import PROGRAM, train


def draw(*arguments, code=0):
    done = subprocess.run([PROGRAM, "timeline", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stderr


def trace(file, workers=2, iterations=range(1, 6), period=100_000):
    """Each iteration is a quarter forward and a quarter backward; from there on gradients are on their way for a quarter. Worker 1's are not drawn for worker 0."""
    events = []
    for worker in range(workers):
        pid = worker + 1
        events.append({"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": f"worker {worker} with server {worker}"}})
        for iteration in iterations:
            begin = iteration * period + worker
            for place, what in enumerate(("forward", "backward")):
                events.append({"ph": "X", "cat": what, "pid": pid, "tid": 1, "ts": begin + place * period / 4, "dur": period / 4, "name": f"{what} fc", "args": {"iteration": iteration, "layer": "fc"}})
            for phase, at in (("b", period / 2), ("e", 3 * period / 4)):
                events.append({"ph": phase, "cat": "unit", "id": iteration, "pid": pid, "tid": 2, "ts": begin + at, "name": "wire"})
    file.write_text(json.dumps({"displayTimeUnit": "ms", "otherData": {"processes": [{"name": "worker 0"}]}, "traceEvents": events}))
    return file


def bars(picture, kind):
    """Left edges and widths, in the picture's units."""
    drawn = ElementTree.fromstring(picture.read_text())
    return [(float(one.get("x")), float(one.get("width"))) for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if one.get("class") == kind and float(one.get("height")) > 12]


def test_bars_stand_where_and_as_long_as_the_trace_says(tmp_path):
    picture = tmp_path / "one.svg"
    draw(trace(tmp_path / "one.json"), "--picture", picture, "--iteration", 2, "--iterations", 2)
    left, width = 92, 380 / 2  # of an iteration
    for kind, begin in (("forward", 0), ("backward", 0.25), ("way", 0.5)):
        assert bars(picture, kind) == [pytest.approx((left + (begin + iteration) * width, width / 4), abs=0.11) for iteration in range(2)]
    assert re.findall(r">(\d+) ms<", picture.read_text()) == ["0", "50", "100", "150"]


def test_traces_share_one_scale_and_have_their_files_names(tmp_path):
    picture = tmp_path / "both.svg"
    draw(trace(tmp_path / "long.json"), trace(tmp_path / "a<b.json", period=50_000), "--picture", picture, "--worker", 1, "--iterations", 1)
    long, short, _ = bars(picture, "forward")  # the scale is that of the longest, on which the other has room for two
    assert long[1] == pytest.approx(2 * short[1], abs=0.2) and long[0] == short[0] == 92
    assert [one.text for one in ElementTree.fromstring(picture.read_text()).iter() if one.get("class") == "title"] == ["long", "a<b"]


def test_a_real_trace_is_drawn(tmp_path):
    train("--model", "replay:resnet50", "--scale", 1000, "--iterations", 6, "--workers", 2, "--servers", 2, "--trace", tmp_path / "job.json")
    draw(tmp_path / "job.json", "--picture", tmp_path / "job.svg", "--worker", 1)
    assert all(bars(tmp_path / "job.svg", kind) for kind in ("forward", "backward", "way"))


def test_what_cannot_be_drawn_is_named_and_nothing_is_written(tmp_path):
    good, picture = trace(tmp_path / "good.json"), tmp_path / "x.svg"
    (tmp_path / "other.json").write_text('{"rows": []}')
    (tmp_path / "torn.json").write_text(good.read_text()[:-20])
    for words, said in (
        ((tmp_path / "other.json", "--picture", picture), "other.json is no trace; give a file that --trace wrote"),
        ((tmp_path / "torn.json", "--picture", picture), "torn.json is no trace"),
        ((tmp_path / "none.json", "--picture", picture), "none.json"),
        ((good, "--picture", picture, "--worker", 2), "has no worker 2; it has: worker 0 with server 0, worker 1 with server 1"),
        ((good, "--picture", picture, "--iteration", 9), f"--iteration 9: {good} holds iterations 1 to 5"),
        ((good, "--picture", tmp_path / "x.png"), "give a name that ends in .svg"),
        ((good, "--picture", tmp_path / "nowhere/x.svg"), "--picture"),
        ((good,), "--picture"),
    ):
        assert said in draw(*words, code=2), words
    before = good.read_text()
    assert "--picture" in draw(good, "--picture", good, code=2) and good.read_text() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["good.json", "other.json", "torn.json"]
