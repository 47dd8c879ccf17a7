"""Requests that cannot be right: exit code 2, one line that names what, where, what was found and what is legal; nothing is written and
nothing is left running. And the commands that need no LibTorch start without it.
"""

import gzip
import re
import struct
import subprocess

import pytest

from jobs import ERROR, PROGRAM, Process, full


def refused(*arguments, names=(), folder=None):
    """The message; every text in `names` is in it."""
    with Process(*arguments, cwd=folder) as process:
        code = process.finish(60)
        assert code == 2, (arguments, code, process.out, process.err)
        assert process.out == ""
        assert process.err.startswith(ERROR) and process.err.count("\n") == 1, process.err
        message = process.the_error()
        for name in names:
            assert str(name) in message, (name, message)
        return message


@pytest.fixture
def folder(tmp_path):
    """A working directory in which nothing may appear."""
    here = tmp_path / "here"
    here.mkdir()
    yield here
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, names",
    [
        (("--model", "lenett"), ("lenett", "did you mean 'lenet'?", "resnet-20")),
        (("--dataset", "mnist-5kk"), ("--dataset", "mnist-5kk", "did you mean 'mnist-5k'?")),
        (("--schedule", "layerwise"), ("layerwise", "did you mean 'layer-wise'?", "p3")),
        (("--schedule", "p3", "--slice", "0"), ("--slice 0", "1 and more parameters")),
        (("--schedule", "p3", "--slice", "6B"), ("--slice 6B", "whole parameters")),
        (("--schedule", "default", "--slice", "50000"), ("--slice 50000 contradicts --schedule default", "slicing, p3")),
        (("--schedule", "ibatch", "--batching", "exakt"), ("exakt", "forward-greedy", "did you mean 'exact'")),
        (("--batching", "exact"), ("--batching exact contradicts --schedule", "ibatch")),
        (("--schedule", "ibatch", "--push", "in-batch"), ("--push in-batch", "as-ready", "did you mean 'in-batches'?")),
        (("--schedule", "p3", "--push", "in-batches"), ("--push in-batches contradicts --schedule p3", "ibatch")),
        (("--window", "16KiB"), ("--window 16KiB", "two chunks of 65536 bytes", "128KiB")),
        (("--window", "automatic"), ("--window automatic", "auto:TIME")),
        (("--return", "broadcst"), ("--return broadcst", "pull-by-layer", "did you mean 'broadcast'?")),
        (("--schedule", "p3", "--return", "pull-by-layer", "--push", "in-batches"), ("--push in-batches contradicts", "--return pull-by-layer", "pull-in-batches")),
        (("--schedule", "p3", "--return", "broadcast", "--batching", "exact"), ("--batching exact contradicts", "--return broadcast", "pull-in-batches")),
        (("--ordered-places", "worker-egres"), ("worker-egres", "did you mean 'worker-egress'?", "server-ingress")),
        (("--schedule", "kvstore", "--ordered-places", "worker-egress"), ("--ordered-places worker-egress contradicts --schedule kvstore", "window")),
        (("--window", "1MB", "--ordered-places", "none"), ("--ordered-places none", "--window 1MB")),
        (("--merge", "many"), ("--merge many", "0 (nothing is merged)")),
        (("--wire", "bfloat"), ("--wire 'bfloat'", "did you mean 'bfloat16'?", "float32, bfloat16, float16")),
        (("--wire", ""), ("--wire", "float32, bfloat16, float16")),
        (("--wire", "dgc:0.1", "--optimizer", "adam"), ("--optimizer adam contradicts --wire dgc:0.1", "sgd, momentum, nesterov")),
        (("--wire", "dropping:0.1", "--dgc-warm-up", 3), ("--dgc-warm-up 3", "--wire dgc:SHARE")),
        (("--momentum", 0.5), ("--momentum 0.5", "--optimizer momentum or nesterov", "sgd")),
        (("--lookahead", 3), ("--lookahead 3", "--sync elastic-bsp", "bsp")),
        (("--evaluate-late",), ("--evaluate-late", "--evaluate-every")),
        (("--wire", "bfloat16", "--loss-scale", 1000), ("--loss-scale 1000", "a power of two from 1 to 16777216")),
        (("--loss-scale", 2), ("--loss-scale 2", "--wire float16")),
        (("--wire", "dropping"), ("--wire 'dropping'", "dropping:SHARE", "above 0 up to 1")),
        (("--wire", "dropping:1.5"), ("--wire 'dropping:1.5'", "above 0 up to 1")),
        (("--wire", "dropping:0.1", "--non-finite", "skip"), ("--non-finite skip contradicts --wire dropping:0.1", "stop, apply")),
        (("--wire", "dropping:0.1", "--checkpoint", "c", "--resume"), ("--checkpoint contradicts --wire dropping:0.1",)),
        (("--collective", "loop3", "--wire", "bfloat16"), ("--wire bfloat16 contradicts --collective loop3", "float32")),
        (("--sync", "bps"), ("bps", "bsp", "elastic-bsp")),
        (("--optimizer", "adm"), ("adm", "did you mean 'adam'?", "nesterov")),
        (("--optimizer", "mean"), ("--optimizer mean", "the trainer has none", "replay:FILE", "adamw")),
        (("--optimizer", "mean", "--momentum", 0.5), ("--momentum 0.5 is for --optimizer momentum or nesterov, not mean",)),
        (("--optimizer", "mean", "--sync", "asp"), ("--sync asp contradicts --optimizer mean", "bsp")),
        (("--told-rates",), ("--told-rates is for programs", "the trainer tells none")),
        (("--verdict",), ("--verdict is for --optimizer mean, not sgd",)),
        (("--optimizer", "mean", "--verdict-first"), ("--verdict-first is for --verdict",)),
        (("--non-finite", "skipp"), ("skipp", "stop", "skip", "apply")),
        (("--learning-rat", 3), ("--learning-rat", "did you mean '--learning-rate'?")),
        (("--learning-rat=3",), ("--learning-rat", "did you mean '--learning-rate'?")),
        (("--worker", 3), ("--worker", "did you mean '--workers'?")),
        (("lenet",), ("lenet",)),
        (("--role", "sever"), ("--role", "sever", "server", "both")),
        (("--role", "server"), ("--role server", "--join")),
        (("--servers", 0), ("--servers 0", "--collective loop3-overlap", "1 to 100000")),
        (("--role", "both", "--workers", 3, "--servers", 2), ("--servers 2", "--role both", "3 processes")),
        (("--reference", "--security", "tsl"), ("'tsl'", "tls")),
        (("--reference", "--role", "both"), ("--reference", "--role both")),
        (("--join", "nowhere"), ("--join", "nowhere", "port")),
        (("--join", "127.0.0.1:70000"), ("--join", "127.0.0.1:70000", "port")),
        (("--join", "127.0.0.1:4100", "--bind", "0.0.0.0"), ("--bind 0.0.0.0", "no host", "reach this machine")),
        (("--join", "127.0.0.1:4100", "--role", "server", "--bind", "::"), ("--bind ::", "no host", "reach this machine")),
        (("--hosts", "node1,node2", "--bind", "0.0.0.0"), ("--bind 0.0.0.0", "--hosts", "this machine's address")),
        (("--learning-rate", "step:0.1,evry=3"), ("evry", "every")),
        (("--learning-rate", "cosine:0.1"), ("cosine", "total")),
        (("--learning-rate", "stepp:0.1,every=3"), ("stepp",)),
        (("--iterations", 3, "--epochs", 2), ("--iterations 3", "--epochs 2")),
        (("--resume",), ("--resume", "--checkpoint")),
        (("--checkpoint-every", 3), ("--checkpoint-every", "--checkpoint")),
        (("--reference", "--sync", "asp"), ("--reference", "asp")),
        (("--reference", "--join", "127.0.0.1:4100"), ("--reference", "--join")),
        (("--model",), ("--model",)),
    ],
    ids=str,
)
def test_what_no_job_can_be(arguments, names, folder):
    refused("train", "--metrics", "metrics.jsonl", *arguments, names=names, folder=folder)


