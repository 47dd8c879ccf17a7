"""Programs in C++ that link PyTorch's package built with CUDA: the newest here is such a one."""

import subprocess

import pytest
from processes import LIMIT, ROOT, newest_torch

pytestmark = pytest.mark.full
MAIN = """
#include <torch/torch.h>
#include <cstdio>
int main() { std::printf("%g\\n", torch::ones({3}).sum().item<double>()); }
"""
CMAKE = f"""
cmake_minimum_required(VERSION 3.25)
project(three LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
list(APPEND CMAKE_MODULE_PATH {ROOT}/cmake)
find_package(LibTorch 2.13 REQUIRED)
add_executable(three main.cc)
target_link_libraries(three LibTorch::LibTorch)
"""


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, (command, done)
    return done.stdout


def test_a_program_takes_no_cuda_from_the_package(tmp_path):
    prefix, cuda = run(newest_torch(), "-c", "import torch; print(torch.utils.cmake_prefix_path, torch.version.cuda)").split()
    assert cuda != "None"
    (tmp_path / "main.cc").write_text(MAIN)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build/three") == "3\n"
    assert "libtorch_cuda" not in run("ldd", tmp_path / "build/three")
