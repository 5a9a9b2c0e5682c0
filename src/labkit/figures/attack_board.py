"""Draw the attack board."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.board import NONE, THROUGH, Verdict
from labkit.figures.canvas import BLUE, GREEN, PURPLE, SKY, VERMILION, YELLOW, show

_STYLES = {  # the cell's color, its ink, and the word that makes it readable without color
    "seal": (BLUE, "white", "seal"),
    "binding": (SKY, "black", "binding"),
    "expiry": (GREEN, "black", "expiry"),
    "tool": ("0.75", "black", "tool"),
    "claim": (PURPLE, "black", "claim"),
    "plan": (YELLOW, "black", "plan"),
    THROUGH: (VERMILION, "black", "✗"),
    NONE: ("0.95", "0.4", "–"),
}


def attack_board(table: Mapping[str, Mapping[str, Verdict]], title: str) -> None:
    """Draw which layer stopped which attack behind which defense.

    Args:
        table: as `labkit.board.board` returns it.
        title: what the picture shows, as a finding.
    """
    columns = list(next(iter(table.values())))
    figure = Figure(figsize=(0.78 * len(columns) + 1.6, 0.36 * len(table) + 2))
    axes = figure.subplots()
    for y, row in enumerate(table.values()):
        for x, verdict in enumerate(row.values()):
            color, ink, word = _STYLES[verdict.layer]
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=2))
            axes.text(x, y, word, ha="center", va="center", fontsize=13 if word == "✗" else 9, color=ink)
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="left", rotation_mode="anchor", fontsize=10)
    axes.set_yticks(range(len(table)), list(table), fontsize=10)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(table) - 0.5, -0.5))
    axes.set_xlabel("✗ went through    – not applicable", fontsize=10, loc="left")
    axes.set_title(title, fontsize=12, loc="left")
    show(figure, f"{title}. {'; '.join(_told(attack, row) for attack, row in table.items())}.")


def _told(attack: str, row: Mapping[str, Verdict]) -> str:
    """A row in words: for each layer that occurs, its defenses."""
    layers = dict.fromkeys(verdict.layer for verdict in row.values())
    return f"{attack}: " + ", ".join(
        f"{layer}: {', '.join(column for column, verdict in row.items() if verdict.layer == layer)}" for layer in layers
    )
