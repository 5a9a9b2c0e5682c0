"""Show a figure with its alternative text, in colors and marks that also read in gray."""

from __future__ import annotations

import base64
import html
import io

import matplotlib as mpl
from IPython.display import display
from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = mpl.color_sequences["okabe_ito"]
MARKS = "os^Dv<>ph"
"""Markers, one for each thing that is told apart."""


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
