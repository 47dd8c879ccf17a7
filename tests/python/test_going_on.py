"""`paceline train --checkpoint DIR --resume` without the job's other options, which come from the checkpoint; and what is said nevertheless."""

import contextlib
import json
import subprocess

from protocol import crc32c
from test_checkpoint import JOB, LIMIT, PROGRAM, Running, checkpoints, saved, train, undisturbed  # noqa: F401 (fixtures)

from jobs import Coordinator, Process


def going_on(directory, *words, code=0, cwd=None):
    """`paceline train --checkpoint DIR --resume`, as the hint of a failed job says it: the report, and what stands on standard error."""
    done = subprocess.run([PROGRAM, "train", "--json", "--checkpoint", str(directory), "--resume", *map(str, words)], capture_output=True, text=True, timeout=LIMIT, cwd=cwd)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout else None, done.stderr


def test_the_hint_of_a_failed_job_typed_as_it_stands_goes_on_to_the_bit(tmp_path, undisturbed):  # noqa: F811
    options = {"optimizer": "adam", "learning_rate": "cosine:0.002,total=100,warmup=20", "servers": 3, "seed": 3}
    job = Running(tmp_path / "c", checkpoint_every=20, **options)
    job.wait_for(lambda: checkpoints(tmp_path / "c"), "a checkpoint")
    job.kill_one("paceline-trainer")
    code, _, errors = job.ended()
    assert code == 1
    _, _, hint = errors.partition("; go on with ")
    words = hint.partition(". ")[0].split()
    assert words == ["--checkpoint", str(tmp_path / "c"), "--resume"], errors
    done = subprocess.run([PROGRAM, "train", "--json", *words], capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parameters_hash"] == undisturbed(**options)
    told = [line for line in done.stderr.splitlines() if line.startswith(f"paceline: from {tmp_path / 'c'}/000000")]
    assert len(told) == 1, done.stderr
    for taken in ("--workers 2", "--servers 3", f"--dataset {JOB['dataset']}", "--mini-batch 1 ", "--iterations 100", "--optimizer adam", "--seed 3", "--checkpoint-every 20"):
        assert taken in told[0]


def test_what_is_said_wins_and_may_be_another_length_schedule_and_number_of_servers(tmp_path, undisturbed):  # noqa: F811
    train(checkpoint=tmp_path / "c", iterations=20, schedule="p3", slice=5000)
    report, told = going_on(tmp_path / "c", "--iterations", 47, "--servers", 1, "--schedule", "layer-wise", "--checkpoint-every", 9)
    assert report["parameters_hash"] == undisturbed(iterations=47) and len(report["per_server"]) == 1
    assert checkpoints(tmp_path / "c") == [36, 45, 47]
    assert told.count("\n") == 1 and not any(f"--{name} " in told for name in ("iterations", "servers", "schedule", "slice", "checkpoint-every")), told
    report, _ = going_on(tmp_path / "c", "--epochs", 1)
    assert report["iterations"] == 1000 - 47 and report["checkpoint"].endswith("00001000")


def test_a_file_of_options_says_what_it_says(tmp_path, undisturbed):  # noqa: F811
    train(checkpoint=tmp_path / "c", iterations=20, seed=7)
    (tmp_path / "job.toml").write_text(f'checkpoint = "{tmp_path}/c"\nresume = true\niterations = 47\n')
    done = subprocess.run([PROGRAM, "train", "--json", "--config", str(tmp_path / "job.toml")], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parameters_hash"] == undisturbed(iterations=47, seed=7)
    (tmp_path / "job.toml").write_text("iterations = 60\nseed = 8\nmini-batch = 1\n")
    _, errors = going_on(tmp_path / "c", "--config", tmp_path / "job.toml", code=2)
    assert "--seed 7 there against 8 here" in errors and "--mini-batch" not in errors, errors


def test_all_that_is_said_otherwise_and_must_not_is_named_at_once_and_nothing_is_touched(saved):  # noqa: F811
    before = sorted((path, path.stat().st_mtime_ns) for path in saved.rglob("*"))
    _, errors = going_on(saved, "--seed", 2, "--mini-batch", 32, "--workers", 3, "--optimizer", "adam", "--iterations", 60, code=2)
    for difference in ("--seed 1 there against 2 here", "--mini-batch 1 there against 32 here", "--workers 2 there against 3 here", "--optimizer sgd there against adam here"):
        assert difference in errors
    assert errors.count("\n") == 1 and "[paceline help PL-OTHER-JOB]" in errors, errors
    assert sorted((path, path.stat().st_mtime_ns) for path in saved.rglob("*")) == before


def test_a_value_that_was_taken_does_not_hide_what_was_said_otherwise(tmp_path):
    # sgd has no momentum, so the two would contradict each other before anybody compared them.
    train(checkpoint=tmp_path / "c", iterations=3, optimizer="momentum", momentum=0.5)
    _, errors = going_on(tmp_path / "c", "--optimizer", "sgd", "--iterations", 5, code=2)
    assert "--optimizer momentum there against sgd here" in errors and "--momentum" not in errors, errors


def test_processes_that_join_take_the_job_from_the_checkpoint_too(tmp_path, undisturbed):  # noqa: F811
    train(checkpoint=tmp_path / "c", iterations=20, seed=5)
    place = ("--checkpoint", tmp_path / "c", "--resume", "--iterations", 47)
    with Coordinator("--workers", 2, "--servers", 1) as coordinator, contextlib.ExitStack() as stack:
        join = ("train", "--join", coordinator.address)
        members = [stack.enter_context(Process(*join, *place, *role)) for role in (("--role", "server"), (), ())]
        for member in members:
            assert member.finish() == 0, member.err
        assert coordinator.finish() == 0 and coordinator.report()["parameters_hash"] == undisturbed(iterations=47, seed=5), coordinator.err
    assert [member.err.count("--seed 5") for member in members] == [0, 1, 1]


def test_an_option_that_an_earlier_release_did_not_know_is_as_it_was_then(tmp_path, undisturbed):  # noqa: F811
    train(checkpoint=tmp_path / "c", iterations=20)
    manifest = tmp_path / "c/00000020/manifest.json"
    text = manifest.read_text()
    for name in ("adam-beta1", "evaluate-late"):
        text = "".join(line for line in text.splitlines(keepends=True) if f'"{name}"' not in line)
    text = text.replace('"settings": {', '"settings": {\n  "of-another-time": "5",')
    body = text[: text.rindex('"crc32c"')] + '"crc32c": "'
    manifest.write_text(f'{body}{crc32c(body.encode()):08x}"\n}}\n')
    report, _ = going_on(tmp_path / "c", "--iterations", 47)
    assert report["parameters_hash"] == undisturbed(iterations=47)


def test_where_to_export_is_said_anew_and_its_absence_told(tmp_path):
    train(checkpoint=tmp_path / "c", iterations=3, export=tmp_path / "model")
    (tmp_path / "model").unlink()
    _, told = going_on(tmp_path / "c", "--iterations", 5)
    assert not (tmp_path / "model").exists() and f"; not --export {tmp_path / 'model'}" in told, told
    _, told = going_on(tmp_path / "c", "--iterations", 6, "--export", tmp_path / "other")
    assert (tmp_path / "other").exists() and "--export" not in told


def test_who_names_every_option_again_is_told_nothing(tmp_path):
    train(checkpoint=tmp_path / "c", iterations=3)
    assert train("--resume", checkpoint=tmp_path / "c", iterations=5)[1] == ""


def test_blocks_of_a_collective_do_not_hold_up_another_way(tmp_path):
    subprocess.run(
        [PROGRAM, "train", "--model", "lenet", "--dataset", "synthetic:1x28x28,samples=80,test=20", "--workers", "2", "--iterations", "2", "--mini-batch", "4"]
        + ["--collective", "loop3", "--algorithm", "lp", "--block", "64KB", "--checkpoint", str(tmp_path / "c")],
        check=True,
        capture_output=True,
        timeout=LIMIT,
    )
    for iterations, words in ((4, ("--algorithm", "direct")), (6, ("--servers", 2))):
        report, told = going_on(tmp_path / "c", "--iterations", iterations, *words)
        assert report["iterations"] == 2 and "--block" not in told
