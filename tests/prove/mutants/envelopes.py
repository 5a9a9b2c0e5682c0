"""The SDK's seal and envelope, and what the wire tells."""

from __future__ import annotations

from mutants.mutant import ENVELOPE, SDK, SERVER, SHARED, START, Mutant

IMPORT_AEAD = "from cryptography.hazmat.primitives.ciphers.aead import AESGCM\n"


def _aead(encrypt: str, decrypt: str) -> str:
    """The SDK's cipher behind one of the same name, so that sealing and unsealing change together."""
    return (
        "from cryptography.hazmat.primitives.ciphers.aead import AESGCM as _AESGCM\n"
        "class AESGCM:\n"
        "    def __init__(self, key): self.real = _AESGCM(key)\n"
        f"    def encrypt(self, nonce, data, bound): return {encrypt}\n"
        f"    def decrypt(self, nonce, data, bound): return {decrypt}\n"
    )


def _bound(part: str) -> str:
    return _aead(f"self.real.encrypt(nonce, data, {part})", f"self.real.decrypt(nonce, data, {part})")


ENVELOPES = [
    Mutant(
        "the SDK's servers seal",
        SERVER,
        "        self._lowlevel_server.middleware.append(RequestStateBoundary(security, default_audience=self.name))\n",
        "",
        START,
    ),
    Mutant(
        "seal: the tag is verified",
        SDK,
        "return aead.decrypt(nonce, sealed, _TOKEN_PREFIX.encode() + kid)",
        # The same stream of key bytes once more is what undoes it, and nobody looks at the tag.
        "return aead.encrypt(nonce, sealed[:-16], None)[:-16]",
        ENVELOPE,
    ),
    Mutant("seal: the tag covers the key id", SDK, IMPORT_AEAD, _bound("bound[:3]"), ENVELOPE),
    Mutant("seal: the tag covers the prefix", SDK, IMPORT_AEAD, _bound("bound[3:]"), ENVELOPE),
    Mutant(
        "seal: the message is encrypted",
        SDK,
        IMPORT_AEAD,
        _aead("data + self.real.encrypt(nonce, b'', data + bound)", "self.opened(nonce, data, bound)")
        + "    def opened(self, nonce, data, bound):\n"
        "        self.real.decrypt(nonce, data[-16:], data[:-16] + bound)\n"
        "        return data[:-16]\n",
        ENVELOPE,
    ),
    Mutant(
        "seal: a nonce is new each time",
        SDK,
        "nonce = os.urandom(_NONCE_LEN)",
        "nonce = bytes(_NONCE_LEN)",
        ENVELOPE,
    ),
    Mutant("seal: the prefix is compared", SDK, "if not token.startswith(_TOKEN_PREFIX):", "if False:", ENVELOPE),
    Mutant(
        "seal: the key id is looked up",
        SDK,
        "aead = self._ring.get(kid)",
        "aead = self._ring.get(kid) or self._ring[self._mint_kid]",
        ENVELOPE,
    ),
    Mutant("seal: a token has one spelling", SDK, "if _b64u(raw) != text:", "if False:", ENVELOPE),
    Mutant("seal: the first key of a ring seals", SDK, "            if i == 0:", "            if True:", SHARED),
    Mutant("envelope: expiry", SDK, " or not (now < exp):", ":", ENVELOPE),
    Mutant("envelope: not from the future", SDK, " or not (iat <= now + _FUTURE_SKEW):", ":", ENVELOPE),
    Mutant("envelope: a clock may be a minute ahead, no more", SDK, "_SKEW = 60.0", "_SKEW = 90.0", ENVELOPE),
    Mutant("envelope: method", SDK, 'claims.get("m") != ctx.method or ', "", ENVELOPE),
    Mutant("envelope: target", SDK, ' or claims.get("t") != target', "", ENVELOPE),
    Mutant(
        "envelope: a resource's target is its URI",
        SDK,
        'str(p.get("uri", ""))',
        '""',
        "tests/test_front_desk.py::test_a_state_for_one_resource_is_none_for_another",
    ),
    Mutant("envelope: arguments", SDK, ' or claims.get("a") != args_digest', "", ENVELOPE),
    Mutant("envelope: audience", SDK, 'if claims.get("aud") != self._audience:', "if False:", ENVELOPE),
    Mutant("envelope: principal", SDK, " or not _principal_matches(claim, principal):", ":", ENVELOPE),
    Mutant("envelope: principal drift", SDK, "if (claim is None) != (principal is None):", "if False:", ENVELOPE),
    Mutant(
        "envelope: principal drift, the reverse",
        SDK,
        "if (claim is None) != (principal is None):",
        "if claim is None and principal is not None:",
        "tests/test_front_desk.py::test_a_state_goes_neither_from_nobody_to_somebody_nor_back",
    ),
    Mutant("envelope: a state is a string", SDK, "if not isinstance(wire, str):", "if False:", ENVELOPE),
    Mutant(
        "wire: one message for every reason",
        SDK,
        'message="Invalid or expired requestState",',
        'message=f"Invalid or expired requestState: {reason}",',
        ENVELOPE,
    ),
    Mutant(
        "wire: no reason in the error's data",
        SDK,
        'data={"reason": "invalid_request_state"},',
        'data={"reason": reason},',
        ENVELOPE,
    ),
    Mutant(
        "wire: a state is never printed in full",
        "src/labkit/attacks.py",
        "state={self.state[:3]}…)",
        "state={self.state})",
        ENVELOPE,
    ),
    Mutant(
        "wire: a state is cut where messages are shown",
        "src/labkit/wire.py",
        "{state[: state.rindex(':') + 1] if ':' in state else state[:3]}…",
        "{state}…",
        START,
    ),
]
