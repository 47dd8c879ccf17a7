"""A program outside the tree builds against an installed Paceline and trains its own module with it."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from sharing import shared_folder, turn

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("PACELINE", SOURCE / "build/release/bin/paceline")).resolve()


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def torch_with_cuda(place):
    """(path, for CMAKE_PREFIX_PATH) What stands for PyTorch's package built with CUDA where there is no toolkit: its own CMake files end in an error."""
    torch = place / "torch"
    own_files = torch / "share/cmake/Torch"
    own_files.mkdir(parents=True)
    for part in ("include", "lib"):
        (torch / part).symlink_to(next((SOURCE / ".venv/lib").glob(f"python3*/site-packages/torch/{part}")))
    (torch / "version.py").write_text('__version__ = "2.13.0+cu130"\ncuda = "13.0"\n')
    (own_files / "TorchConfig.cmake").write_text('message(FATAL_ERROR "Your installed Caffe2 version uses CUDA but I cannot find the CUDA libraries.")\n')
    return torch / "share/cmake"


def install_and_build(place):
    run("cmake", "--install", PROGRAM.parent.parent, "--prefix", place / "prefix")
    torch = torch_with_cuda(place)
    run("cmake", "-G", "Ninja", "-S", SOURCE / "examples/own_module", "-B", place / "build", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={place / 'prefix'};{torch}", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    # The cache answers when neither the example nor an installed header has changed, wherever this run's files are.
    run("cmake", "--build", place / "build", env={**os.environ, "CCACHE_BASEDIR": str(place), "CCACHE_NOHASHDIR": "1"})


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """The installed program, and the example built against the installation."""
    place = shared_folder(tmp_path_factory, "installed")
    with turn(place):
        if not (place / "build/own_module").exists():
            install_and_build(place)
    return place / "prefix/bin/paceline", place / "build/own_module"


def test_workers_of_ones_own_learn_and_agree(example):
    paceline, program = example
    done = run(paceline, "run", "--workers", 2, "--servers", 2, "--json", "--", program)
    report = json.loads(done.stdout)
    assert report["workers"] == 2 and report["iterations"] == 300 and report["samples"] == 2 * 300 * 64
    said = re.findall(r"worker (\d) of 2: loss \S+, accuracy (\S+) %, parameters (\w+)", done.stderr)
    assert sorted(rank for rank, _, _ in said) == ["0", "1"], done.stderr
    assert {parameters for _, _, parameters in said} == {report["parameters_hash"]}
    assert all(float(accuracy) > 90 for _, accuracy, _ in said)


def test_a_job_of_ones_own_is_resumed_bit_for_bit(example, tmp_path):
    paceline, program = example

    def trained(servers, *settings):
        done = run(paceline, "run", "--workers", 2, "--servers", servers, "--json", "--", program, *settings, "optimizer=momentum")
        return json.loads(done.stdout)

    whole = trained(2, "steps=40")
    trained(2, "steps=25", f"checkpoint={tmp_path}", "checkpoint-every=10")
    rest = trained(1, "steps=40", f"checkpoint={tmp_path}", "resume=1")
    assert rest["parameters_hash"] == whole["parameters_hash"] and rest["iterations"] == 15


def test_an_installed_program_trains_a_network(example):
    paceline, _ = example
    done = run(paceline, "train", "--mini-batch", 16, "--iterations", 2, "--json", env={**os.environ, "PACELINE_DATA": str(SOURCE / ".venv/data")})
    assert json.loads(done.stdout)["iterations"] == 2


def test_a_program_that_ends_early_ends_the_job_for_all(example):
    paceline, _ = example
    done = subprocess.run([paceline, "run", "--workers", "2", "--servers", "1", "--deadline", "1s", "--", "/bin/false"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "worker" in done.stderr and "exited with code 1" in done.stderr


LATE = ("sh", "-c", '"$0" steps=5 && sleep 3 && echo late')


def test_what_a_program_does_behind_the_job_is_waited_for(example):
    paceline, program = example
    done = run(paceline, "run", "--workers", 2, "--servers", 1, "--", *LATE, program)
    assert done.stdout.splitlines().count("late") == 2, done


def test_a_program_that_never_ends_behind_the_job_is_named(example):
    paceline, program = example
    words = [paceline, "run", "--workers", "2", "--servers", "1", "--stall-deadline", "12s", "--", "sh", "-c", '"$0" steps=5 && exec sleep 1000', program]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "still ran 12.0 s after the end of the job, and was killed; --stall-deadline" in done.stderr, done
    assert done.stdout.count("accuracy") >= 2, "what it had said is there"


def test_without_a_job_the_program_says_how_to_start_it(example):
    _, program = example
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "paceline run" in done.stderr


def test_a_setting_that_is_no_number_is_named(example):
    paceline, program = example
    done = subprocess.run([paceline, "run", "--workers", "1", "--servers", "1", "--", program, "steps=abc"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "own_module: error: steps=abc is not a whole number" in done.stderr, done


def test_no_installed_file_names_the_folder_it_was_built_in(example):
    """The trainer's RUNPATH, where the build found LibTorch, is the only path of this machine."""
    paceline, _ = example
    prefix = paceline.parents[1]
    installed = [path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {"paceline", "paceline-trainer", "paceline-bench", "paceline-doctor", "paceline-lab"} <= {path.name for path in installed}
    venv = os.fsencode(SOURCE / ".venv")
    for path in installed:
        rest = path.read_bytes().replace(venv, b"")
        assert os.fsencode(SOURCE) not in rest and os.fsencode(PROGRAM.parents[1]) not in rest, path


def test_an_installed_benchmark_finds_its_files_beside_itself(example):
    paceline, _ = example
    shared = paceline.parents[1] / "share/paceline/bench"
    said = run(paceline, "bench", "schedules", "--help").stdout
    assert f"={shared / 'tables'}\n" in said and f"={shared / 'peers'}\n" in said
    assert (shared / "tables/vgg19.json").is_file() and (shared / "peers/ddp_replay.py").is_file()
    for part in ("collectives", "schedules", "sync"):
        assert (shared / part / "pictures.py").is_file()


def packages(folder, *names):
    """pkg-config knows no others but these, and what they need."""
    found = run("pkg-config", "--variable", "pc_path", "pkg-config").stdout.strip().split(":")
    folder.mkdir()
    for place in found:
        for file in pathlib.Path(place).glob("*.pc"):
            if file.stem in names:
                (folder / file.name).symlink_to(file)
    return {**os.environ, "PKG_CONFIG_LIBDIR": str(folder)}


def configure(place, environment, *options):
    return subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", place, "-DPACELINE_TESTS=OFF", *options], env=environment, capture_output=True, text=True, timeout=300)


def test_collectives_need_neither_the_solver_nor_libraries_of_pictures(tmp_path):
    few = packages(tmp_path / "few", "libisal", "libxxhash", "libhwy", "libcrypto", "libssl")
    done = configure(tmp_path / "libraries", few, "-DPACELINE_PROGRAMS=OFF")
    assert done.returncode == 0, done.stderr
    targets = subprocess.run(["ninja", "-C", tmp_path / "libraries", "-t", "targets", "all"], capture_output=True, text=True, timeout=60).stdout
    assert "libpaceline-collectives.so:" in targets
    assert not any(name in targets for name in ("trainer_data", "bin/paceline"))
    assert "Cbc" not in (tmp_path / "libraries/build.ninja").read_text()  # loaded by who asks for it (planner/sizing/solver.h)

    done = configure(tmp_path / "programs", few)
    assert done.returncode != 0 and "zlib" in done.stdout + done.stderr, (done.stdout, done.stderr)
    done = configure(tmp_path / "tests", few, "-DPACELINE_PROGRAMS=OFF", "-DPACELINE_TESTS=ON")
    assert done.returncode != 0 and "need PACELINE_PROGRAMS" in done.stderr


def test_the_trainer_takes_pytorch_with_cuda_where_no_toolkit_is(tmp_path):
    torch = torch_with_cuda(tmp_path)
    done = configure(tmp_path / "build", {**os.environ}, "-DPACELINE_TRAINER=ON", f"-DCMAKE_PREFIX_PATH={torch}")
    assert done.returncode == 0, done.stderr
    rules = (tmp_path / "build/build.ninja").read_text()
    assert f"{tmp_path}/torch/lib/libtorch_cpu.so" in rules and f"-isystem {tmp_path}/torch/include" in rules
    assert str(SOURCE / ".venv") not in rules, "another PyTorch than the one that was named"


@pytest.mark.parametrize("version, said", (((1, 13, 1), 'Found unsuitable version "1.13.1", but required is at least "2.13"'), (None, "torch.utils.cmake_prefix_path")), ids=("old", "none"))
def test_a_pytorch_that_is_too_old_or_not_there_is_named_with_the_remedy(tmp_path, version, said):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(none LANGUAGES NONE)\n"
        f"list(APPEND CMAKE_MODULE_PATH {SOURCE}/cmake)\nfind_package(LibTorch 2.13 REQUIRED)\n")
    if version:
        api = tmp_path / "torch/include/torch/csrc/api/include/torch"
        api.mkdir(parents=True)
        (api / "torch.h").touch()
        (api / "version.h").write_text("".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in zip(("MAJOR", "MINOR", "PATCH"), version)))
        (tmp_path / "torch/lib").mkdir()
        for name in ("torch_cpu", "c10"):
            (tmp_path / f"torch/lib/lib{name}.so").touch()
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path}/torch"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and said in " ".join(done.stderr.split()), done.stderr


def test_warnings_are_errors_by_preset_only(tmp_path):
    done = configure(tmp_path / "plain", {**os.environ}, "-DPACELINE_PROGRAMS=OFF")
    assert done.returncode == 0, done.stderr
    assert "-Werror" not in (tmp_path / "plain/compile_commands.json").read_text()
    assert f"-ffile-prefix-map={SOURCE}/=" in (tmp_path / "plain/compile_commands.json").read_text()
    presets = json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
    assert next(preset for preset in presets if preset["name"] == "base")["cacheVariables"]["PACELINE_WERROR"] == "ON"
    assert all("inherits" in preset for preset in presets if preset["name"] != "base")
