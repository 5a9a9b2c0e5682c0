"""Show the source of something of labkit in a notebook, from the package itself, so that the two cannot drift apart."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

_DOCUMENTED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def source(thing: Any) -> None:
    """Print the source of a class, a function or a module, each docstring cut to its first line.

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
    print("\n".join(lines))
