"""What several figures are drawn by: each function gives a `draw` for a Reading."""


def panels(of, xlabel, ylabel, linear=False, scale=("linear", "linear"), paper=None):
    """A panel for each title of {title: {line: {x: y}}}; `linear`: also the line y = x; `scale`: of x and of y; `paper`: what it has at some x, as `of`,
    drawn as rings in the line's colour."""

    def draw(figure):
        for axes, (title, lines) in zip(figure.subplots(1, len(of), squeeze=False)[0], of.items(), strict=True):
            for name, points in lines.items():
                (line,) = axes.plot(sorted(points), [points[x] for x in sorted(points)], marker=".", label=name)
                if theirs := (paper or {}).get(title, {}).get(name):
                    axes.plot(sorted(theirs), [theirs[x] for x in sorted(theirs)], color=line.get_color(), marker="o", markerfacecolor="none", linestyle="--", linewidth=0.8)
            if (paper or {}).get(title):
                axes.plot([], [], color="grey", marker="o", markerfacecolor="none", linestyle="--", linewidth=0.8, label="the paper's")
            places = sorted({x for points in lines.values() for x in points})
            if linear:
                axes.plot(places, places, linestyle=":", color="grey", label="linear")
            axes.set(title=title, xlabel=xlabel, xscale=scale[0], yscale=scale[1])
            if scale[0] == "log":
                axes.set_xticks(places, [f"{x:g}" for x in places])
                axes.set_xticks([], minor=True)
        figure.axes[0].set_ylabel(ylabel)
        figure.axes[0].legend(fontsize=8)

    return draw


def pairs(of, ylabel):
    """{bar: (the paper's, ours)}, side by side."""

    def draw(figure):
        axes = figure.subplots()
        for shift, label, values in ((-0.2, "the paper's", [theirs for theirs, _ in of.values()]), (0.2, "ours", [ours for _, ours in of.values()])):
            axes.bar([place + shift for place in range(len(of))], values, width=0.4, label=label)
        axes.set_xticks(range(len(of)), list(of), fontsize=8)
        axes.set_ylabel(ylabel)
        axes.legend(fontsize=8)

    return draw


def stacks(of, ylabel):
    """Stacked bars in a panel for each title of {title: {bar: {part: y}}}."""

    def draw(figure):
        for axes, (title, bars) in zip(figure.subplots(1, len(of), squeeze=False)[0], of.items(), strict=True):
            parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
            below = [0.0] * len(bars)
            for part in parts:
                heights = [bar.get(part, 0.0) for bar in bars.values()]
                axes.bar(list(bars), heights, bottom=below, label=part)
                below = [low + height for low, height in zip(below, heights, strict=True)]
            axes.set_title(title)
            axes.tick_params(axis="x", labelsize=8)
        figure.axes[0].set_ylabel(ylabel)
        figure.axes[0].legend(fontsize=8)

    return draw
