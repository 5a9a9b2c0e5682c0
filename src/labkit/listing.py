"""Show the source of something of labkit in a notebook, from the package itself, so that the two cannot drift apart."""

from __future__ import annotations

import ast
import html
import inspect
import textwrap
from typing import Any

from IPython.display import display

_DOCUMENTED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

_STYLE = "white-space: pre; overflow-x: auto; margin: 0; font-size: var(--jp-code-font-size, 0.9em)"


def source(thing: Any) -> None:
    """Display the source of a class, a function or a module, each docstring cut to its first line.

    A line that is too long for the window is scrolled and not wrapped.

    Raises:
        TypeError: `thing` is none of these.
    """
    text = textwrap.dedent(inspect.getsource(thing)).rstrip()
    lines = text.splitlines()
    # From the last one to the first, so that the places of those before stay right.
    for node in reversed([node for node in ast.walk(ast.parse(text)) if isinstance(node, _DOCUMENTED)]):
        if ast.get_docstring(node) is not None:
            docstring = node.body[0]
            first = lines[docstring.lineno - 1]
            if docstring.end_lineno != docstring.lineno:
                lines[docstring.lineno - 1 : docstring.end_lineno] = [f'{first}"""']
    shown = "\n".join(lines)
    page = f'<pre style="{_STYLE}">{html.escape(shown)}</pre>'
    display({"text/html": page, "text/plain": shown}, raw=True)  # type: ignore[no-untyped-call]
