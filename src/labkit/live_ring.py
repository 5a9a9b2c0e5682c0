"""A codec that follows the key ring in KV, so that a running replica needs no restart when the ring changes."""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
import weakref
from collections.abc import Callable

import hvac
from mcp.server.request_state import AESGCMRequestStateCodec

from labkit.errors import LabError, OpenBaoUnavailable
from labkit.key_ring import key_id, parse_key_ring, read_ring
from labkit.provision import RING_PATH

logger = logging.getLogger(__name__)

_READS = 4  # tries to read the ring within `max_stale`: one or two may fail before anybody notices
_USED = (
    0.9  # of `max_stale`: OpenBao stamps a ring a little before it stores it, and the operator counts from the stamp
)

# A clock that never goes back, and does not stand still while the machine sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))
_clock: Callable[[int], float] = getattr(time, "clock_gettime", lambda _: time.monotonic())


class LiveKeyRing:
    """A `RequestStateCodec` that reads the ring in KV again and again, and swaps it between two tokens.

    A replica that has not read the ring for `max_stale` seconds refuses to seal and to unseal, and it begins to a tenth
    earlier. That is the promise on which `labkit.KeyRing` decides when the next step of a rotation is safe. Until then,
    an OpenBao that is away, a ring that cannot be read, and one that is older than the ring in use change nothing, and
    are logged. (A standby that lags can hand out an older ring, and so can a snapshot that was put back; after the
    latter, start the replicas anew.)

    Time is looked at before a token is opened and not afterwards, as the server goes on with what was opened anyway.

    Make it after any fork, because its thread does not follow into a child. Its client must be able to log in for as
    long as it runs. With a client that waits 10 s for an answer, `max_stale` should be a minute or more.

    Attributes:
        key_ids: the ids of the keys that were read last, in ring order; each token names its key by such an id.

    Source: SDK, `mcp.server.request_state.RequestStateCodec`.
    """

    key_ids: tuple[str, ...] = ()

    def __init__(self, client: hvac.Client, path: str = RING_PATH, *, max_stale: float = 60) -> None:
        """Read the ring at `path`, and go on reading it in a thread; `client` needs the role `ring-reader`.

        Args:
            client: may read the ring.
            path: where the ring lies in the mount `secret/`.
            max_stale: seconds without having read the ring after which it is not used any more; more than 0, a day at
                most.

        Raises:
            ValueError: `max_stale` is not in that range.
            InvalidKeyRing, OpenBaoUnavailable: as for `load_key_ring`; a server without a ring does not start.
        """
        if not 0 < max_stale <= 86_400:
            raise ValueError(f"max_stale is more than 0 seconds and at most a day, not {max_stale!r}")
        self._client = client
        self._path = path
        self._max_stale = max_stale
        self._keys: list[bytes] = []
        self._version = 0
        # No token waits for a lock: it looks at the time first, and a new codec is there before its new time.
        self._codec: AESGCMRequestStateCodec
        self._until = -math.inf
        self._lock = threading.Lock()  # between reading and closing
        self._closed = False
        self._read()
        # The thread holds no more than a weak reference, so a ring that nobody uses any more ends it too.
        stop = threading.Event()
        self._stop = weakref.finalize(self, stop.set)
        self._thread = threading.Thread(
            target=_follow, args=(weakref.ref(self), stop, max_stale / _READS), name="LiveKeyRing", daemon=True
        )
        self._thread.start()

    def seal(self, payload: bytes) -> str:
        """Return a token that protects `payload`, sealed with the first key of the ring.

        Raises:
            OpenBaoUnavailable: the ring has not been read for `max_stale` seconds, or is closed.
        """
        if _clock(_CLOCK) < self._until:
            return self._codec.seal(payload)
        raise self._unusable()

    def unseal(self, token: str) -> bytes:
        """Return the payload of a token that was sealed with any key of the ring.

        Raises:
            InvalidRequestState: the token is none of ours; as the SDK's own codec.
            OpenBaoUnavailable: the ring has not been read for `max_stale` seconds, or is closed. The SDK then refuses
                the round with reason `codec error`.
        """
        if _clock(_CLOCK) < self._until:
            return self._codec.unseal(token)
        raise self._unusable()

    def close(self) -> None:
        """Stop following, and refuse from now on. Twice does no harm."""
        self._stop()
        with self._lock:
            self._closed = True
            self._until = -math.inf

    def _read(self) -> None:
        # From before the question: what changed while it was answered may not be in it.
        until = _clock(_CLOCK) + _USED * self._max_stale
        secret = read_ring(self._client, self._path)
        keys = parse_key_ring(secret["data"], self._path)
        version = int(secret["metadata"]["version"])
        with self._lock:
            if self._closed:
                return
            if version < self._version:
                raise LabError(
                    f"Version {version} of the key ring at secret/{self._path} came after "
                    f"version {self._version}: read it from the active node, or start this "
                    "server anew if it was put back."
                )
            if keys != self._keys:
                self._codec = AESGCMRequestStateCodec(keys)
                self._keys = keys
                self.key_ids = tuple(key_id(key) for key in keys)
            self._version, self._until = version, until

    def _refresh(self) -> None:
        try:
            self._read()
        except Exception as error:
            if self._closed:
                return
            what = error if isinstance(error, LabError) else type(error).__name__
            left = self._until - _clock(_CLOCK)
            for_now = f"goes on being used for {left:.1f} s more" if left > 0 else "is not used any more"
            logger.warning("the key ring could not be read, and the one that was read last %s: %s", for_now, what)

    def _unusable(self) -> OpenBaoUnavailable:
        error = OpenBaoUnavailable(
            f"The key ring at secret/{self._path} was closed, so it is not used any more: make a new one."
            if self._closed
            else f"The key ring at secret/{self._path} has not been read for {_USED * self._max_stale:g} s, and may be "
            f"{self._max_stale:g} s old at most, so it is not used any more: check that OpenBao runs, and that the "
            "ring is well."
        )
        logger.error("requestState outage, not an attack: %s", error)
        return error

    def __repr__(self) -> str:
        return f"<LiveKeyRing of {len(self._keys)} at secret/{self._path}>"


def _follow(ring: weakref.ref[LiveKeyRing], stop: threading.Event, pause: float) -> None:
    # Not in step: replicas that were started together would all ask at the same moment.
    while not stop.wait(pause * random.uniform(0.5, 1)):  # noqa: S311 - no secret
        followed = ring()
        if followed is None:
            return
        with contextlib.suppress(Exception):  # whatever it is, a log that cannot be written too: live to ask again
            followed._refresh()
        del followed  # not held while waiting
