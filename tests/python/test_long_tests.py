"""The list of tests that take long names tests that there are."""

from jobs import ROOT


def test_every_long_test_is_there():
    listed = (ROOT / "tests/python/long_tests.txt").read_text().splitlines()
    assert listed == sorted(set(listed))
    for file in {one.partition("::")[0] for one in listed}:
        text = (ROOT / file).read_text()
        names = {one.partition("::")[2].partition("[")[0] for one in listed if one.startswith(file)}
        assert not [name for name in names if f"def {name}(" not in text], file
