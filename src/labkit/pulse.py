"""Measure what a way of sealing costs: the time of a flow, and how late the event loop gets round to others."""

from __future__ import annotations

import asyncio
import time

from mcp import Client
from mcp.server.request_state import RequestStateSecurity

from labkit.front_desk import booking, front_desk

_PAUSE = 0.001


async def beat(beats: list[tuple[float, float]]) -> None:
    """Sleep for a millisecond, over and over, and note how late each waking comes.

    Args:
        beats: gets, for each beat, the seconds since the start and the seconds that it was late.
    """
    start = time.perf_counter()
    while True:
        before = time.perf_counter()
        await asyncio.sleep(_PAUSE)
        now = time.perf_counter()
        beats.append((now - start, max(0.0, now - before - _PAUSE)))


async def time_flows(security: RequestStateSecurity, count: int = 15) -> list[float]:
    """Return how many seconds each of `count` two-round flows took, one after the other."""
    seconds = []
    async with Client(front_desk(security)) as client:
        await _flow(client)  # the first one opens connections
        for _ in range(count):
            start = time.perf_counter()
            await _flow(client)
            seconds.append(time.perf_counter() - start)
    return seconds


async def take_pulse(security: RequestStateSecurity, count: int = 32) -> list[tuple[float, float]]:
    """Run `count` flows at once, and return the beats of the event loop meanwhile; see `beat`."""
    beats: list[tuple[float, float]] = []
    async with Client(front_desk(security)) as client:
        pulse = asyncio.create_task(beat(beats))
        await asyncio.sleep(2 * _PAUSE)  # it beats before the load comes
        await asyncio.gather(*(_flow(client) for _ in range(count)))
        await asyncio.sleep(2 * _PAUSE)
        pulse.cancel()
    return beats


async def _flow(client: Client) -> None:
    tool = booking(client)
    await tool((await tool()).request_state)
