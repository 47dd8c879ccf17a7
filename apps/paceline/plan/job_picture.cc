#include "paceline/plan/job_picture.h"

#include "paceline/picture.h"

namespace paceline::cli {
namespace {

constexpr const char* kPicture = R"py(
import json, sys
import matplotlib.pyplot as plt
plt.rcParams["svg.fonttype"] = "none"
plan = json.loads(sys.argv[2])
every = plan["candidates"]
fits = [c for c in every if c["feasible"] and c["samples_per_second"] is not None]
known = [c for c in every if c["default_samples_per_second"] is not None]
curve = plan["speedups"]
figure, panels = plt.subplots(3 if curve else 2, 1, figsize=(7, 9.5 if curve else 6.5), height_ratios=[3, 2, 2][: 3 if curve else 2])

def draw_speed(panel):
    panel.plot([c["mini_batch"] for c in known], [c["default_samples_per_second"] for c in known], "o--", color="0.6", label="LibTorch's choice, memory not looked at")
    panel.plot([c["mini_batch"] for c in fits], [c["samples_per_second"] for c in fits], "o-", color="tab:blue", label="chosen algorithms, within the memory")
    for c in fits:
        used = {}
        for name in c["convolutions"].values():
            used[name] = used.get(name, 0) + 1
        panel.annotate("\n".join(f"{n} x {name}" for name, n in used.items()), (c["mini_batch"], c["samples_per_second"]), fontsize=7, textcoords="offset points", xytext=(0, 7), va="bottom", ha="center")
    if plan["mini_batch"] is not None:
        panel.axvline(plan["mini_batch"], color="tab:green", lw=1, label=f"chosen: {plan['mini_batch']}")
    panel.set_ylabel("samples/s of one worker")
    panel.set_ylim(0, 1.35 * max([c["samples_per_second"] for c in fits] + [c["default_samples_per_second"] for c in known], default=1))
    panel.margins(x=0.1)
    panel.set_title(f"{plan['model']}: throughput against mini-batch")
    panel.legend(fontsize=8, loc="lower right")

def draw_memory(panel):
    need = lambda c: plan["memory"] - c["bound_bytes"]
    panel.plot([c["mini_batch"] for c in every], [need(c) / 1e9 for c in every], "o-", color="tab:orange", label="a step without workspaces")
    panel.plot([c["mini_batch"] for c in fits], [(need(c) + c["workspace_bytes"]) / 1e9 for c in fits], "o-", color="tab:red", label="with the chosen algorithms' workspaces")
    panel.axhline(plan["memory"] / 1e9, color="black", lw=1, label=f"memory: {plan['memory'] / 1e9:.3g} GB")
    panel.set_ylabel("GB")
    panel.set_xlabel("mini-batch")
    panel.set_ylim(bottom=0)
    panel.margins(x=0.1)
    panel.legend(fontsize=8)

def draw_speedups(panel):
    panel.plot([p["workers"] for p in curve], [p["workers"] for p in curve], ":", color="0.6", label="without overhead")
    panel.plot([p["workers"] for p in curve], [p["speedup"] for p in curve], "o--", color="tab:blue", label=f"Lemma 3.1, R_O = {plan['overhead']:.3g}")
    panel.axvline(plan["workers"], color="tab:green", lw=1, label=f"chosen: {plan['workers']}")
    panel.set_xlabel("workers")
    panel.set_ylabel("times as fast as one")
    panel.set_ylim(0, 1.35 * curve[-1]["speedup"])
    panel.legend(fontsize=8, loc="lower right")

draw_speed(panels[0])
draw_memory(panels[1])
panels[1].sharex(panels[0])
if curve:
    draw_speedups(panels[2])
figure.tight_layout()
figure.savefig(sys.argv[1], dpi=120)
)py";

}  // namespace

Status draw_job(const report::Json& answer, const std::string& file) { return draw(kPicture, answer.dump(), file); }

}  // namespace paceline::cli
