"""A staged rotation turns nobody away, however replicas and users happen to time it; a naive one always does."""

from __future__ import annotations

import asyncio
import random

import pytest

from labkit.lab import Lab
from labkit.live_ring import LiveKeyRing
from labkit.rotation import KeyRing
from labkit.timeline import Record, ReloadedRing, under_load

pytestmark = pytest.mark.anyio
REPETITIONS = range(20)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def namespace(lab: Lab) -> Lab:
    return Lab(lab._server)


async def staged(lab: Lab, replicas: int, *, ttl: float, max_stale: float, rate: float, seed: int) -> Record:
    """The three steps, each as soon as the ring says that it is safe, under users who think for as long as they may."""
    ring = KeyRing(lab.client("ring-operator"), ttl=ttl, max_stale=max_stale)
    reader = lab.client("ring-reader")
    codecs = [LiveKeyRing(reader, max_stale=max_stale) for _ in range(replicas)]
    async with under_load(codecs, ttl=ttl, rate=rate, think=(0, 0.6 * ttl), seed=seed) as record:
        for step in (ring.stage, ring.activate, ring.retire):
            await asyncio.sleep((await asyncio.to_thread(ring.read)).wait)
            record.mark(step.__name__)
            await asyncio.to_thread(step)
        await asyncio.sleep(max_stale)
    for codec in codecs:
        codec.close()
    return record


@pytest.mark.parametrize("seed", REPETITIONS)
async def test_a_staged_rotation_turns_nobody_away(namespace: Lab, seed: int) -> None:
    record = await staged(namespace, 4, ttl=2, max_stale=2, rate=30, seed=seed)
    assert record.refused() == []
    assert len(record.rounds) > 150
    assert {len({held for _, held in lane}) for lane in record.rings} == {4}, (
        "every replica held each of the four rings"
    )


async def test_nor_does_it_with_64_replicas(namespace: Lab) -> None:
    record = await staged(namespace, 64, ttl=2, max_stale=8, rate=30, seed=0)
    assert record.refused() == []
    assert len({one.answered_to for one in record.rounds}) == 64
    assert {len({held for _, held in lane}) for lane in record.rings} == {4}


@pytest.mark.parametrize("seed", REPETITIONS)
async def test_a_naive_rotation_turns_somebody_away(namespace: Lab, seed: int) -> None:
    ring = KeyRing(namespace.client("ring-operator"), ttl=2, max_stale=2)
    reader = namespace.client("ring-reader")
    codecs = [ReloadedRing(reader) for _ in range(4)]
    chance = random.Random(seed)  # noqa: S311 - it chooses delays, not keys
    async with under_load(codecs, ttl=2, rate=60, think=(0.05, 0.6), seed=seed) as record:
        ring.stage()
        ring.activate(force=True)
        for codec in codecs:
            await asyncio.sleep(chance.uniform(0.3, 0.7))
            codec.reload()
    assert record.refused()
    assert {one.refused for one in record.refused()} == {"unknown key"}
    assert all(one.sealed_with not in one.held for one in record.refused())
