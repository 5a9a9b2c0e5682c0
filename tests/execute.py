"""Execute notebooks in place and write them back clean: `python tests/execute.py notebooks/*.ipynb`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def execute(path: Path) -> None:
    """Run every cell in a fresh kernel and write the outputs, without a trace of the machine or the time."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    # Coalesced: whether two prints arrive as one message or as two depends on the moment.
    NotebookClient(notebook, kernel_name="python3", resources=folder, coalesce_streams=True).execute()
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)


for name in sys.argv[1:]:
    print(f"executing {name}", flush=True)
    execute(Path(name))
