"""scripts/run_tests.py: what fails runs once more, alone; and the closing lines of scripts/testing.sh that tell of it."""

import shutil
import subprocess
import sys

import pytest

from jobs import ROOT

# Of a suite: whether this is the second call by that name.
SECOND = """
import os, pathlib
def second(name):
    calls = pathlib.Path(__file__).parent / "calls"
    calls.mkdir(exist_ok=True)
    (calls / f"{name}.{len(list(calls.glob(name + '.*')))}").touch()
    return len(list(calls.glob(name + ".*"))) > 1
"""


class Suite:
    """A tree with the script in it, and tests of its own."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/run_tests.py", folder / "scripts")
        (folder / "tests").mkdir()
        self.lists("# none\n")

    def lists(self, text):
        (self.folder / "tests/unsteady.txt").write_text(text)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def calls(self):
        return sorted(path.name for path in (self.folder / "calls").iterdir())

    def run(self, *words, limit=60):
        """The lines of the result, and what was printed."""
        command = [sys.executable, "scripts/run_tests.py", "--limit", str(limit), "result", *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        lines = (self.folder / "result").read_text().splitlines()
        assert done.returncode == any(line.startswith("failed") for line in lines), done
        return lines, done.stdout

    def pytest(self, **more):
        return self.run("pytest", "-n", "2", "--dist", "worksteal", ".", **more)

    def ctest(self, *programs, **more):
        """`programs`: (name, what a shell does) each."""
        tests = "".join(f"add_test(NAME {name} COMMAND sh -c [==[{body}]==])\n" for name, body in programs)
        self.write("CMakeLists.txt", f"cmake_minimum_required(VERSION 3.25)\nproject(suite LANGUAGES NONE)\nenable_testing()\n{tests}{more.get('rest', '')}")
        subprocess.run(["cmake", "-S", self.folder, "-B", self.folder / "build"], check=True, capture_output=True, timeout=60)
        return self.run("ctest", "build", "-j2")


@pytest.fixture
def suite(tmp_path):
    return Suite(tmp_path)


def test_a_python_test_that_passes_alone_is_unsteady_and_counts_as_passed(suite):
    suite.write("test_some.py", f"""{SECOND}
import pytest
@pytest.fixture
def falls_at_its_end():
    yield
    assert second("end")
