"""What several figures are drawn by: each function gives a `draw` for a Reading."""


def panels(of, xlabel, ylabel, linear=False, scale=("linear", "linear")):
    """A panel for each title of {title: {line: {x: y}}}; `linear`: also the line y = x; `scale`: of x and of y."""

    def draw(figure):
        for axes, (title, lines) in zip(figure.subplots(1, len(of), squeeze=False)[0], of.items(), strict=True):
            for name, points in lines.items():
                axes.plot(sorted(points), [points[x] for x in sorted(points)], marker=".", label=name)
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
