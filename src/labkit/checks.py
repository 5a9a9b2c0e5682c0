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
        self.wire: str | None = None
        self.reason: str | None = None
        self._reasons: list[str] = []  # of refusals that name their own
        self._boundary = 0  # refusals whose reason only the log has
        self._accepted = 0

    def saw(self, answer: Any) -> None:
        """Take a refusal that came as an answer and not as an exception.

        Args:
            answer: a tool's result, or a raw JSON-RPC answer. One that refuses nothing makes `expect_refusal` fail.
        """
        error = answer.get("error") if isinstance(answer, dict) else None
        if isinstance(answer, CallToolResult) and answer.is_error:
            told = text_of(answer)
            ours = [reason for reason, sentence in REFUSALS.items() if sentence == told]
            self._note(told, *(ours or [f"another error: {told}"]))
        elif isinstance(error, dict) and (error.get("code"), error.get("message")) == (INVALID_PARAMS, _FROZEN):
            self._note_boundary()
        else:
            self._accepted += 1

    def _note(self, wire: str, *reasons: str) -> None:
        self.wire = wire
        self._reasons += reasons

    def _note_boundary(self) -> None:
        self._note(f"{INVALID_PARAMS} {_FROZEN}")
        self._boundary += 1

    def _caught(self, error: BaseException) -> bool:
        """Note `error` if it is a refusal; return whether it is."""
        if isinstance(error, BaseExceptionGroup):
            return all([self._caught(part) for part in error.exceptions])
        match error:
            case MCPError() if (error.error.code, error.error.message) == (INVALID_PARAMS, _FROZEN):
                self._note_boundary()
            case InvalidRequestState():
                self._note(type(error).__name__, str(error))
            case AlreadyRedeemed():
                self._note(type(error).__name__, "never issued" if "never" in str(error) else "already redeemed")
            case WrongPlan():
                self._note(type(error).__name__, "wrong plan")
            case hvac.exceptions.Forbidden() if "* permission denied" in str(error):
                # A policy said so. To a token that is dead or made up, OpenBao says the same without the asterisk.
                self._note("403", "permission denied")
            case _:
                return False
        return True

    def _judge(self, wanted: str, logged: list[str]) -> None:
        if self._accepted:
            raise AssertionError(f"an answer refused nothing: a refusal for the reason {wanted!r} was expected")
        if self.wire is None:
            raise AssertionError(f"nothing was refused: a refusal for the reason {wanted!r} was expected")
        if len(logged) != self._boundary:
            raise AssertionError(
                f"the log has {logged}, and the caller saw {self._boundary} refusal(s) by the boundary"
            )
        reasons = sorted({*self._reasons, *logged})
        if reasons != [wanted]:
            raise AssertionError(f"refused for {reasons}: the reason {wanted!r} was expected")
        self.reason = wanted


class _Reasons(logging.Handler):
    """Hands each logged reason to the innermost block that listens, and keeps the SDK's lines off the screen."""

    def __init__(self) -> None:
        super().__init__()
        self.listening: list[list[str]] = []
        self._spread = True

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "mcp.server.request_state" and isinstance(record.args, tuple) and len(record.args) == 2:
            for listener in self.listening[-1:]:
                listener.append(str(record.args[1]))

    def enter(self, reasons: list[str]) -> None:
        if not self.listening:
            self._spread = _SDK.propagate
            _SDK.addHandler(self)
            _SDK.propagate = False
        self.listening.append(reasons)

    def leave(self, reasons: list[str]) -> None:
        # By identity: two blocks that overlap may end in either order, and equal lists are not the same list.
        self.listening[:] = [listener for listener in self.listening if listener is not reasons]
        if not self.listening:
            _SDK.removeHandler(self)
            _SDK.propagate = self._spread


_handler = _Reasons()


@contextmanager
def logged_reasons() -> Iterator[list[str]]:
    """Collect the reasons that the SDK's boundary writes to its log, and keep the SDK's log lines off the screen.

    Yields:
        The reasons, which fill up as rounds are refused.
    """
    reasons: list[str] = []
    _handler.enter(reasons)
    try:
        yield reasons
    finally:
        _handler.leave(reasons)


@contextmanager
def log_lines(name: str) -> Iterator[list[str]]:
    """Collect what is logged under `name`, and keep it off the screen.

    Args:
        name: of a logger, such as "labkit"; those below it count too.

    Yields:
        The messages, which fill up as they are logged.
    """
    lines: list[str] = []
    logger, handler = logging.getLogger(name), logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    spread = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = spread


@contextmanager
def expect_refusal(reason: str) -> Iterator[Refusal]:
    """Assert that what happens inside is refused, and for `reason`; print how. One block at a time, in one thread.

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
    refusal._judge(reason, logged)
    print(f"refused ({reason}); the caller sees: {refusal.wire}")
