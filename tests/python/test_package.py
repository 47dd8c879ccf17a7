"""The packages of Debian that `cpack -G DEB` makes of a build: what they hold runs, is linked by others, and needs what the package says."""

import os
import re

import pytest
from jobs import ROOT
from test_c_interface import PROGRAM, meeting, run

pytestmark = pytest.mark.full
JOB = ("train", "--model", "lenet", "--mini-batch", 16, "--workers", 2, "--servers", 1, "--iterations", 3)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Made from the build as it is; nothing is compiled."""
    folder = tmp_path_factory.mktemp("packages")
    run("cpack", "--config", PROGRAM.parent.parent / "CPackConfig.cmake", "-G", "DEB", "-B", folder)
    return {run("dpkg-deb", "--field", file, "Package").strip(): file for file in folder.glob("*.deb")}


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    for file in packages.values():
        run("dpkg", "-x", file, folder)
    return folder / "usr"


def test_an_unpacked_program_trains_with_the_bits_of_the_build(unpacked):
    hashes = [re.search(r"^parameters +(\w+)$", run(program, *JOB), re.MULTILINE)[1] for program in (unpacked / "bin/paceline", PROGRAM)]
    assert hashes[0] == hashes[1]
    assert run(unpacked / "bin/paceline", "lab", "--help") and run(unpacked / "bin/paceline", "doctor", "--help")


def test_a_c_program_is_built_against_what_was_unpacked(unpacked, tmp_path):
    run("cmake", "-G", "Ninja", "-S", ROOT / "examples/linear_model", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={unpacked}")
    run("cmake", "--build", tmp_path)
    linked = run("ldd", tmp_path / "linear_model")
    assert f"libpaceline.so.0 => {unpacked / 'lib/libpaceline.so.0'}" in linked, linked
    held, address = meeting()
    with held:
        assert "report {" in run(tmp_path / "linear_model", "sgd", address)


def test_a_package_says_what_it_needs_and_what_it_is(packages):
    assert set(packages) == {"paceline", "paceline-trainer"}
    needed = run("dpkg-deb", "--field", packages["paceline"], "Depends")
    owners = set(re.findall(r"(\S+?)(?: \([^)]*\))?(?:, |\n)", needed))
    for library in re.findall(r"=> (/\S+)", run("ldd", PROGRAM)):
        place = os.path.realpath(library).removeprefix("/usr")  # packages name it with and without
        owner = run("dpkg-query", "--search", f"*{place}").split(":")[0]
        also = run("dpkg-query", "--show", "--showformat=${Provides}", owner)  # such as the name that says which fmt it was built with
        assert owners & {owner, *re.findall(r"[^\s,()]+", also)}, (library, needed)
    version = run("dpkg-deb", "--field", packages["paceline"], "Version").strip()
    assert version in run(PROGRAM, "--version")
    assert run("dpkg-deb", "--field", packages["paceline-trainer"], "Depends").strip() == f"paceline (= {version})"


def names(file):
    return {line.split()[5] for line in run("dpkg", "--contents", file).splitlines() if not line.endswith("/")}


def test_no_file_is_in_both(packages):
    both = names(packages["paceline"]) & names(packages["paceline-trainer"])
    assert not both
