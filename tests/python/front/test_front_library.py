"""The same over libpaceline: real processes, started by torchrun, have the bits of the plain loop."""

import json

import nets
import pytest
import scripts
import torch
from loops import bits, plain
from processes import Members, torchrun

RANKS = 2
CASES = {
    "AdamW": (lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), dict(schedule=lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4)), {}),
    "SGD, branches by rank, clipped": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), dict(branch=lambda i, rank: (i // 2 + rank) % 2, clip=0.05), {}),
    "SGD, accumulated, scaled": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1), dict(accumulate=2, scale=2.0**127), {}),
    "without servers": (lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), {}, dict(settings={"collective": "loop3-overlap"})),
    "bfloat16": (lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), dict(clip=0.05), {}),
    "float16, clipped by the norm": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1), {}, dict(clip_norm=1e30)),
    "p3": (lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), {}, dict(settings={"schedule": "p3"})),
}
KINDS = {"bfloat16": torch.bfloat16, "float16, clipped by the norm": torch.float16}  # of parameters; else float32


def model_of(name):
    return nets.everything().to(KINDS.get(name, torch.float32))


SCRIPT = """
import json, os, sys, torch, nets, scripts, paceline.torch as pt
from loops import bits
from test_front_library import CASES, model_of
torch.set_num_threads(1)
found = {}
for name, (make, options, choices) in CASES.items():
    model = model_of(name)
    if os.environ["RANK"] != "0":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    optimizer = make(model)
    log = []
    job = pt.attach(model, optimizer, **choices)
    for _ in scripts.everything(**options)(model, optimizer, job.rank, job, log):
        pass
    job.close()
    found[name] = bits([list(model.parameters()), log])
open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").write(json.dumps(found))
"""


def test_processes_over_the_library_have_the_bits_of_a_plain_loop(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    result = torchrun(tmp_path / "train.py", tmp_path)
    assert result.returncode == 0, result.stderr
    found = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(RANKS)]
    for name, (make, options, _) in CASES.items():
        expected = [bits([list(model.parameters()), log]) for model, _, log in plain(RANKS, model_of(name), make, scripts.everything(**options))]
        assert [ranks[name] for ranks in found] == expected, name


LARGE = {
    "1000 tiny layers": (lambda: torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(999)], torch.nn.Linear(4, 3)), 4),
    "one layer of 100 MB": (lambda: torch.nn.Sequential(torch.nn.Linear(4, 5000), torch.nn.Linear(5000, 5000), torch.nn.Linear(5000, 3)), 2),
}
LARGE_SCRIPT = """
import os, sys, torch, nets, paceline.torch as pt
from loops import bits
from test_front_library import LARGE, large
torch.set_num_threads(1)
make, steps = LARGE[sys.argv[2]]
model = nets.seeded(make)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
job = pt.attach(model, optimizer)
for _ in large(steps)(model, optimizer, job.rank, job, []):
    pass
job.close()
open(f"{sys.argv[1]}/{job.rank}", "w").write(bits(list(model.parameters())))
"""


def large(steps):
    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    return script


@pytest.mark.full
@pytest.mark.parametrize("name", LARGE)
def test_large_models_over_the_library_have_the_bits_of_a_plain_loop(tmp_path, name):
    (tmp_path / "train.py").write_text(LARGE_SCRIPT)
    result = torchrun(tmp_path / "train.py", tmp_path, name)
    assert result.returncode == 0, result.stderr
    make, steps = LARGE[name]
    expected = [bits(list(model.parameters())) for model, _, _ in plain(RANKS, nets.seeded(make), lambda m: torch.optim.SGD(m.parameters(), lr=0.01), large(steps))]
    assert [(tmp_path / str(rank)).read_text() for rank in range(RANKS)] == expected


WRONG = {
    "torch.nn.Linear(4, 3 + rank)": "weight",
    "torch.nn.Linear(4, 3).to([torch.float32, torch.bfloat16][rank])": "weight",
    "torch.nn.Linear(4, 3)": "clip_norm",  # of one rank alone
}


