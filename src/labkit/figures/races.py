"""Draw how a claim ends, and what those get who come too late."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from labkit.figures.canvas import BLUE, ORANGE, SKY, VERMILION, show

_HOW = {"redeemed": "unwrap", "burned": "revoke-self", "expired": "time passes"}
_MEANING = {
    400: ("400: the claim is gone", SKY, "...."),
    500: ("500: an error, any error", ORANGE, "////"),
    204: ("204: no error, and no plan", VERMILION, "xxxx"),
}


def claim_life(endings: Mapping[str, int]) -> None:
    """Draw the life of a claim. Takes, for each way to end, the status that its holder gets from then on."""
    figure = Figure(figsize=(9, 0.8 * len(endings) + 0.7))
    axes = figure.subplots()
    axes.set(xlim=(-0.4, 3.3), ylim=(len(endings) - 0.5, -0.6))
    axes.axis("off")
    middle = (len(endings) - 1) / 2
    statuses = list(dict.fromkeys(endings.values()))
    places = {status: middle + 0.9 * (n - (len(statuses) - 1) / 2) for n, status in enumerate(statuses)}
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": "black"}
    axes.text(0, middle, "issued", ha="center", va="center", fontsize=12, weight="bold", bbox=box, zorder=2)
    arrow = {"arrowstyle": "-|>", "linewidth": 1.8, "shrinkA": 34, "shrinkB": 38}
    for y, (ending, status) in enumerate(endings.items()):
        axes.annotate("", (1.4, y), (0, middle), arrowprops={**arrow, "color": BLUE})
        axes.text(1.4, y, ending, ha="center", va="center", fontsize=12, bbox=box, zorder=2)
        how = _HOW.get(ending, "")
        axes.text(0.72, (y + middle) / 2, how, ha="center", va="center", fontsize=10, backgroundcolor="white")
        dashed = {**arrow, "color": VERMILION, "linestyle": "--", "shrinkB": 28}
        axes.annotate("", (2.8, places[status]), (1.4, y), arrowprops=dashed)
    for status, place in places.items():
        axes.text(2.8, place, str(status), ha="center", va="center", fontsize=12, bbox=box, zorder=2)
    title = "A claim has three ways to end, and afterward they all look the same"
    if (len(endings), len(statuses)) != (3, 1):
        title = f"A claim has {len(endings)} ways to end, and its holder can tell {len(statuses)} apart"
    axes.set_title(title, fontsize=12, loc="left")
    show(figure, f"{title}. {'; '.join(f'issued, {e}, then {s}' for e, s in endings.items())}.")


def losers(told: Mapping[int, int], claims: int, redeemers: int) -> None:
    """Draw what the losers of races got. How many got what varies, so it is in the picture and not in its text.

    Args:
        told: how many losers got each status.
        claims: how many claims were raced for; each had one winner.
        redeemers: how many raced for each.
    """
    kinds = {status: _MEANING.get(status, (f"{status}", "0.8", "")) for status in [*_MEANING, *told]}
    figure = Figure(figsize=(9, 0.55 * len(kinds) + 1.2))
    axes = figure.subplots()
    for y, (status, (_, color, hatch)) in enumerate(kinds.items()):
        count = told.get(status, 0)
        axes.barh(y, count, height=0.6, color=color, hatch=hatch, edgecolor="black", linewidth=0.8)
        axes.annotate(f"{count}", (count, y), (6, 0), textcoords="offset points", va="center", fontsize=11)
    axes.set_yticks(range(len(kinds)), [meaning for meaning, _, _ in kinds.values()], fontsize=11)
    axes.set(ylim=(len(kinds) - 0.5, -0.5), xlim=(0, claims * (redeemers - 1) * 1.06))
    axes.set_xlabel("losers")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"Each of {claims} claims has exactly one winner; this is what the other {redeemers - 1} of each were told"
    figure.text(0.0, 1.0, title, fontsize=12, ha="left", transform=figure.transFigure)
    show(figure, f"{title}. One bar for each answer: {'; '.join(meaning for meaning, _, _ in kinds.values())}.")
