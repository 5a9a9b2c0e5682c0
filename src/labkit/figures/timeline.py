"""Draw a rotation: one lane a replica, the ring that it holds, and every round on it."""

from __future__ import annotations

import textwrap

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from labkit.figures.canvas import BLACK, VERMILION, show
from labkit.timeline import Record, Round

# For each phase of a rotation, a color and a hatch.
_BANDS = {"old": ("0.92", ""), "staged": ("#cfe8f7", "...."), "activated": ("#fbe3ac", "////"), "done": ("#bfe5d6", "")}
_MARKS = {"too new": ("X", "refused: the key is not here yet"), "too old": ("v", "refused: the key is gone")}


def timeline(record: Record, title: str, *, open_end: bool = False) -> None:
    """Draw `record`; its times differ from run to run, so the alternative text has none.

    Args:
        record: of `labkit.timeline.under_load`.
        title: what the picture shows, as a finding.
        open_end: whether it is left open how it ends, so that the alternative text tells only what was done.
    """
    end = max((each.at for each in record.rounds), default=1.0) + 0.1
    names = _names(record)
    order = {key: number for number, key in enumerate(names)}
    rings = list(dict.fromkeys(held for _, held in sorted(change for lane in record.rings for change in lane)))
    figure = Figure(figsize=(10, 0.55 * record.replicas + 1.9), layout="constrained")
    axes = figure.subplots()
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}
    for lane, changes in enumerate(record.rings):
        for (start, held), (stop, _) in zip(changes, [*changes[1:], (end, ())], strict=True):
            label = f"[{', '.join(names[key] for key in held)}]"
            color, hatch = _BANDS[_phase([order[key] for key in held])]
            axes.barh(lane, stop - start, left=start, height=0.86, color=color, hatch=hatch, edgecolor="0.7", zorder=1)
            if stop - start > end / 14:
                axes.text(start + end / 200, lane - 0.42, label, fontsize=8, va="top", zorder=4, bbox=paper)
    for each in record.rounds:
        spread = (hash(each.at) % 7 - 3) / 16 + 0.1
        if each.refused is None:
            axes.plot(each.at, each.answered_to + spread, ".", color=BLACK, markersize=3, alpha=0.6, zorder=2)
        else:
            mark, _ = _MARKS[_why(each, order)]
            axes.plot(each.at, each.answered_to + spread, mark, color=VERMILION, markersize=9, mec="white", zorder=3)
    level, before = 0.0, -end
    for at, phase in record.phases:
        level = level + 0.4 if at - before < end / 9 else 0.0  # so that no label lies on the one before
        before = at
        axes.axvline(at, color="black", linestyle="--", linewidth=1, zorder=2)
        axes.annotate(
            f" {phase}", (at, -0.55), (0, 3 + 30 * level), textcoords="offset points", fontsize=9, annotation_clip=False
        )
    axes.set_yticks(range(record.replicas), [f"replica {chr(65 + lane)}" for lane in range(record.replicas)])
    axes.set(xlim=(0, end), ylim=(record.replicas - 0.5, -0.55), xlabel="seconds")
    axes.spines[["top", "right"]].set_visible(False)
    marks = [
        Line2D([], [], marker=".", color=BLACK, linestyle="", label="accepted"),
        *(
            Line2D([], [], marker=mark, color=VERMILION, linestyle="", markersize=9, label=label)
            for mark, label in _MARKS.values()
        ),
    ]
    figure.legend(handles=marks, loc="outside lower right", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(textwrap.fill(title, 100), x=0.01, ha="left", fontsize=12)
    if open_end:
        show(figure, f"{title}. The operator's steps: {', '.join(phase for _, phase in record.phases)}.")
        return
    seen = "; ".join("[" + ", ".join(names[key] for key in held) + "]" for held in rings)
    told = ", ".join(phase for _, phase in record.phases)
    refused = "Some rounds are refused" if record.refused() else "No round is refused"
    show(
        figure,
        f"{title}. The operator's steps: {told}. The rings that the replicas hold, in order: {seen}. {refused}.",
    )


def _phase(held: list[int]) -> str:
    """Which phase a ring is in, from the places of its keys in the order of their making."""
    if len(held) > 1:
        return "activated" if held[0] == max(held) else "staged"
    return "old" if held == [0] else "done"


def _why(refused: Round, order: dict[str, int]) -> str:
    sealed = order.get(refused.sealed_with, len(order))
    return "too new" if sealed > max((order.get(key, 0) for key in refused.held), default=0) else "too old"


def _names(record: Record) -> dict[str, str]:
    """What each key is called: "old" and "new" in the order in which they were first seen, or a version of Transit."""
    ids = list(dict.fromkeys(key for _, held in sorted(c for lane in record.rings for c in lane) for key in held))
    named = ["old", "new", *(f"newer ({number})" for number in range(1, len(ids)))]
    return {key: key if key.startswith("v") else named[number] for number, key in enumerate(ids)}
