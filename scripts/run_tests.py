"""Runs a suite of tests, and then each that failed once more, alone. scripts/testing.sh calls it, with .venv's Python.

    run_tests.py [--limit SECONDS] RESULT pytest ARGUMENTS...
    run_tests.py [--limit SECONDS] RESULT ctest BUILD ARGUMENTS...

What fails twice has failed. What passes alone is unsteady: it counts as passed, and its name is told. A test runs once only
- that tests/unsteady.txt lists, since it was unsteady before,
- that did not end within its time (--limit, of a Python test; ctest has limits of its own), that a sanitizer stopped, or whose file cannot be read,
- where more than ten failed, which is no chance.

RESULT gets a line for each: `passed NUMBER`, `failed NAME`, `unsteady NAME`. A program of C++ counts as one, whatever number of its tests failed.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTED = ROOT / "tests/unsteady.txt"
MOST = 10  # failures that run once more
LIMIT = 900  # seconds; the longest Python test takes some 200 on two busy cores
SANITIZER = re.compile(r"(WARNING|ERROR|SUMMARY): \w+Sanitizer|: runtime error: ")


@dataclasses.dataclass(frozen=True)
class Failure:
    unit: str  # what counts as one: a Python test, or a program
    name: str  # what runs once more
    final: str = ""  # why it does not; "" if it does


def unsteady_before(text):
    """{name: date} of tests/unsteady.txt."""
    return {name: date for date, _, name in (line.partition(" ") for line in text.splitlines() if line and not line.startswith("#"))}


def settle(failures, listed, passes):
    """(failed, unsteady): names. `passes(failure)` runs it once more."""
    failed, unsteady = {}, []
    for failure in failures:
        final = failure.final or (f"unsteady before, on {listed[failure.name]}" if failure.name in listed else "")
        if not final and len(failures) <= MOST:
            print(f"\n== once more, alone: {failure.name}", flush=True)
            if passes(failure):
                unsteady.append(failure.name)
                continue
        what = failure.name.removeprefix(failure.unit).strip()
        failed.setdefault(failure.unit, []).append(": ".join(filter(None, (what, final))))
    if len(failures) > MOST:
        print(f"\n{len(failures)} tests failed. More than {MOST} are no chance: none runs once more.")
    return [f"{unit} ({', '.join(said)})" if any(said := list(filter(None, what))) else unit for unit, what in failed.items()], unsteady


class Outcomes:
    """What pytest reports, also of tests in other processes."""

    def __init__(self, limit):
        self.limit, self.started, self.passed, self.failures = limit, {}, set(), {}

    def pytest_runtest_logstart(self, nodeid):
        self.started[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            # A process that ended reports no part of a test ("setup", "call", "teardown"). That a test begins is heard a little later.
            late = report.when == "???" and time.monotonic() - self.started.get(report.nodeid, 0) >= 0.8 * self.limit
            final = f"did not end within {self.limit} s" if late else ""
            self.failures.setdefault(report.nodeid, Failure(report.nodeid, report.nodeid, final))
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.failures.setdefault(report.nodeid, Failure(report.nodeid, report.nodeid, "cannot be read"))


def python_suite(arguments, limit):
    """(passed, failures, what runs one once more)"""
    import pytest

    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    common = ["-q", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={limit}", "-o", "faulthandler_exit_on_timeout=true"]
    outcomes = Outcomes(limit)
    status = int(pytest.main([*common, *arguments], plugins=[outcomes]))
    failures = list(outcomes.failures.values())
    # Of these two statuses tests are the reason.
    if status not in (0, 1) and not any(one.final for one in failures) or status == 1 and not failures:
        what = f"pytest {' '.join(arguments)}"
        failures.append(Failure(what, what, f"ended with status {status}"))

    def passes(failure):
        return subprocess.run([sys.executable, "-m", "pytest", *common, failure.name]).returncode == 0

    return len(outcomes.passed - set(outcomes.failures)), failures, passes


def failed_cases(output):
    """The names of the tests that failed, if googletest ran all of a program's tests; otherwise none."""
    names = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([^\s,(]+\.[^\s,(]+)", output, re.MULTILINE)))
    told = re.search(r"^ *(\d+) FAILED TESTS?$", output, re.MULTILINE)
    return names if told and int(told[1]) == len(names) else []


def failures_of(program, how, output):
    """`how`: in ctest's word."""
    if SANITIZER.search(output):
        return [Failure(program, program, "a sanitizer's finding")]
    if how in ("Timeout", "Not Run"):
        return [Failure(program, program, {"Timeout": "did not end within its time", "Not Run": "is not built"}[how])]
    return [Failure(program, f"{program} {case}") for case in failed_cases(output)] or [Failure(program, program)]


def program_suite(build, arguments, report):
    """As python_suite. `report`: a file to write."""
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    done = subprocess.run([*command, "--test-output-size-failed", "100000000", "--output-junit", os.path.abspath(report), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print("".join(line for line in done.stdout.splitlines(True) if not re.match(r"Internal ctest|Test project| *Start | *\d+/\d+ Test .*Passed", line)), flush=True)
    cases = xml.parse(report).getroot().findall("testcase") if os.path.exists(report) else []
    how = dict(re.findall(r"^\t *\d+ - (\S+) \((.+)\)$", done.stdout, re.MULTILINE))
    failures = [failure for case in cases if case.get("name") in how for failure in failures_of(case.get("name"), how[case.get("name")], case.findtext("system-out") or "")]
    if done.returncode != 0 and not failures:
        what = f"ctest {build} {' '.join(arguments)}"
        failures.append(Failure(what, what, f"ended with status {done.returncode}"))

    def passes(failure):
        case = failure.name.removeprefix(failure.unit).strip()
        environment = {**os.environ, "GTEST_FILTER": case} if case else None
        again = subprocess.run([*command, *(["-V"] if case else []), "-R", f"^{re.escape(failure.unit)}$"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if again.returncode != 0:
            print(again.stdout, flush=True)
        return again.returncode == 0 and (not case or re.search(r"\[  PASSED  \] 1 test\b", again.stdout) is not None)

    return len(cases) - len({one.unit for one in failures}), failures, passes


def main():
    words = argparse.ArgumentParser(add_help=False)
    words.add_argument("--limit", type=int, default=LIMIT)
    words.add_argument("result")
    words.add_argument("kind", choices=("pytest", "ctest"))
    words.add_argument("arguments", nargs=argparse.REMAINDER)
    given = words.parse_args()
    if given.kind == "pytest":
        passed, failures, passes = python_suite(given.arguments, given.limit)
    else:
        passed, failures, passes = program_suite(given.arguments[0], given.arguments[1:], given.result + ".xml")
    failed, unsteady = settle(failures, unsteady_before(LISTED.read_text()), passes)
    passed += len({one.unit for one in failures}) - len(failed)
    lines = [f"passed {passed}", *(f"failed {name}" for name in failed), *(f"unsteady {name}" for name in unsteady)]
    pathlib.Path(given.result).write_text("".join(f"{line}\n" for line in lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
