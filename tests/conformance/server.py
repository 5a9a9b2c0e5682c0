"""The server that the official suite asks for: its tools and its prompt, on the real SDK, sealed in one of our ways.

What each has to do is written in the suite's own description of its scenarios.
"""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

Answer = str | InputRequiredResult
PREFIX = "test_input_required_result_"
STATE = "ours"


def build(security: RequestStateSecurity) -> MCPServer:
    """Return a server with all that the suite's scenarios `input-required-result-…` use.

    Args:
        security: how `requestState` is sealed.
    """
    server = MCPServer("conformance", request_state_security=security, log_level="ERROR")

    # Without a state, because the suite also brings an answer to a question that it was never asked.
    @server.tool(name=PREFIX + "elicitation", structured_output=False)
    def elicitation(ctx: Context) -> Answer:
        answers = ctx.input_responses or {}
        return f"Hello, {answers['user_name']}!" if "user_name" in answers else ask({"user_name": form("name")}, None)

    @server.tool(name=PREFIX + "sampling", structured_output=False)
    def sampling(ctx: Context) -> Answer:
        return once(ctx, {"capital_question": sample("What is the capital of France?")})

    @server.tool(name=PREFIX + "list_roots", structured_output=False)
    def list_roots(ctx: Context) -> Answer:
        return once(ctx, {"client_roots": ListRootsRequest()})

    @server.tool(name=PREFIX + "request_state", structured_output=False)
    def request_state(ctx: Context) -> Answer:
        return once(ctx, {"confirm": form("ok", "boolean")})

    @server.tool(name=PREFIX + "multiple_inputs", structured_output=False)
    def multiple_inputs(ctx: Context) -> Answer:
        return once(
            ctx, {"user_name": form("name"), "greeting": sample("Say hello"), "client_roots": ListRootsRequest()}
        )

    @server.tool(name=PREFIX + "multi_round", structured_output=False)
    def multi_round(ctx: Context) -> Answer:
        if ctx.request_state is None:
            return ask({"step1": form("name")}, "step 1")
        return ask({"step2": form("color")}, "step 2") if ctx.request_state == "step 1" else "done"

    @server.tool(name=PREFIX + "tampered_state", structured_output=False)
    def tampered_state(ctx: Context) -> Answer:
        return once(ctx, {"confirm": form("ok", "boolean")})

    @server.tool(name=PREFIX + "capabilities", structured_output=False)
    def capabilities(ctx: Context) -> Answer:
        can = ctx.client_capabilities
        questions: dict[str, Any] = {}
        if can is not None and can.sampling is not None:
            questions["greeting"] = sample("Say hello")
        if can is not None and can.elicitation is not None:
            questions["user_name"] = form("name")
        return once(ctx, questions)

    @server.prompt(name=PREFIX + "prompt")
    def prompt(ctx: Context) -> Answer:
        return once(ctx, {"user_context": form("context")})

    return server


def once(ctx: Context, questions: dict[str, Any]) -> Answer:
    """Ask in round 1, and be done in round 2. Whether the state is genuine is for the boundary to say, not for this."""
    return ask(questions, STATE) if ctx.request_state is None else f"state-ok: {ctx.request_state}"


def ask(questions: dict[str, Any], state: str | None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=questions, request_state=state)


def form(field: str, kind: str = "string") -> ElicitRequest:
    """A form with one field."""
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=f"Your {field}?", requested_schema=schema))


def sample(text: str) -> CreateMessageRequest:
    """A question to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=50))
