"""What goes wrong, in one sentence: a person's mistake, or an OpenBao that is away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import hvac.exceptions
import requests
import urllib3.exceptions

_SHOWN = 300  # characters of what a server says; whoever answers at an address may say anything


class LabError(Exception):
    """Something a person can mend: the message is one sentence that says what, and what to do."""

    def _render_traceback_(self) -> list[str]:
        # IPython's hook: a reader's slip shows the sentence and no traceback.
        return [f"{type(self).__name__}: {self}"]


class OpenBaoUnavailable(LabError):
    """OpenBao did not do what was asked, for a reason that is no judgment on the request.

    Down, sealed, unreachable, overloaded, or refusing *our* token: an outage, never an attack.
    """


UNREACHABLE = (OSError, urllib3.exceptions.HTTPError)
"""What `requests` raises. Its own exceptions are OSErrors, and so is a missing CA file; the rest is urllib3's."""


@contextlib.contextmanager
def outage(doing: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn every way in which OpenBao can be away, or answer nonsense, into `OpenBaoUnavailable`.

    Args:
        doing: what was being done, for the sentence: "OpenBao is unreachable while <doing>".
        passing: hvac's exceptions that are an answer and not an outage, and are let through.

    Raises:
        OpenBaoUnavailable: for everything else that `hvac` and `requests` raise.
    """
    try:
        yield
    except passing:
        raise
    except UNREACHABLE as error:
        forget_request(error)
        raise OpenBaoUnavailable(
            f"OpenBao is unreachable while {doing} ({type(error).__name__}): check its address and certificate, "
            "and that it runs."
        ) from None
    except hvac.exceptions.Forbidden:
        raise OpenBaoUnavailable(
            f"OpenBao refused our token while {doing} (permission denied): check the role's policy."
        ) from None
    except hvac.exceptions.VaultError as error:
        raise OpenBaoUnavailable(
            f"OpenBao failed while {doing} ({said(error)}): check its status with `bao status`."
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise OpenBaoUnavailable(
            f"Nothing that can be read as OpenBao's answer came while {doing} ({type(error).__name__}): check the "
            "address, and any proxy in between."
        ) from None


def forget_request(error: BaseException) -> None:
    """Take the request, with its token and its body, off an error that lives on as the context of ours."""
    if isinstance(error, requests.RequestException):
        error.request = error.response = None


def said(error: hvac.exceptions.VaultError) -> str:
    """What OpenBao said with an error, in one short line that any terminal can show; the kind of error if nothing."""
    text = " ".join((", ".join(map(str, error.errors or [])) or str(error.args[0] or "")).split())
    return "".join(c if c.isprintable() else "?" for c in text[:_SHOWN]) or type(error).__name__


def part(answer: Any, name: str) -> Any:
    """Return the part `name` of OpenBao's answer; inside `outage`, an answer without it is one.

    Raises:
        hvac.exceptions.UnexpectedError: there is no such part: the status was 204, or somebody else answered.
    """
    if not isinstance(answer, dict) or not answer.get(name):
        raise hvac.exceptions.UnexpectedError(f"no {name} in the answer")
    return answer[name]
