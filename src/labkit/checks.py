"""A check that can fail: was the attack refused, and for this reason?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hvac.exceptions
from mcp.server.request_state import InvalidRequestState
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult

from labkit.attacks import text_of
from labkit.janitor import REFUSALS
from labkit.single_use import AlreadyRedeemed, WrongPlan

_SDK = logging.getLogger("mcp")
_FROZEN = "Invalid or expired requestState"


class Refusal:
    """What was refused inside `expect_refusal`.

    Attributes:
        wire: what the caller was told.
        reason: why, once the block has ended; None as long as nothing was refused.
    """

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.wire: str | None = None
        self.reason: str | None = None

    def saw(self, answer: Any) -> None:
        """Take a refusal that came as an answer and not as an exception.

        Args:
            answer: a tool's result, or a raw JSON-RPC answer. One that refuses nothing is passed over, so that
                `expect_refusal` then fails.
        """
        if isinstance(answer, CallToolResult) and answer.is_error:
            said = text_of(answer)
            self._note(said, [reason for reason, sentence in REFUSALS.items() if sentence == said])
        elif isinstance(answer, dict):
            error = answer.get("error") or {}
            if (error.get("code"), error.get("message")) == (INVALID_PARAMS, _FROZEN):
                self._note(f"{INVALID_PARAMS} {_FROZEN}", [])

    def _note(self, wire: str, reasons: list[str]) -> None:
        self.wire = wire
        self.reasons += reasons

    def _caught(self, error: BaseException) -> bool:
        """Note `error` if it is a refusal; return whether it is."""
        if isinstance(error, BaseExceptionGroup):
            return all([self._caught(part) for part in error.exceptions])
        match error:
            case MCPError() if (error.error.code, error.error.message) == (INVALID_PARAMS, _FROZEN):
                self._note(f"{INVALID_PARAMS} {_FROZEN}", [])
            case InvalidRequestState():
                self._note(f"{type(error).__name__}", [str(error)])
            case AlreadyRedeemed():
                self._note(type(error).__name__, ["already redeemed"])
            case WrongPlan():
                self._note(type(error).__name__, ["wrong plan"])
            case hvac.exceptions.Forbidden():
                self._note("403", ["permission denied"])
            case _:
                return False
        return True


class _Reasons(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "mcp.server.request_state" and isinstance(record.args, tuple) and len(record.args) == 2:
            self.reasons.append(str(record.args[1]))


@contextmanager
def logged_reasons() -> Iterator[list[str]]:
    """Collect the reasons that the SDK's boundary writes to its log, and keep the SDK's log lines off the screen.

    Yields:
        The reasons, which fill up as rounds are refused.
    """
    handler = _Reasons()
    spread = _SDK.propagate
    _SDK.addHandler(handler)
    _SDK.propagate = False
    try:
        yield handler.reasons
    finally:
        _SDK.removeHandler(handler)
        _SDK.propagate = spread


@contextmanager
def expect_refusal(reason: str) -> Iterator[Refusal]:
    """Assert that what happens inside is refused, and for `reason`; print how.

    Args:
        reason: as the SDK logs it (`seal`, `malformed`, `unknown key`, `request binding`, `audience`, `expired`,
            `principal`, …), or `already redeemed`, `wrong plan`, `foreign state`, or OpenBao's `permission denied`.

    Yields:
        A `Refusal`; give its `.saw()` an answer that refuses without an exception.

    Raises:
        AssertionError: nothing was refused, or the reason was another.
        Exception: whatever was raised inside and is no refusal.
    """
    refusal = Refusal()
    with logged_reasons() as logged:
        try:
            yield refusal
        except Exception as error:
            if not refusal._caught(error):
                raise
    reasons = sorted({*refusal.reasons, *logged})
    if refusal.wire is None:
        raise AssertionError(f"nothing was refused: a refusal for the reason {reason!r} was expected")
    if reasons != [reason]:
        raise AssertionError(f"refused for {reasons}: the reason {reason!r} was expected")
    refusal.reason = reason
    print(f"refused ({reason}); the caller sees: {refusal.wire}")
