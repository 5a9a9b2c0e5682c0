"""Draw what is left of a purge whose server was killed, for each step at which it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.canvas import BLUE, VERMILION, show


def crash_points(runs: Mapping[str, Mapping[str, Sequence[int]]], of: int, title: str) -> None:
    """Draw one panel a way of working, and in it one mark a kill.

    Args:
        runs: for each way of working, for each step after which the server was killed, how many objects were left
            each time.
        of: how many objects the plan listed.
        title: what the picture shows, as a finding.
    """
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    shares = [len(points) for points in runs.values()]
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False, gridspec_kw={"width_ratios": shares})[0]
    for axes, (way, points) in zip(panels, runs.items(), strict=True):
        for x, counts in enumerate(points.values()):
            for left in sorted(set(counts)):
                part = 0 < left < of
                axes.plot(
                    x,
                    left,
                    "X" if part else "o",
                    markersize=17,
                    color=VERMILION if part else BLUE,
                    markeredgecolor="black",
                )
                times = f"{counts.count(left)}×"
                axes.annotate(times, (x, left), (0, 13), textcoords="offset points", ha="center", fontsize=9)
        axes.set_xticks(range(len(points)), points, fontsize=9)
        axes.set(xlim=(-0.6, len(points) - 0.4), ylim=(-0.5, of + 0.7), yticks=range(of + 1))
        axes.set_title(way, fontsize=11, loc="left")
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("killed after")
    panels[0].set_ylabel("objects left at the end")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.supxlabel("● all or nothing    ✕ a part", x=0.01, ha="left", fontsize=10)
    told = "; ".join(
        f"{way}: {', '.join(f'after {step} {_counts(counts)}' for step, counts in points.items())}"
        for way, points in runs.items()
    )
    show(figure, f"{title}. How many of {of} objects were left when the server was killed. {told}.".replace("\n", " "))


def _counts(counts: Sequence[int]) -> str:
    return " or ".join(str(left) for left in sorted(set(counts)))