WHOLE = ("workers", "servers", "mini-batch", "iterations", "epochs")
FROM_ZERO = ("seed", "evaluate-every", "staleness", "checkpoint-every")
REAL = ("momentum", "weight-decay", "clip-norm", "learning-rate", "loss-scale")
TIMES = ("deadline", "stall-deadline")


@pytest.mark.parametrize(
    "option, value",
    [(option, value) for option in WHOLE for value in ("0", "-1", "00")]
    + [(option, "-1") for option in (*FROM_ZERO, *REAL)]
    + [(option, value) for option in (*WHOLE, *FROM_ZERO, "lookahead", "rank") for value in ("99999999999999999999", "-99999999999999999999", "1.5", "1e400", "nan", "three", "", "3x")]
    + [(option, value) for option in REAL for value in ("1e400", "-1e400", "nan", "inf", "much", "", "0.1x")]
    + [(option, value) for option in TIMES for value in ("0s", "-1s", "1e400s", "nans", "infs", "99999999999999999999h", "5", "1 fortnight", "")]
    + [("momentum", "1"), ("lookahead", "0"), ("rank", "-2"), ("deadline", "1ms")],
)
def test_numbers_that_are_none_or_out_of_range(option, value, folder):
    refused("train", "--metrics", "metrics.jsonl", f"--{option}={value}", names=("learning" if option == "learning-rate" else option,), folder=folder)


