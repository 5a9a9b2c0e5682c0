"""How the client of `BatchedTransit` was chosen: a call for one state and one for 64, from the event loop."""

from __future__ import annotations

import asyncio
import base64
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx2
import hvac
import urllib3
from tokens import PAYLOAD

from labkit import Lab
from labkit.provision import TRANSIT_KEY
from labkit.transit import FORMAT

ROUNDS = 100
Call = Callable[[bytes], Awaitable[Any]]


async def compare(lab: Lab, login: hvac.Client) -> None:
    """Print the median time of each call, in milliseconds."""
    url = f"{lab.address}/v1/transit/encrypt/{TRANSIT_KEY}"
    headers = {
        "X-Vault-Token": str(login.token),
        "X-Vault-Namespace": lab.namespace,
        "Content-Type": "application/json",
    }
    pool = urllib3.PoolManager(maxsize=4)

    async def hvac_in_a_thread(body: bytes) -> None:
        await asyncio.to_thread(login.adapter.post, f"/v1/transit/encrypt/{TRANSIT_KEY}", json=json.loads(body))

    async def urllib3_in_a_thread(body: bytes) -> None:
        await asyncio.to_thread(lambda: json.loads(pool.request("POST", url, body=body, headers=headers).data))

    async def by_httpx2(body: bytes) -> None:
        json.loads((await over_httpx2.post(url, content=body, headers=headers)).content)

    async def by_aiohttp(body: bytes) -> None:
        async with over_aiohttp.post(url, data=body, headers=headers) as answer:
            json.loads(await answer.read())

    async with httpx2.AsyncClient(trust_env=False) as over_httpx2, aiohttp.ClientSession() as over_aiohttp:
        calls: dict[str, Call] = {
            "hvac in a thread": hvac_in_a_thread,
            "urllib3 in a thread": urllib3_in_a_thread,
            "httpx2": by_httpx2,
            "aiohttp": by_aiohttp,
        }
        print("\nA call from the event loop, in milliseconds: why BatchedTransit has aiohttp")
        for count in (1, 64):
            item = {"plaintext": base64.b64encode(PAYLOAD).decode(), "associated_data": FORMAT}
            body = json.dumps({"batch_input": [item] * count}).encode()
            times: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    times[name].append(await _took(call, body))
            medians = [f"{name} {1000 * statistics.median(each):.2f}" for name, each in times.items()]
            print(f"    {count:>2} in it:  {', '.join(medians)}")


async def _took(call: Call, body: bytes) -> float:
    started = time.perf_counter()
    await call(body)
    return time.perf_counter() - started
