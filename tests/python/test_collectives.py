"""Processes that use paceline/collectives.h: a program outside the tree, built against an installed Paceline, without LibTorch."""

import contextlib
import os
import pathlib
import re
import subprocess

import pytest

from jobs import keep_port
from sharing import shared_folder, turn

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PACELINE", SOURCE / "build/release/bin/paceline")).resolve().parent.parent


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The example, built against the installation."""
    place = shared_folder(tmp_path_factory, "collectives")
    with turn(place):
        if not (place / "build/collectives").exists():
            run("cmake", "--install", BUILD, "--prefix", place / "prefix")
            run("cmake", "-G", "Ninja", "-S", SOURCE / "examples/collectives", "-B", place / "build", "-DCMAKE_BUILD_TYPE=Release",
                f"-DCMAKE_PREFIX_PATH={place / 'prefix'}")
            run("cmake", "--build", place / "build")
    return place / "build/collectives"


@pytest.fixture
def addresses():
    """Addresses that are kept for the test until it ends."""
    with contextlib.ExitStack() as kept:
        yield lambda count: [f"127.0.0.1:{kept.enter_context(keep_port()).getsockname()[1]}" for _ in range(count)]


def start(program, *arguments):
    return subprocess.Popen([str(program), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(ranks, processes):
    for rank, process in enumerate(processes):
        said, problems = process.communicate(timeout=120)
        assert process.returncode == 0, problems
        mean = sum(range(1, ranks + 1)) / ranks
        largest = rank if rank % 2 else max(range(0, ranks, 2))
        assert said.startswith(f"rank {rank} of {ranks}: mean {mean:g}, greeting 42, largest {largest}; "), said
        residual = float(re.search(r"residual (\S+)", said).group(1))
        assert residual >= 0


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_processes_with_a_list_of_addresses_compute_together(program, addresses, ranks):
    everybody = addresses(ranks)
    check(ranks, [start(program, rank, *everybody) for rank in range(ranks)])


def test_processes_that_meet_at_rank_0_compute_together(program, addresses):
    where, = addresses(1)
    check(3, [start(program, rank, "of", 3, where) for rank in range(3)])


def test_a_rank_that_is_none_is_refused(program, addresses):
    done = subprocess.run([program, "7", *addresses(2)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "rank 7 is none of the 2 ranks; legal: 0 to 1" in done.stderr


def test_the_library_exports_what_its_header_declares_and_nothing_else(program):
    library = next((program.parents[1] / "prefix").glob("lib*/**/libpaceline-collectives.so"))
    listed = subprocess.run(["nm", "--dynamic", "--demangle", "--defined-only", library], capture_output=True, text=True, timeout=60, check=True).stdout
    exported = [line.split(None, 2)[2] for line in listed.splitlines()]
    assert {"paceline::part_of(long, int, int)", "paceline::Request::wait()"} <= set(exported)
    # What the standard library makes of a pointer to the header's opaque state is the state's too.
    others = [name for name in exported if not name.startswith("paceline::") and "paceline::detail::CommunicatorState" not in name]
    assert not others and len(exported) < 50, exported
