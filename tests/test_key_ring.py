"""A key ring is read whole or not at all, and no message holds a key."""

from __future__ import annotations

import base64
import os
import re
import secrets
import signal
from collections.abc import Callable

import hvac
import hvac.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

import labkit
from labkit.key_ring import InvalidKeyRing, load_envelope_ring, parse_key_ring
from labkit.lab import Lab
from labkit.provision import ENVELOPE_KEY, ENVELOPE_PATH, TRANSIT_KEY

KEY = secrets.token_hex(32)
PATH = "mcp/request-state-keys"
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
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


def client_with(lab: Lab, policy: str) -> hvac.Client:
    """A client that may do what `policy` says, and nothing else."""
    lab.admin.sys.create_or_update_policy("of-a-test", policy)
    token = lab.admin.auth.token.create(policies=["of-a-test"], no_default_policy=True)["auth"]["client_token"]
    return lab._server.client(lab.namespace, token=token)


def kv_writer(lab: Lab) -> hvac.Client:
    return client_with(lab, f'path "secret/data/{ENVELOPE_PATH}" {{ capabilities = ["create", "update"] }}')


def write(client: hvac.Client, **data: object) -> None:
    client.secrets.kv.v2.create_or_update_secret(ENVELOPE_PATH, secret=data, mount_point="secret")


def in_kv(lab: Lab) -> str:
    answer = lab.admin.secrets.kv.v2.read_secret_version(
        ENVELOPE_PATH, mount_point="secret", raise_on_deleted_version=True
    )
    return str(answer["data"]["data"]["keys"])


def new_entry(lab: Lab) -> str:
    """An entry as an operator makes one: nobody ever sees the key."""
    return str(lab.admin.secrets.transit.generate_data_key(ENVELOPE_KEY, "wrapped", bits=256)["data"]["ciphertext"])


def encrypted(lab: Lab, key: bytes, transit_key: str = ENVELOPE_KEY) -> str:
    plaintext = base64.b64encode(key).decode()
    return str(lab.admin.secrets.transit.encrypt_data(transit_key, plaintext)["data"]["ciphertext"])


def respelled(entry: str) -> str:
    """Another text that Transit decrypts to the same key: the last character has bits that decoding drops."""
    assert entry.endswith("="), "the key must leave padding, or there is no other spelling"
    position = len(entry.rstrip("=")) - 1
    return entry[:position] + BASE64[BASE64.index(entry[position]) ^ 1] + entry[position + 1 :]


def test_the_keys_of_an_envelope_ring_come_back_and_two_readers_agree(lab: Lab) -> None:
    rings = [load_envelope_ring(lab.client("envelope-reader")) for _ in range(2)]
    assert rings[0] == rings[1]
    assert [len(key) for key in rings[0]] == [32]
    one, two = map(AESGCMRequestStateCodec, rings)
    assert two.unseal(one.seal(b"state")) == b"state"


def test_kv_holds_an_envelope_ring_only_as_ciphertext(lab: Lab) -> None:
    text = in_kv(lab)
    assert re.fullmatch(r"vault:v1:[A-Za-z0-9+/=]+", text)
    stored = base64.b64decode(text.removeprefix("vault:v1:"))
    for key in load_envelope_ring(lab.client("envelope-reader")):
        assert key not in stored
        assert key.hex() not in text
    metadata = lab.admin.secrets.kv.v2.read_secret_metadata(ENVELOPE_PATH, mount_point="secret")
    assert list(metadata["data"]["versions"]) == ["1"], "nor was there ever anything else"


def test_who_reads_kv_alone_gets_no_key(lab: Lab) -> None:
    client, entry = lab.client("ring-reader"), in_kv(lab)
    with pytest.raises(
        labkit.OpenBaoUnavailable, match=rf"refused our token while reading the key ring at secret/{ENVELOPE_PATH}"
    ):
        load_envelope_ring(client)
    with pytest.raises(hvac.exceptions.Forbidden):
        client.secrets.transit.decrypt_data(ENVELOPE_KEY, entry)
    reads_it = client_with(lab, f'path "secret/data/{ENVELOPE_PATH}" {{ capabilities = ["read"] }}')
    with pytest.raises(labkit.OpenBaoUnavailable, match="refused our token while opening entry 1 of the key ring"):
        load_envelope_ring(reads_it)


