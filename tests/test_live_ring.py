"""A live ring follows KV, uses the last good ring for a while, and then refuses."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hvac
import pytest
from mcp.server.request_state import InvalidRequestState
from waiting import eventually

import labkit
from labkit import approle, live_ring, provision
from labkit.key_ring import InvalidKeyRing, key_id, key_id_in
from labkit.lab import Lab
from labkit.live_ring import LiveKeyRing
from labkit.provision import RING_PATH


def write(lab: Lab, *keys: bytes) -> None:
    lab.admin.secrets.kv.v2.create_or_update_secret(
        RING_PATH, {"keys": ",".join(key.hex() for key in keys)}, mount_point="secret"
    )


def followers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "LiveKeyRing"]


@pytest.fixture
def ring(own_lab: Lab) -> Iterator[LiveKeyRing]:
    ring = LiveKeyRing(own_lab.client("ring-reader"), max_stale=2)
    yield ring
    ring.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Put the clock of the replica forward, so that nothing has to be waited for."""
    ahead = [0.0]
    real = live_ring._clock
    monkeypatch.setattr(live_ring, "_clock", lambda which: real(which) + ahead[0])

    def later(seconds: float) -> None:
        ahead[0] += seconds

    return later


def test_a_ring_that_changes_is_followed_without_a_restart(own_lab: Lab, ring: LiveKeyRing) -> None:
    old, new = b"o" * 32, b"n" * 32
    write(own_lab, old)
    eventually(lambda: ring.key_ids == (key_id(old),), "the ring is [old]")
    before = ring.seal(b"state")
    write(own_lab, new, old)
    eventually(lambda: ring.key_ids == (key_id(new), key_id(old)), "the ring is [new, old]")
    assert key_id_in(ring.seal(b"state")) == key_id(new)
    assert ring.unseal(before) == b"state"
    write(own_lab, new)
    eventually(lambda: ring.key_ids == (key_id(new),), "the ring is [new]")
    with pytest.raises(InvalidRequestState, match="unknown key"):
        ring.unseal(before)


def test_it_seals_and_unseals_as_the_sdks_own_codec_does(own_lab: Lab, ring: LiveKeyRing) -> None:
    from mcp.server.request_state import AESGCMRequestStateCodec

    theirs = AESGCMRequestStateCodec(labkit.load_key_ring(own_lab.client("ring-reader")))
    assert ring.unseal(theirs.seal(b"state")) == theirs.unseal(ring.seal(b"state")) == b"state"
    for forged in ("", "v1.", theirs.seal(b"state") + "A", theirs.seal(b"state")[:-1]):
        with pytest.raises(InvalidRequestState):
            ring.unseal(forged)


def kill(lab: Lab) -> None:
    assert lab._server._child is not None
    os.kill(lab._server._child.process.pid, signal.SIGKILL)
    lab._server._child.process.wait()


def spoil(lab: Lab) -> None:
    lab.admin.secrets.kv.v2.create_or_update_secret(RING_PATH, {"keys": "not hexadecimal"}, mount_point="secret")


def revoke(lab: Lab) -> None:
    lab.admin.sys.create_or_update_policy("ring-reader", 'path "none" { capabilities = ["read"] }')


@pytest.mark.parametrize("break_it", [kill, spoil, revoke])
def test_the_last_good_ring_is_used_loudly_up_to_max_stale_and_then_refused(
    own_lab: Lab,
    ring: LiveKeyRing,
    later: Callable[[float], None],
    caplog: pytest.LogCaptureFixture,
    break_it: Callable[[Lab], None],
) -> None:
    token = ring.seal(b"state")
    break_it(own_lab)
    eventually(lambda: any("goes on being used for" in message for message in caplog.messages), "it is said aloud")
    assert all(record.levelno >= logging.WARNING for record in caplog.records if record.name == "labkit.live_ring")
    later(-1)  # as if no time had passed: how long a slow machine takes to come here must not matter
    assert ring.unseal(ring.seal(b"state")) == ring.unseal(token) == b"state"
    later(4)
    for use in (lambda: ring.seal(b"state"), lambda: ring.unseal(token)):
        with pytest.raises(labkit.OpenBaoUnavailable, match=r"not been read for 1\.8 s, and may be 2 s old at most"):
            use()
    assert "outage, not an attack" in caplog.text


