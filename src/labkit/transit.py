"""The strict Transit codec: OpenBao seals, and nothing but the very token that it minted unseals."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable
from typing import Any

import hvac
import hvac.exceptions
from mcp.server.request_state import InvalidRequestState

from labkit.errors import OpenBaoUnavailable, outage, part, said
from labkit.provision import TRANSIT_KEY

logger = logging.getLogger(__name__)

FORMAT = base64.b64encode(b"labkit/request-state/transit/v1").decode()
"""Bound under the tag, so that what somebody else encrypts under the same Transit key is not a requestState."""

_TOKEN = re.compile(r"vault:v([1-9][0-9]{0,8}):([A-Za-z0-9_-]+)", re.ASCII)
_MAX_TOKEN = 1_000_000  # characters; far above any plan of ours, far below what makes OpenBao answer 413
_URL_SAFE = str.maketrans("+/", "-_")
_OVERHEAD = 12 + 16  # bytes of nonce and tag around the ciphertext

# What OpenBao says of a token that is not genuine. Whatever else it says is about us, not about the token.
_REFUSALS = {
    "message authentication failed": "seal",  # behind "cipher: " or the name of another algorithm
    "invalid ciphertext: version is too new": "unknown key",
    "ciphertext or signature version is disallowed by policy (too old)": "unknown key",
}


class TransitCodec:
    """A `RequestStateCodec` whose key never leaves OpenBao.

    A token is `vault:vN:` and the ciphertext in canonical, unpadded base64url: one spelling for one ciphertext.
    Transit itself decrypts many spellings of the same ciphertext, and none of the others is a token we minted.

    Each call is one synchronous request to OpenBao; it holds up the event loop for as long as that takes.
    `BatchedTransit` mints the same tokens, and does not.

    Source: SDK, `mcp.server.request_state.RequestStateCodec`; OpenBao documentation, "Transit".
    """

    def __init__(self, client: hvac.Client, key: str = TRANSIT_KEY) -> None:
        """Seal with the Transit key named `key`; `client` needs the role `transit`."""
        self._transit = client.secrets.transit
        self._key = key

    def seal(self, payload: bytes) -> str:
        """Return a URL-safe token that protects `payload`.

        Raises:
            OpenBaoUnavailable: OpenBao is away, refuses our token, or lacks the key.
            ValueError: `payload` is so long that its token would pass the limit of 1,000,000 characters.
        """
        text = base64.b64encode(payload).decode()
        return token_of(self._ask("sealing", self._transit.encrypt_data, text, "ciphertext"))

    def unseal(self, token: str) -> bytes:
        """Return the payload of a token that `seal` minted, exactly as it minted it.

        Raises:
            InvalidRequestState: for every other string; the reason (`malformed`, `seal`, `unknown key`) is for the log.
            OpenBaoUnavailable: OpenBao is away, refuses our token, or lacks the key. The SDK then refuses the round
                with reason `codec error`: nobody can say whether the token was good, so it is not let in.
        """
        text = ciphertext_of(token)
        return base64.b64decode(self._ask("unsealing", self._transit.decrypt_data, text, "plaintext"))

    def _ask(self, doing: str, call: Callable[..., Any], text: str, wanted: str) -> str:
        """Call Transit once, and tell an answer about the token from an outage."""
        answers = (hvac.exceptions.InvalidRequest, hvac.exceptions.InvalidPath)
        try:
            with outage(f"{doing} with the Transit key {self._key}", passing=answers):
                return str(part(call(self._key, text, associated_data=FORMAT), "data")[wanted])
        except answers as error:
            if reason := refusal(said(error)):
                raise InvalidRequestState(reason) from None
            away = cannot_use(self._key, said(error))
        except OpenBaoUnavailable as error:
            away = error
        logger.error("requestState outage, not an attack: %s", away)
        raise away from None


def refusal(text: str) -> str | None:
    """Return the reason why a token is refused, for the log, where OpenBao says that it is not genuine; else None."""
    return next((reason for says, reason in _REFUSALS.items() if text.endswith(says)), None)


def cannot_use(key: str, text: str) -> OpenBaoUnavailable:
    """Return the error for OpenBao's answer `text`, which is about the Transit key and not about a token."""
    return OpenBaoUnavailable(f"OpenBao cannot use the Transit key {key} ({text}): check that it and its mount exist.")


def check_length(payload: bytes) -> None:
    """Turn down what no token can hold before OpenBao is asked, which answers 413 to a whole batch.

    Raises:
        ValueError: its token would be longer than 1,000,000 characters.
    """
    if len(payload) > _MAX_TOKEN * 3 // 4:
        raise ValueError(f"A state of {len(payload):,} bytes is too long: keep a state under 700,000 bytes.")


def token_of(ciphertext: str) -> str:
    """Return the token for a ciphertext of Transit: the same bits, in an alphabet that a URL can hold, not padded.

    Raises:
        ValueError: it would be longer than 1,000,000 characters.
    """
    token = ciphertext.rstrip("=").translate(_URL_SAFE)
    if len(token) > _MAX_TOKEN:
        raise ValueError(f"A token of {len(token):,} characters is too long: keep a state under 700,000 bytes.")
    return token


def ciphertext_of(token: str) -> str:
    """Return the ciphertext that `token` is the one and only spelling of.

    Raises:
        InvalidRequestState: it is not; the reason is `malformed`.
    """
    match = _TOKEN.fullmatch(token) if len(token) <= _MAX_TOKEN else None
    if match is None:
        raise InvalidRequestState("malformed")
    version, body = match.groups()
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except ValueError:
        raise InvalidRequestState("malformed") from None
    # Decoding drops bits of the last character; only one spelling of it is canonical.
    canonical = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    if len(raw) < _OVERHEAD or body != canonical:
        raise InvalidRequestState("malformed")
    return f"vault:v{version}:{base64.b64encode(raw).decode()}"
