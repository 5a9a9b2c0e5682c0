"""Draw a sealed token, character by character."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.figures.canvas import GREEN, ORANGE, SKY, YELLOW, show

_COLUMNS = 64
_SEGMENTS = {
    "prefix v1.": (YELLOW, ""),
    "key id": (ORANGE, "////"),
    "nonce": (SKY, "...."),
    "ciphertext": ("0.93", ""),
    "tag": (GREEN, "xxxx"),
}
_REASONS = ["s", "^", "_"]


def token_map(token: str, reasons: Sequence[str]) -> None:
    """Draw both ends of a `v1.` token, one square a character: its segment, and why that one may not be changed.

    Args:
        token: the token; only its length matters, and that varies, so the middle is left out.
        reasons: for each character, the logged reason when that one was changed.
    """
    segments = [_segment(place, len(token)) for place in range(len(token))]
    kinds = list(dict.fromkeys(reasons))
    figure = Figure(figsize=(9, 2.6))
    axes = figure.subplots()
    axes.axis("off")
    for y, places in ((0, range(_COLUMNS)), (2, range(len(token) - _COLUMNS, len(token)))):
        for x, place in enumerate(places):
            color, hatch = _SEGMENTS[segments[place]]
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=color, hatch=hatch, edgecolor="0.55", lw=0.5))
            axes.plot(x + 0.5, y + 0.5, _REASONS[kinds.index(reasons[place])], color="black", markersize=4.5)
    axes.text(_COLUMNS / 2, 1.5, "… more ciphertext …", ha="center", va="center", fontsize=10)
    told = [f"{name} {_percent(segments.count(name) / len(token))}" for name in _SEGMENTS]
    legend = [
        *((label, _SEGMENTS[name], None) for name, label in zip(_SEGMENTS, told, strict=True)),
        *((f"refused: {kind}", ("white", ""), _REASONS[number]) for number, kind in enumerate(kinds)),
    ]
    legend.insert(len(_SEGMENTS), ("", ("white", ""), " "))  # the reasons begin a row of their own
    for number, (label, (color, hatch), marker) in enumerate(legend):
        top, left = 3.8 + 1.8 * (number // 3), number % 3 * _COLUMNS / 3
        if marker:
            axes.plot(left + 0.7, top + 0.65, marker, color="black", markersize=6)
        else:
            axes.add_patch(Rectangle((left, top), 1.3, 1.3, facecolor=color, hatch=hatch, edgecolor="0.3", lw=0.5))
        axes.text(left + 2, top + 0.65, label, va="center", fontsize=10)
    axes.set(xlim=(-0.2, _COLUMNS + 0.2), ylim=(9.3, -0.2))
    title = f"No character can be changed, and {len(kinds)} checks make sure of it"
    axes.set_title(title, fontsize=12, loc="left")
    show(figure, f"{title}. The segments, by share: {', '.join(told)}. The reasons, in order: {', '.join(kinds)}.")


def _segment(place: int, length: int) -> str:
    """The segment that the character at `place` belongs to; one that touches two belongs to the one that refuses it."""
    if place < 3:
        return "prefix v1."
    first = (place - 3) * 6 // 8  # the first byte that the character touches
    if first < 4:
        return "key id"
    if first < 16:
        return "nonce"
    return "tag" if length - place <= 22 else "ciphertext"  # 16 bytes are 22 characters, the first of them in part


def _percent(share: float) -> str:
    return "under 3%" if share < 0.03 else f"about {round(share * 20) * 5}%"
