"""scripts/check_style refuses what it counts, once there is more of it than the limits of the tree say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check_style"
GOOD = {
    "src/a/a.h": "#pragma once\nstruct A {\n  enum class Kind { kOne };\n};\n",
    "src/a/a.cc": '#include "a/a.h"\n\nA::A() : one_{1}, two_{2} {\n  start();\n}\n\nint two() {\n  return 2;\n}\n',
    "src/a/a_test.cc": '#include "a/a.h"\n\nTEST(A, Is) {\n  EXPECT_TRUE(true);\n}\n',
}
PAGE = "docs" + "/page.md"  # test_citations looks for whole names of pages
GOOD[PAGE] = "# Page\n\n## 1. First\n"


def check(folder, files, *arguments, limits=None):
    for name, text in {**GOOD, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "scripts").mkdir(exist_ok=True)
    if limits is not None:
        (folder / "scripts/style.json").write_text(json.dumps(limits), encoding="utf-8")
    return subprocess.run([sys.executable, SCRIPT, "--root", folder, *arguments], capture_output=True, text=True, timeout=60)


def limits_of(folder):
    return json.loads((folder / "scripts/style.json").read_text(encoding="utf-8"))


@pytest.fixture
def tree(tmp_path):
    """A tree whose limits are tight."""
    generous = {
        "characters of the longest C++ line": 99,
        "lines of the longest C++ function": 99,
        "lines of the longest C++ header": 99,
        "lines of the longest C++ source": 99,
        "lines of the longest C++ test": 99,
        "lines of the longest C++ test function": 99,
        "types called Kind": 99,
    }
    assert check(tmp_path, {}, "--tighten", limits=generous).returncode == 0
    return tmp_path


def test_limits_are_what_the_tree_has_and_fall_with_it(tree):
    assert limits_of(tree)["lines of the longest C++ function"] == 3
    assert limits_of(tree)["lines of the longest C++ header"] == 4 and limits_of(tree)["types called Kind"] == 1
    assert check(tree, {}, "--tight").returncode == 0

    better = {"src/a/a.h": "#pragma once\nstruct A {};\n"}
    done = check(tree, better)
    assert done.returncode == 0 and "types called Kind is 0 now and may be 1" in done.stdout
    assert check(tree, better, "--tight").returncode == 1
    assert check(tree, better, "--tighten").returncode == 0
    assert limits_of(tree)["types called Kind"] == 0
    assert check(tree, {}).returncode == 1  # and never rise again


def test_a_budget_stays_where_it_is(tree):
    roomy = limits_of(tree) | {"functions of the largest class": 3}
    assert check(tree, {}, "--tight", limits=roomy).returncode == 0
    assert check(tree, {}, "--tighten").returncode == 0 and limits_of(tree)["functions of the largest class"] == 3


def test_tightening_raises_no_limit(tree):
    before = limits_of(tree)
    assert check(tree, {"src/a/a.cc": GOOD["src/a/a.cc"] + "int three() {\n\n\n\n  return 3;\n}\n"}, "--tighten").returncode == 1
    assert limits_of(tree) == before


# What looks like a function and is none of the class's.
NO_FUNCTIONS = """#pragma once
class A final : public B {
 public:
  A();
  A(const A&) = delete;
  ~A() override;
  friend int f(A);
  enum class Kind { kOne };

 private:
  std::function<void(int)> callback_;
  static constexpr int kTwo = two(1);
  std::vector<int> numbers_{1, 2};
  int three_ = g([](int a) { return a; });
};
"""


def test_members_that_are_no_functions_do_not_count(tree):
    done = check(tree, {"src/a/a.h": NO_FUNCTIONS})
    assert "functions" not in done.stdout, done.stdout


LONG = "// " + "word " * 25 + "\n"
WORSE = {
    "a longer line": ({"src/a/a.cc": GOOD["src/a/a.cc"] + "// " + "x" * 60 + "\n"}, "src/a/a.cc:10: 63 characters"),
    "a longer function": ({"src/a/a.cc": "int f(int a,\n      int b) {\n  if (a) {\n    g();\n  }\n}\n"}, "src/a/a.cc:2: a function of 5 lines"),
    "a function behind initializers": ({"src/a/a.cc": "A::A() : a_{1} {\n  f();\n  f();\n}\n"}, "src/a/a.cc:1: a function of 4 lines"),
    "a function more in a class": ({"src/a/a.h": GOOD["src/a/a.h"] + "class B {\n  void f() { g(); }\n  int h(int a = 1) const;\n};\n"}, "src/a/a.h:5: B has 2 functions"),
    "a longer header": ({"src/a/a.h": GOOD["src/a/a.h"] + "\n"}, "src/a/a.h: 5 lines"),
    "a dead header": ({"src/a/b.h": "#pragma once\n"}, "src/a/b.h: nobody includes it"),
    "one more of a shared name": ({"src/a/a.h": "struct A { enum class Kind { k }; };\nstruct Kind { int i; };\n"}, "another type called Kind"),
    "a question what kind of job it is": ({"src/a/a.cc": "bool f(P p) { return p.uneven() || p.wire.drops(); }\n"}, "src/a/a.cc:1: drops(); let a value answer"),
    "a broken paragraph": ({"src/a/a.cc": LONG + "// lost\n// and so on.\n"}, "src/a/a.cc:2: '// lost'"),
    "a batch of samples": ({"src/a/a.cc": "// the batch size\n"}, "src/a/a.cc:1: 'batch size'; say mini-batch"),
    "a batch in the trainer": ({"trainer/t.cc": "int f(int batch);\n"}, "trainer/t.cc:1: say mini-batch"),
    "a section that is not there": ({"src/a/a.cc": f"// {PAGE}, section 2\n"}, f"src/a/a.cc:1: {PAGE}, section 2 does not exist"),
    "words of a page": ({PAGE: GOOD[PAGE] + "| word " * 2500}, "docs: 2503 words; say a thing once"),
    "a shell": ({"src/a/a.cc": 'int f() { return std::system("ls"); }\n'}, "src/a/a.cc:1: std::system(...)"),
}


@pytest.mark.parametrize("name", WORSE)
def test_what_is_worse_is_refused_with_its_place(tree, name):
    files, says = WORSE[name]
    done = check(tree, files)
    assert done.returncode == 1 and says in done.stdout, done.stdout


def test_what_only_looks_worse_is_not(tree):
    code = f"// {PAGE}, section 1\n" """#include "a/a.h"
// system() is not called.
auto a = R"(popen( { {)";
// popen(
void f() {
  char c = '{';
}
"""
    done = check(tree, {"src/a/a.cc": code, "trainer/t.cc": "int mini_batch;\n"})
    assert done.returncode == 0, done.stdout