def test_good(): pass
def test_bad(): assert second("bad") and False
@pytest.mark.parametrize("odd", ["a b", "[c]", "d::e - f"])
def test_once(odd): assert second(f"once {{ord(odd[0])}}")
def test_crash(): second("crash") or os._exit(3)
def test_end(falls_at_its_end): pass
""")
    lines, printed = suite.pytest()
    assert lines[:2] == ["passed 6", "failed test_some.py::test_bad"]
    odd = [f"unsteady test_some.py::{name}" for name in ("test_crash", "test_end", "test_once[[c]]", "test_once[a b]", "test_once[d::e - f]")]
    assert sorted(lines[2:]) == odd
    assert [name for name in suite.calls() if name.startswith("bad")] == ["bad.0", "bad.1"]
    assert "once more, alone: test_some.py::test_bad" in printed


def test_a_python_test_that_does_not_end_is_ended_and_named_and_runs_once(suite):
    suite.write("test_some.py", f"{SECOND}\nimport time\ndef test_good(): pass\ndef test_hangs():\n    second('hangs')\n    time.sleep(100)\n")
    lines, _ = suite.pytest(limit=3)
    assert lines == ["passed 1", "failed test_some.py::test_hangs (did not end within 3 s)"]
    assert suite.calls() == ["hangs.0"]


def test_files_that_cannot_be_read_fail_though_all_else_passes_alone(suite):
    suite.write("test_some.py", f"{SECOND}\ndef test_once(): assert second('once')\n")
    suite.write("test_broken.py", "import nothing_of_this_name\n")
    lines, _ = suite.pytest()
    assert "failed test_broken.py (cannot be read)" in lines and lines[0] in ("passed 0", "passed 1")
    suite.write("test_broken.py", "")
    suite.write("test_some.py", "")
    lines, _ = suite.pytest()
    assert lines[0] == "passed 0" and lines[1].endswith("(ended with status 5)"), "no test is no success"


def test_many_failures_are_no_chance(suite):
    suite.write("test_some.py", f"{SECOND}\nimport pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_once(n): assert second(f'once{{n}}-')\n")
    lines, printed = suite.pytest()
    assert lines[0] == "passed 0" and len(lines) == 12 and all(line.startswith("failed ") for line in lines[1:])
    assert len(suite.calls()) == 11 and "none runs once more" in printed


def test_what_was_unsteady_before_runs_once(suite):
    suite.write("test_some.py", f"{SECOND}\ndef test_once(): assert second('once')\ndef test_other(): assert second('other')\n")
    suite.lists("# some\n2026-11-28 test_some.py::test_once\n2026-11-28 test_some.py::test_gone\n")
    lines, _ = suite.pytest()
    assert lines == ["passed 1", "failed test_some.py::test_once (unsteady before, on 2026-11-28)", "unsteady test_some.py::test_other"]
    assert suite.calls() == ["once.0", "other.0", "other.1"]


# What a program of googletest says of two tests of which the first, or the one that the filter names, fails until a file is there.
CASES = """
echo "${GTEST_FILTER:-*}" >> filters
[ "$GTEST_FILTER" = One.Fails ] && [ -f steady ] && { echo '[  PASSED  ] 1 test.'; exit 0; }
[ "$GTEST_FILTER" = One.Other/0 ] && { echo '[  PASSED  ] 1 test.'; exit 0; }
printf '[  FAILED  ] One.Fails (3 ms)\\n[  FAILED  ] One.Other/0, where GetParam() = "x.y z.w" (1 ms)\\n[==========] 9 tests ran.\\n[  FAILED  ] 2 tests, listed below:\\n'
printf '[  FAILED  ] One.Fails\\n[  FAILED  ] One.Other/0, where GetParam() = "x.y z.w"\\n\\n 2 FAILED TESTS\\n'
exit 1
"""


def test_the_failed_tests_of_a_program_run_alone(suite):
    programs = (("good_test", "true"), ("two_test", CASES))
    lines, _ = suite.ctest(*programs)
    assert lines == ["passed 1", "failed two_test (One.Fails)", "unsteady two_test One.Other/0"]
    assert (suite.folder / "build/filters").read_text().split() == ["*", "One.Fails", "One.Other/0"]
    suite.write("build/steady", "")
    lines, _ = suite.ctest(*programs)
    assert lines == ["passed 2", "unsteady two_test One.Fails", "unsteady two_test One.Other/0"]
    suite.lists("2026-11-28 two_test One.Other/0\n")
    lines, _ = suite.ctest(*programs)
    assert lines == ["passed 1", "failed two_test (One.Other/0: unsteady before, on 2026-11-28)", "unsteady two_test One.Fails"]


def test_a_program_that_names_no_test_runs_whole_and_a_filter_that_finds_none_is_no_success(suite):
    once = "echo x >> calls.$0; [ $(wc -l < calls.$0) = 2 ]"
    lines, _ = suite.ctest(
        ("crash_test", f"{once.replace('$0', 'a')} || kill -SEGV $$"),
        ("again_test", "kill -SEGV $$"),
        ("none_test", "[ -n \"$GTEST_FILTER\" ] && { echo '[  PASSED  ] 0 tests.'; exit 0; }; printf '[  FAILED  ] A.B (1 ms)\\n 1 FAILED TEST\\n'; exit 1"))
    assert lines == ["passed 1", "failed again_test", "failed none_test (A.B)", "unsteady crash_test"]


def test_what_a_sanitizer_finds_and_what_does_not_end_runs_once(suite):
    lines, _ = suite.ctest(
        ("races_test", "echo x >> races; echo 'WARNING: ThreadSanitizer: data race (pid=3)'; exit 66"),
        ("undefined_test", "echo x >> undefined; echo 'a.cc:3:4: runtime error: signed integer overflow'; exit 1"),
        ("slow_test", "echo x >> slow; exec sleep 100"), rest='set_tests_properties(slow_test PROPERTIES TIMEOUT 1)\nadd_test(NAME unbuilt_test COMMAND /nowhere/unbuilt_test)\n')
    assert lines == [
        "passed 0", "failed races_test (a sanitizer's finding)", "failed undefined_test (a sanitizer's finding)", "failed slow_test (did not end within its time)",
        "failed unbuilt_test (is not built)"]
    assert {(suite.folder / f"build/{name}").read_text() for name in ("races", "undefined", "slow")} == {"x\n"}


def closing(script):
    done = subprocess.run(["bash", "-c", f"set -uo pipefail; source scripts/testing.sh\n{script}\nfinish"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip("\n").rpartition("\n\n")[2].splitlines(), done


STEPS = """
heading first; began=$((began - 75)); count 3 0 first
heading second
printf 'passed 4\\nfailed a_test (X.Y)\\nunsteady b_test Z.W\\n' > $logs/said; result $logs/said second
result $logs/nothing 'a suite'
"""


def test_the_closing_lines_name_what_failed_what_was_unsteady_and_the_time_of_each_step():
    status, lines, done = closing(STEPS)
    assert status == 1 and lines[:3] == ["failed: a_test (X.Y)", "failed: a suite", "unsteady: b_test Z.W"], done
    assert "  1:15  first" in lines and lines[-2].endswith("  in all") and lines[-1] == "7 passed, 2 failed"
    assert closing("count 1 0 x")[0] == 0 and closing("")[0] == 1, "nothing that ran is no success"


def test_what_another_script_closes_with_is_taken_over(tmp_path):
    _, _, inner = closing(STEPS)
    (tmp_path / "log").write_text(f"failed: this is no closing line\n  9:59  nor this\n\n{inner.stdout}")
    status, lines, _ = closing(f"adopt {tmp_path / 'log'} inner; count 1 0 own")
    assert status == 1 and lines[:3] == ["failed: a_test (X.Y)", "failed: a suite", "unsteady: b_test Z.W"] and "  1:15  first" in lines
    assert lines[-1] == "8 passed, 2 failed" and not any("9:59" in line for line in lines)
    (tmp_path / "log").write_text("3 passed, 0 failed\n\nKilled\n")
    status, lines, _ = closing(f"adopt {tmp_path / 'log'} inner; count 1 0 own")
    assert status == 1 and lines[0] == "failed: inner" and lines[-1] == "1 passed, 1 failed"
