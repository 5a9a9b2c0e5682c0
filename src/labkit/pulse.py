"""Measure what a way of sealing costs: the time of a flow, and how late the event loop gets round to others."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from mcp import Client
from mcp.server import MCPServer
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


class Load(NamedTuple):
    """How a server did under load.

    Attributes:
        rate: flows a second.
        stall: the longest time that the event loop got round to nobody else, in seconds.
    """

    rate: float
    stall: float


async def load(server: MCPServer, at_once: int, count: int) -> Load:
    """Carry out `count` two-round flows at a front desk, `at_once` at any time, and return how that went."""
    beats: list[tuple[float, float]] = []
    left = iter(range(count))

    async def user(client: Client) -> None:
        for _ in left:
            await _flow(client)

    async with Client(server) as client:
        await _flow(client)  # the first one opens connections
        pulse = asyncio.create_task(beat(beats))
        await asyncio.sleep(5 * _PAUSE)
        start = time.perf_counter()
        await asyncio.gather(*(user(client) for _ in range(at_once)))
        seconds = time.perf_counter() - start
        await asyncio.sleep(5 * _PAUSE)
        pulse.cancel()
    return Load(count / seconds, max(late for _, late in beats))


async def _flow(client: Client) -> None:
    tool = booking(client)
    answer = await tool((await tool()).request_state)
    if answer.is_error:
        raise RuntimeError(f"a flow failed: {answer.content}")
