"""In a notebook cells are run again and stopped: the example's, by IPython's own shell, over libpaceline."""

import json
import subprocess
import sys

import processes
from test_front_examples import EXAMPLES, digits  # noqa: F401  # a fixture

NOTEBOOK = """
import json, os, signal, sys, warnings
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor", cache_size=0)
cells = ["".join(cell["source"]) for cell in json.load(open(sys.argv[1]))["cells"] if cell["cell_type"] == "code"]
imports, data, model, attach, train, look = cells

def run(cell):
    return shell.run_cell(cell, store_history=True)

for cell in (imports, data, model, attach, train):
    run(cell).raise_error()
seen = shell.user_ns
"""


def notebook(body, folder):
    command = [sys.executable, "-c", NOTEBOOK + body, str(EXAMPLES / "mnist.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=processes.LIMIT, env=processes.variables(MNIST=str(folder)))
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_attach_cell_again_leaves_the_old_job_and_goes_on_with_what_was_learned(digits):  # noqa: F811
    found = notebook(
        """
old, before = seen["job"], seen["model"][0].weight.detach().clone()
run(attach).raise_error()
same = bool((seen["model"][0].weight == before).all())
run(train).raise_error()
run(look).raise_error()
print(json.dumps([same, old is not seen["job"], old._front.inert, float(seen["right"])]))
""",
        digits,
    )
    assert found[:3] == [True, True, True] and found[3] > 0.9, found


def test_also_in_the_middle_of_an_iteration_or_after_the_job_has_failed(digits):  # noqa: F811
    found = notebook(
        """
half = "F.cross_entropy(model(images[:8]), labels[:8]).backward()"
run(half).raise_error()
run(attach).raise_error()
kinds = run("[type(p.grad).__name__ for p in model.parameters()]").result
run(half + "; optimizer.step()").raise_error()
run(attach).raise_error()
run("job.fail('no more')").raise_error()
run(attach).raise_error()
run(half + "; optimizer.step(); optimizer.zero_grad()").raise_error()
run(train).raise_error()
run(look).raise_error()
print(json.dumps([kinds, float(seen["right"])]))
""",
        digits,
    )
    assert found[0] == ["Tensor"] * 4 and found[1] > 0.9, found


def test_a_cell_that_is_stopped_while_it_waits_is_run_again_and_goes_on(digits):  # noqa: F811
    """Ctrl-C, as the kernel's `interrupt` button sends it, comes while a gate waits for a mean that does not come."""
    found = notebook(
        """
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests in the background has it ignored
node = seen["job"]._node
wait, waits = node.wait_layer, []
def never(layer, iteration, seconds):
    waits.append(layer)
    if len(waits) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return False
node.wait_layer = never
stopped = run(train).error_in_exec
node.wait_layer = wait
run(train).raise_error()
run(look).raise_error()
print(json.dumps([type(stopped).__name__, len(waits), float(seen["right"])]))
""",
        digits,
    )
    assert found[0] == "KeyboardInterrupt" and found[1] < 10 and found[2] > 0.9, found


def test_an_exception_in_a_cell_ends_no_job(digits):  # noqa: F811
    found = notebook(
        """
error = run("F.cross_entropy(model(images[:8, :3]), labels[:8]).backward()").error_in_exec
run(train).raise_error()
run(look).raise_error()
print(json.dumps([type(error).__name__, float(seen["right"])]))
""",
        digits,
    )
    assert found[0] == "RuntimeError" and found[1] > 0.9, found
