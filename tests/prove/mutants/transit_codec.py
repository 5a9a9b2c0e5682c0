"""The strict Transit codec, and the audit log."""

from __future__ import annotations

from mutants.mutant import CODEC, TRANSIT, Mutant

ALTERED = "tests/test_transit.py::test_an_altered_token_is_refused"

TRANSIT_CODEC = [
    Mutant(
        "codec: not the ten lines",
        TRANSIT,
        "text = ciphertext_of(token)",
        'text = token.translate(str.maketrans("-_", "+/"))\n        text += "=" * (-len(text.split(":")[-1]) % 4)',
        CODEC,
    ),
    Mutant("codec: the last bits", TRANSIT, " or body != canonical:", ":", CODEC),
    Mutant("codec: no padding", TRANSIT, ":([A-Za-z0-9_-]+)", ":([A-Za-z0-9_-]+)=*", CODEC),
    Mutant(
        "codec: one alphabet",
        TRANSIT,
        "_TOKEN.fullmatch(token)",
        "_TOKEN.fullmatch(token.translate(_URL_SAFE))",
        ALTERED,
    ),
    Mutant("codec: nothing behind", TRANSIT, "_TOKEN.fullmatch(token)", "_TOKEN.match(token)", CODEC),
    Mutant(
        "codec: no line end inside",
        TRANSIT,
        "_TOKEN.fullmatch(token)",
        '_TOKEN.fullmatch(token.replace("\\n", ""))',
        CODEC,
    ),
    Mutant("codec: no space in front", TRANSIT, "_TOKEN.fullmatch(token)", "_TOKEN.fullmatch(token.lstrip())", CODEC),
    Mutant("codec: small letters in front", TRANSIT, "re.ASCII", "re.ASCII | re.IGNORECASE", CODEC),
    Mutant("codec: no zero before the version", TRANSIT, ":v([1-9]", ":v0*([1-9]", CODEC),
    Mutant("codec: no sign before the version", TRANSIT, ":v([1-9]", ":v\\+?([1-9]", CODEC),
    Mutant("codec: no version 0", TRANSIT, ":v([1-9][0-9]{0,8})", ":v([0-9]{1,9})", ALTERED),
    Mutant("codec: a version has nine digits at most", TRANSIT, "[0-9]{0,8})", "[0-9]*)", ALTERED),
    Mutant("codec: room for nonce and tag", TRANSIT, "len(raw) < _OVERHEAD or ", "", ALTERED),
    Mutant("codec: a limit to what is opened", TRANSIT, " if len(token) <= _MAX_TOKEN else None", "", ALTERED),
    Mutant(
        "codec: a limit to what is sealed",
        TRANSIT,
        "if len(token) > _MAX_TOKEN:",
        "if False:",
        "tests/test_transit.py::test_a_state_too_long_to_unseal_is_not_sealed",
    ),
    Mutant("codec: bound to its purpose", TRANSIT, ", associated_data=FORMAT", "", CODEC),
    Mutant("codec: a forgery is no outage", TRANSIT, "if reason := refusal(said(error)):", "if reason := None:", CODEC),
    Mutant(
        "codec: an outage is no forgery",
        TRANSIT,
        "if reason := refusal(said(error)):",
        'if reason := refusal(said(error)) or "seal":',
        "tests/test_transit.py::test_an_outage_is_logged_as_one_and_lets_nothing_in",
    ),
    Mutant(
        "codec: an outage is logged as one", TRANSIT, 'logger.error("requestState', 'logger.debug("requestState', CODEC
    ),
    Mutant(
        "codec: a key that was retired is named as the reason",
        TRANSIT,
        'policy (too old)": "unknown key"',
        'policy (too old)": "seal"',
        CODEC,
    ),
    Mutant(
        "audit: values are hashed",
        "openbao/dev.hcl",
        'file_path = "audit.log"',
        'file_path = "audit.log"\n    log_raw = "true"',
        CODEC,
    ),
]
