"""A front desk behind BatchedTransit, for the tests of what goes wrong there."""

from __future__ import annotations

import asyncio
from typing import Any

import hvac
from mcp import Client
from mcp.server import MCPServer
from mcp.server.context import CallNext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from waiting import eventually

from labkit.batched_transit import BatchedTransit
from labkit.front_desk import NOTES, booking, front_desk

REFUSED = "error -32602: Invalid or expired requestState"
NOT_SEALED = "error -32603: Internal error"
DONE = f"done; the notes were: {NOTES}"
ASKED = "asks again"


class Desk:
    """A front desk that a batched codec protects, and how many calls got as far as a tool."""

    def __init__(self, client: hvac.Client, **options: Any) -> None:
        self.openbao = client
        self.codec = BatchedTransit(client, **options)
        self.server: MCPServer = front_desk(RequestStateSecurity(codec=self.codec))
        self.codec.attach(self.server)
        self.server.middleware.append(self._count)
        self.ran = 0

    async def _count(self, context: Any, call_next: CallNext) -> Any:
        self.ran += context.method == "tools/call"
        return await call_next(context)

    def put_between(self, middleware: Any) -> None:
        """Between the codec's middleware and the boundary."""
        boundary = next(n for n, each in enumerate(self.server.middleware) if isinstance(each, RequestStateBoundary))
        self.server.middleware.insert(boundary, middleware)

    async def waiting(self, count: int, sealing: bool) -> None:
        """Wait until a call is on its way, and so many states wait behind it."""
        queue: Any = self.codec._queues_here()[0 if sealing else 1]

        def they_wait() -> bool:
            return queue._worker is not None and len(queue._waiting) == count

        await asyncio.to_thread(eventually, they_wait, f"{count} states wait behind a call")


async def asked_by(desk: Desk) -> str:
    """The state that comes with a question."""
    async with Client(desk.server) as client:
        return str((await booking(client)()).request_state)


def forged(state: str) -> str:
    """Another one in the same spelling: only the seal can tell."""
    return state[:40] + ("A" if state[40] != "A" else "B") + state[41:]
