"""A rotation goes step by step, too early for none of its users, and one operator at a time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import hvac
import hvac.exceptions
import pytest
from mcp.server.request_state import InvalidRequestState

import labkit
from labkit import rotation, transit_rotation
from labkit.key_ring import InvalidKeyRing
from labkit.lab import Lab
from labkit.provision import RING_PATH, TRANSIT_KEY
from labkit.rotation import KeyRing, RotationRefused
from labkit.transit import TransitCodec
from labkit.transit_rotation import TransitRotation


@pytest.fixture
def namespace(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A namespace of its own on the shared server, because a rotation stays."""
    fresh = Lab(lab._server)
    monkeypatch.setattr(fresh, "_server", lab._server)
    return fresh


@pytest.fixture
def operator(namespace: Lab) -> hvac.Client:
    return namespace.client("ring-operator")


def at_once(operator: hvac.Client, **options: float) -> KeyRing:
    """A ring for which no step is ever too early, so that what else is told can be seen."""
    return KeyRing(operator, **{"ttl": 0, "max_stale": 0, **options})


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Put OpenBao's clock forward, as `KeyRing` reads it."""
    ahead = [0.0]
    real = rotation.now
    for module in (rotation, transit_rotation):
        monkeypatch.setattr(module, "now", lambda client: real(client) + ahead[0])

    def later(seconds: float) -> None:
        ahead[0] += seconds

    return later


def test_a_rotation_hands_the_new_key_out_before_it_seals_and_drops_the_old_one_last(
    namespace: Lab, operator: hvac.Client, later: Callable[[float], None]
) -> None:
    ring = KeyRing(operator, ttl=120, max_stale=60)
    (old,) = ring.read().keys
    staged = ring.stage()
    assert (staged.phase, staged.next, staged.keys[0]) == ("staged", "activate", old)
    new = staged.keys[1]
    assert new != old
    assert len(new) == 32
    later(62)
    activated = ring.activate()
    assert (activated.phase, activated.next, activated.keys) == ("activated", "retire", [new, old])
    later(182)
    retired = ring.retire()
    assert (retired.phase, retired.next, retired.keys, retired.earlier) == ("steady", "stage", [new], ())


def test_whoever_knows_only_the_field_keys_can_read_each_phase(namespace: Lab, operator: hvac.Client) -> None:
    ring, reader = at_once(operator), namespace.client("ring-reader")
    for step in (ring.stage, lambda: ring.activate(force=True), lambda: ring.retire(force=True)):
        keys = step().keys
        assert labkit.load_key_ring(reader) == keys


def test_retired_keys_cannot_be_read_back(namespace: Lab, operator: hvac.Client) -> None:
    ring = at_once(operator)
    ring.stage()
    ring.activate(force=True)
    last = ring.retire(force=True)
    for version in range(1, last.version):
        with pytest.raises(hvac.exceptions.InvalidPath):
            namespace.admin.secrets.kv.v2.read_secret_version(
                RING_PATH, version=version, mount_point="secret", raise_on_deleted_version=True
            )


@pytest.mark.parametrize(
    ("step", "safe_after"),
    [("activate", 60), ("retire", 180)],
)
def test_a_step_that_is_too_early_is_refused_until_just_then(
    operator: hvac.Client, later: Callable[[float], None], step: str, safe_after: int
) -> None:
    ring = KeyRing(operator, ttl=120, max_stale=60)
    ring.stage()
    if step == "retire":
        ring.activate(force=True)
    later(safe_after - 3)
    with pytest.raises(RotationRefused, match=rf"too early to {step} .*: wait [1-4] s, until \d\d:\d\d:\d\d UTC"):
        getattr(ring, step)()
    later(4.5)
    assert ring.read().wait == 0
    getattr(ring, step)()


def test_the_time_is_openbaos_and_not_the_operators(operator: hvac.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    an_hour_ahead = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: an_hour_ahead)
    assert KeyRing(operator, max_stale=60).stage().wait > 30


@pytest.mark.parametrize("step", ["activate", "retire"])
def test_force_does_it_all_the_same(operator: hvac.Client, step: str) -> None:
    ring = KeyRing(operator, ttl=120, max_stale=60)
    ring.stage()
    if step == "retire":
        ring.activate(force=True)
    with pytest.raises(RotationRefused, match="too early"):
        getattr(ring, step)()
    assert getattr(ring, step)(force=True).next != step


