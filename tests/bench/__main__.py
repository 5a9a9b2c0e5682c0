"""Side-by-side figures, each pair measured in turn in one run: `make bench`. Saved to build/bench.json."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import claims
import clients
import flows
import startup
import tokens
from figure import Figure

from labkit.lab import start


def figures() -> Iterator[Figure]:
    """All of them, as they are measured."""
    with start() as lab:
        yield from tokens.figures(lab)
        yield from flows.figures(lab)
        yield from claims.figures(lab)
    yield from startup.figures()


def main() -> int:
    """Print each figure, and write them all down; 1 if one does not reach its bound."""
    for setting in ("BAO_ADDR", "VAULT_ADDR"):
        os.environ.pop(setting, None)
    found = []
    for figure in figures():
        print(figure.row(), flush=True)
        found.append(figure)
    with start() as lab:
        asyncio.run(clients.compare(lab, lab.client("transit")))
    names = ("name", "value", "bound", "holds")
    rows = [{name: getattr(figure, name) for name in names} for figure in found]
    path = Path("build") / "bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"figures": rows}, indent=2) + "\n")
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
