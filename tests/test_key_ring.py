"""A key ring is read whole or not at all, and no message holds a key."""

from __future__ import annotations

import secrets

import hvac
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

import labkit
from labkit.key_ring import InvalidKeyRing, parse_key_ring
from labkit.lab import Lab

KEY = secrets.token_hex(32)
PATH = "mcp/request-state-keys"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.binary(min_size=32, max_size=64), min_size=1, max_size=4, unique=True))
def test_a_good_ring_comes_back_in_order(keys: list[bytes]) -> None:
    assert parse_key_ring({"keys": ",".join(key.hex() for key in keys)}) == keys


@given(json_values)
def test_whatever_else_lies_there_is_refused_in_one_sentence(value: object) -> None:
    for data in (value, {"keys": value}, {"other": KEY, "keys": value}):
        with pytest.raises(InvalidKeyRing, match=rf"secret/{PATH}"):
            parse_key_ring(data)


@given(st.text(alphabet="0123456789abcdefABCDEF, \n\t-+xg_", max_size=200))
def test_near_hexadecimal_is_accepted_only_when_it_is_a_ring(text: str) -> None:
    try:
        ring = parse_key_ring({"keys": text})
    except InvalidKeyRing as error:
        assert "\n" not in str(error)
        assert not any(len(entry) > 10 and entry in str(error) for entry in text.split(","))
    else:
        assert ",".join(key.hex() for key in ring) == text.lower()
        assert len(set(ring)) == len(ring)
        assert all(len(key) >= 32 for key in ring)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no text in its field"),
        (KEY[:62], "is 31 bytes"),
        (f"{KEY},{KEY}", "Entry 2 .* repeats entry 1"),
        (f"{KEY},{KEY.upper()}", "Entry 2 .* repeats entry 1"),
        (f"{KEY},", "Entry 2 .* not plain hexadecimal"),
        (f"{KEY}\n", r"Entry 1 .* not plain hexadecimal \(65 characters"),
        (f"{KEY}, {secrets.token_hex(32)}", "Entry 2 .* not plain hexadecimal"),
        (f"0x{KEY}", "Entry 1 .* not plain hexadecimal"),
        (f"{KEY}a", "Entry 1 .* not plain hexadecimal"),
        ("٣" * 64, "Entry 1 .* not plain hexadecimal"),
    ],
)
def test_a_spoiled_ring_in_kv_is_refused_and_no_key_is_shown(lab: Lab, text: str, complaint: str) -> None:
    path = f"spoiled/{secrets.token_hex(4)}"
    lab.admin.secrets.kv.v2.create_or_update_secret(path, secret={"keys": text}, mount_point="secret")
    with pytest.raises(InvalidKeyRing, match=complaint) as caught:
        labkit.load_key_ring(lab.admin, path)
    message = str(caught.value)
    assert path in message
    assert KEY[:16].lower() not in message.lower()


def test_a_missing_and_a_deleted_ring_are_one_sentence(lab: Lab) -> None:
    with pytest.raises(InvalidKeyRing, match=r"no key ring at secret/nowhere"):
        labkit.load_key_ring(lab.admin, "nowhere")
    lab.admin.secrets.kv.v2.create_or_update_secret("deleted", secret={"keys": KEY}, mount_point="secret")
    lab.admin.secrets.kv.v2.delete_latest_version_of_secret("deleted", mount_point="secret")
    with pytest.raises(InvalidKeyRing, match=r"no key ring at secret/deleted"):
        labkit.load_key_ring(lab.admin, "deleted")


def test_a_ring_that_may_not_be_read_is_an_outage_and_not_an_empty_ring(lab: Lab) -> None:
    with pytest.raises(
        labkit.OpenBaoUnavailable, match=rf"refused our token while reading the key ring at secret/{PATH}"
    ):
        labkit.load_key_ring(lab.client("transit"))


def test_a_ring_on_a_dead_server_is_one_sentence() -> None:
    client = hvac.Client("http://127.0.0.1:1", token="")
    with pytest.raises(labkit.OpenBaoUnavailable, match="unreachable while reading the key ring"):
        labkit.load_key_ring(client)


@given(payload=st.binary(max_size=2000), position=st.integers(min_value=0), character=st.characters())
def test_the_ring_codec_unseals_its_own_token_and_no_other_spelling(
    payload: bytes, position: int, character: str
) -> None:
    codec = AESGCMRequestStateCodec([bytes.fromhex(KEY)])
    token = codec.seal(payload)
    assert codec.unseal(token) == payload
    position %= len(token)
    for other in (
        token[:position] + character + token[position + 1 :],
        token[:position] + character + token[position:],
    ):
        if other != token:
            with pytest.raises(InvalidRequestState):
                codec.unseal(other)


def test_two_replicas_read_the_same_ring(lab: Lab) -> None:
    one, two = (AESGCMRequestStateCodec(labkit.load_key_ring(lab.client("ring-reader"))) for _ in range(2))
    assert two.unseal(one.seal(b"state")) == b"state"
