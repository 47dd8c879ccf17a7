"""Use of the link in P3's runs, and how long it idles (its Figures 8 and 9)."""

import statistics

from catalogue import DIFFERS, REPRODUCED, Answers, Reading
from p3_runs import BASELINE, NAMES, OURS

SHOWN = {"resnet50": 4e9, "vgg19": 15e9, "sockeye_like": 4e9}  # where the paper's panels differ most; the nearest rate that was run
IDLE = 0.1  # of the link's rate


def traffic_of(answer, model: str, contestant: str) -> tuple[list[dict], float]:
    """What host 0 sent and received in steps of about 10 ms, in each turn, and the rate at which it was run."""
    fit = [cell for cell in answer["cells"] if cell.get("model") == model and cell["contestant"] == contestant and len(cell.get("host_0", {}).get("seconds", [])) > 2]
    if not fit:
        return [], 0
    rate = min((cell["stands_for_bits_per_second"] for cell in fit), key=lambda rate: abs(rate - SHOWN[model]))
    turns = []
    for one in fit:
        if one["stands_for_bits_per_second"] == rate:
            seconds = one["host_0"]["seconds"]
            widths = [later - earlier for earlier, later in zip(seconds, seconds[1:])]
            shares = {way: [count / width / one["link_bytes_per_second"] for count, width in zip(one["host_0"][way][1:], widths)] for way in ("sent", "received")}
            turns.append({"at": [at - seconds[0] for at in seconds[1:]], **shares})
    return turns, rate


def idle(traffic) -> float:
    both = list(zip(traffic["sent"], traffic["received"]))
    return sum(max(pair) < IDLE for pair in both) / len(both)


def idle_of(turns) -> dict[str, float]:
    shares = sorted(map(idle, turns))
    return {"median": statistics.median(shares), "lowest": shares[0], "highest": shares[-1]}


def read_traffic(contestant: str):
    def read(answers: Answers) -> Reading:
        shown, rows, less, again = {}, [], True, set()
        for model in SHOWN:
            of = {name: traffic_of(answers[f"p3-bandwidth-{model}"], model, name) for name in (BASELINE, OURS)}
            if not all(turns for turns, _ in of.values()):
                return Reading(DIFFERS, f"{NAMES[model]}: the runs were too short to be sampled", rows)
            turns, rate = of[contestant]
            shown[f"{NAMES[model]}, {rate / 1e9:g} Gb/s"] = turns[0]
            shares = {name: idle_of(turns) for name, (turns, _) in of.items()}
            rows += [(f"{NAMES[model]}, {rate / 1e9:g} Gb/s, {name}: share of time that the link is idle", "", f"{100 * share['median']:.0f} %") for name, share in shares.items()]
            less = less and shares[OURS]["median"] < shares[BASELINE]["median"]
            apart = abs(shares[OURS]["median"] - shares[BASELINE]["median"])
            if apart <= 3 * sum((share["highest"] - share["lowest"]) / 2 for share in shares.values()):
                again.add(f"p3-bandwidth-{model}")

        def draw(figure):
            for axes, (title, traffic) in zip(figure.subplots(1, len(shown)), shown.items(), strict=True):
                for way in ("sent", "received"):
                    axes.plot(traffic["at"], traffic[way], linewidth=0.7, label=way)
                axes.set(title=title, xlabel="s")
            figure.axes[0].set_ylabel("share of the link's rate")
            figure.axes[0].legend(fontsize=8)

        sentence = (
            "the paper shows traffic and gives no number; idle: neither way carries a tenth of the link's rate. "
            f"P3 leaves the link idle for {'less' if less else 'no less'} time than the baseline on {'all three' if less else 'at least one'}"
        )
        return Reading(REPRODUCED if less else DIFFERS, sentence, rows, draw, frozenset(again))

    return read
