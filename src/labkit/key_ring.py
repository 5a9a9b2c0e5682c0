"""The key ring in KV: read it, open it where it lies encrypted, and refuse one that is not fit to seal with."""

from __future__ import annotations

import base64
import re
from typing import Any

import hvac
import hvac.exceptions
from mcp.server.request_state import AESGCMRequestStateCodec

from labkit.errors import LabError, outage, part, said
from labkit.provision import ENVELOPE_KEY, ENVELOPE_PATH, RING_PATH

_HEX = re.compile(r"[0-9a-fA-F]+")
_CIPHERTEXT = re.compile(r"vault:v[1-9][0-9]{0,8}:[A-Za-z0-9+/]+={0,2}", re.ASCII)
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
    return parse_key_ring(read_ring(client, path)["data"], path)


def parse_key_ring(data: Any, path: str = RING_PATH) -> list[bytes]:
    """Validate what KV holds. Takes the secret's data and its path; returns and raises as `load_key_ring` does."""
    ring: list[bytes] = []
    for number, entry in enumerate(_entries(data, path), start=1):
        if not _HEX.fullmatch(entry) or len(entry) % 2:
            raise InvalidKeyRing(
                f"Entry {number} of the key ring at secret/{path} is not plain hexadecimal "
                f"({len(entry)} characters, no spaces or line ends allowed): write it anew."
            )
        _append(ring, bytes.fromhex(entry), path)
    return ring


def load_envelope_ring(client: hvac.Client, path: str = ENVELOPE_PATH, key: str = ENVELOPE_KEY) -> list[bytes]:
    """Read a key ring whose entries lie in KV as Transit ciphertext, and have Transit open each of them, once.

    Whoever reads KV alone gets no key, and whoever writes KV alone cannot plant one of their own making; they can put
    an old entry back. From then on the keys are in this process, as with `load_key_ring`.

    Args:
        client: may read `secret/data/<path>` and decrypt with `key`; the role `envelope-reader` is enough.
        path: where the ring lies in the mount `secret/`; field `keys`, comma-joined ciphertext of
            `transit/datakey/wrapped/<key>`.
        key: the Transit key that the entries are encrypted with. It encrypts nothing else.

    Returns:
        The keys in ring order, each at least 32 bytes, for `RequestStateSecurity(keys=...)`.

    Raises:
        InvalidKeyRing: nothing there, no text, or an entry that Transit does not open, is too short, or there twice.
        OpenBaoUnavailable: OpenBao is away or refuses our token.

    Source: SDK documentation, "Multi-round-trip handlers"; OpenBao documentation, "Transit", "Generate data key".
    """
    ring: list[bytes] = []
    fix = f"write the ciphertext that transit/datakey/wrapped/{key} gives"
    entries = _entries(read_ring(client, path, f"keys=<ciphertext of transit/datakey/wrapped/{key}>").get("data"), path)
    for number, entry in enumerate(entries, start=1):
        # Transit takes other spellings too, and they are harmless, because it is the key that counts. But what is no
        # ciphertext at all may be a key by mistake, and is sent nowhere.
        if not _CIPHERTEXT.fullmatch(entry):
            raise InvalidKeyRing(
                f"Entry {number} of the key ring at secret/{path} is no Transit ciphertext "
                f"({len(entry)} characters, no spaces or line ends allowed): {fix}."
            )
        try:
            with outage(
                f"opening entry {number} of the key ring at secret/{path}", passing=(hvac.exceptions.InvalidRequest,)
            ):
                plaintext = part(client.secrets.transit.decrypt_data(key, entry), "data").get("plaintext")
        except hvac.exceptions.InvalidRequest as error:
            raise InvalidKeyRing(
                f"Entry {number} of the key ring at secret/{path} cannot be opened with the Transit key {key} "
                f"({said(error)}): check that this key exists, and {fix}."
            ) from None
        _append(ring, base64.b64decode(plaintext or ""), path)
    return ring


def key_id(key: bytes) -> str:
    """Return the id by which a `v1.` token names the key that sealed it: eight hexadecimal digits, no secret."""
    return key_id_in(AESGCMRequestStateCodec([key]).seal(b""))


def key_id_in(token: str) -> str:
    """Return the id of the key that sealed `token`; for a token of Transit, the version, such as "v2"."""
    if token.startswith("vault:"):
        return token.split(":")[1]
    return base64.urlsafe_b64decode(token[3:11])[:4].hex()


def read_ring(client: hvac.Client, path: str = RING_PATH, example: str = "keys=<64 hex digits>") -> dict[str, Any]:
    """Return what KV holds at `path`: the secret under `data`, not yet validated, and its `metadata`.

    Args:
        client: may read `secret/data/<path>`.
        path: where the ring lies in the mount `secret/`.
        example: what to write there, for the message when nothing is there.

    Raises:
        InvalidKeyRing: nothing is there, or the mount is not KV v2.
        OpenBaoUnavailable: OpenBao is away or refuses our token.
    """
    answers = (hvac.exceptions.InvalidPath, hvac.exceptions.InvalidRequest)
    try:
        with outage(f"reading the key ring at secret/{path}", passing=answers):
            answer = client.secrets.kv.v2.read_secret_version(path, mount_point="secret", raise_on_deleted_version=True)
            secret: dict[str, Any] = part(answer, "data")
            if not isinstance(secret["metadata"], dict) or not isinstance(secret["data"], dict):
                raise hvac.exceptions.UnexpectedError("no secret of KV v2 in the answer")
            return secret
    except hvac.exceptions.InvalidPath:
        raise InvalidKeyRing(
            f"There is no key ring at secret/{path}: write one, `bao kv put secret/{path} {example}`."
        ) from None
    except hvac.exceptions.InvalidRequest as error:
        raise InvalidKeyRing(
            f"OpenBao cannot read a key ring at secret/{path} ({said(error)}): "
            "check the path and that secret/ is a KV v2 mount."
        ) from None


def _entries(data: Any, path: str) -> list[str]:
    text = data.get("keys") if isinstance(data, dict) else None
    if not isinstance(text, str) or not text:
        raise InvalidKeyRing(f"The key ring at secret/{path} has no text in its field `keys`: write at least one key.")
    return text.split(",")


def _append(ring: list[bytes], key: bytes, path: str) -> None:
    number = len(ring) + 1
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
