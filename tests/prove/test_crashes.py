"""A server is killed after every step of purges of many sizes: two that recover at once leave all or nothing."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

import pytest

from labkit import attacks
from labkit.bucket import Bucket
from labkit.crash import Doomed
from labkit.janitor import recover
from labkit.lab import Lab
from labkit.ledger import Ledger
from labkit.wire import over_http

pytestmark = pytest.mark.anyio
SIZE = float(os.environ.get("SIZE", "1"))
SEED = int(os.environ.get("SEED", "20260728"))
PURGES = max(2, int(10 * SIZE))
MOST = 8  # objects in a purge


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_purge_is_done_or_not_begun_wherever_its_server_is_killed(
    own_namespace: Lab, bucket: Bucket, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - it chooses sizes, not keys
    ledgers = [Ledger(own_namespace.client("ledger")) for _ in range(2)]
    crashes = 0

    async def recover_at_once() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(recover, ledger, bucket, after=0) for ledger in ledgers))

    for keys in ([f"logs/{number}" for number in range(chance.randint(1, MOST))] for _ in range(PURGES)):
        for step in range(1, len(keys) + 4):  # it is redeemed, begun, deleted one by one, and finished
            bucket.reset([*keys, "secrets/root.key"])
            with Doomed(own_namespace, bucket, dies_after=step, ledger=True) as doomed:
                async with over_http(doomed.url) as (client, _):
                    await attacks.ask(client, "secrets/")  # and nobody answers
                    question = await attacks.ask(client, "logs/")
                    told = await attacks.verdict(attacks.confirm(client, question))
                assert told.startswith("error"), told
                assert doomed.died()
            left = keys[max(0, step - 2) :]
            assert bucket.keys() == [*left, "secrets/root.key"]
            done = await recover_at_once()
            assert (max(done) == 1) == (1 < step < len(keys) + 3)
            assert bucket.keys() == [*(keys if step == 1 else []), "secrets/root.key"]
            bucket.reset([*keys, "secrets/root.key"])
            assert await recover_at_once() == [0, 0]
            assert bucket.keys() == [*keys, "secrets/root.key"]
            assert ledgers[0].forget(keep=0, unconfirmed=0) == 2, "what nobody confirmed, and this one"
            crashes += 1
    print(f"\n{crashes} crashes in {PURGES} purges")
    record_property("proved", ("crash points", crashes))
    record_property("proved", ("purges left half done", 0))
