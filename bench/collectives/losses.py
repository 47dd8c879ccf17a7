"""Training without servers beside the parameter server, on a network: bench/collectives/losses.py FOLDER [CONTESTANT ...]

Trains LeNet on MNIST-5k between four hosts of a lab, one contestant after the other, as often as --turns says, and writes what each
iteration took and its loss (losses.jsonl), a table (standard output, Markdown) and losses.png: loss against time, Linear Pipeline's
Figure 5. A contestant is a loop of --collective, with an algorithm after a hyphen (loop1-mst, loop3-overlap-lp), or a schedule of
servers (tuned, p3). What is in losses.jsonl already is not run again. Needs the rights of a lab.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = ["tuned", "p3", "loop1-mst", "loop1-be", "loop1-lp", "loop2-lp", "loop3-lp", "loop3-overlap-be", "loop3-overlap-lp", "loop3-overlap"]
ALGORITHMS = ("lp", "mst", "be", "ring", "direct")
PORT = 4170  # every lab has its own
WARM_UP = 5  # iterations that no median counts
SMOOTHED = 20  # iterations that a loss is the mean of, in the picture and where a target is reached


def options_of(contestant):
    name, _, algorithm = contestant.rpartition("-")
    if not contestant.startswith("loop"):
        return "both", ["--schedule", contestant]
    if algorithm in ALGORITHMS:
        return "worker", ["--collective", name, "--algorithm", algorithm]
    return "worker", ["--collective", contestant]


def commands(program, contestant, hosts, task, events):
    """A shell command for each host; the first one's starts the coordinator too."""
    role, how = options_of(contestant)
    train = [program, "train", "--join", f"{{address:0}}:{PORT}", "--role", role, "--bind", "{address}", "--rank", "{host}", "--workers", str(hosts), "--security", "none", "--metrics", "/dev/null", *task, *how]
    servers = hosts if role == "both" else 0
    coordinator = f"'{program}' coordinator --workers {hosts} --servers {servers} --bind {{address}} --port {PORT} --security none --events > '{events}'"
    member = " ".join(f"'{word}'" for word in train)
    return [f"{coordinator} & {member} && wait"] + [member] * (hosts - 1)


def run(program, contestant, hosts, rate, task, folder):
    """The iterations of a job: seconds and loss, means over the workers; and its report."""
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".events") as events:
        each = [word for command in commands(program, contestant, hosts, task, events.name) for word in ("--each", command)]
        lab = [program, "lab", "--hosts", str(hosts), "--rate", rate, "--measure", "0s", "--limit", "300s", *each]
        done = subprocess.run(lab, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{contestant}: {done.stderr.strip() or done.stdout.strip()}")
        lines = [json.loads(line) for line in Path(events.name).read_text(encoding="utf-8").splitlines()]
    progress = defaultdict(list)
    for line in lines:
        if "progress" in line:
            progress[line["progress"]["iteration"]].append(line["progress"])
    iterations = [progress[i] for i in sorted(progress)]
    report = next(line["report"] for line in lines if "report" in line)
    return {
        "seconds": [statistics.mean(one["seconds"] for one in ranks) for ranks in iterations],
        "loss": [statistics.mean(one["loss"] for one in ranks) for ranks in iterations],
        "accuracy": report["accuracy"],
        "parameters_hash": report["parameters_hash"],
    }


def smoothed(losses):
    return [statistics.mean(losses[max(0, i + 1 - SMOOTHED) : i + 1]) for i in range(len(losses))]


def elapsed(seconds):
    total, times = 0, []
    for one in seconds:
        total += one
        times.append(total)
    return times


def reached(cell, target):
    """When the smoothed loss is first at or below the target; None: never."""
    times = elapsed(cell["seconds"])
    return next((times[i] for i, loss in enumerate(smoothed(cell["loss"])) if i + 1 >= SMOOTHED and loss <= target), None)


def table(cells, target):
    by_name = defaultdict(list)
    for cell in cells:
        by_name[cell["contestant"]].append(cell)
    print(f"| contestant | iteration | spread | all iterations | until the loss is {target:g} | last loss | accuracy | hash of the parameters |")
    print("|---|---|---|---|---|---|---|---|")
    for name, runs in by_name.items():
        medians = sorted(statistics.median(run["seconds"][WARM_UP:]) for run in runs)
        totals = statistics.median(sum(run["seconds"]) for run in runs)
        times = [time for time in (reached(run, target) for run in runs) if time is not None]
        until = f"{statistics.median(times):.2f} s" if len(times) == len(runs) else "not reached"
        last = statistics.median(smoothed(run["loss"])[-1] for run in runs)
        accuracy = statistics.median(run["accuracy"] for run in runs)
        hashes = " ".join(sorted({run.get("parameters_hash", "-")[:8] for run in runs}))
        print(f"| {name} | {statistics.median(medians) * 1e3:.1f} ms | {medians[0] * 1e3:.1f} .. {medians[-1] * 1e3:.1f} | {totals:.2f} s | {until} | {last:.4f} | {accuracy:.3f} | {hashes} |")


def draw(cells, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.4))
    drawn = set()
    for cell in cells:
        if cell["contestant"] in drawn:
            continue
        drawn.add(cell["contestant"])
        axes.plot(elapsed(cell["seconds"]), smoothed(cell["loss"]), label=cell["contestant"], linewidth=1.2)
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"loss, mean of {SMOOTHED} iterations")
    axes.set_yscale("log")
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("contestants", nargs="*", default=CONTESTANTS)
    parser.add_argument("--paceline", default=str(ROOT / "build/release/bin/paceline"))
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--target", type=float, default=0.3, help="loss whose time the table tells")
    parser.add_argument("--task", default="--model lenet --dataset mnist-5k --iterations 200 --mini-batch 32 --seed 1", help="options of paceline train")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    ledger = arguments.folder / "losses.jsonl"
    cells = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()] if ledger.exists() else []
    what = {"hosts": arguments.hosts, "rate": arguments.rate, "task": arguments.task}
    for turn in range(arguments.turns):
        for contestant in arguments.contestants:
            key = {**what, "contestant": contestant, "turn": turn}
            if any(all(cell.get(name) == value for name, value in key.items()) for cell in cells):
                continue
            cells.append({**key, **run(arguments.paceline, contestant, arguments.hosts, arguments.rate, arguments.task.split(), arguments.folder)})
            with ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cells[-1]) + "\n")
    shown = [cell for cell in cells if all(cell.get(name) == value for name, value in what.items()) and cell["contestant"] in arguments.contestants]
    table(shown, arguments.target)
    draw(shown, arguments.folder / "losses.png")


if __name__ == "__main__":
    main()
