"""Wait for what another thread or process does, without sleeping for luck."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

from labkit.lab import Lab


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Return as soon as `happened()`; fail with `what` when it has not within 30 s."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.01)


@contextlib.contextmanager
def stopped(lab: Lab) -> Iterator[None]:
    """The OpenBao of a lab of one's own stands still: it takes connections, and answers nothing."""
    pid = lab._server._child.process.pid
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)  # until its last thread stands still: one that runs on may answer yet
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
