"""Draw a rotation: one lane a replica, the ring that it holds, and every round on it."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from labkit.figures.canvas import BLACK, VERMILION, show
from labkit.timeline import Record

# For each ring in a rotation, by the number of its keys and whether the newest one seals: a color and a hatch.
_BANDS = {"[old]": ("0.92", ""), "[old, new]": ("#cfe8f7", "...."), "[new, old]": ("#fbe3ac", "////")}
_DONE = ("#bfe5d6", "")


def timeline(record: Record, title: str, *, open_end: bool = False) -> None:
    """Draw `record`; its times differ from run to run, so the alternative text has none.

    Args:
        record: of `labkit.timeline.under_load`.
        title: what the picture shows, as a finding.
        open_end: whether it is left open how it ends, so that the alternative text tells only what was done.
    """
    end = max((each.at for each in record.rounds), default=1.0) + 0.1
    names = _names(record)
    rings = list(dict.fromkeys(held for _, held in sorted(change for lane in record.rings for change in lane)))
    figure = Figure(figsize=(10, 0.55 * record.replicas + 1.9), layout="constrained")
    axes = figure.subplots()
    for lane, changes in enumerate(record.rings):
        for (start, held), (stop, _) in zip(changes, [*changes[1:], (end, ())], strict=True):
            label = f"[{', '.join(names[key] for key in held)}]"
            color, hatch = _BANDS.get(label, _DONE) if not label.startswith("[v") else _versions(held, rings)
            axes.barh(lane, stop - start, left=start, height=0.86, color=color, hatch=hatch, edgecolor="0.7", zorder=1)
            if stop - start > end / 14:
                axes.text(start + end / 200, lane - 0.42, label, fontsize=8, va="top", zorder=4)
    for each in record.rounds:
        spread = (hash(each.at) % 7 - 3) / 16 + 0.1
        if each.refused is None:
            axes.plot(each.at, each.answered_to + spread, ".", color=BLACK, markersize=3, alpha=0.6, zorder=2)
        else:
            axes.plot(each.at, each.answered_to + spread, "X", color=VERMILION, markersize=9, mec="white", zorder=3)
    for at, phase in record.phases:
        axes.axvline(at, color="black", linestyle="--", linewidth=1, zorder=2)
        axes.text(at, -0.62, f" {phase}", fontsize=9, rotation=20, va="bottom", ha="left")
    axes.set_yticks(range(record.replicas), [f"replica {chr(65 + lane)}" for lane in range(record.replicas)])
    axes.set(xlim=(0, end), ylim=(record.replicas - 0.5, -0.55), xlabel="seconds")
    axes.spines[["top", "right"]].set_visible(False)
    marks = [
        Line2D([], [], marker=".", color=BLACK, linestyle="", label="accepted"),
        Line2D([], [], marker="X", color=VERMILION, linestyle="", markersize=9, label="refused"),
    ]
    figure.legend(handles=marks, loc="outside lower right", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    if open_end:
        show(figure, f"{title}. The operator's steps: {', '.join(phase for _, phase in record.phases)}.")
        return
    seen = "; ".join("[" + ", ".join(names[key] for key in held) + "]" for held in rings)
    told = ", ".join(phase for _, phase in record.phases)
    refused = "some rounds are refused" if record.refused() else "no round is refused"
    show(
        figure,
        f"{title}. The operator's steps: {told}. The rings that the replicas hold, in order: {seen}. "
        f"Of the rounds drawn on them, {refused}.",
    )


def _versions(held: tuple[str, ...], rings: list[tuple[str, ...]]) -> tuple[str, str]:
    """The versions of a Transit key in use, as the ring that they are like."""
    likeness = ["[old]", "[new, old]", "[new]"][min(rings.index(held), 2)]
    return _BANDS.get(likeness, _DONE)


def _names(record: Record) -> dict[str, str]:
    """What each key is called: "old" and "new" in the order in which they were first seen, or a version of Transit."""
    ids = list(dict.fromkeys(key for _, held in sorted(c for lane in record.rings for c in lane) for key in held))
    named = ["old", "new", *(f"newer ({number})" for number in range(1, len(ids)))]
    return {key: key if key.startswith("v") else named[number] for number, key in enumerate(ids)}