def test_who_opens_an_envelope_ring_can_do_nothing_else(lab: Lab) -> None:
    transit = lab.client("envelope-reader").secrets.transit
    state = encrypted(lab, b"a state", TRANSIT_KEY)
    for forbidden in (
        lambda: transit.encrypt_data(ENVELOPE_KEY, ""),
        lambda: transit.generate_data_key(ENVELOPE_KEY, "wrapped"),
        lambda: transit.generate_data_key(ENVELOPE_KEY, "plaintext"),
        lambda: transit.rewrap_data(ENVELOPE_KEY, in_kv(lab)),
        lambda: transit.encrypt_data(TRANSIT_KEY, ""),
        lambda: transit.decrypt_data(TRANSIT_KEY, state),
    ):
        with pytest.raises(hvac.exceptions.Forbidden):
            forbidden()
    with pytest.raises(labkit.OpenBaoUnavailable, match=rf"refused our token .* secret/{PATH} "):
        labkit.load_key_ring(lab.client("envelope-reader"))


def test_who_writes_kv_alone_can_make_no_entry(own_namespace: Lab) -> None:
    transit = kv_writer(own_namespace).secrets.transit
    for forbidden in (
        lambda: transit.encrypt_data(ENVELOPE_KEY, ""),
        lambda: transit.generate_data_key(ENVELOPE_KEY, "plaintext"),
        lambda: transit.encrypt_data("a-new-key", ""),
    ):
        with pytest.raises(hvac.exceptions.Forbidden):
            forbidden()


