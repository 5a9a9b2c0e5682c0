"""The moves of an attacker who holds one `requestState`, one function each; and the honest move to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp import Client
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


async def ask(client: Client, prefix: str) -> Question:
    """Play round 1 and return what the client now holds.

    Raises:
        ValueError: the server asked nothing; the message is what it said instead.
    """
    result = await client.session.call_tool(TOOL, {"prefix": prefix}, allow_input_required=True)
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
        first: BaseException = error
        while isinstance(first, BaseExceptionGroup):  # a client that closes wraps what happened inside it
            first = first.exceptions[0]
        if isinstance(first, MCPError):
            return f"error {first.error.code}: {first.error.message}"
        return f"{type(first).__name__}: {first}"


def _tampered(state: str) -> str:
    middle = (len(state) + state.rindex(":" if ":" in state else ".")) // 2
    return state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
