"""scripts/check_names refuses names that clash only in another build, or that no compiler compares."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check_names"


def source(space, body, inside=True):
    within = f"namespace {{\n\n{body}\n}}  // namespace\n" if inside else f"{body}\n"
    return f"namespace paceline::{space} {{\n{within}}}  // namespace paceline::{space}\n"


def check(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, SCRIPT, "--root", folder], capture_output=True, text=True, timeout=60)


LIMIT = "constexpr Duration kLimit = std::chrono::seconds(1);"
CHOICE = "struct Choice {\n  int best = 0;\n};"


@pytest.mark.parametrize(
    "files, said",
    (
        ({"src/a/x.cc": source("a", LIMIT), "src/a/y.cc": source("a", "const char* const kLimit[2] = {};")}, "src/a/y.cc:4: kLimit is in src/a/x.cc too"),
        ({"src/a/x.h": source("a", CHOICE, False), "src/b/y.h": source("a", "class Choice final : public Other {\n};", False)}, "paceline::a::Choice is in src/a/x.h too"),
    ),
    ids=("constant", "type"),
)
def test_what_clashes_is_refused_with_both_places(tmp_path, files, said):
    done = check(tmp_path, files)
    assert done.returncode == 1 and said in done.stdout and "2 files, 1 violations" in done.stdout, done.stdout


def test_what_only_looks_alike_is_not(tmp_path):
    done = check(
        tmp_path,
        {
            "src/a/x.cc": source("a", f"{LIMIT}\n{CHOICE}"),
            "src/a/y.cc": source("a", f"{CHOICE}\nconstexpr int kLimits = 2;\nint f() {{\n  constexpr int kLimit = 3;\n  return kLimit;\n}}"),
            "src/a/x_test.cc": source("a", LIMIT),
            "src/b/x.cc": source("b", LIMIT),
            "src/b/x.h": source("b", f"{CHOICE}\nclass Forward;\nstruct Outer {{\n  struct State;\n}};", False),
            "src/c/x.h": source("c", f"{CHOICE}\nclass Forward;", False),
            "src/b/outer.cc": source("b", "struct Outer::State {\n};\nstruct Outer::Rest : Outer {\n};", False),
        },
    )
    assert done.returncode == 0 and "0 violations" in done.stdout, done.stdout