@pytest.mark.parametrize(
    ("done", "asked", "due"),
    [
        ([], "activate", "stage"),
        ([], "retire", "stage"),
        (["stage"], "stage", "activate"),
        (["stage"], "retire", "activate"),
        (["stage", "activate"], "stage", "retire"),
        (["stage", "activate"], "activate", "retire"),
    ],
)
def test_a_step_out_of_turn_is_refused_even_by_force(
    operator: hvac.Client, done: list[str], asked: str, due: str
) -> None:
    ring = at_once(operator)
    force = {"stage": {}, "activate": {"force": True}, "retire": {"force": True}}
    for step in done:
        getattr(ring, step)(**force[step])
    before = ring.read()
    with pytest.raises(RotationRefused, match=f"the next step is to {due}, not to {asked}"):
        getattr(ring, asked)(**force[asked])
    after = ring.read()  # as it was; only the time to wait for may have passed
    assert (after.version, after.phase, after.keys) == (before.version, before.phase, before.keys)


@pytest.mark.parametrize("step", ["stage", "activate", "retire"])
def test_of_eight_operators_at_once_exactly_one_wins_and_the_others_are_told(namespace: Lab, step: str) -> None:
    rings = [at_once(namespace.client("ring-operator")) for _ in range(8)]
    if step != "stage":
        rings[0].stage()
    if step == "retire":
        rings[0].activate(force=True)
    before = rings[0].read()
    gate = threading.Barrier(8)

    def rotate(ring: KeyRing) -> str:
        ring._due = lambda *_, **__: before  # type: ignore[method-assign] # all have looked before anybody writes
        gate.wait()
        try:
            getattr(ring, step)()
        except RotationRefused as refused:
            return str(refused)
        return "won"

    with ThreadPoolExecutor(8) as pool:
        told = Counter(pool.map(rotate, rings))
    assert told.pop("won") == 1
    assert list(told.values()) == [7]
    assert "Somebody else changed the ring" in next(iter(told))
    assert rings[0].read().version == before.version + 1


