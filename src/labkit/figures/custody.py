"""Draw what custody costs under load: throughput and stalls, against how many flows there are at once."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.canvas import BLUE, GREEN, MARKS, VERMILION, show
from labkit.pulse import Load

_STYLES = ("-", "--", ":")


def custody(loads: Mapping[str, Mapping[int, Load]], title: str) -> None:
    """Draw both, each way of sealing in a color, a marker and a line style of its own.

    Args:
        loads: for each of up to three ways, what `labkit.pulse.load` returned, by the number of flows at once.
        title: what the picture shows, as a finding. The figures differ from run to run, so the alternative text has
            none.
    """
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    levels = sorted({level for each in loads.values() for level in each})
    for (way, each), color, mark, style in zip(loads.items(), (BLUE, GREEN, VERMILION), MARKS, _STYLES, strict=False):
        rates = [each[level].rate for level in levels]
        stalls = [1000 * each[level].stall for level in levels]
        left.plot(levels, rates, color=color, marker=mark, linestyle=style, label=way)
        right.plot(levels, stalls, color=color, marker=mark, linestyle=style, label=way)
        left.annotate(
            f"{rates[-1]:.0f}", (levels[-1], rates[-1]), xytext=(6, 0), textcoords="offset points", fontsize=9
        )
    left.set_title("flows a second", fontsize=10, loc="left")
    right.set_title("longest stall of the event loop (milliseconds)", fontsize=10, loc="left")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(levels, [str(level) for level in levels])
        axes.set(xlabel="flows at once", ylim=(0, None))
        axes.margins(x=0.12)
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    numbers = ", ".join(map(str, levels))
    show(
        figure,
        f"{title}. Left: flows a second; right: the longest stall of the event loop. Each with {numbers} flows at once "
        f"for {', '.join(loads)}.",
    )