def test_a_ring_that_is_well_again_is_used_again(
    own_lab: Lab, ring: LiveKeyRing, later: Callable[[float], None]
) -> None:
    spoil(own_lab)
    later(3)
    with pytest.raises(labkit.OpenBaoUnavailable):
        ring.seal(b"state")
    write(own_lab, b"k" * 32)
    eventually(lambda: ring.key_ids == (key_id(b"k" * 32),), "the ring is read again")
    assert ring.seal(b"state")


def test_staleness_counts_from_before_the_question(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed while OpenBao was answering may not be in the answer."""
    now = [1000.0]
    monkeypatch.setattr(live_ring, "_clock", lambda which: now[0])
    real = live_ring.read_ring

    def slow(client: hvac.Client, path: str) -> dict[str, Any]:
        now[0] += 1.5
        return real(client, path)

    monkeypatch.setattr(live_ring, "read_ring", slow)
    ring = LiveKeyRing(own_lab.client("ring-reader"), max_stale=2)
    ring._stop()
    ring._read()  # at 1001.5, answered at 1003
    now[0] = 1003.2
    assert ring.seal(b"state")
    now[0] = 1003.4  # a tenth of `max_stale` before 1003.5, for the time that OpenBao takes to store what it stamped
    with pytest.raises(labkit.OpenBaoUnavailable):
        ring.seal(b"state")


def test_a_ring_that_is_older_than_the_one_in_use_is_not_taken_and_gives_no_time(
    own_lab: Lab, monkeypatch: pytest.MonkeyPatch, later: Callable[[float], None]
) -> None:
    """A standby that lags hands out the ring as it was, and says nothing of it."""
    ring = LiveKeyRing(own_lab.client("ring-reader"), max_stale=60)
    ring._stop()
    write(own_lab, b"n" * 32)
    ring._read()
    earlier = own_lab.admin.secrets.kv.v2.read_secret_version(
        RING_PATH, version=1, mount_point="secret", raise_on_deleted_version=True
    )["data"]
    monkeypatch.setattr(live_ring, "read_ring", lambda client, path: earlier)
    later(50)
    with pytest.raises(labkit.LabError, match=r"Version 1 of the key ring at .* came after version 2"):
        ring._read()
    assert ring.key_ids == (key_id(b"n" * 32),)
    assert key_id_in(ring.seal(b"state")) == key_id(b"n" * 32)
    later(10)
    with pytest.raises(labkit.OpenBaoUnavailable):
        ring.seal(b"state")


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"data": "x"},
        {"data": None},
        {"data": {"keys": "x"}, "metadata": []},
        {"data": {}, "metadata": 1},
        {"data": {"keys": "a" * 64}, "metadata": []},  # the only one with a ring that can be read
    ],
)
def test_a_follower_lives_on_whatever_comes(
    own_lab: Lab,
    ring: LiveKeyRing,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    nonsense: object,
) -> None:
    real, answers = live_ring.read_ring, []

    def answer(client: hvac.Client, path: str) -> Any:
        answers.append(nonsense)
        return nonsense

    monkeypatch.setattr(live_ring, "read_ring", answer)
    eventually(lambda: len(answers) > 1 or not ring._thread.is_alive(), "it asks again, or is dead")
    assert ring._thread.is_alive()
    assert "the key ring could not be read" in caplog.text
    monkeypatch.setattr(live_ring, "read_ring", real)
    write(own_lab, b"k" * 32)
    eventually(lambda: ring.key_ids == (key_id(b"k" * 32),), "the ring is read again")


def test_a_ring_that_cannot_be_read_at_the_start_starts_nothing(own_lab: Lab) -> None:
    spoil(own_lab)
    with pytest.raises(InvalidKeyRing):
        LiveKeyRing(own_lab.client("ring-reader"))
    assert followers() == []


def test_a_follower_lives_on_when_its_log_cannot_be_written(own_lab: Lab, ring: LiveKeyRing) -> None:
    called: list[logging.LogRecord] = []

    def fail(record: logging.LogRecord) -> bool:
        called.append(record)
        raise OSError("no space left")

    live_ring.logger.addFilter(fail)
    try:
        spoil(own_lab)
        eventually(lambda: len(called) > 1 or not ring._thread.is_alive(), "it says so again, or is dead")
        assert ring._thread.is_alive()
    finally:
        live_ring.logger.removeFilter(fail)
    write(own_lab, b"k" * 32)
    eventually(lambda: ring.key_ids == (key_id(b"k" * 32),), "the ring is read again")


def test_a_login_that_was_ended_hurts_nobody_else(own_lab: Lab) -> None:
    """OpenBao counts bad logins, and by default locks out all who share the role."""
    stolen, honest = own_lab.client("ring-reader"), own_lab.client("ring-reader")
    with contextlib.closing(LiveKeyRing(stolen, max_stale=0.2)) as ring:
        own_lab.lock_out(stolen)
        failed = [0]
        real = ring._read

        def counted() -> None:
            try:
                real()
            except labkit.OpenBaoUnavailable:
                failed[0] += 1
                raise

        ring._read = counted  # type: ignore[method-assign]
        eventually(lambda: failed[0] > 8, "it has tried again and again")
    logins = [r for r in own_lab.audit_records() if r["request"]["path"] == "auth/approle/login" and r.get("error")]
    assert len({r["request"]["id"] for r in logins}) == 1, "a login that was refused for good is not tried again"
    role_id, _ = provision.credentials(own_lab.admin, "ring-reader")
    for _ in range(8):
        with pytest.raises(labkit.OpenBaoUnavailable, match="refused the AppRole login"):
            approle.log_in(own_lab._server, own_lab.namespace, "ring-reader", role_id, "made-up")
    own_lab.admin.auth.token.revoke(honest.token)
    assert labkit.load_key_ring(honest), "it logs in again"
    assert labkit.load_key_ring(own_lab.client("ring-reader"))


def test_one_thread_follows_and_it_goes_with_close_or_with_the_ring(own_lab: Lab) -> None:
    client = own_lab.client("ring-reader")
    ring = LiveKeyRing(client, max_stale=0.2)
    assert len(followers()) == 1
    assert followers()[0].daemon, "it goes with the kernel"
    ring.close()
    ring.close()
    eventually(lambda: not followers(), "close ends it")
    with pytest.raises(labkit.OpenBaoUnavailable, match="was closed"):
        ring.seal(b"state")
    forgotten = LiveKeyRing(client, max_stale=0.2)
    assert len(followers()) == 1
    del forgotten
    gc.collect()
    eventually(lambda: not followers(), "nobody uses it any more")


def test_a_read_that_was_under_way_does_not_open_a_closed_ring(own_lab: Lab) -> None:
    ring = LiveKeyRing(own_lab.client("ring-reader"), max_stale=60)
    ring.close()
    ring._read()
    with pytest.raises(labkit.OpenBaoUnavailable):
        ring.seal(b"state")


def test_no_key_is_in_a_repr_or_a_log(own_lab: Lab, ring: LiveKeyRing, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = b"k" * 32
    write(own_lab, key)
    eventually(lambda: ring.key_ids == (key_id(key),), "the ring is read")
    spoil(own_lab)
    eventually(lambda: "goes on being used" in caplog.text, "it is said aloud")
    for spelling in (key.hex(), "kkkk", repr(key)):
        assert spelling not in repr(ring) + caplog.text
    assert repr(ring) == "<LiveKeyRing of 1 at secret/mcp/request-state-keys>"


def test_readers_in_many_threads_meet_one_ring_or_the_other(own_lab: Lab, ring: LiveKeyRing) -> None:
    old, new = b"o" * 32, b"n" * 32
    write(own_lab, old, new)
    eventually(lambda: ring.key_ids == (key_id(old), key_id(new)), "the ring is read")
    stop, failures = threading.Event(), []

    def use() -> None:
        while not stop.is_set():
            try:
                assert ring.unseal(ring.seal(b"state")) == b"state"
            except Exception as error:
                failures.append(error)

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for order in ((new, old), (old, new)) * 3:
        write(own_lab, *order)
        eventually(lambda order=order: ring.key_ids == tuple(map(key_id, order)), "the ring is swapped")  # type: ignore[misc]
    stop.set()
    for user in users:
        user.join()
    assert failures == []


@pytest.mark.parametrize("max_stale", [0, -1, 86_401, float("inf"), float("nan")])
def test_a_time_that_cannot_be_is_turned_down(own_lab: Lab, max_stale: float) -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        LiveKeyRing(own_lab.client("ring-reader"), max_stale=max_stale)
