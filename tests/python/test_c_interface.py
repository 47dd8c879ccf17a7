"""libpaceline as a program in C sees it: what is installed, what it exports, and a job that is trained through it alone."""

import json
import os
import pathlib
import re
import socket
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("PACELINE", SOURCE / "build/release/bin/paceline")).resolve()


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", PROGRAM.parent.parent, "--prefix", prefix, "--component", "library")
    return prefix


@pytest.fixture(scope="module")
def program(installed, tmp_path_factory):
    build = tmp_path_factory.mktemp("linear_model")
    run("cmake", "-G", "Ninja", "-S", SOURCE / "examples/linear_model", "-B", build, f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror")
    run("cmake", "--build", build)
    return build / "linear_model"


def meeting():
    """An address that nobody has, for as long as the socket is held and given up when it is used."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place, "127.0.0.1:{}".format(place.getsockname()[1])


@pytest.mark.parametrize("compiler", [("gcc", "-xc", "-std=c11"), ("g++", "-xc++", "-std=c++11")])
@pytest.mark.parametrize("header", ["paceline.h", "error.h", "alike.h", "communicator.h", "optimizer_state.h"])
def test_each_header_stands_alone_in_c11_and_in_cpp(installed, compiler, header):
    run(*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{installed / 'include'}", "-", input=f"#include <paceline/{header}>\n")


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_c_program_outside_the_tree_trains_and_reduces(program, optimizer):
    held, address = meeting()
    with held:
        said = run(program, optimizer, address)
    lines = said.splitlines()
    losses = [re.fullmatch(r"rank (\d) of 2: .* loss (\S+)", line).groups() for line in lines[:2]]
    assert sorted(rank for rank, _ in losses) == ["0", "1"]
    assert len({loss for _, loss in losses}) == 1, "the collective operation averages"
    report = json.loads(lines[2].removeprefix("report "))
    assert (report["workers"], report["servers"], report["iterations"], report["samples"]) == (2, 1, 200, 2 * 200 * 64)
    assert report["optimizer"] == optimizer and len(report["parameters_hash"]) == 32


def test_a_mistake_is_named_with_its_option(program):
    done = subprocess.run([program, "sdg", "127.0.0.1:1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "'sdg' is no optimizer (did you mean 'sgd'?); legal are sgd" in done.stderr and "(illegal --optimizer)" in done.stderr


def test_the_library_exports_the_golden_list_and_nothing_else(installed):
    library = next(installed.glob("lib*/**/libpaceline.so"))
    exported = [line.split()[-1] for line in run("nm", "--dynamic", "--defined-only", library).splitlines()]
    assert sorted(exported) == (SOURCE / "src/library/symbols.txt").read_text().split(), "a call that is gone breaks programs; one that came belongs into src/library/symbols.txt"


def test_every_exported_function_is_declared_in_the_headers_and_the_other_way_round(installed):
    declared = set()
    for header in ("paceline.h", "error.h", "alike.h", "communicator.h", "optimizer_state.h"):
        declared |= set(re.findall(r"\b(paceline_\w+)\(", re.sub(r"/\*.*?\*/", "", (installed / "include/paceline" / header).read_text(), flags=re.S)))
    assert declared == set((SOURCE / "src/library/symbols.txt").read_text().split())