def test_a_retirement_that_was_interrupted_is_finished_by_the_next_operator(
    operator: hvac.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = at_once(operator)
    ring.stage()
    ring.activate(force=True)
    with monkeypatch.context() as dying:
        dying.setattr(type(operator.secrets.kv.v2), "destroy_secret_versions", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ring.retire(force=True)
    state = at_once(operator).read()
    assert (state.phase, state.next, state.earlier, state.wait) == ("steady", "retire", (1, 2, 3), 0)
    with pytest.raises(RotationRefused, match="the next step is to retire"):
        at_once(operator).stage()
    finished = at_once(operator).retire()
    assert (finished.next, finished.earlier) == ("stage", ())


@pytest.mark.parametrize(
    "secret",
    [
        {"keys": f"{'a' * 64},{'b' * 64}"},
        {"keys": f"{'a' * 64},{'b' * 64}", "phase": "steady"},
        {"keys": "a" * 64, "phase": "staged"},
        {"keys": f"{'a' * 64},{'b' * 64}", "phase": "retired"},
        {"keys": f"{'a' * 64},{'b' * 64}", "phase": ["staged"]},
        {"keys": f"{'a' * 64},{'b' * 64}", "phase": "f" * 5000},
        {"keys": f"{'a' * 64},{'b' * 64},{'c' * 64}", "phase": "staged"},
        {"keys": f"{'a' * 64},{'b' * 64},{'c' * 64}", "phase": "activated"},
    ],
)
def test_a_ring_whose_phase_does_not_fit_is_one_sentence_without_a_key(
    namespace: Lab, operator: hvac.Client, secret: dict[str, str]
) -> None:
    namespace.admin.secrets.kv.v2.create_or_update_secret(RING_PATH, secret, mount_point="secret")
    with pytest.raises(RotationRefused, match=r"has \d key\(s\) and (the|no) phase .{1,200}\.$") as caught:
        at_once(operator).read()
    assert "aaaa" not in str(caught.value)


def test_a_ring_that_is_none_is_refused_as_when_it_is_loaded(namespace: Lab, operator: hvac.Client) -> None:
    namespace.admin.secrets.kv.v2.create_or_update_secret(RING_PATH, {"keys": "no"}, mount_point="secret")
    with pytest.raises(InvalidKeyRing, match="not plain hexadecimal"):
        at_once(operator).read()


def test_a_ring_that_is_missing_or_deleted_is_one_sentence(namespace: Lab, operator: hvac.Client) -> None:
    namespace.admin.secrets.kv.v2.delete_latest_version_of_secret(RING_PATH, mount_point="secret")
    with pytest.raises(InvalidKeyRing, match="There is no key ring"):
        at_once(operator).read()
    namespace.admin.secrets.kv.v2.delete_metadata_and_all_versions(RING_PATH, mount_point="secret")
    with pytest.raises(InvalidKeyRing, match="There is no key ring"):
        at_once(operator).read()


def test_no_key_is_in_the_repr_of_a_state(operator: hvac.Client) -> None:
    state = at_once(operator).read()
    assert state.keys[0].hex() not in repr(state)
    assert repr(state.keys[0])[2:-1] not in repr(state)


@pytest.mark.parametrize("time", ["ttl", "max_stale"])
@pytest.mark.parametrize("seconds", [-1, 86_401, float("inf"), float("nan")])
def test_a_time_that_cannot_be_is_turned_down(operator: hvac.Client, time: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"{time} is 0 to 86,400 seconds"):
        KeyRing(operator, **{time: seconds})
    if time == "ttl":
        with pytest.raises(ValueError, match="ttl is 0 to 86,400 seconds"):
            TransitRotation(operator, ttl=seconds)


def test_what_a_ring_written_by_hand_replaced_is_kept_as_long_as_it_may_be_in_use(
    namespace: Lab, operator: hvac.Client, later: Callable[[float], None]
) -> None:
    ring = KeyRing(operator, ttl=120, max_stale=60)
    ring.stage()
    namespace.admin.secrets.kv.v2.create_or_update_secret(RING_PATH, {"keys": "a" * 64}, mount_point="secret")
    state = ring.read()
    assert (state.phase, state.next, state.earlier) == ("steady", "retire", (1, 2))
    assert 175 < state.wait <= 181
    with pytest.raises(RotationRefused, match="too early to retire"):
        ring.retire()
    later(185)
    assert ring.retire().earlier == ()


def test_the_operator_can_change_one_setting_of_the_transit_key_and_never_get_it(operator: hvac.Client) -> None:
    transit = operator.secrets.transit
    for forbidden in (
        lambda: transit.update_key_configuration(TRANSIT_KEY, exportable=True),
        lambda: transit.update_key_configuration(TRANSIT_KEY, min_decryption_version=1, exportable=True),
        lambda: transit.update_key_configuration(TRANSIT_KEY, allow_plaintext_backup=True),
        lambda: transit.update_key_configuration(TRANSIT_KEY, deletion_allowed=True),
        lambda: transit.export_key(TRANSIT_KEY, "encryption-key"),
        lambda: transit.decrypt_data(TRANSIT_KEY, "vault:v1:AAAA"),
    ):
        with pytest.raises(hvac.exceptions.Forbidden):
            forbidden()


def test_transit_rotates_and_retires_in_two_calls(
    namespace: Lab, operator: hvac.Client, later: Callable[[float], None]
) -> None:
    codec = TransitCodec(namespace.client("transit"))
    before = codec.seal(b"state")
    rotating = TransitRotation(operator, ttl=120)
    with pytest.raises(RotationRefused, match="the only one in use: rotate it first"):
        rotating.retire()
    assert rotating.rotate().latest == 2
    after = codec.seal(b"state")
    with pytest.raises(RotationRefused, match=r"too early to retire what is below version 2 .*: wait \d+ s"):
        rotating.retire()
    assert codec.unseal(before) == codec.unseal(after) == b"state"
    later(100)
    with pytest.raises(RotationRefused, match="too early"):
        rotating.retire()
    later(22)
    assert rotating.retire().oldest == 2
    assert codec.unseal(after) == b"state"
    with pytest.raises(InvalidRequestState, match="unknown key"):
        codec.unseal(before)


def test_a_transit_key_that_is_not_there_is_one_sentence(namespace: Lab) -> None:
    with pytest.raises(RotationRefused, match="There is no Transit key another"):
        TransitRotation(namespace.admin, "another").read()


def test_a_role_that_may_not_rotate_is_told_so(namespace: Lab) -> None:
    reader = namespace.client("ring-reader")
    with pytest.raises(labkit.OpenBaoUnavailable, match="permission denied"):
        KeyRing(reader).read()
    with pytest.raises(labkit.OpenBaoUnavailable, match="permission denied"):
        TransitRotation(reader).read()
