"""Show the source of something of labkit in a notebook, from the package itself, so that the two cannot drift apart."""

from __future__ import annotations

import inspect
from typing import Any


def source(thing: Any) -> None:
    """Print the source of a class, a function or a module.

    Raises:
        TypeError: `thing` is none of these.
    """
    print(inspect.getsource(thing).rstrip())
