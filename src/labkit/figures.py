"""Pictures, each with its alternative text, in colors and marks that also read in gray."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.replicas import Message

_LANES = {"client": 0.0, "server": 1.0, "OpenBao": 2.0}
_OPENBAO = {"sys/wrapping/wrap": "park the plan, get a claim", "sys/wrapping/unwrap": "redeem the claim, get the plan"}
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = mpl.color_sequences["okabe_ito"]
_COLUMNS = 64
_SEGMENTS = {
    "prefix v1.": (YELLOW, ""),
    "key id": (ORANGE, "////"),
    "nonce": (SKY, "...."),
    "ciphertext": ("0.93", ""),
    "tag": (GREEN, "xxxx"),
}
_REASONS = ["s", "^", "_"]
_MARKS = "os^Dv<>ph"


def show(figure: Figure, alt: str) -> None:
    """Display `figure` with `alt` as its alternative text.

    The text is part of both representations, so that a comparison of outputs compares it; of the picture's bytes
    no comparison is made.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, facecolor="white", bbox_inches="tight")
    image = base64.b64encode(buffer.getvalue()).decode()
    text = html.escape(alt, quote=True)
    data = {
        "text/html": f'<figure><img alt="{text}" src="data:image/png;base64,{image}" style="max-width:100%"></figure>',
        "text/plain": f"Figure: {alt}",
    }
    display(data, raw=True)  # type: ignore[no-untyped-call]


def two_rounds(messages: Sequence[Message]) -> None:
    """Draw a purge as it went: who said what to whom, from the recorded messages."""
    steps = [(m.sender, m.receiver, _label(m)) for m in messages]
    figure = Figure(figsize=(9, 0.62 * len(steps) + 1.3))
    axes = figure.subplots()
    axes.set(xlim=(-0.35, 2.35), ylim=(len(steps) + 0.2, -1.2))
    axes.axis("off")
    for name, x in _LANES.items():
        axes.plot([x, x], [-0.6, len(steps) - 0.3], color="0.6", linewidth=1, zorder=0)
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": "black"}
        axes.text(x, -0.85, name, ha="center", va="center", fontsize=12, weight="bold", bbox=box)
    for y, (sender, receiver, label) in enumerate(steps):
        start, end = _LANES[sender], _LANES[receiver]
        inside = "OpenBao" in (sender, receiver)
        style = {"arrowstyle": "-|>", "color": VERMILION if inside else BLUE, "linestyle": "--" if inside else "-"}
        axes.annotate("", (end, y), (start, y), arrowprops={**style, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0})
        axes.text((start + end) / 2, y - 0.12, f"{y + 1}  {label}", ha="center", va="bottom", fontsize=10)
    readable = any("a readable state" in label for _, _, label in steps)
    title = (
        "The client carries a state that it can read, and edit"
        if readable
        else "The client carries a state it cannot read; the plan waits in OpenBao"
    )
    axes.set_title(title, fontsize=12, loc="left")
    told = "; ".join(f"{n}. {s} to {r}: {label}" for n, (s, r, label) in enumerate(steps, start=1))
    show(figure, f"{title}. {told}.")


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


def refusal_map(board: Mapping[str, str]) -> None:
    """Draw which check stopped which move. Takes, for each move, the reason that was logged."""
    reasons = list(dict.fromkeys(board.values()))
    figure = Figure(figsize=(9, 0.36 * len(board) + 1.6))
    axes = figure.subplots()
    for y, reason in enumerate(board.values()):
        x = reasons.index(reason)
        axes.plot([-0.5, x], [y, y], color="0.8", linewidth=1, zorder=0)
        axes.plot(x, y, _MARKS[x % len(_MARKS)], color=(BLUE, VERMILION, GREEN)[x % 3], markersize=9)
    axes.set_xticks(range(len(reasons)), reasons, rotation=25, ha="left", fontsize=10)
    axes.set_yticks(range(len(board)), list(board), fontsize=10)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(reasons) - 0.5), ylim=(len(board) - 0.5, -0.5))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = f"{len(board)} moves that break no seal, {len(reasons)} reasons in the log, one message to the client"
    figure.text(0.0, 1.06, title, fontsize=12, ha="left", transform=figure.transFigure)
    show(figure, f"{title}. {'; '.join(f'{move}: {reason}' for move, reason in board.items())}.")


def _label(message: Message) -> str:
    body = message.body
    if message.receiver == "OpenBao":
        return _OPENBAO.get(body["path"], str(body["path"]))
    params: dict[str, Any] = body.get("params", {})
    result: dict[str, Any] = body.get("result", {})
    state = params.get("requestState") or result.get("requestState") or ""
    kind = "a sealed state" if state.startswith(("v1.", "vault:v")) else "a readable state"
    if "inputResponses" in params:
        return f"the answer, and {kind}"
    if "method" in body:
        return f"{params['name']}({', '.join(map(repr, params['arguments'].values()))})"
    if result.get("resultType") == "input_required":
        return f"a question, and {kind}"
    return "what was purged"
