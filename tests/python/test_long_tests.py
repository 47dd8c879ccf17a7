"""The lists of tests that take long, and of tests that were unsteady, name tests that there are."""

import re

from jobs import ROOT


def test_every_long_test_is_there():
    listed = (ROOT / "tests/python/long_tests.txt").read_text().splitlines()
    assert listed == sorted(set(listed))
    for file in {one.partition("::")[0] for one in listed}:
        text = (ROOT / file).read_text()
        names = {one.partition("::")[2].partition("[")[0] for one in listed if one.startswith(file)}
        assert not [name for name in names if f"def {name}(" not in text], file


def test_every_unsteady_test_is_there():
    for line in (ROOT / "tests/unsteady.txt").read_text().splitlines():
        if not line.startswith("#"):
            date, _, name = line.partition(" ")
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", date), line
            file, python, test = name.partition("::")
            assert not python or f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), line
