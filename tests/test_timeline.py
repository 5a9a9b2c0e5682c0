"""What the record of a rotation holds, and what its picture says of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from waiting import eventually

from labkit.figures import timeline as figure
from labkit.key_ring import key_id
from labkit.lab import Lab
from labkit.provision import RING_PATH
from labkit.timeline import LazyRing, Record, ReloadedRing, Round, under_load

OLD, NEW = b"o" * 32, b"n" * 32


def write(lab: Lab, *keys: bytes) -> None:
    lab.admin.secrets.kv.v2.create_or_update_secret(
        RING_PATH, {"keys": ",".join(key.hex() for key in keys)}, mount_point="secret"
    )


def ids(*keys: bytes) -> tuple[str, ...]:
    return tuple(map(key_id, keys))


async def a_rotation(lab: Lab) -> Record:
    write(lab, OLD)
    codecs = [ReloadedRing(lab.client("ring-reader")) for _ in range(2)]
    async with under_load(codecs, ttl=5, rate=60, think=(0.05, 0.3)) as record:
        await asyncio.sleep(0.5)
        record.mark("new key first")
        write(lab, NEW, OLD)
        codecs[0].reload()
        record.mark("one has it")
        await asyncio.sleep(0.6)
        write(lab, NEW)
        for codec in codecs:
            codec.reload()
        record.mark("the old one is gone")
        await asyncio.sleep(0.4)
    return record


@pytest.fixture(scope="module")
def record(own_namespace: Lab) -> Record:
    return asyncio.run(a_rotation(own_namespace))


def test_every_round_tells_which_key_sealed_it_and_which_keys_it_met(record: Record) -> None:
    assert len(record.rounds) > 40
    for each in record.rounds:
        assert each.asked_by != each.answered_to
        assert (each.refused is None) == (each.sealed_with in each.held)
        assert each.refused in (None, "unknown key")
    assert record.refused() == [each for each in record.rounds if each.refused]


def test_both_ways_of_being_too_early_or_too_late_occur_and_are_told_apart(record: Record) -> None:
    order = {key: number for number, key in enumerate(ids(OLD, NEW))}
    why = {(each.sealed_with, figure._why(each, order)) for each in record.refused()}
    assert why == {(key_id(NEW), "too new"), (key_id(OLD), "too old")}


def test_what_a_replica_came_to_hold_before_a_step_is_on_record_before_it(record: Record) -> None:
    assert [held for _, held in record.rings[0]] == [ids(OLD), ids(NEW, OLD), ids(NEW)]
    assert [held for _, held in record.rings[1]] == [ids(OLD), ids(NEW)]
    times = dict((phase, at) for at, phase in record.phases)
    (_, _), (second, _), (third, _) = record.rings[0]
    assert times["new key first"] < second <= times["one has it"] < third <= times["the old one is gone"]
    assert record.rings[0][0][0] < 0.1, "the first look is at the start"


@pytest.mark.parametrize(
    ("held", "phase"),
    [([0], "old"), ([0, 1], "staged"), ([1, 0], "activated"), ([1], "done"), ([1, 2], "staged"), ([2, 1], "activated")],
)
def test_a_band_shows_the_phase_of_a_ring_in_a_second_rotation_too(held: list[int], phase: str) -> None:
    assert figure._phase(held) == phase


def test_the_picture_says_what_happened_and_no_times(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    figure.timeline(record, "A title")
    told = capsys.readouterr().out
    assert "The operator's steps: new key first, one has it, the old one is gone." in told
    assert "in order: [old]; [new, old]; [new]. Some rounds are refused." in told


def test_a_lazy_ring_follows_until_it_is_closed(own_namespace: Lab) -> None:
    write(own_namespace, OLD)
    with contextlib.closing(LazyRing(own_namespace.client("ring-reader"), max_stale=0.2)) as ring:
        write(own_namespace, NEW)
        eventually(lambda: ring.key_ids == ids(NEW), "it reads the new ring")
        assert ring.unseal(ring.seal(b"state")) == b"state"
    eventually(lambda: not [t for t in threading.enumerate() if t.name == "LazyRing"], "its thread is gone")


def test_a_round_that_was_not_even_asked_is_a_refusal() -> None:
    record = Record(1, rounds=[Round(0.1, 0, 0, "not asked", "", ())])
    assert len(record.refused()) == 1
