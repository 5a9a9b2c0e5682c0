"""The moves of an attacker, one function each, with no more than an attacker has; and the honest move to compare with.

What an attacker has is in the parameters: a session of his own (`client`), questions that he was asked or that leaked,
and for a few moves a claim or a key that was stolen.
"""

from __future__ import annotations

import asyncio
import json
import string
from dataclasses import dataclass
from typing import Any

from mcp import Client
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateCodec
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, TextContent

from labkit.janitor import QUESTION, TOOL


@dataclass(frozen=True)
class Question:
    """What a client holds between the rounds: the arguments it sent and the state it was given."""

    prefix: str
    state: str

    def __repr__(self) -> str:
        return f"Question(prefix={self.prefix!r}, state={self.state[:3]}…)"


async def ask(client: Client, prefix: str, tool: str = TOOL) -> Question:
    """Play round 1, by default with the tool that deletes, and return what the client now holds.

    Raises:
        ValueError: the server asked nothing; the message is what it said instead.
    """
    result = await client.session.call_tool(tool, {"prefix": prefix}, allow_input_required=True)
    if not isinstance(result, InputRequiredResult) or result.request_state is None:
        raise ValueError(f"no question came back for {prefix!r}: {text_of(result)}")
    return Question(prefix, result.request_state)


_YES = ElicitResult(action="accept", content={"confirm": True})
_NO = ElicitResult(action="decline")


async def confirm(client: Client, question: Question) -> CallToolResult | InputRequiredResult:
    """Play round 2 honestly: the same arguments, the same state, and a yes.

    Raises:
        MCPError: the boundary refused the state.
    """
    return await _answer(client, question, _YES)


async def decline(client: Client, question: Question) -> CallToolResult | InputRequiredResult:
    """Play round 2 honestly with a no; raises as `confirm` does."""
    return await _answer(client, question, _NO)


async def _answer(client: Client, question: Question, answer: ElicitResult) -> CallToolResult | InputRequiredResult:
    result: Any = await client.session.call_tool(
        TOOL,
        {"prefix": question.prefix},
        input_responses={QUESTION: answer},
        request_state=question.state,
        allow_input_required=True,
    )
    return result  # type: ignore[no-any-return]


async def tamper_one_byte(client: Client, question: Question) -> CallToolResult | InputRequiredResult:
    """Change one character in the middle of the state, then confirm."""
    return await confirm(client, Question(question.prefix, _tampered(question.state)))


async def swap_arguments(client: Client, question: Question, prefix: str) -> CallToolResult | InputRequiredResult:
    """Present a state that was given for one prefix with another prefix."""
    return await confirm(client, Question(prefix, question.state))


async def replay(client: Client, question: Question) -> CallToolResult | InputRequiredResult:
    """Present a state that has been used, unchanged."""
    return await confirm(client, question)


async def ask_again(client: Client, question: Question) -> Question:
    """Present a state without any answer, and return what the client holds then: a second state for one question.

    Raises:
        MCPError: the boundary refused the state.
        ValueError: the server did not ask again; the message is what it said instead.
    """
    result = await client.session.call_tool(
        TOOL, {"prefix": question.prefix}, request_state=question.state, allow_input_required=True
    )
    if not isinstance(result, InputRequiredResult) or result.request_state is None:
        raise ValueError(f"no second question came back for {question.prefix!r}: {text_of(result)}")
    return Question(question.prefix, result.request_state)


async def cross_user(client: Client, leaked: Question) -> CallToolResult | InputRequiredResult:
    """Present another user's state in a session of one's own, with a yes that the other user has not given."""
    return await confirm(client, leaked)


async def cross_service(client: Client, elsewhere: Client, prefix: str) -> CallToolResult | InputRequiredResult:
    """Get a state from another service of the same operator, and present it here."""
    return await confirm(client, await ask(elsewhere, prefix))


async def cross_tool(client: Client, tool: str, prefix: str) -> CallToolResult | InputRequiredResult:
    """Get a state from a harmless tool of the same server, and present it to the one that deletes."""
    return await confirm(client, await ask(client, prefix, tool))


async def cross_carrier(client: Client, asking: Any, prefix: str) -> CallToolResult | InputRequiredResult:
    """Get a state from a prompt or a resource, and present it to the tool.

    Args:
        client: the attacker's session.
        asking: the first round there: an awaitable that gives its result.
        prefix: what it was asked about.
    """
    return await confirm(client, Question(prefix, (await asking).request_state))


async def downgrade(server: MCPServer, state: str, prefix: str) -> CallToolResult | InputRequiredResult:
    """Present a hand-made state over the protocol of 2025, which knows no `requestState`, so that perhaps no one looks.

    Args:
        server: connected to in the attacker's own session, with the handshake of that version.
        state: what the attacker has written.
        prefix: what it is about.
    """
    async with Client(server, mode="legacy") as client:
        return await confirm(client, Question(prefix, state))


