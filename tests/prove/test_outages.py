"""A rotation survives what happens meanwhile: OpenBao is restarted, a replica is killed, the operator goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from on_disk import OnDisk

from labkit import attacks
from labkit.bucket import Bucket
from labkit.fleet import Fleet
from labkit.lab import Lab
from labkit.live_ring import LiveKeyRing
from labkit.openbao import Server
from labkit.rotation import KeyRing
from labkit.timeline import under_load
from labkit.wire import over_http

pytestmark = pytest.mark.anyio
STEPS = ("stage", "activate", "retire")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[OnDisk]:
    bao = OnDisk(tmp_path)
    yield bao
    bao.kill()


async def take(lab: Lab, step: str, **times: float) -> None:
    """Take a step as an operator who comes afresh, and asks the ring what is due and when."""
    ring = KeyRing(lab.client("ring-operator"), **times)
    state = await asyncio.to_thread(ring.read)
    assert state.next == step
    await asyncio.sleep(state.wait)
    await asyncio.to_thread(getattr(ring, step))


async def test_openbao_is_restarted_in_each_phase_and_no_round_is_lost(
    on_disk: OnDisk, record_property: Callable[[str, object], None]
) -> None:
    with Lab(Server(on_disk.address, on_disk.token)) as lab:
        reader = lab.client("ring-reader")
        codecs = [LiveKeyRing(reader, max_stale=10) for _ in range(4)]
        async with under_load(codecs, ttl=2, rate=30, think=(0, 1.2)) as record:
            for step in STEPS:
                await asyncio.to_thread(on_disk.restart)
                await take(lab, step, ttl=2, max_stale=10)
            await asyncio.to_thread(on_disk.restart)
            await asyncio.sleep(5)
        held = [codec.key_ids for codec in codecs]
        for codec in codecs:
            codec.close()
    assert record.refused() == []
    assert len(record.rounds) > 500
    assert {len({held for _, held in lane}) for lane in record.rings} == {4}
    assert len(set(held)) == 1
    record_property("proved", ("rotations during which something died", 1))


async def test_openbao_that_is_away_for_longer_than_max_stale_stops_the_replicas_and_they_come_back(
    on_disk: OnDisk,
) -> None:
    with Lab(Server(on_disk.address, on_disk.token)) as lab:
        codecs = [LiveKeyRing(lab.client("ring-reader"), max_stale=1.5) for _ in range(2)]
        async with under_load(codecs, ttl=2, rate=30, think=(0, 0.3)) as record:
            await asyncio.sleep(1)
            on_disk.kill()
            gone = record.now()
            await asyncio.sleep(3.5)
            await asyncio.to_thread(on_disk.restart)
            back = record.now()
            await asyncio.sleep(2.5)
        for codec in codecs:
            codec.close()
    refused = [one.at for one in record.refused()]
    assert refused, "they refuse rather than to go on with a ring that may be old"
    assert min(refused) > gone + 0.5
    assert max(refused) < back + 2
    assert [one for one in record.rounds if one.at > back + 2]


@pytest.mark.parametrize("killed_before", STEPS)
async def test_a_replica_is_killed_in_a_rotation_and_no_purge_is_lost(
    lab: Lab, bucket: Bucket, killed_before: str, record_property: Callable[[str, object], None]
) -> None:
    namespace = Lab(lab._server)
    ring = KeyRing(namespace.client("ring-operator"), ttl=5, max_stale=2)
    with Fleet(namespace, bucket, count=3, ttl=5, max_stale=2) as fleet:
        async with over_http(fleet.url) as (client, _):
            for step in STEPS:
                await asyncio.sleep((await asyncio.to_thread(ring.read)).wait)
                bucket.reset(["logs/1"])
                question = await attacks.ask(client, "logs/")
                if step == killed_before:
                    fleet.kill(fleet.replicas.index(fleet.served[-1]))
                await take(namespace, step, ttl=5, max_stale=2)
                assert attacks.text_of(await attacks.confirm(client, question)) == "Purged 1 object(s): logs/1"
                assert bucket.keys() == []
    record_property("proved", ("rotations during which something died", 1))
