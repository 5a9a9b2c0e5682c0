"""One replica of the server under study, over HTTP on loopback, with credentials of its own."""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
import time
import uuid
from pathlib import Path
from types import FrameType

import hvac
import uvicorn

from labkit import approle, credentials, replicas
from labkit.bucket import Bucket
from labkit.errors import LabError
from labkit.janitor import NAME, build_janitor, recover
from labkit.ledger import Ledger
from labkit.openbao import Server, find
from labkit.single_use import AlreadyRedeemed, SingleUse
from labkit.transit import TransitCodec

logger = logging.getLogger(__name__)

_KEEP = 86_400  # seconds that the ledger remembers what is done
_CLEAN = 600  # seconds between two times that it forgets the rest, for which it reads everything
_GRACE = 2  # seconds that requests in flight get when it ends


def main(
    codec: str,
    *,
    port: int,
    bucket: Path,
    folder: Path,
    role: str | None = None,
    ttl: int = 120,
    max_stale: int = 60,
    recover_after: int | None = None,
) -> int:
    """Serve until interrupted; print the URL once everything that a round needs has been tried.

    Args:
        codec: "ring", "envelope", "transit" or "batched".
        port: where to listen on 127.0.0.1; 0 for any that is free.
        bucket: the folder that is purged.
        folder: where the credentials of `role`, of `confirmations` and with a ledger of `ledger` lie; see
            `labkit.credentials`.
        role: what to log in as for the codec; by default the one that it needs.
        ttl: seconds that a round, and a claim, may take: 1 to 300.
        max_stale: seconds without having read the key ring after which it is not used any more.
        recover_after: write each purge down in the ledger, and finish those that any server began so many seconds ago;
            by default, there is no ledger.

    Returns:
        0 when it was interrupted or terminated.

    Raises:
        LabError: `BAO_ADDR` is not set, a file or the port cannot be used, or the ring is not fit to seal with.
        OpenBaoUnavailable: OpenBao is away, sealed, or refuses a role what it needs.
    """
    server = find()
    if server is None:
        raise LabError(
            "BAO_ADDR is not set, and serve starts no OpenBao of its own: export the address of one that runs, "
            "such as that of `python -m labkit up`."
        )
    with _listen(port) as listening:
        logging.disable(logging.CRITICAL)  # what is wrong by now is told in one sentence
        login = _log_in(server, role or replicas.ROLES[codec], folder)
        sealing = replicas.security(codec, login, ttl=ttl, max_stale=max_stale)
        single_use = SingleUse(_log_in(server, "confirmations", folder), ttl=ttl)
        # A role that lacks a right is told now, and not to the first user.
        needed = TransitCodec(login) if codec == "batched" else sealing.codec  # which has no server yet
        needed.unseal(needed.seal(b"ready"))
        with contextlib.suppress(AlreadyRedeemed):  # a ttl of a second may be over by now
            single_use.burn(single_use.issue({}))
        objects, ledger = _bucket(bucket), None
        if recover_after is not None:
            ledger = Ledger(_log_in(server, "ledger", folder))
            ledger.names()
            # Of nothing, and forgotten after a day: that it may be written is found out by writing.
            ledger.plan(uuid.uuid4().hex, {})
            recovering = (ledger, objects, recover_after)
            threading.Thread(target=_recover_now_and_then, args=recovering, daemon=True).start()
        logging.disable(logging.NOTSET)
        janitor = build_janitor(sealing, single_use, objects, ledger=ledger)
        replicas.attach(janitor, sealing)
        app = janitor.streamable_http_app(stateless_http=True, json_response=True)
        print(f"{NAME} seals with {codec} at http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        _Replica(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_GRACE)).run(sockets=[listening])
    return 0


class _Replica(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, on the first signal and on those that an impatient person sends after it."""
        logging.getLogger("uvicorn.error").disabled = True  # that requests are cut off now is no error of theirs
        self.should_exit = True


def _recover_now_and_then(ledger: Ledger, bucket: Bucket, after: int) -> None:
    cleaned = -math.inf
    while True:
        try:
            if done := recover(ledger, bucket, after=after):
                logger.warning("finished %d purge(s) that had been begun", done)
            if time.monotonic() - cleaned > _CLEAN:
                ledger.forget(keep=_KEEP)
                cleaned = time.monotonic()
        except Exception as error:  # whatever it was, the thread must live to try again
            what = error if isinstance(error, LabError) else type(error).__name__
            logger.error("purges that were begun are not looked after for now: %s", what)
        time.sleep(after / 2)


def _log_in(server: Server, role: str, folder: Path) -> hvac.Client:
    return approle.log_in(server, server.namespace, role, *credentials.read(role, folder))


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the last one's connections may linger
        listening.bind(("127.0.0.1", port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise LabError(
            f"Nothing can listen on 127.0.0.1:{port} ({error.strerror}): choose another port with --port."
        ) from None
    return listening


def _bucket(folder: Path) -> Bucket:
    if not folder.is_dir():
        raise LabError(f"{folder} is no folder: make it, or name another one with --bucket.")
    return Bucket(folder)
