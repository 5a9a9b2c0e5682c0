"""Wait for what another thread or process does, without sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Return as soon as `happened()`; fail with `what` when it has not within 30 s."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.01)
