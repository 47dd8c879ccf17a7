"""The check of the layers sees what it must see, and nothing else."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers"


def load():
    loader = importlib.machinery.SourceFileLoader("check_layers", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_layers", loader))
    loader.exec_module(module)
    return module


LAYERS = load()


def check(path, line):
    return list(LAYERS.check_file(path, f"// A file.\n{line}\n"))


@pytest.mark.parametrize("path, line", [
    ("src/base/text.h", '#include "tensor/dtype.h"'),
    ("src/wire/frame.cc", '#include "transport/transport.h"'),
    ("src/sync/barrier.h", '#include "scheduling/schedule.h"'),
    ("src/transport/transport.h", '#include "transport/tcp/tcp_loop.h"'),
    ("src/transport/inproc/pipe_test.cc", '#include "transport/faulty/fault_plan.h"'),
    ("src/paramserver/core/server.h", '#include "paramserver/service/mailbox.h"'),
    ("src/paramserver/core/server_test.cc", '  #  include "session/session.h"'),
    ("src/runtime/member.cc", '#include "planner/sizing/gpus.h"'),
    ("src/runtime/member.cc", '#include "trainer/workload.h"'),
    ("src/planner/sizing/gpus.cc", "#include <asio/io_context.hpp>"),
    ("src/planner/sizing/cudnn_families.cc", "#include <cudnn.h>"),
    ("src/planner/sizing/cudnn_families.cc", '#include "planner/cuda/cudnn_timer.h"'),
    ("src/planner/cuda/cudnn_timer.cc", '#include "tensor/cuda/reduce.h"'),
    ("src/runtime/member.cc", '#include "planner/cuda/cudnn_timer.h"'),
    ("src/session/session.cc", "#include <asio.hpp>"),
    ("src/session/session.cc", "#include <spdlog/spdlog.h>"),
    ("src/tensor/reduce.cc", "#include <ATen/ATen.h>"),
    ("apps/paceline/main.cc", "#include <torch/torch.h>"),
    ("trainer/data/idx.cc", '#include "wire/frame.h"'),
    ("trainer/workload.cc", '#include "planner/sizing/gpus.h"'),
    ("trainer/workload.cc", '  const char* home = std::getenv("HOME");'),
    ("src/attic/old.cc", '#include "base/status.h"'),
])
def test_names_the_line_of_what_points_up(path, line):
    violations = check(path, line)
    assert [number for number, _ in violations] == [2], violations


@pytest.mark.parametrize("path, line", [
    ("src/tensor/dtype.h", '#include "base/status.h"'),
    ("src/transport/tcp/tcp_loop.h", "#include <asio/io_context.hpp>"),
    ("src/transport/faulty/faulty_transport_test.cc", '#include "transport/inproc/inproc_transport.h"'),
    ("src/paramserver/service/server_service.h", '#include "session/session.h"'),
    ("src/base/log.cc", "#include <spdlog/spdlog.h>"),
    ("src/planner/cuda/handles.h", "#include <cudnn.h>"),
    ("src/planner/cuda/cudnn_timer.cc", '#include "planner/sizing/cudnn_families.h"'),
    ("apps/gpu_convolutions/main.cc", '#include "planner/cuda/cudnn_timer.h"'),
    ("src/session/session_test.cc", "#include <spdlog/sinks/ostream_sink.h>"),
    ("trainer/workload.h", '#include "job/option.h"'),
    ("trainer/workload.cc", "#include <torch/torch.h>"),
    ("apps/paceline/main.cc", '#include "planner/sizing/gpus.h"'),
    ("apps/paceline/main.cc", '  const char* data = std::getenv("PACELINE_DATA");'),
    ("src/base/text.cc", "// getenv() is for apps only."),
])
def test_lets_pass_what_the_table_allows(path, line):
    assert check(path, line) == []


def test_prints_the_file_and_fails(tmp_path):
    file = tmp_path / "src/base/text.h"
    file.parent.mkdir(parents=True)
    file.write_text('// A file.\n#include "tensor/dtype.h"\n')
    done = subprocess.run([SCRIPT, "--root", tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "src/base/text.h:2: src/base may not include tensor/" in done.stdout


@pytest.mark.parametrize("table, found", [
    ({"a": [], "b": ["a"], "c": ["a", "b"]}, []),
    ({"a": ["b"], "b": ["a"]}, ["a", "b"]),
    ({"a": [], "b": ["a", "d"], "c": ["b"], "d": ["c"]}, ["b", "d", "c"]),  # not to be seen in any pair alone
    ({"a": ["b", "c"], "b": ["c"], "c": ["c"]}, ["c"]),
])
def test_finds_rooms_that_may_include_each_other(table, found):
    assert LAYERS.ring(table) == found


def test_a_ring_in_the_table_is_a_violation(monkeypatch, capsys, tmp_path):
    file = tmp_path / "src/base/text.h"
    file.parent.mkdir(parents=True)
    file.write_text("// A file.\n")
    monkeypatch.setitem(LAYERS.LAYERS, "base", ["wire"])
    monkeypatch.setattr("sys.argv", ["check_layers", "--root", str(tmp_path)])
    assert LAYERS.main() == 1
    assert "the table has a ring: base -> wire -> base" in capsys.readouterr().out


def test_counts_rooms_with_files_and_what_product_code_uses():
    texts = {
        "src/base/text.h": "#include <string>\n",
        "src/tensor/dtype.h": '#include "base/text.h"\n#include "tensor/reduce.h"\n',
        "src/job/spec.h": '#include "base/text.h"\n',
        "src/job/spec_test.cc": '#include "tensor/dtype.h"\n',
        "apps/paceline/main.cc": '#include "job/spec.h"\n',
    }
    rooms, permitted, used = LAYERS.rooms_and_pairs(texts)
    assert rooms == {"base", "tensor", "job"}
    assert permitted == {("tensor", "base"), ("job", "base"), ("job", "tensor")}
    assert used == {("tensor", "base"), ("job", "base")}


def test_an_empty_tree_is_not_a_success(tmp_path):
    assert subprocess.run([SCRIPT, "--root", tmp_path], capture_output=True, timeout=60).returncode == 1


def test_this_tree_has_no_violation():
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
