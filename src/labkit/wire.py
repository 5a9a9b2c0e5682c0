"""The wire between a server and its client: connect, record what crosses, and send what no client would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import hvac
import requests
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server

_URL = "http://127.0.0.1:8000/mcp"  # the SDK checks the Host header; nothing listens there


class Message(NamedTuple):
    """One message: who sent it to whom, and the JSON. Of a message to OpenBao only the path is kept."""

    sender: str
    receiver: str
    body: dict[str, Any]


class Wire:
    """What crossed the wire, in order: JSON-RPC between client and server, and the server's calls to OpenBao."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def calls(self, method: str = "tools/call") -> list[Message]:
        """Return the requests of one method, their answers, and what OpenBao was asked meanwhile."""
        ids = {body["id"] for _, _, body in self.messages if body.get("method") == method}
        return [m for m in self.messages if m.receiver == "OpenBao" or m.body.get("id") in ids]

    def requests(self) -> list[Message]:
        """Return every request that the client sent, of whatever method."""
        return [m for m in self.messages if m.receiver == "server" and "method" in m.body]

    def show(self, method: str = "tools/call") -> None:
        """Print the JSON-RPC requests of one method and their answers, round by round.

        Left out: `_meta`, which repeats versions, names and capabilities in every message. Shortened: `requestState`,
        which is a bearer capability and has no business in an output.
        """
        rounds = [m.body for m in self.calls(method) if m.receiver != "OpenBao"]
        for number, body in enumerate(rounds):
            what = "answer" if number % 2 else "request"
            print(f"--- round {number // 2 + 1}, {what}")
            print(json.dumps(fit_to_print(body), indent=2, ensure_ascii=False))


def fit_to_print(value: Any) -> Any:
    """Return a JSON value without `_meta`, and with every `requestState` cut short: it is a bearer capability."""
    if isinstance(value, list):
        return [fit_to_print(item) for item in value]
    if not isinstance(value, dict):
        return value
    state = value.get("requestState")
    if isinstance(state, str) and state.startswith(("v1.", "vault:v")):
        value = {**value, "requestState": f"{state[: state.rindex(':') + 1] if ':' in state else state[:3]}…"}
    return {key: fit_to_print(item) for key, item in value.items() if key != "_meta"}


@asynccontextmanager
async def over_http(
    server: MCPServer | Server[Any] | str,
    answer: ElicitationFnT | None = None,
    *,
    openbao: hvac.Client | None = None,
    bearer: str | None = None,
) -> AsyncIterator[tuple[Client, Wire]]:
    """Connect the official client to `server` by Streamable HTTP, and record what crosses.

    To a server in this process, the whole of both HTTP stacks takes part, with no socket in between, so no port can
    be taken.

    Args:
        server: an `MCPServer`, a lowlevel `Server`, or the URL of one that runs elsewhere.
        answer: what the user says to an elicitation; without it the client announces that it cannot ask.
        openbao: a client that the server uses; the paths that it asks for are recorded too.
        bearer: the user's OAuth token, for a server that verifies one.

    Yields:
        The connected client, and the `Wire`, which fills up as the client is used.
    """
    wire = Wire()

    async def sent(request: httpx2.Request) -> None:
        if request.content:
            wire.messages.append(Message("client", "server", json.loads(request.content)))

    async def received(response: httpx2.Response) -> None:
        body = await response.aread()
        if body and response.headers.get("content-type", "").startswith("application/json"):  # and no proxy's page
            wire.messages.append(Message("server", "client", json.loads(body)))

    def asked(response: requests.Response, *_: Any, **__: Any) -> None:
        wire.messages.append(Message("server", "OpenBao", {"path": response.request.path_url.removeprefix("/v1/")}))

    hooks: dict[str, list[Any]] = {"request": [sent], "response": [received]}
    calls = openbao.adapter.session.hooks["response"] if openbao is not None else []
    calls.append(asked)
    try:
        async with (
            _http(server, event_hooks=hooks, headers={"Authorization": f"Bearer {bearer}"} if bearer else {}) as http,
            Client(streamable_http_client(_url(server), http_client=http), elicitation_callback=answer) as client,
        ):
            yield client, wire
    finally:
        calls.remove(asked)


async def send_raw(server: MCPServer | Server[Any] | str, params: dict[str, Any], method: str = "tools/call") -> Any:
    """Send one hand-written JSON-RPC request, which no client library has checked, and return the JSON that comes back.

    Args:
        server: an `MCPServer`, a lowlevel `Server`, or the URL of one that runs elsewhere.
        params: the request's parameters; the `_meta` that the protocol asks for is added.
        method: the request's method.
    """
    version = "2026-07-28"
    prefix = "io.modelcontextprotocol"
    meta = {
        f"{prefix}/protocolVersion": version,
        f"{prefix}/clientInfo": {"name": "by-hand", "version": "1"},
        f"{prefix}/clientCapabilities": {"elicitation": {"form": {}}},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": method,
        "mcp-name": params.get("name", ""),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with _http(server) as http:
        return (await http.post(_url(server), json=body, headers=headers)).json()


@asynccontextmanager
async def _http(server: MCPServer | Server[Any] | str, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    if isinstance(server, str):
        # Loopback goes through no proxy; and a server that waits for OpenBao takes longer than httpx2's five seconds.
        async with httpx2.AsyncClient(trust_env=False, timeout=60, **options) as http:
            yield http
        return
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    transport = httpx2.ASGITransport(app)
    async with server.session_manager.run(), httpx2.AsyncClient(transport=transport, **options) as http:
        yield http


def _url(server: MCPServer | Server[Any] | str) -> str:
    return server if isinstance(server, str) else _URL
