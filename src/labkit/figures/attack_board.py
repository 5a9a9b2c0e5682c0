"""Draw the attack board."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.board import NONE, THROUGH, Verdict
from labkit.figures.canvas import BLUE, GREEN, PURPLE, SKY, VERMILION, YELLOW, show

_STYLES = {  # the cell's color, its ink, and the word that makes it readable without color
    "seal": (BLUE, "white", "seal"),
    "expiry": (GREEN, "black", "expiry"),
    "binding": (SKY, "black", "binding"),
    "tool": ("0.75", "black", "tool"),
    "claim": (PURPLE, "black", "claim"),
    "plan": (YELLOW, "black", "plan"),
    THROUGH: (VERMILION, "black", "✗"),
    NONE: ("0.95", "0.4", "–"),
}
_SINGLE = " + single use"


def attack_board(table: Mapping[str, Mapping[str, Verdict]], title: str) -> None:
    """Draw which layer stopped which attack behind which defense.

    Args:
        table: as `labkit.board.board` returns it.
        title: what the picture shows, as a finding.
    """
    columns = list(next(iter(table.values())))
    groups = {
        "without single use": [column for column in columns if not column.endswith(_SINGLE)],
        "with single use": [column for column in columns if column.endswith(_SINGLE)],
    }
    groups = {heading: group for heading, group in groups.items() if group}
    figure = Figure(figsize=(0.76 * len(columns) + 2, 0.5 * len(table) + 1.9), layout="constrained")
    shares = [len(group) for group in groups.values()]
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False, gridspec_kw={"width_ratios": shares})[0]
    for axes, (heading, group) in zip(panels, groups.items(), strict=True):
        for y, row in enumerate(table.values()):
            for x, column in enumerate(group):
                color, ink, word = _STYLES[row[column].layer]
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=2))
                axes.text(x, y, word, ha="center", va="center", fontsize=17 if word == "✗" else 12, color=ink)
        labels = [
            column.removesuffix(_SINGLE).replace(" ", "\n").replace("ephemeral", "ephe-\nmeral") for column in group
        ]
        axes.set_xticks(range(len(group)), labels, fontsize=12)
        axes.set_yticks(range(len(table)), list(table), fontsize=13)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set(xlim=(-0.5, len(group) - 0.5), ylim=(len(table) - 0.5, -0.5))
        axes.set_title(heading, fontsize=14, loc="left", pad=12)
    panels[0].set_xlabel("✗ went through    – not applicable", fontsize=13, loc="left")
    figure.suptitle(title, x=0.01, ha="left", fontsize=15)
    show(figure, f"{title}. {'; '.join(_told(attack, row) for attack, row in table.items())}.")


def _told(attack: str, row: Mapping[str, Verdict]) -> str:
    """A row in words: for each layer that occurs, its defenses."""
    layers = dict.fromkeys(verdict.layer for verdict in row.values())
    return f"{attack}: " + ", ".join(
        f"{layer}: {', '.join(column for column, verdict in row.items() if verdict.layer == layer)}" for layer in layers
    )
