"""Draw a table of verdicts, one mark a cell."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.figures.canvas import BLUE, ORANGE, show

_STYLES = [(BLUE, "o", "white"), ("0.93", "", "black"), (ORANGE, "X", "black")]  # of the cell, its mark, and the ink


def matrix(table: Mapping[str, Mapping[str, str]], verdicts: Mapping[str, str], title: str) -> None:
    """Draw who gets which verdict for what.

    Args:
        table: for each row, its verdict for each column; every row has the same columns.
        verdicts: the verdicts that may occur, at most three, each with the words that its cell shows; with none, the
            cell shows a mark, and a legend explains it.
        title: what the picture shows, as a finding.
    """
    rows, columns = list(table), list(next(iter(table.values())))
    styles = dict(zip(verdicts, _STYLES, strict=False))
    figure = Figure(figsize=(9, 0.42 * len(rows) + 1.6))
    axes = figure.subplots()
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            verdict = table[row][column]
            color, mark, ink = styles[verdict]
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=2))
            if verdicts[verdict]:
                axes.text(x, y, verdicts[verdict], ha="center", va="center", fontsize=10, color=ink)
            elif mark:
                axes.plot(x, y, mark, color=ink, markersize=7)
    if len(columns) > 5:
        axes.set_xticks(range(len(columns)), columns, rotation=35, ha="left", rotation_mode="anchor", fontsize=10)
    else:
        axes.set_xticks(range(len(columns)), [textwrap.fill(column, 24) for column in columns], fontsize=10)
    axes.set_yticks(range(len(rows)), rows, fontsize=10)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    for verdict, words in verdicts.items():
        color, mark, _ = styles[verdict]
        if not words:
            axes.plot([], [], mark or "s", color=color if mark else "0.8", markersize=9, label=verdict)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.01), ncols=len(verdicts), frameon=False, fontsize=10)
    axes.set_title(title, fontsize=12, loc="left")
    show(figure, f"{title}. {'; '.join(_told(row, table[row], verdicts) for row in rows)}.")


def _told(row: str, cells: Mapping[str, str], verdicts: Mapping[str, str]) -> str:
    """A row in words: for each verdict that occurs, its columns."""
    columns = {verdict: [column for column, found in cells.items() if found == verdict] for verdict in verdicts}
    return f"{row}: " + ", ".join(f"{verdict}: {', '.join(found)}" for verdict, found in columns.items() if found)
