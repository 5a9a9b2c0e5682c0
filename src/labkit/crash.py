"""A replica that is killed at a chosen step of a purge, as a power failure would, to see what is left."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import uvicorn
from mcp.server.request_state import RequestStateSecurity

from labkit import approle, provision
from labkit.balancer import Balancer
from labkit.bucket import Bucket
from labkit.errors import LabError, outage
from labkit.janitor import build_janitor
from labkit.key_ring import load_key_ring
from labkit.lab import Lab
from labkit.ledger import Ledger
from labkit.openbao import Server
from labkit.single_use import SingleUse

Logins = dict[str, tuple[str, str]]


class Doomed:
    """A replica of `storage-janitor` in a process of its own, over HTTP, behind a balancer. A context manager.

    It is the shipped server with the shipped parts. They only count the steps of a purge, in the order in which they
    are done: the claim is redeemed, with a ledger the purge is begun, each object is deleted, with a ledger the purge
    is finished.

    Attributes:
        url: the balancer's, which outlives it.
    """

    def __init__(self, lab: Lab, bucket: Bucket, *, dies_after: int | None = None, ledger: bool = False) -> None:
        """Start it, and wait until it is ready.

        Args:
            lab: where keys lie and plans are parked.
            bucket: what is purged.
            dies_after: the number of the step, from 1, after which the process kills itself (SIGKILL); None for never.
            ledger: whether it writes down what it does.

        Raises:
            LabError: it did not start.
        """
        roles = ["ring-reader", "confirmations", *(["ledger"] if ledger else [])]
        with outage("handing out credentials", passing=(LabError,)):
            logins = {role: provision.credentials(lab.admin, role) for role in roles}
        ours, theirs = _context().Pipe()
        server = Server(lab.address, "", verify=lab._server.verify)
        self._process = _context().Process(
            target=_serve, args=(server, lab.namespace, logins, str(bucket.folder), dies_after, theirs), daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            with ours:
                self._balancer = Balancer([str(ours.recv())], [])
        except EOFError:
            self._process.join()
            raise LabError("A replica did not start: run `python -m labkit doctor`.") from None
        except BaseException:  # an interrupt, above all
            self._process.kill()
            self._process.join()
            raise
        self.url = self._balancer.url

    def died(self) -> bool:
        """Wait until the process ends, 10 s at most, and return whether SIGKILL ended it."""
        self._process.join(timeout=10)
        return bool(self._process.exitcode == -signal.SIGKILL)

    def close(self) -> None:
        """End the process if it still runs, and the balancer."""
        self._balancer.close()
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Doomed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _context() -> Any:
    # Forked from a process that has everything loaded, and not from the kernel, whose threads would not come along.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


class _Replica(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End on SIGTERM, as when the kernel shuts down; an Interrupt of the kernel is not meant for it."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)


class _Fuse:
    """Counts the steps, and ends the process after the last one."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps

    def after(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result

        return counted


def _serve(
    server: Server, namespace: str, logins: Logins, folder: str, dies_after: int | None, ready: Connection
) -> None:
    # An Interrupt of the kernel is not meant for it, and when the kernel is gone, so is it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_kernel, daemon=True).start()
    clients = {
        role: approle.log_in(server, namespace, role, role_id, secret_id)
        for role, (role_id, secret_id) in logins.items()
    }
    single_use, bucket = SingleUse(clients["confirmations"]), Bucket(folder)
    ledger = Ledger(clients["ledger"]) if "ledger" in clients else None
    fuse = _Fuse(dies_after)
    for part, steps in ((single_use, ("redeem",)), (ledger, ("begin", "finish")), (bucket, ("delete",))):
        for step in steps if part is not None else ():
            setattr(part, step, fuse.after(getattr(part, step)))
    security = RequestStateSecurity(keys=load_key_ring(clients["ring-reader"]))
    app = build_janitor(security, single_use, bucket, ledger=ledger).streamable_http_app(
        stateless_http=True, json_response=True
    )
    listening = socket.create_server(("127.0.0.1", 0))
    ready.send(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    ready.close()
    with contextlib.suppress(KeyboardInterrupt):
        _Replica(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


def _end_with_the_kernel() -> None:
    kernel = multiprocessing.parent_process()
    if kernel is not None:
        kernel.join()
    os._exit(0)