@pytest.mark.parametrize("wrong", WRONG)
def test_ranks_that_differ_are_all_told_in_what(tmp_path, wrong):
    (tmp_path / "train.py").write_text(f"""
import os, sys, torch, paceline, paceline.torch as pt
rank = int(os.environ["RANK"])
model = {wrong}
try:
    job = pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), clip_norm={"rank or None" if WRONG[wrong] == "clip_norm" else None})
    for _ in range(2):
        model(torch.ones(1, 4, dtype=model.weight.dtype)).sum().backward()
        job._front.stepper.optimizer.step()
        model.weight.sum()
except paceline.PacelineError as error:
    open(f"{{sys.argv[1]}}/{{rank}}", "w").write(error.message)
""")
    result = torchrun(tmp_path / "train.py", tmp_path)
    said = [(tmp_path / str(rank)).read_text() for rank in range(RANKS)]
    assert all("disagree on" in sentence and WRONG[wrong] in sentence for sentence in said), (said, result.stderr)


ENDS = """
import os, signal, sys, torch, nets, paceline, paceline.torch as pt
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
model = nets.mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer, settings={"deadline": "5s"})
def steps(count):
    for iteration in range(count):
        x, y = nets.numbers(iteration, rank, (5, 4))
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
try:
    steps(3)
    END
except paceline.PacelineError as error:
    open(f"{sys.argv[1]}/{rank}", "w").write(error.message)
    sys.exit(7)
open(f"{sys.argv[1]}/{rank}", "w").write("done")
"""


def ranks(tmp_path, end):
    """(exit code, what it wrote, its stderr) of each."""
    with Members(tmp_path, ENDS.replace("END", end.replace("\n", "\n    ")), RANKS) as members:
        return members.end(), [members.said(rank) for rank in range(RANKS)], members.errors


@pytest.mark.parametrize("last", ("pass", "model(torch.ones(2, 4)).sum().backward()"))
def test_scripts_that_just_end_end_well(tmp_path, last):
    """Also between backward() and step(), where all of them do."""
    codes, said, errors = ranks(tmp_path, f"steps(2)\n{last}")
    assert (codes, said) == ([0, 0], ["done", "done"]), errors


def test_rank_0_says_at_the_end_where_the_time_went(tmp_path):
    codes, _, errors = ranks(tmp_path, "steps(5)\njob.close()\nassert (rank == 0) == ('hidden' in job.report()), job.report()\nassert 'exposed' in job.report()")
    assert codes == [0, 0], errors
    said = [[line for line in error.splitlines() if line.startswith("paceline: 2 ranks, 8 iterations of")] for error in errors]
    assert [len(lines) for lines in said] == [1, 0] and "computing" in said[0][0] and "hidden" in said[0][0], errors


def test_gradients_that_one_rank_alone_has_sent_end_all_with_its_name(tmp_path):
    codes, said, errors = ranks(tmp_path, "if rank == 1:\n    model(torch.ones(2, 4)).sum().backward()\njob.close()")
    assert codes == [7, 7] and all("worker 1 goes on with iteration 4, but worker 0 has ended after iteration 3" in sentence for sentence in said), (said, errors)


def test_an_exception_in_one_ranks_script_is_what_the_other_is_told(tmp_path):
    codes, said, errors = ranks(tmp_path, "if rank == 1:\n    raise ValueError('no such file')\nsteps(50)")
    assert codes == [7, 1] and "rank 1: ValueError: no such file" in said[0], (said, errors)


@pytest.mark.parametrize("which", (0, 1))
def test_a_rank_that_is_killed_ends_the_other_with_its_name(tmp_path, which):
    codes, said, errors = ranks(tmp_path, f"if rank == {which}:\n    os.kill(os.getpid(), signal.SIGKILL)\nsteps(50)")
    assert codes[which] == -9 and codes[1 - which] == 7, (codes, errors)
    assert f"worker {which}" in said[1 - which] or f"server {which}" in said[1 - which] or which == 0 and "coordinator" in said[1], said
