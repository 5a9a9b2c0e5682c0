"""A staged rotation turns nobody away, however replicas and users happen to time it; a naive one always does."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable

import pytest

from labkit.checks import log_lines
from labkit.lab import Lab
from labkit.live_ring import LiveKeyRing
from labkit.rotation import KeyRing
from labkit.timeline import Record, ReloadedRing, under_load

pytestmark = pytest.mark.anyio
SIZE = float(os.environ.get("SIZE", "1"))
REPETITIONS = max(2, int(20 * SIZE))
AT_A_TIME = 5  # each is asleep most of the time

RecordProperty = Callable[[str, object], None]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def staged(lab: Lab, replicas: int, *, ttl: float, max_stale: float, rate: float, seed: int) -> Record:
    """The three steps, each as soon as the ring says that it is safe, under users who think for as long as they may."""
    namespace = await asyncio.to_thread(Lab, lab._server)
    operator = await asyncio.to_thread(namespace.client, "ring-operator")
    reader = await asyncio.to_thread(namespace.client, "ring-reader")
    ring = KeyRing(operator, ttl=ttl, max_stale=max_stale)
    codecs = [await asyncio.to_thread(LiveKeyRing, reader, max_stale=max_stale) for _ in range(replicas)]
    async with under_load(codecs, ttl=ttl, rate=rate, think=(0, 0.6 * ttl), seed=seed) as record:
        for step in (ring.stage, ring.activate, ring.retire):
            await asyncio.sleep((await asyncio.to_thread(ring.read)).wait)
            record.mark(step.__name__)
            await asyncio.to_thread(step)
        await asyncio.sleep(max_stale)
    for codec in codecs:
        codec.close()
    return record


async def naive(lab: Lab, *, seed: int) -> Record:
    """The new key seals at once, and one replica after the other is told."""
    namespace = await asyncio.to_thread(Lab, lab._server)
    operator = await asyncio.to_thread(namespace.client, "ring-operator")
    reader = await asyncio.to_thread(namespace.client, "ring-reader")
    ring = KeyRing(operator, ttl=2, max_stale=2)
    codecs = [await asyncio.to_thread(ReloadedRing, reader) for _ in range(4)]
    chance = random.Random(seed)  # noqa: S311 - it chooses delays, not keys
    async with under_load(codecs, ttl=2, rate=60, think=(0.05, 0.6), seed=seed) as record:
        await asyncio.to_thread(ring.stage)
        await asyncio.to_thread(ring.activate, force=True)
        for codec in codecs:
            await asyncio.sleep(chance.uniform(0.3, 0.7))
            await asyncio.to_thread(codec.reload)
    return record


async def repeated(play: Callable[[int], Awaitable[Record]]) -> list[Record]:
    """Play with each seed, in a namespace and with an operator of its own."""
    turns = asyncio.Semaphore(AT_A_TIME)

    async def in_turn(seed: int) -> Record:
        async with turns:
            return await play(seed)

    with log_lines("labkit"):  # around those of the repetitions, which do not end in the order in which they began
        return await asyncio.gather(*(in_turn(seed) for seed in range(REPETITIONS)))


async def test_a_staged_rotation_turns_nobody_away(lab: Lab, record_property: RecordProperty) -> None:
    records = await repeated(lambda seed: staged(lab, 4, ttl=2, max_stale=2, rate=20, seed=seed))
    for seed, record in enumerate(records):
        assert record.refused() == [], f"seed {seed}"
        assert len(record.rounds) > 100
        assert {len({held for _, held in lane}) for lane in record.rings} == {4}, "each replica held each of four rings"
    tell(record_property, "staged", records)


async def test_nor_does_it_with_64_replicas(lab: Lab, record_property: RecordProperty) -> None:
    record = await staged(lab, 64, ttl=2, max_stale=5, rate=30, seed=0)
    assert record.refused() == []
    assert len({one.answered_to for one in record.rounds}) == 64
    assert {len({held for _, held in lane}) for lane in record.rings} == {4}
    tell(record_property, "staged", [record])


async def test_a_naive_rotation_turns_somebody_away(lab: Lab, record_property: RecordProperty) -> None:
    records = await repeated(lambda seed: naive(lab, seed=seed))
    for seed, record in enumerate(records):
        assert record.refused(), f"seed {seed}"
        assert {one.refused for one in record.refused()} == {"unknown key"}
        assert all(one.sealed_with not in one.held for one in record.refused())
    tell(record_property, "naive", records)


def tell(record_property: RecordProperty, how: str, records: list[Record]) -> None:
    rounds, refused = (sum(map(len, each)) for each in zip(*((r.rounds, r.refused()) for r in records), strict=True))
    print(f"\n{len(records)} {how}: {refused} of {rounds} rounds refused; {[len(r.refused()) for r in records]}")
    record_property("proved", (f"{how} rotations", len(records)))
    record_property("proved", (f"rounds in {how} rotations", rounds))
    record_property("proved", (f"rounds refused in {how} rotations", refused))
