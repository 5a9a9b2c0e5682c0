"""The key ring in KV: read it, and refuse one that is not fit to seal with."""

from __future__ import annotations

import re
from typing import Any

import hvac
import hvac.exceptions

from labkit.errors import LabError, outage, part, said
from labkit.provision import RING_PATH

_HEX = re.compile(r"[0-9a-fA-F]+")
_MIN_BYTES = 32


class InvalidKeyRing(LabError):
    """What lies in KV is no key ring. The message names the path and the entry, never a key."""


def load_key_ring(client: hvac.Client, path: str = RING_PATH) -> list[bytes]:
    """Read the key ring from KV v2, field `keys`: comma-joined hexadecimal, the first key seals, all unseal.

    Args:
        client: may read `secret/data/<path>`; the role `ring-reader` is enough.
        path: where the ring lies in the mount `secret/`.

    Returns:
        The keys in ring order, each at least 32 bytes, for `RequestStateSecurity(keys=...)`.

    Raises:
        InvalidKeyRing: nothing there, no text, an entry that is not plain hexadecimal, too short, or there twice.
        OpenBaoUnavailable: OpenBao is away or refuses our token.

    Source: SDK, `mcp.server.request_state.RequestStateSecurity`; OpenBao documentation, "KV v2".
    """
    answers = (hvac.exceptions.InvalidPath, hvac.exceptions.InvalidRequest)
    try:
        with outage(f"reading the key ring at secret/{path}", passing=answers):
            answer = client.secrets.kv.v2.read_secret_version(path, mount_point="secret", raise_on_deleted_version=True)
            secret = part(answer, "data")
    except hvac.exceptions.InvalidPath:
        raise InvalidKeyRing(
            f"There is no key ring at secret/{path}: write one, `bao kv put secret/{path} keys=<64 hex digits>`."
        ) from None
    except hvac.exceptions.InvalidRequest as error:
        raise InvalidKeyRing(
            f"OpenBao cannot read a key ring at secret/{path} ({said(error)}): "
            "check the path and that secret/ is a KV v2 mount."
        ) from None
    return parse_key_ring(secret.get("data"), path)


def parse_key_ring(data: Any, path: str = RING_PATH) -> list[bytes]:
    """Validate what KV holds. Takes the secret's data and its path; returns and raises as `load_key_ring` does."""
    text = data.get("keys") if isinstance(data, dict) else None
    if not isinstance(text, str) or not text:
        raise InvalidKeyRing(f"The key ring at secret/{path} has no text in its field `keys`: write at least one key.")
    ring: list[bytes] = []
    for number, entry in enumerate(text.split(","), start=1):
        if not _HEX.fullmatch(entry) or len(entry) % 2:
            raise InvalidKeyRing(
                f"Entry {number} of the key ring at secret/{path} is not plain hexadecimal "
                f"({len(entry)} characters, no spaces or line ends allowed): write it anew."
            )
        key = bytes.fromhex(entry)
        if len(key) < _MIN_BYTES:
            raise InvalidKeyRing(
                f"Entry {number} of the key ring at secret/{path} is {len(key)} bytes: "
                f"at least {_MIN_BYTES} bytes of randomness are needed."
            )
        if key in ring:
            raise InvalidKeyRing(
                f"Entry {number} of the key ring at secret/{path} repeats entry {ring.index(key) + 1}: remove one."
            )
        ring.append(key)
    return ring