def test_a_number_that_is_none_is_told_with_what_is_legal(folder):
    refused("train", "--workers", "many", names=("--workers", "'many'", "legal: a whole number"), folder=folder)
    refused("train", "--clip-norm", "much", names=("--clip-norm", "'much'", "legal: a number"), folder=folder)


@pytest.mark.parametrize(
    "command, option, least, most",
    [
        *((("train",), *row) for row in (("workers", 1, 100_000), ("servers", 0, 100_000), ("rank", -1, 99_999), ("prefetch", 0, 64), ("loader-threads", 1, 64))),
        *((("coordinator",), *row) for row in (("workers", 1, 100_000), ("servers", 0, 100_000), ("port", 0, 65_535))),
        *((("run",), *row) for row in (("workers", 1, 100_000), ("servers", 0, 100_000))),
        *((("profile",), *row) for row in (("mini-batch", 1, 1_000_000), ("mini-batches", 1, 1_000_000), ("iterations", 2, 1_000_000), ("rounds", 1, 1000), ("nodes", 1, 1_000_000))),
        (("lab",), "hosts", 1, 250),
        (("doctor",), "serve", 0, 65_535),
    ],
)
def test_a_whole_number_that_is_refused_is_told_with_its_range(command, option, least, most, folder):
    refused(*command, f"--{option}", "two", names=(f"--{option} cannot be 'two'; legal: a whole number, {least} to {most}",), folder=folder)
    for value in (least - 1, most + 1):
        refused(*command, f"--{option}={value}", names=(f"--{option} is {value}; legal: {least} to {most}",), folder=folder)


@pytest.mark.parametrize("option", ["workers", "servers", "port", "deadline", "stall-deadline"])
@pytest.mark.parametrize("value", ["-1", "99999999999999999999", "nan", "1e400", "many"])
def test_numbers_of_the_coordinator(option, value, folder):
    refused("coordinator", f"--{option}={value}", names=(option,), folder=folder)


def idx(kind, shape, values):
    return struct.pack(">HBB", 0, kind, len(shape)) + b"".join(struct.pack(">I", side) for side in shape) + bytes(values)


def mnist(folder, samples=40, **replaced):
    """A small data set in MNIST's format; `replaced` gives the bytes of a file, None leaves it out."""
    files = {}
    for half in ("train", "t10k"):
        files[f"{half}_images"] = idx(8, (samples, 28, 28), (i % 251 for i in range(samples * 784)))
        files[f"{half}_labels"] = idx(8, (samples,), (i % 10 for i in range(samples)))
    for name, content in {**files, **replaced}.items():
        half, what = name.split("_")
        if content is not None:
            (folder / f"{half}-{what}-idx{3 if what == 'images' else 1}-ubyte").write_bytes(content)
    return folder


def test_the_small_data_set_itself_is_good(tmp_path):
    with Process("train", "--json", "--dataset", f"mnist:{mnist(tmp_path)}", "--mini-batch", 8, "--iterations", 2) as job:
        assert job.finish() == 0, job.err


GOOD = idx(8, (40, 28, 28), bytes(40 * 784))


