"""Draw what custody costs: the time of a flow, and the event loop's pulse meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.canvas import BLUE, GREEN, MARKS, VERMILION, show

_COLORS = (BLUE, GREEN, VERMILION)


def costs(flows: Mapping[str, Sequence[float]], pulse: Mapping[str, Sequence[tuple[float, float]]], title: str) -> None:
    """Draw both, each way of sealing in a color and a marker of its own.

    Args:
        flows: for each way, how long each flow took, in seconds.
        pulse: for each way, when each heartbeat of the event loop came and how late it was, in seconds.
        title: what the picture shows, as a finding. The figures differ from run to run, so the alternative text has
            none.
    """
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.5])
    for place, seconds in enumerate(flows.values()):
        milliseconds = [1000 * second for second in seconds]
        middle = statistics.median(milliseconds)
        spread = [place + 0.25 * ((number % 5) / 2 - 1) for number in range(len(milliseconds))]
        left.plot(spread, milliseconds, MARKS[place], color=_COLORS[place], markersize=4, alpha=0.6)
        left.plot([place - 0.35, place + 0.35], [middle, middle], color="black", linewidth=2)
        left.annotate(f"{middle:.1f}", (place + 0.37, middle), fontsize=9, va="center")
    left.set_xticks(range(len(flows)), list(flows))
    left.set(xlim=(-0.5, len(flows) - 0.2), ylim=(0, None), ylabel="milliseconds for one flow (line: median)")
    left.set_title("one flow at a time", fontsize=10, loc="left")
    for way, beats in pulse.items():
        at, late = ([1000 * beat[part] for beat in beats] for part in (0, 1))
        number = list(flows).index(way)
        # A bar as long as the wait: in all that time, nobody else had their turn.
        right.hlines(late, [end - wait for end, wait in zip(at, late, strict=True)], at, color=_COLORS[number])
        right.plot(
            at,
            late,
            MARKS[number],
            color=_COLORS[number],
            markersize=5,
            label=f"{way}: at worst {max(late):.0f} ms late",
        )
    right.set(xlabel="milliseconds since the start", ylabel="heartbeat late by (milliseconds)")
    right.set_title("32 flows at once: how late is everybody else?", fontsize=10, loc="left")
    right.margins(y=0.35)  # room for the legend above the longest wait
    right.set_ylim(bottom=0)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    show(
        figure,
        f"{title}. Left: the time of one flow with {', '.join(flows)}. Right: the pulse of the event loop "
        f"while 32 flows run with {' and with '.join(pulse)}.",
    )
