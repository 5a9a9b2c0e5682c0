"""A server with more doors than the janitor has: every kind of call that can carry a `requestState`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from labkit.attacks import verdict
from labkit.checks import log_lines, logged_reasons

NOTES = "room 7"
"""What the front desk writes into `request_state`."""
Answer = str | InputRequiredResult
Call = Callable[..., Awaitable[Any]]


def front_desk(
    keys: Sequence[bytes] | RequestStateSecurity, name: str = "front-desk", ttl: float = 120, **options: Any
) -> MCPServer:
    """Return a server with two tools that ask first, one that never asks, a prompt, and a resource template.

    Args:
        keys: the key ring; or what seals, with a lifetime of its own.
        name: the server's name, which is the audience of its states.
        ttl: seconds that a state lives.
        options: more for `MCPServer`, such as `auth` and `token_verifier`.
    """
    security = keys if isinstance(keys, RequestStateSecurity) else RequestStateSecurity(keys=keys, ttl=ttl)
    server = MCPServer(name, request_state_security=security, log_level="WARNING", **options)

    @server.tool(structured_output=False)
    def book(room: str, ctx: Context) -> Answer:
        return ask_then_report(ctx)

    @server.tool(structured_output=False)
    def cancel(room: str, ctx: Context) -> Answer:
        return ask_then_report(ctx)

    @server.tool()
    def ping(room: str) -> str:
        return "pong"

    @server.prompt(name="book")
    def book_prompt(room: str, ctx: Context) -> Answer:
        return ask_then_report(ctx)

    @server.resource("desk://{room}")
    def page(room: str, ctx: Context) -> Answer:
        return ask_then_report(ctx)

    return server


def ask_then_report(ctx: Context) -> Answer:
    """Ask in round 1, and report the notes in round 2."""
    if ctx.request_state is not None:
        return f"done; the notes were: {ctx.request_state}"
    form = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
    return InputRequiredResult(input_requests={"sure": ElicitRequest(params=form)}, request_state=NOTES)


def carriers(client: Client) -> tuple[Call, Call, Call]:
    """Return three calls at the front desk: a tool's, a prompt's and a resource's.

    Each plays round 1 when it is given no state, and round 2 when it is given one.
    """
    session = client.session

    def tool(state: Any = None, name: str = "book", room: str = "7") -> Awaitable[Any]:
        return session.call_tool(name, {"room": room}, request_state=state, allow_input_required=True)

    def prompt(state: Any = None) -> Awaitable[Any]:
        return session.get_prompt("book", {"room": "7"}, request_state=state, allow_input_required=True)

    def resource(state: Any = None) -> Awaitable[Any]:
        return session.read_resource("desk://7", request_state=state, allow_input_required=True)

    return tool, prompt, resource


def booking(client: Client) -> Call:
    """Return the tool's call alone, the first one of `carriers`."""
    return carriers(client)[0]


async def hand_over(first: MCPServer, second: MCPServer) -> str:
    """Let one front desk ask and another one take the answer.

    Returns:
        "completed"; or "refused: " and the reason that the boundary logged; or "not asked", when the first one could
        not even seal its question.
    """
    with logged_reasons() as reasons, log_lines("labkit"):
        async with Client(first) as to_first, Client(second) as to_second:
            try:
                question = await booking(to_first)()
            except MCPError:
                return "not asked"
            said = await verdict(booking(to_second)(question.request_state))
    return "completed" if NOTES in said else f"refused: {', '.join(reasons) or said}"
