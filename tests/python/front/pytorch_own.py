"""PyTorch's own tests of torch.distributed on gloo and on the backend "paceline", side by side.

PYTHONPATH=python PACELINE_LIBRARY=build/release/src/library/libpaceline.so.0 python tests/python/front/pytorch_own.py --folder runs/own

The tests are those that come with torch (torch.testing._internal.distributed.distributed_test), or those of files of PyTorch's
test/distributed in a folder of yours (--tests-folder DIR --files test_c10d_gloo); none of their text is here. The interpreter needs torch and
numpy. What one backend alone passes runs twice, for a busy machine may be why. A second call goes on where the first was stopped; --again runs chosen tests anew.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BACKENDS = ("gloo", "paceline")
EXCEPTIONS = {  # what gloo passes and "paceline" does not, and why that may be so
    "test_ddp_profiling_torch_profiler": "a profile says of the operations of PyTorch's own backends that they are asynchronous; ours are in it without that",
}


def read(file):
    """The latest result of each test."""
    if not file.exists():
        return {}
    return {row["test"]: row for row in map(json.loads, file.read_text().splitlines())}


def run(options, backend, folder):
    """Appends each result to the backend's file as it comes."""
    file, logs = folder / f"{backend}.jsonl", folder / backend
    logs.mkdir(parents=True, exist_ok=True)
    done = [name for name in read(file) if options.again is None or not re.search(options.again, name)]
    ask = {"backend": backend, "folder": str(logs), "limit": options.limit, "chosen": options.tests, "gpus": options.gpus, "theirs": options.tests_folder, "files": options.files}
    variables = {
        **os.environ, "WORLD_SIZE": str(options.world), "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
        "TEMP_DIR": str(logs), "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(options.limit),
    }  # fmt: skip
    command = [sys.executable, str(HERE / "pytorch_suite.py"), json.dumps({**ask, "done": done})]
    with file.open("a") as rows, open(folder / f"{backend}.err", "w") as errors:
        host = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables)
        try:
            for line in host.stdout:
                row = json.loads(line)
                rows.write(line)
                rows.flush()
                said = f"{backend} {row['at']}/{row['of']} {row['outcome']:5} {row['seconds']:6.1f} s  {row['test']}"
                print(said, file=sys.stderr, flush=True)
            host.wait()
        finally:
            host.kill()
    if host.returncode != 0:
        sys.exit(f"pytorch_own.py: error: the tests of {backend} ended with {host.returncode}; see {folder / backend}.err")


def table(folder):
    """A row for each test: its outcome with gloo and with paceline, and why."""
    ran = {backend: read(folder / f"{backend}.jsonl") for backend in BACKENDS}
    rows = []
    for name in sorted(set().union(*ran.values())):
        theirs, ours = (ran[backend].get(name, {"outcome": "", "why": ""}) for backend in BACKENDS)
        why = ours["why"] if ours["outcome"] != "pass" else theirs["why"] if theirs["outcome"] != "pass" else ""
        outcomes = {"gloo": theirs["outcome"], "paceline": ours["outcome"]}
        rows.append({"test": name, **outcomes, "why": why, "exception": EXCEPTIONS.get(name, "")})
    return rows


def unexplained(rows):
    """What gloo passes and paceline neither passes nor is excepted from."""
    return [row for row in rows if row["gloo"] == "pass" and row["paceline"] not in ("", "pass") and not row["exception"]]


def alone(rows):
    """What one of the two passes and the other does not."""
    return [row["test"] for row in rows if "pass" in (row["gloo"], row["paceline"]) and row["gloo"] != row["paceline"] and "" not in (row["gloo"], row["paceline"])]


def counts(rows):
    """As the page has them: tests, both pass, only Paceline, only gloo, both fail, both skip."""
    of = collections.Counter("pass" if word == ("pass", "pass") else "skip" if word == ("skip", "skip") else "ours" if word[1] == "pass" else "theirs" if word[0] == "pass" else "fail"
                             for word in ((row["gloo"], row["paceline"]) for row in rows))  # fmt: skip
    return [len(rows), *(of[word] for word in ("pass", "ours", "theirs", "fail", "skip"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="of results, and of what each test printed")
    parser.add_argument("--tests-folder", metavar="DIR", help="of files of PyTorch's test/distributed")
    parser.add_argument("--files", nargs="+", metavar="NAME", default=["test_c10d_common", "test_c10d_gloo"], help="of them (default: %(default)s)")
    parser.add_argument("--world", type=int, default=3, help="ranks, 3 as PyTorch's own CI has (default: %(default)s); tests in files choose theirs")
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--tests", default="", help="only names that have this pattern")
    parser.add_argument("--again", metavar="PATTERN", help="run these again though they have a result")
    parser.add_argument("--limit", type=int, default=120, help="seconds for a test (default: %(default)s)")
    parser.add_argument("--gpus", action="store_true", help="the tests that ask for GPUs, in the host's memory")
    parser.add_argument("--json", type=pathlib.Path, help="the table")
    parser.add_argument("--page", type=pathlib.Path, help="whose counts must be these, in a row of the same numbers")
    options = parser.parse_args()
    folder = options.folder / f"{'files' if options.tests_folder else f'world-{options.world}'}{'-gpus' if options.gpus else ''}"
    for backend in options.backends:
        run(options, backend, folder)
    rows = table(folder)
    if differ := [] if options.again else alone(rows):
        options.again = options.tests = f"^({'|'.join(map(re.escape, differ))})$"
        for backend in options.backends:
            run(options, backend, folder)
        rows = table(folder)
    for row in rows:
        print(f"{row['test']:90} {row['gloo']:5} {row['paceline']:5} {row['exception'] or row['why']}")
    for (theirs, ours), many in sorted(collections.Counter((row["gloo"], row["paceline"]) for row in rows).items()):
        print(f"gloo {theirs or '-':5} paceline {ours or '-':5} {many}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    said = "| " + " | ".join(map(str, counts(rows))) + " |"
    print(said)
    if options.page and said not in options.page.read_text():
        sys.exit(f"{options.page} has no row that ends in {said}")
    if bad := unexplained(rows):
        sys.exit(f"{len(bad)} tests pass with gloo, not with paceline, and are no exceptions: {', '.join(row['test'] for row in bad)}")


if __name__ == "__main__":
    main()
