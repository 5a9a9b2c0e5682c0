"""Draw which check stopped which move."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.canvas import BLUE, GREEN, MARKS, VERMILION, show


def refusal_map(board: Mapping[str, str]) -> None:
    """Draw which check stopped which move. Takes, for each move, the reason that was logged."""
    reasons = list(dict.fromkeys(board.values()))
    figure = Figure(figsize=(9, 0.36 * len(board) + 1.6))
    axes = figure.subplots()
    for y, reason in enumerate(board.values()):
        x = reasons.index(reason)
        axes.plot([-0.5, x], [y, y], color="0.8", linewidth=1, zorder=0)
        axes.plot(x, y, MARKS[x % len(MARKS)], color=(BLUE, VERMILION, GREEN)[x % 3], markersize=9)
    axes.set_xticks(range(len(reasons)), reasons, rotation=25, ha="left", fontsize=10)
    axes.set_yticks(range(len(board)), list(board), fontsize=10)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(reasons) - 0.5), ylim=(len(board) - 0.5, -0.5))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = f"{len(board)} moves that break no seal, {len(reasons)} reasons in the log, one message to the client"
    figure.text(0.0, 1.06, title, fontsize=12, ha="left", transform=figure.transFigure)
    show(figure, f"{title}. {'; '.join(f'{move}: {reason}' for move, reason in board.items())}.")
