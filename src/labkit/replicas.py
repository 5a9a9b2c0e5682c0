"""Replicas of the server under study, and the wire between one of them and its client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.server.request_state import RequestStateSecurity

from labkit.bucket import Bucket
from labkit.janitor import build_janitor
from labkit.key_ring import load_key_ring
from labkit.lab import Lab
from labkit.single_use import SingleUse
from labkit.transit import TransitCodec

_URL = "http://127.0.0.1:8000/mcp"  # the SDK checks the Host header; nothing listens there


def ring_replica(lab: Lab, bucket: Bucket, *, ttl: int = 120) -> MCPServer:
    """Return a replica that seals with the key ring in KV; replicas share nothing but the ring and the bucket.

    Args:
        lab: where the ring lies and plans are parked.
        bucket: what is purged.
        ttl: seconds that a round, and a claim, may take: 1 to 300.
    """
    ring = load_key_ring(lab.client("ring-reader"))
    return _replica(lab, RequestStateSecurity(keys=ring, ttl=ttl), bucket)


def transit_replica(lab: Lab, bucket: Bucket, *, ttl: int = 120) -> MCPServer:
    """Return a replica that seals with Transit and holds no key. Arguments as for `ring_replica`."""
    return _replica(lab, RequestStateSecurity(codec=TransitCodec(lab.client("transit")), ttl=ttl), bucket)


def _replica(lab: Lab, security: RequestStateSecurity, bucket: Bucket) -> MCPServer:
    return build_janitor(security, SingleUse(lab.client("confirmations"), ttl=int(security.ttl)), bucket)


class Wire:
    """What crossed the wire: every JSON-RPC message in order, each with who sent it."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def show(self, method: str = "tools/call") -> None:
        """Print the requests of one method and their answers, as JSON.

        Left out: `_meta`, which repeats versions and names in every message. Shortened: `requestState`, which is
        a bearer capability and has no business in an output.
        """
        ids = {message["id"] for _, message in self.messages if message.get("method") == method}
        for sender, message in self.messages:
            if message.get("id") in ids:
                print(f"{sender}:", json.dumps(_fit_to_print(message), indent=2, ensure_ascii=False))


def _fit_to_print(value: Any) -> Any:
    if isinstance(value, list):
        return [_fit_to_print(item) for item in value]
    if not isinstance(value, dict):
        return value
    state = value.get("requestState")
    if isinstance(state, str) and state.startswith(("v1.", "vault:v")):
        value = {**value, "requestState": f"{state[: state.rindex(':') + 1] if ':' in state else state[:3]}…"}
    return {key: _fit_to_print(item) for key, item in value.items() if key != "_meta"}


@asynccontextmanager
async def over_http(
    server: MCPServer | Server[Any], answer: ElicitationFnT | None = None
) -> AsyncIterator[tuple[Client, Wire]]:
    """Connect the official client to `server` by Streamable HTTP, and record what crosses.

    The whole of both HTTP stacks takes part, with no socket in between, so no port can be taken.

    Args:
        server: an `MCPServer` or a lowlevel `Server`.
        answer: what the user says to an elicitation; without it the client announces that it cannot ask.

    Yields:
        The connected client, and the `Wire`, which fills up as the client is used.
    """
    wire = Wire()

    async def sent(request: httpx2.Request) -> None:
        if request.content:
            wire.messages.append(("client", json.loads(request.content)))

    async def received(response: httpx2.Response) -> None:
        if body := await response.aread():
            wire.messages.append(("server", json.loads(body)))

    app = server.streamable_http_app(stateless_http=True, json_response=True)
    hooks: dict[str, list[Any]] = {"request": [sent], "response": [received]}
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), event_hooks=hooks) as http,
        Client(streamable_http_client(_URL, http_client=http), elicitation_callback=answer) as client,
    ):
        yield client, wire
