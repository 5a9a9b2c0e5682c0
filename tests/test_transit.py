"""The Transit codec unseals the very string that it minted; an outage is no attack, and lets nothing in."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server.request_state import InvalidRequestState
from taking_away import delete_the_key, delete_the_role, kill, seal_the_server

import labkit
from labkit.lab import Lab
from labkit.provision import TRANSIT_KEY
from labkit.transit import TransitCodec

PAYLOAD = b'{"v":1,"s":"a state of a length that leaves padding."}'
on_a_server = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.fixture
def codec(lab: Lab) -> TransitCodec:
    return TransitCodec(lab.client("transit"))


def body(token: str) -> str:
    return token.split(":")[2]


def standard(token: str) -> str:
    """The ciphertext of a token as Transit itself spells it."""
    raw = base64.urlsafe_b64decode(body(token) + "=" * (-len(body(token)) % 4))
    return f"vault:v1:{base64.b64encode(raw).decode()}"


def other_padding_bits(token: str) -> str:
    """Another last character that decodes to the same bytes."""
    last = BASE64URL.index(token[-1])
    return token[:-1] + BASE64URL[last ^ 1]


# Each of these decrypts in Transit, or in a decoder that is a little more lenient.
ALTERATIONS: dict[str, Callable[[str], str]] = {
    "newline inside": lambda t: f"{t[:40]}\n{t[40:]}",
    "newline behind": lambda t: f"{t}\n",
    "carriage return and newline": lambda t: f"{t[:40]}\r\n{t[40:]}",
    "space behind": lambda t: f"{t} ",
    "space in front": lambda t: f" {t}",
    "tab inside": lambda t: f"{t[:40]}\t{t[40:]}",
    "null byte behind": lambda t: f"{t}\x00",
    "padding": lambda t: t + "=" * (-len(body(t)) % 4 or 4),
    "one padding character": lambda t: f"{t}=",
    "other padding bits": other_padding_bits,
    "standard base64": standard,
    "standard alphabet": lambda t: standard(t).rstrip("="),
    "version 0": lambda t: t.replace(":v1:", ":v0:"),
    "version 01": lambda t: t.replace(":v1:", ":v01:"),
    "version +1": lambda t: t.replace(":v1:", ":v+1:"),
    "version -1": lambda t: t.replace(":v1:", ":v-1:"),
    "version 1 in other digits": lambda t: t.replace(":v1:", ":v١:"),
    "version 2": lambda t: t.replace(":v1:", ":v2:"),
    "version of many digits": lambda t: t.replace(":v1:", f":v{'9' * 30}:"),
    "no version": lambda t: t.replace(":v1:", "::"),
    "capital V": lambda t: t.replace(":v1:", ":V1:"),
    "capital prefix": lambda t: t.replace("vault:", "VAULT:"),
    "other prefix": lambda t: t.replace("vault:", "bao:"),
    "no prefix": body,
    "one more part": lambda t: f"{t}:",
    "cut short": lambda t: t[:-4],
    "one character less": lambda t: t[:-1],
    "grown": lambda t: f"{t}AAAA",
    "twice": lambda t: t + t,
    "twice the body": lambda t: t + body(t),
    "body reversed": lambda t: "vault:v1:" + body(t)[::-1],
    "wide letters": lambda t: t.replace("a", "ａ") if "a" in t else t + "ａ",
    "soft hyphen": lambda t: f"{t[:40]}\u00ad{t[40:]}",
    "percent-encoded": lambda t: t.replace(":", "%3A"),
    "empty body": lambda t: "vault:v1:",
    "too short": lambda t: "vault:v1:AAAA",
    "empty": lambda t: "",
    "lone surrogate": lambda t: f"{t}\ud800",
    "huge": lambda t: t + "A" * 40_000_000,
}


def payload_with_padding(codec: TransitCodec) -> str:
    token = codec.seal(PAYLOAD)
    while not set(body(token)) & set("-_"):  # one token in thirty is spelled alike in both alphabets
        token = codec.seal(PAYLOAD)
    assert len(body(token)) % 4, "the payload must leave padding, or some alterations alter nothing"
    return token


@given(st.binary(max_size=300))
@on_a_server
def test_what_was_sealed_is_unsealed(codec: TransitCodec, payload: bytes) -> None:
    token = codec.seal(payload)
    assert re.fullmatch(r"vault:v1:[A-Za-z0-9_-]+", token), "Transit's prefix, and a URL-safe body"
    assert codec.unseal(token) == payload


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_token_is_refused(codec: TransitCodec, name: str) -> None:
    token = payload_with_padding(codec)
    altered = ALTERATIONS[name](token)
    assert altered != token
    with pytest.raises(InvalidRequestState, match=r"^(malformed|seal|unknown key)$"):
        codec.unseal(altered)
    assert codec.unseal(token) == PAYLOAD, "the genuine one still works"


def test_transit_itself_accepts_what_the_codec_refuses(codec: TransitCodec, lab: Lab) -> None:
    """The alterations above are attacks, and not just noise: without the strict reading they decrypt."""
    token = payload_with_padding(codec)
    transit = lab.client("transit").secrets.transit
    label = base64.b64encode(b"labkit/request-state/transit/v1").decode()
    genuine = standard(token)
    for lenient in (
        genuine[:40] + "\n" + genuine[40:],
        genuine.replace(":v1:", ":v0:"),
        genuine.replace(":v1:", ":v01:"),
        genuine.replace(":v1:", ":v+1:"),
    ):
        answer = transit.decrypt_data(TRANSIT_KEY, lenient, associated_data=label)
        assert base64.b64decode(answer["data"]["plaintext"]) == PAYLOAD
        with pytest.raises(InvalidRequestState):
            codec.unseal(lenient)


@given(position=st.integers(min_value=0), character=st.characters() | st.sampled_from(BASE64URL), insert=st.booleans())
@on_a_server
def test_any_one_character_makes_it_another_token(
    codec: TransitCodec, position: int, character: str, insert: bool
) -> None:
    token = codec.seal(PAYLOAD)
    position %= len(token)
    altered = token[:position] + character + token[position + (not insert) :]
    if altered != token:
        with pytest.raises(InvalidRequestState):
            codec.unseal(altered)


def test_every_character_replaced_in_turn_is_refused(codec: TransitCodec) -> None:
    token = codec.seal(b"x")
    for position, character in enumerate(token):
        other = "A" if character != "A" else "B"
        with pytest.raises(InvalidRequestState):
            codec.unseal(token[:position] + other + token[position + 1 :])


@given(st.text(max_size=100))
@on_a_server
def test_any_other_text_is_refused(codec: TransitCodec, text: str) -> None:
    for token in (text, f"vault:v1:{text}"):
        with pytest.raises(InvalidRequestState):
            codec.unseal(token)


def test_what_others_encrypt_under_the_same_key_is_no_request_state(codec: TransitCodec, lab: Lab) -> None:
    transit = lab.client("transit").secrets.transit
    answer = transit.encrypt_data(TRANSIT_KEY, base64.b64encode(PAYLOAD).decode())
    raw = base64.b64decode(answer["data"]["ciphertext"].split(":")[2])
    with pytest.raises(InvalidRequestState, match="seal"):
        codec.unseal("vault:v1:" + base64.urlsafe_b64encode(raw).decode().rstrip("="))


def test_a_retired_key_version_is_refused_and_the_new_one_works(own_lab: Lab) -> None:
    codec = TransitCodec(own_lab.client("transit"))
    old = codec.seal(PAYLOAD)
    own_lab.admin.secrets.transit.rotate_key(TRANSIT_KEY)
    new = codec.seal(PAYLOAD)
    assert new.startswith("vault:v2:")
    assert codec.unseal(old) == codec.unseal(new) == PAYLOAD
    with pytest.raises(InvalidRequestState, match="seal"):
        codec.unseal(old.replace(":v1:", ":v2:"))
    own_lab.admin.secrets.transit.update_key_configuration(TRANSIT_KEY, min_decryption_version=2)
    with pytest.raises(InvalidRequestState, match="unknown key"):
        codec.unseal(old)
    assert codec.unseal(new) == PAYLOAD


def test_a_state_too_long_to_unseal_is_not_sealed(codec: TransitCodec) -> None:
    longest = codec.seal(b"x" * 700_000)
    assert codec.unseal(longest) == b"x" * 700_000
    with pytest.raises(ValueError, match=r"keep a state under 700,000 bytes"):
        codec.seal(b"x" * 800_000)


@pytest.mark.parametrize("kind", ["aes256-gcm96", "aes128-gcm96", "chacha20-poly1305", "xchacha20-poly1305"])
def test_a_forgery_is_one_under_every_kind_of_key(own_lab: Lab, kind: str) -> None:
    own_lab.admin.write_data("transit/keys/other", data={"type": kind})
    codec = TransitCodec(own_lab.admin, key="other")
    token = codec.seal(PAYLOAD)
    assert codec.unseal(token) == PAYLOAD
    with pytest.raises(InvalidRequestState, match="seal"):
        codec.unseal(token[:40] + ("A" if token[40] != "A" else "B") + token[41:])


def unmount(lab: Lab) -> None:
    lab.admin.sys.disable_secrets_engine("transit")


@pytest.mark.parametrize("outage", [kill, seal_the_server, delete_the_role, delete_the_key, unmount])
def test_an_outage_is_logged_as_one_and_lets_nothing_in(
    own_lab: Lab, outage: Callable[[Lab], None], caplog: pytest.LogCaptureFixture
) -> None:
    codec = TransitCodec(own_lab.client("transit"))
    token = codec.seal(PAYLOAD)
    outage(own_lab)
    with caplog.at_level(logging.ERROR):
        with pytest.raises(labkit.OpenBaoUnavailable):
            codec.unseal(token)
        with pytest.raises(labkit.OpenBaoUnavailable):
            codec.seal(PAYLOAD)
    said = [record.getMessage() for record in caplog.records if record.name == "labkit.transit"]
    assert len(said) == 2
    for line in said:
        assert line.startswith("requestState outage, not an attack: OpenBao ")
        assert "\n" not in line
        assert token not in line
        assert body(token)[:20] not in line
        assert standard(token)[9:29] not in line
        assert str(codec._transit._adapter.token) not in line


def test_a_forgery_is_refused_during_an_outage_too(own_lab: Lab) -> None:
    codec = TransitCodec(own_lab.client("transit"))
    token = codec.seal(PAYLOAD)
    kill(own_lab)
    with pytest.raises(InvalidRequestState, match="malformed"):
        codec.unseal(f"{token}\n")