async def alter(client: Client, question: Question, key: str) -> CallToolResult | InputRequiredResult:
    """Change the state so that it names `key`, where it can be read; where not, change one character and hope."""
    return await confirm(client, Question(question.prefix, _rewritten(question.state, key)))


async def come_late(client: Client, question: Question, seconds: float) -> CallToolResult | InputRequiredResult:
    """Keep a state for some time before presenting it."""
    await asyncio.sleep(seconds)
    return await confirm(client, question)


async def splice(client: Client, one: Question, other: Question) -> CallToolResult | InputRequiredResult:
    """Put the second half of one state behind the first half of another: its notes, where these can be read."""
    half = len(one.state) // 2
    mixed = one.state[:half] + other.state[half:]
    mine, theirs = readable(one.state), readable(other.state)
    if mine is not None and theirs is not None:
        mixed = json.dumps({**mine, **theirs})
    return await confirm(client, Question(one.prefix, mixed))


async def race(client: Client, question: Question, times: int = 4) -> list[str]:
    """Present one state several times at once; returns how each try ended, as `verdict` tells it."""
    return await asyncio.gather(*(verdict(confirm(client, question)) for _ in range(times)))


async def present_twins(client: Client, question: Question) -> list[str]:
    """Present a used state in every other spelling that a lenient reader takes for the same; returns how each ended."""
    return [await verdict(confirm(client, Question(question.prefix, twin))) for twin in spellings(question.state)]


async def plant_claim(client: Client, claim: str, prefix: str) -> CallToolResult | InputRequiredResult:
    """Write a state by hand around a claim that was stolen on its way to or from OpenBao."""
    return await confirm(client, Question(prefix, json.dumps({"step": "confirm", "claim": claim})))


async def reseal(
    client: Client, mine: Question, leaked: Question, stolen: RequestStateCodec
) -> CallToolResult | InputRequiredResult:
    """With a stolen key, put the notes of another user's state into the envelope of one's own."""
    envelope = json.loads(stolen.unseal(mine.state))
    envelope["s"] = json.loads(stolen.unseal(leaked.state))["s"]
    return await confirm(client, Question(mine.prefix, stolen.seal(json.dumps(envelope).encode())))


def readable(state: str) -> dict[str, Any] | None:
    """Return what is in a state that nobody sealed; None for any other."""
    try:
        fields = json.loads(state)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def spellings(state: str) -> list[str]:
    """Return other strings that a lenient reader takes for `state`."""
    if readable(state) is not None:
        return [state + " ", state.replace(":", ": ", 1)]
    middle = len(state) // 2
    body = state.rstrip("=")
    two = "+/" if set("+/") & set(body) else "-_"
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + two
    # Decoding drops bits of the last character, unless there are none to spare: then this is an altered state.
    last = letters[letters.index(body[-1]) ^ 1] if body[-1] in letters else "A"
    twins = [state[:middle] + "\n" + state[middle:], state + "\r\n", body[:-1] + last + state[len(body) :]]
    return [*twins, state + "=", state.replace(":v", ":v0", 1)] if ":v" in state else [*twins, state + "="]


def _rewritten(state: str, key: str) -> str:
    fields = readable(state)
    if fields is None:
        return _tampered(state)
    if "files" in fields:
        return json.dumps({**fields, "files": [key]})
    claim = str(fields["claim"])  # it names nothing, so another one has to be guessed
    return json.dumps({**fields, "claim": ("B" if claim[0] == "A" else "A") + claim[1:]})


def text_of(result: CallToolResult | InputRequiredResult) -> str:
    """Return what a result says to a person, in one string."""
    if isinstance(result, InputRequiredResult):
        return "asks again"
    return " ".join(part.text for part in result.content if isinstance(part, TextContent))


async def verdict(move: Any) -> str:
    """Await a move and return how it ended, whatever happened.

    Args:
        move: an awaitable that gives a result, such as the call of a function above.

    Returns:
        The tool's text, or "error <code>: <message>" from the server, or else the exception in one line.
    """
    try:
        return text_of(await move)
    except Exception as error:
        first = innermost(error)
        if isinstance(first, MCPError):
            return f"error {first.error.code}: {first.error.message}"
        return f"{type(first).__name__}: {first}"


def innermost(error: BaseException) -> BaseException:
    """Return what was raised inside a client, which wraps it when it closes."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _tampered(state: str) -> str:
    middle = (len(state) + state.rindex(":" if ":" in state else ".")) // 2
    return state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
