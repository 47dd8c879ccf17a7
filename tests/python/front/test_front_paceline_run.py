"""Scripts that `paceline run` starts: coordinator and servers are there already, and everything else is as under torchrun."""

import json
import os
import signal
import subprocess
import tempfile

import nets
import pytest
import scripts
import torch
from loops import bits, plain
from processes import LIMIT, interpreter_and_variables

from jobs import PROGRAM, wait_until

RANKS = 2
SCRIPT = """
import json, os, socket, sys, torch, nets, scripts, paceline.torch as pt
from loops import bits
torch.set_num_threads(1)
host, _, port = os.environ["PACELINE_COORDINATOR"].rpartition(":")
try:
    taken = host != "unix" and socket.create_server((host, int(port) + 1))  # the second job does not count on it
except OSError:
    pass  # nor need it be free
folder, choices = sys.argv[1], json.loads(sys.argv[2])
found = []
for _ in range(2):
    model = nets.everything()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    log = []
    job = pt.attach(model, optimizer, **choices)
    for _ in scripts.everything()(model, optimizer, job.rank, job, log):
        pass
    job.close()
    found.append(bits([list(model.parameters()), log]))
    if "settings" in choices:
        break
open(f"{folder}/{job.rank}", "w").write(json.dumps(found))
"""


def started(folder, script, *arguments, options=("--workers", RANKS)):
    file = folder / "train.py"
    file.write_text(script)
    interpreter, environment = interpreter_and_variables("psk" in options, {})  # a key is handed on as an open file
    command = [PROGRAM, "run", *map(str, options), "--json", "--", interpreter, file, folder, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)


@pytest.mark.parametrize(
    "options, choices",
    [((), {}), (("--servers", 2, "--security", "psk"), {}), (("--servers", 0), {"settings": {"collective": "loop3-overlap"}})],
    ids=["one server", "two servers, with a key", "no server"],
)
def test_a_script_has_the_bits_of_a_plain_loop(tmp_path, options, choices):
    job = started(tmp_path, SCRIPT, json.dumps(choices), options=("--workers", RANKS, *options))
    out, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 0, err
    report = json.loads(out)
    assert (report["workers"], report["servers"]) == (RANKS, options[1] if options else 1)
    found = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(RANKS)]
    expected = [bits([list(model.parameters()), log]) for model, _, log in plain(RANKS, nets.everything(), lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), scripts.everything())]
    for job_of_script in zip(*found, strict=True):  # the second one has a coordinator of its own
        assert list(job_of_script) == expected


def test_jobs_meet_at_files_too(tmp_path):
    with tempfile.TemporaryDirectory() as short:  # for the path of a socket
        job = started(tmp_path, SCRIPT, "{}", options=("--workers", RANKS, "--bind", f"unix:{short}/job"))
        _, err = job.communicate(timeout=LIMIT)
        assert job.returncode == 0, err
        assert os.listdir(short) == []
    first, second = json.loads((tmp_path / "0").read_text())
    assert first == second and json.loads((tmp_path / "1").read_text()) == [first, second]


def test_each_iteration_has_its_line_and_its_pace(tmp_path):
    job = started(tmp_path, SCRIPT, "{}", options=("--workers", RANKS, "--metrics", tmp_path / "lines", "--pace", tmp_path / "pace"))
    out, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 0, err
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == list(range(1, json.loads(out)["iterations"] + 1))
    assert all(line["computing"] >= 0 and line["waiting_parameters"] >= 0 for line in lines)
    assert (tmp_path / "pace").read_text().count("\n") >= len(lines)


ENDLESS = """
import sys, torch, paceline.torch as pt
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
job = pt.attach(model, optimizer)
iterations = 0
while not job.stopping:
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    iterations += 1
    if iterations == 3:
        open(f"{sys.argv[1]}/trains {job.rank}", "w").close()
    if iterations == 3 and "stop" in sys.argv:
        job.stop()
job.close()
open(f"{sys.argv[1]}/{job.rank}", "w").write(str(iterations))
"""


HEEDLESS = """
import contextlib, sys, torch, paceline.torch as pt
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
job = pt.attach(model, optimizer)
iterations = 0
with job if "with" in sys.argv else contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt) if "caught" in sys.argv else contextlib.nullcontext():
    try:
        while True:
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            iterations += 1
            if iterations == 3:
                open(f"{sys.argv[1]}/trains {job.rank}", "w").close()
    finally:
        open(f"{sys.argv[1]}/{job.rank}", "w").write(f"{iterations} {[p.tolist() for p in model.parameters()]}")
"""


@pytest.mark.parametrize("how", ("plain", "with", "caught"))
def test_an_interrupt_ends_a_script_that_does_not_look_whether_it_is_to_stop(tmp_path, how):
    job = started(tmp_path, HEEDLESS, how)
    wait_until("both train", lambda: all((tmp_path / f"trains {rank}").exists() for rank in range(RANKS)))
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 130, err
    assert "paceline: stopping after this iteration; again: at once\n" in err and "Traceback" not in err, err
    assert err.count("paceline: stopped after iteration") == (0 if how == "caught" else 1), err  # rank 0's
    assert "interrupted by the user" in err and json.loads(out)["iterations"] > 3
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text()


FAILS_ONCE = """
import os, sys, torch, paceline.torch as pt
for _ in range(2):  # the second job meets in the attempt's own file
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    with pt.attach(model, optimizer) as job:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
first = f"{sys.argv[1]}/failed"
if job.rank == 1 and not os.path.exists(first):
    open(first, "w").close()
    sys.exit(75)  # as one that wants to be started again
open(f"{sys.argv[1]}/{job.rank}", "w").close()
"""


@pytest.mark.parametrize("restarts, code", ((2, 0), (0, 1)))
def test_a_job_that_fails_is_started_again_as_often_as_it_may(tmp_path, restarts, code):
    job = started(tmp_path, FAILS_ONCE, options=("--workers", RANKS, "--max-restarts", restarts))
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == code, err
    assert err.count("paceline: starting the job again, 1 of 2\n") == (1 if restarts else 0) and "again, 2 of" not in err, err
    assert (tmp_path / "1").exists() == (code == 0)


def test_an_interrupt_lets_all_ranks_leave_after_the_same_iteration(tmp_path):
    job = started(tmp_path, ENDLESS)
    wait_until("both train", lambda: all((tmp_path / f"trains {rank}").exists() for rank in range(RANKS)))
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 130, err
    assert (tmp_path / "0").read_text() == (tmp_path / "1").read_text()


@pytest.mark.parametrize(
    "options, script, arguments, said",
    [
        ((), SCRIPT, ['{"settings": {"collective": "loop3-overlap"}}'], "has no servers, and 1 of this one run already; start it without, as 'paceline run --servers 0' does"),
        (("--servers", 0), SCRIPT, ["{}"], "'paceline run --servers 0' starts jobs by collectives"),
        ((), ENDLESS, ["stop"], "stops it after an iteration when it is interrupted"),
        ((), "", [], "ended without joining the job; a program that 'paceline run' starts joins by paceline::Worker (paceline/torch.h) or paceline.torch.attach"),
    ],
    ids=["collective", "no servers", "stop", "no attach"],
)
def test_what_does_not_go_together_is_said(tmp_path, options, script, arguments, said):
    job = started(tmp_path, script, *arguments, options=("--workers", RANKS, *options))
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 1 and said in err, err