@pytest.mark.parametrize(
    "damage, names",
    [
        ({"train_images": None}, ("train-images-idx3-ubyte",)),
        ({"t10k_labels": None}, ("t10k-labels-idx1-ubyte",)),
        full({"train_images": b""}, ("train-images-idx3-ubyte",)),
        full({"train_images": GOOD[:7]}, ("train-images-idx3-ubyte",)),
        ({"train_images": GOOD[:-1]}, ("train-images-idx3-ubyte", "31359", "31360")),
        full({"train_images": GOOD + b"x"}, ("train-images-idx3-ubyte",)),
        ({"train_images": b"\0\0\x09\3" + GOOD[4:]}, ("train-images-idx3-ubyte",)),
        full({"train_images": b"PK\3\4" + GOOD[4:]}, ("train-images-idx3-ubyte",)),
        ({"train_images": idx(8, (2**32 - 1, 2**32 - 1, 2**32 - 1), b"")}, ("train-images-idx3-ubyte",)),
        full({"train_images": idx(8, (0, 28, 28), b"")}, ("train-images-idx3-ubyte",)),
        ({"train_images": idx(8, (39, 28, 28), bytes(39 * 784))}, ("39", "40")),
        ({"train_labels": idx(8, (40,), [10] + [0] * 39)}, ("train-labels-idx1-ubyte", "10")),
        full({"train_labels": idx(8, (40,), [0] * 39 + [255])}, ("train-labels-idx1-ubyte", "255")),
        ({"train_labels": gzip.compress(idx(8, (40,), [1] * 40))[:-9]}, ("train-labels-idx1-ubyte",)),
    ],
)
def test_damaged_files_of_images(damage, names, tmp_path, folder):
    data = tmp_path / "data"
    data.mkdir()
    refused("train", "--metrics", "metrics.jsonl", "--dataset", f"mnist:{mnist(data, **damage)}", "--mini-batch", 4, "--workers", 2, names=names, folder=folder)


def test_folders_that_hold_no_data(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    for spec in (f"mnist:{empty}", f"mnist:{empty}/not-there", f"images:{empty}", f"images:{empty}/not-there", f"cifar-10:{empty}", f"records:{empty}/not-there"):
        refused("train", "--metrics", "metrics.jsonl", "--dataset", spec, names=(str(empty),), folder=folder)
    (empty / "cat").mkdir()
    refused("train", "--metrics", "metrics.jsonl", "--dataset", f"images:{empty}", names=(str(empty),), folder=folder)
    (empty / "cat" / "tom.png").write_text("this is no image")
    (empty / "dog").mkdir()
    (empty / "dog" / "rex.png").write_text("neither is this")
    refused("train", "--metrics", "metrics.jsonl", "--model", "resnet-50", "--mini-batch", 1, "--dataset", f"images:{empty}", names=(".png",), folder=folder)


@pytest.mark.parametrize("spec", ["mnist", "mnist:", "mnist-5k:here", "synthetic:3x32", "synthetic:0x32x32", "synthetic:-1x1x1", "synthetic:3x32x32,sample=5", "synthetic:99999999999999999999x1x1"])
def test_data_set_specifications_that_are_incomplete(spec, folder):
    refused("train", "--metrics", "metrics.jsonl", "--dataset", spec, names=(spec.partition(":")[0],), folder=folder)


@pytest.mark.parametrize(
    "arguments, names",
    [
        (("--model", "lenet", "--dataset", "digits"), ("lenet", "1x28x28", "digits", "1x8x8")),
        (("--model", "resnet-20", "--dataset", "mnist-5k"), ("resnet-20", "3x32x32", "mnist-5k", "1x28x28")),
        (("--model", "seq2seq", "--dataset", "mnist-5k"), ("seq2seq", "text", "mnist-5k", "images")),
        (("--model", "resnet-20", "--dataset", "synthetic:3x32x32,classes=11"), ("resnet-20", "10", "11")),
        (("--mini-batch", 4001), ("4000", "4001")),
        (("--mini-batch", 1001, "--workers", 4), ("4000", "1001", "4 workers", "1000")),
        (("--mini-batch", 4001, "--reference"), ("4000", "4001")),
    ],
    ids=str,
)
def test_model_and_data_that_do_not_fit(arguments, names, folder):
    refused("train", "--metrics", "metrics.jsonl", *arguments, names=names, folder=folder)


def test_a_metrics_file_that_cannot_be_written_is_named_at_once(folder):
    refused("train", "--metrics", "not-there/metrics.jsonl", names=("--metrics", "not-there/metrics.jsonl"), folder=folder)


def test_an_older_metrics_file_survives_a_request_that_is_wrong(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text("precious\n")
    refused("train", "--metrics", file, "--model", "lenet", "--dataset", "digits")
    assert file.read_text() == "precious\n"


def test_the_program_is_not_linked_with_torch():
    listed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True, timeout=30).stdout
    assert "libc.so" in listed
    assert not re.search(r"torch|libc10", listed), listed