PLANTED: dict[str, tuple[Callable[[Lab], str], str]] = {
    "plain hexadecimal": (lambda _: KEY, r"Entry 1 .* is no Transit ciphertext \(64 characters"),
    "plain hexadecimal in front": (lambda lab: f"{KEY},{new_entry(lab)}", "Entry 1 .* is no Transit ciphertext"),
    "plain hexadecimal behind": (lambda lab: f"{new_entry(lab)},{KEY}", "Entry 2 .* is no Transit ciphertext"),
    "hexadecimal behind a prefix": (lambda _: f"vault:v1:{KEY}", "Entry 1 .* cannot be opened"),
    "another Transit key's": (
        lambda lab: encrypted(lab, bytes.fromhex(KEY), TRANSIT_KEY),
        rf"Entry 1 .* cannot be opened with the Transit key {ENVELOPE_KEY} \(.*message authentication failed\): check",
    ),
    "altered": (
        lambda lab: (e := new_entry(lab))[:40] + ("A" if e[40] != "A" else "B") + e[41:],
        "Entry 1 .* cannot be opened .*message authentication failed",
    ),
    "cut short": (lambda lab: new_entry(lab)[:-4], "Entry 1 .* cannot be opened .*message authentication failed"),
    "of a version that is not there": (
        lambda lab: new_entry(lab).replace(":v1:", ":v9:"),
        "Entry 1 .* cannot be opened .*version is too new",
    ),
    "newline behind": (lambda lab: f"{new_entry(lab)}\n", "Entry 1 .* is no Transit ciphertext"),
    "newline inside": (lambda lab: (e := new_entry(lab))[:40] + "\n" + e[40:], "Entry 1 .* is no Transit ciphertext"),
    "newline between": (lambda lab: f"{new_entry(lab)},\n{new_entry(lab)}", "Entry 2 .* is no Transit ciphertext"),
    "comma behind": (lambda lab: f"{new_entry(lab)},", r"Entry 2 .* is no Transit ciphertext \(0 characters"),
    "version 0": (lambda lab: new_entry(lab).replace(":v1:", ":v0:"), "Entry 1 .* is no Transit ciphertext"),
    "other digits": (lambda lab: new_entry(lab).replace(":v1:", ":v١:"), "Entry 1 .* is no Transit ciphertext"),
    "wide letters": (lambda lab: f"{new_entry(lab)}ａ", "Entry 1 .* is no Transit ciphertext"),
    "too short a key": (lambda lab: encrypted(lab, secrets.token_bytes(31)), "Entry 1 .* is 31 bytes: at least 32"),
    "no key": (lambda lab: encrypted(lab, b""), "Entry 1 .* is 0 bytes: at least 32"),
    "the same entry twice": (lambda lab: f"{(e := new_entry(lab))},{e}", "Entry 2 .* repeats entry 1"),
    "the same key twice": (
        lambda lab: ",".join(encrypted(lab, bytes.fromhex(KEY)) for _ in range(2)),
        "Entry 2 .* repeats entry 1",
    ),
    "the same key in two spellings": (
        lambda lab: f"{(e := encrypted(lab, secrets.token_bytes(64)))},{respelled(e)}",
        "Entry 2 .* repeats entry 1",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_no_key_can_be_planted_in_kv_and_none_is_shown(own_namespace: Lab, name: str) -> None:
    make, complaint = PLANTED[name]
    text = make(own_namespace)
    write(kv_writer(own_namespace), keys=text)
    with pytest.raises(InvalidKeyRing, match=complaint) as caught:
        load_envelope_ring(own_namespace.client("envelope-reader"))
    message = str(caught.value)
    assert f"secret/{ENVELOPE_PATH}" in message
    assert "\n" not in message
    for entry in [*text.split(","), KEY, base64.b64encode(bytes.fromhex(KEY)).decode()]:
        assert not entry or entry.removeprefix("vault:v1:")[:16] not in message


@pytest.mark.parametrize("data", [{"keys": ""}, {"keys": 5}, {"keys": None}, {"keys": [KEY]}, {"key": KEY}, {}])
def test_an_envelope_ring_that_is_no_text_is_one_sentence(own_namespace: Lab, data: dict[str, object]) -> None:
    write(kv_writer(own_namespace), **data)
    with pytest.raises(InvalidKeyRing, match=rf"^The key ring at secret/{ENVELOPE_PATH} has no text in its field"):
        load_envelope_ring(own_namespace.client("envelope-reader"))


def test_an_envelope_ring_that_is_gone_is_one_sentence_that_says_how_to_write_one(own_namespace: Lab) -> None:
    write(kv_writer(own_namespace), keys=new_entry(own_namespace))
    kv = own_namespace.admin.secrets.kv.v2
    for remove in (kv.delete_latest_version_of_secret, kv.delete_metadata_and_all_versions):
        remove(ENVELOPE_PATH, mount_point="secret")
        with pytest.raises(InvalidKeyRing, match=rf"no key ring at secret/{ENVELOPE_PATH}: .*transit/datakey/wrapped/"):
            load_envelope_ring(own_namespace.client("envelope-reader"))


def test_another_spelling_of_an_entry_is_the_same_key(own_namespace: Lab) -> None:
    """Transit decrypts more than one text to the same key. Nothing hangs on the text, so nothing is gained by it."""
    entry = encrypted(own_namespace, secrets.token_bytes(64))
    write(kv_writer(own_namespace), keys=entry)
    ring = load_envelope_ring(own_namespace.client("envelope-reader"))
    write(kv_writer(own_namespace), keys=respelled(entry))
    assert load_envelope_ring(own_namespace.client("envelope-reader")) == ring


def test_entries_outlive_the_rotation_of_the_key_that_they_are_encrypted_with(own_lab: Lab) -> None:
    client = own_lab.client("envelope-reader")
    ring, transit = load_envelope_ring(client), own_lab.admin.secrets.transit
    transit.rotate_key(ENVELOPE_KEY)
    assert load_envelope_ring(client) == ring
    write(own_lab.admin, keys=f"{new_entry(own_lab)},{in_kv(own_lab)}")
    assert in_kv(own_lab).startswith("vault:v2:")
    both = load_envelope_ring(client)
    assert both[1:] == ring
    rewrapped = [transit.rewrap_data(ENVELOPE_KEY, e)["data"]["ciphertext"] for e in in_kv(own_lab).split(",")]
    write(own_lab.admin, keys=",".join(rewrapped))
    transit.update_key_configuration(ENVELOPE_KEY, min_decryption_version=2)
    assert load_envelope_ring(client) == both


def test_an_envelope_ring_is_read_where_it_is_said_to_lie_and_opened_with_the_key_that_is_named(lab: Lab) -> None:
    keys = [secrets.token_bytes(32), secrets.token_bytes(32)]
    lab.admin.secrets.transit.create_key("of-a-team")
    for path, transit_key in (("team/ring", ENVELOPE_KEY), ("team/sealed-ring", "of-a-team")):
        entries = ",".join(encrypted(lab, key, transit_key) for key in keys)
        lab.admin.secrets.kv.v2.create_or_update_secret(path, secret={"keys": entries}, mount_point="secret")
    assert load_envelope_ring(lab.admin, "team/ring") == keys
    assert load_envelope_ring(lab.admin, "team/sealed-ring", "of-a-team") == keys
    for path, transit_key in (("team/ring", "of-a-team"), ("team/sealed-ring", ENVELOPE_KEY)):
        with pytest.raises(
            InvalidKeyRing, match=rf"^Entry 1 .* secret/{path} cannot be opened with the Transit key {transit_key} "
        ):
            load_envelope_ring(lab.admin, path, transit_key)
    with pytest.raises(InvalidKeyRing, match=r"no key ring at secret/team/none: .*transit/datakey/wrapped/of-a-team"):
        load_envelope_ring(lab.admin, "team/none", "of-a-team")


def kill(lab: Lab) -> None:
    os.kill(lab._server._child.process.pid, signal.SIGKILL)
    lab._server._child.process.wait()


def seal_the_server(lab: Lab) -> None:
    lab._server.client("", token=lab._server.token).sys.seal()


def delete_the_key(lab: Lab) -> None:
    lab.admin.secrets.transit.update_key_configuration(ENVELOPE_KEY, deletion_allowed=True)
    lab.admin.secrets.transit.delete_key(ENVELOPE_KEY)


def unmount(lab: Lab) -> None:
    lab.admin.sys.disable_secrets_engine("transit")


@pytest.mark.parametrize(
    ("outage", "kind", "complaint"),
    [
        (kill, labkit.OpenBaoUnavailable, "unreachable while reading the key ring at secret/"),
        (seal_the_server, labkit.OpenBaoUnavailable, r"failed while reading .* \(Vault is sealed\): check its status"),
        (delete_the_key, InvalidKeyRing, r"Entry 1 .* \(encryption key not found\): check that this key exists"),
        (unmount, labkit.OpenBaoUnavailable, "failed while opening entry 1 of the key ring at .*no handler for route"),
    ],
    ids=["killed", "sealed", "key deleted", "transit unmounted"],
)
def test_an_envelope_ring_that_cannot_be_opened_is_one_sentence(
    own_lab: Lab, outage: Callable[[Lab], None], kind: type[Exception], complaint: str
) -> None:
    client, entry = own_lab.client("envelope-reader"), in_kv(own_lab)
    assert load_envelope_ring(client)
    outage(own_lab)
    with pytest.raises(kind, match=complaint) as caught:
        load_envelope_ring(client)
    assert "\n" not in str(caught.value)
    assert entry[9:25] not in str(caught.value)


@pytest.mark.parametrize("use", [labkit.load_key_ring, lambda client: labkit.SingleUse(client).issue({"a": "plan"})])
def test_an_outage_keeps_no_token_in_the_errors_behind_it(own_lab: Lab, use: Callable[[hvac.Client], object]) -> None:
    """A program that collects errors walks along them, whatever a traceback shows."""
    client = own_lab.client("mcp-server")
    own_lab._server.close()
    with pytest.raises(labkit.OpenBaoUnavailable) as caught:
        use(client)
    error: BaseException | None = caught.value
    while error is not None:
        for holder in (getattr(error, "request", None), getattr(error, "response", None)):
            assert client.token not in str(vars(holder) if holder is not None else "")
        error = error.__context__
