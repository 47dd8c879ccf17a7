"""PyTorch's own tests of torch.distributed, one after the other, each in processes of its own: the part of pytorch_own.py with torch in it.

It imports torch and the suite once for one backend, and forks for each test; a test forks its ranks. What a test prints is in a file of its
own.
"""

import importlib.util
import json
import os
import re
import select
import signal
import sys
import time
import types
import unittest

from pytorch_files import Name, in_folder

GRACE = 20  # seconds, beyond a test's own limit


def shipped(backend):
    """The tests that come with torch."""
    from torch.testing._internal import common_distributed as common

    if backend != "gloo":
        for backends in common.DistTestCases.backend_feature.values():
            backends.add(backend)
    os.environ.update(BACKEND=backend, INIT_METHOD="file:///set/by/each/test")
    plain = os.environ.decodevalue
    os.environ.decodevalue = lambda value: Name(backend) if plain(value) == backend else plain(value)
    try:
        from torch.testing._internal.distributed import distributed_test as suite
    finally:
        os.environ.decodevalue = plain
    os.environ["BACKEND"] = "mpi"  # most tests of groups are otherwise for 8 ranks and more only

    class Own(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            suite.INIT_METHOD = os.environ["INIT_METHOD"]
            self._spawn_processes()

    return {name: (Own, name) for name in dir(Own) if name.startswith("test_")}


class Expecting(unittest.TestCase):
    """What PyTorch's tests take from the package expecttest, where that is not installed."""

    def assertExpectedInline(self, actual, expect, skip=0):
        self.assertEqual(actual, expect)


def prepare(backend):
    """What is the same for all tests: ranks are forked, and everybody asks for this backend."""
    if importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].__dict__.update(TestCase=Expecting, ACCEPT=False)
    import torch
    from torch.testing._internal import common_distributed as common

    torch.set_num_threads(1)
    common.MultiProcessTestCase._spawn_processes = common.MultiProcessTestCase._fork_processes = forked
    if backend == "gloo":
        return
    import paceline.torch  # noqa: F401
    from torch.distributed import distributed_c10d as c10d

    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        """As torch's, which asks for gloo's name first."""
        if not c10d._rank_not_in_group(group):
            (group or c10d._get_default_group()).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    c10d.monitored_barrier = torch.distributed.monitored_barrier = monitored_barrier


def forked(test):
    import torch

    test._start_processes(torch.multiprocessing.get_context("fork").Process)


def outcome_of(result):
    """What became of a test, and why."""
    for word, found in (("fail", result.errors + result.failures), ("skip", result.skipped)):
        if found:
            return word, found[0][1]
    return ("fail", "expected to fail") if result.unexpectedSuccesses else ("pass", "")


def reason(text):
    """The line of a traceback that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?!RuntimeError: Process )[\w.]*(Error|Exception|Skip)\w*\b", line)]
    return (errors or lines or [""])[0][:300]


def once(kind, name, log, limit):
    """One test in a session of its own, which is killed at the limit, or with what the test has left behind."""
    begin = time.monotonic()
    end, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        with open(log, "wb") as file:
            for standard in (1, 2):
                os.dup2(file.fileno(), standard)
        result = unittest.TestResult()
        kind(name).run(result)
        os.write(told, json.dumps(outcome_of(result)).encode())
        os._exit(0)
    os.close(told)
    said, left = b"", limit + GRACE
    while left > 0 and select.select([end], [], [], left)[0] and (part := os.read(end, 1 << 16)):
        said += part
        left = begin + limit + GRACE - time.monotonic()
    os.close(end)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    lost = "hang" if left <= 0 else "crash", f"after {time.monotonic() - begin:.0f} s"
    word, why = json.loads(said) if said.endswith(b"]") else lost
    return {"outcome": word, "seconds": round(time.monotonic() - begin, 1), "why": reason(why)}


def main():
    """Arguments as JSON: backend, folder of what the tests print, theirs (a folder of files) and files, limit, gpus (those for GPUs only, in the
    host's memory), chosen (a pattern), done (names)."""
    ask = json.loads(sys.argv[1])
    prepare(ask["backend"])
    if ask["gpus"]:
        from pytorch_in_memory import instead_of_gpus

        instead_of_gpus(int(os.environ["WORLD_SIZE"]))
    tests = in_folder(ask["theirs"], ask["files"], ask["backend"], ask["gpus"]) if ask["theirs"] else shipped(ask["backend"])
    if ask["gpus"]:
        tests = {name: (kind, method) for name, (kind, method) in tests.items() if hasattr(getattr(kind, method), "for_gpus")}
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    chosen = [name for name in tests if re.search(ask["chosen"], name) and name not in ask["done"]]
    for at, name in enumerate(chosen, 1):
        kind, method = tests[name]
        found = once(kind, method, f"{ask['folder']}/{name}.log", ask["limit"])
        print(json.dumps({"test": name, "at": at, "of": len(chosen), **found}), file=told)


if __name__ == "__main__":
    main()
