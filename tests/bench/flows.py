"""What a flow of two rounds costs with each way of sealing, alone and among 64."""

from __future__ import annotations

import asyncio
import base64
import statistics
from collections.abc import Iterator

import psutil
from figure import Figure
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity
from tokens import plain_hvac

from labkit import BatchedTransit, Lab, load_envelope_ring, load_key_ring
from labkit.front_desk import front_desk
from labkit.provision import TRANSIT_KEY
from labkit.pulse import Load, load

ROUNDS = 9
AT_ONCE = 64
WAYS = ("ring", "envelope", "ten lines", "batched")


class TenLines:
    """What one writes first: the codec of notebook 03 on hvac as it comes. Broken, and here only for its speed."""

    def __init__(self, lab: Lab) -> None:
        """Seal with a client of the role `transit`."""
        self._transit = plain_hvac(lab, lab.client("transit")).secrets.transit

    def seal(self, payload: bytes) -> str:
        """One call."""
        text = base64.b64encode(payload).decode()
        return str(self._transit.encrypt_data(TRANSIT_KEY, text)["data"]["ciphertext"])

    def unseal(self, token: str) -> bytes:
        """One call."""
        return base64.b64decode(self._transit.decrypt_data(TRANSIT_KEY, token)["data"]["plaintext"])


def desk(lab: Lab, way: str) -> MCPServer:
    """A front desk that seals in one of four ways."""
    if way == "batched":
        batched = BatchedTransit(lab.client("transit"))
        server = front_desk(RequestStateSecurity(codec=batched))
        batched.attach(server)
        return server
    if way == "ten lines":
        return front_desk(RequestStateSecurity(codec=TenLines(lab)))
    keys = (
        load_key_ring(lab.client("ring-reader")) if way == "ring" else load_envelope_ring(lab.client("envelope-reader"))
    )
    return front_desk(RequestStateSecurity(keys=keys))


def in_turn(servers: dict[str, MCPServer], at_once: int, count: int) -> dict[str, Load]:
    """The medians of each server, measured in turn."""
    loads: dict[str, list[Load]] = {way: [] for way in servers}
    for _ in range(ROUNDS):
        for way, server in servers.items():
            loads[way].append(asyncio.run(load(server, at_once, count)))
    return {way: Load(*map(statistics.median, zip(*each, strict=True))) for way, each in loads.items()}


def growth(server: MCPServer) -> float:
    """MiB that 10,000 flows leave behind, after 2,000 that fill what is to be filled."""

    async def both() -> float:
        await load(server, AT_ONCE, 2_000)
        before = psutil.Process().memory_info().rss
        await load(server, AT_ONCE, 10_000)
        return float(psutil.Process().memory_info().rss - before)

    return asyncio.run(both()) / 2**20


def figures(lab: Lab) -> Iterator[Figure]:
    """Throughput, latency, stalls and memory."""
    servers = {way: desk(lab, way) for way in WAYS}
    many = in_turn(servers, AT_ONCE, 640)
    alone = in_turn({way: servers[way] for way in ("ten lines", "batched")}, 1, 100)

    def rate(name: str, one: str, other: str, bound: float, limit: str = "") -> Figure:
        detail = f"({many[one].rate:.0f} / {many[other].rate:.0f} flows a second, median of {ROUNDS})"
        return Figure(name, many[one].rate / many[other].rate, bound, True, detail, limit)

    most = many["ring"].rate / many["ten lines"].rate
    limit = (
        f"more than {most:.2f} no codec can reach here: that is the local ring's, and all the rest is the SDK's work"
    )
    yield rate("flows a second, 64 at once: batched / ten-line codec", "batched", "ten lines", 3.5, limit)
    yield rate("flows a second, 64 at once: batched / local ring", "batched", "ring", 0.6)
    yield rate("flows a second, 64 at once: envelope ring / local ring", "envelope", "ring", 0.95)
    first, second = (1000 / alone[way].rate for way in ("batched", "ten lines"))
    detail = f"({first:.2f} ms / {second:.2f} ms, median of {ROUNDS})"
    yield Figure("one flow alone, its time: batched / ten-line codec", first / second, 1.0, False, detail)
    first, second, third = (1000 * many[way].stall for way in ("batched", "ring", "ten lines"))
    detail = f"({first:.0f} ms / {second:.0f} ms, median of {ROUNDS}; ten-line codec: {third:.0f} ms)"
    yield Figure(
        "longest stall of the event loop, 64 at once: batched / local ring", first / second, 2.0, False, detail
    )
    yield Figure("10,000 flows, batched: memory growth in MiB", growth(servers["batched"]), 10, False, "")
