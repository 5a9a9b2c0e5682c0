"""Draw the two rounds of a confirmation, from the recorded messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from labkit.figures.canvas import BLUE, VERMILION, show
from labkit.wire import Message

_LANES = {"client": 0.0, "server": 1.0, "OpenBao": 2.0}
_OPENBAO = {"sys/wrapping/wrap": "park the plan, get a claim", "sys/wrapping/unwrap": "redeem the claim, get the plan"}


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
