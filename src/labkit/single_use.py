"""Single use through response wrapping: park a plan, redeem it at most once, burn it."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import hvac
import requests
from hvac.adapters import RawAdapter
from urllib3.exceptions import NewConnectionError

from labkit.errors import UNREACHABLE, LabError, OpenBaoUnavailable, forget_request, outage, part

logger = logging.getLogger(__name__)

_CLAIM = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)
_UNWRAP, _REVOKE = "sys/wrapping/unwrap", "auth/token/revoke-self"
_PLAN_LIMIT = 1_000_000  # bytes as OpenBao stores it; raft, the strictest storage, takes just under 1 MiB


class AlreadyRedeemed(Exception):
    """The claim is used, burned, expired or was never issued: OpenBao tells its holder no more than that."""


class WrongPlan(Exception):
    """The claim was good, and what lay behind it is not for this request. The claim is consumed all the same."""


class PlanTooLarge(LabError):
    """The plan is larger than OpenBao can store behind a claim."""


class SingleUse:
    """Plans behind claims that OpenBao redeems at most once.

    A claim is a response-wrapping token, and its own credential: whoever holds it can redeem or burn it. It is not
    bound to whoever asked for it, so put into the plan what it is for, and check that after redeeming.

    Source: OpenBao documentation, "Response wrapping"; MCP specification 2026-07-28, "Multi round-trip requests".
    """

    def __init__(self, client: hvac.Client, ttl: int = 120) -> None:
        """Issue claims that live `ttl` seconds, 1 to 300; `client` may wrap (role `confirmations`).

        Raises:
            ValueError: `ttl` is no whole number in that range.
        """
        if type(ttl) is not int or not 1 <= ttl <= 300:
            raise ValueError(f"a claim lives 1 to 300 whole seconds, not {ttl!r}")
        self._client = client
        self.ttl = ttl

    def issue(self, plan: dict[str, Any]) -> str:
        """Park `plan`, any JSON object, in OpenBao, and return the claim that redeems it.

        Raises:
            PlanTooLarge: more than about 1 MB in OpenBao's storage.
            OpenBaoUnavailable: OpenBao is away, or refuses our token or the ttl.
        """
        # One string and not a structure: OpenBao refuses JSON of more than 1,000 strings as too complex.
        text = json.dumps(plan)
        if (size := _stored_size(text)) > _PLAN_LIMIT:
            raise PlanTooLarge(f"The plan is {size:,} bytes in OpenBao, more than {_PLAN_LIMIT:,}: make it smaller.")
        with outage("parking a plan"):
            answer = self._client.adapter.post("/v1/sys/wrapping/wrap", json={"plan": text}, wrap_ttl=f"{self.ttl}s")
            return str(part(answer, "wrap_info")["token"])

    def redeem(self, claim: str) -> dict[str, Any]:
        """Consume `claim` and return its plan. At most one caller ever gets it.

        Raises:
            AlreadyRedeemed: used, burned, expired, or never issued.
            WrongPlan: something was wrapped behind it that is no plan of ours.
            OpenBaoUnavailable: OpenBao could not say; the message tells whether the claim may still be valid.
        """
        answer = self._present(claim, _UNWRAP)
        if answer.status_code in (204, 500):
            # What losers of a race may get. Only 200 with the payload is a redemption, and
            # "no error" is none. Asked again, OpenBao gives it, or says that it is gone.
            answer = self._ask_once_more(claim, answer.status_code, _UNWRAP)
        if answer.status_code == 400 and _is_openbaos(answer):
            raise AlreadyRedeemed("this confirmation is used up or has expired")
        if answer.status_code != 200:
            raise _unclear(answer)
        return _plan(answer)

    def _ask_once_more(self, claim: str, first: int, path: str) -> requests.Response:
        """Ask again after an answer that may have consumed the claim; from then on, an outage is no reassurance."""
        try:
            answer = self._present(claim, path)
        except OpenBaoUnavailable:
            raise _cannot_know(f"status {first}") from None
        done, gone = (200, 400) if path == _UNWRAP else (204, 403)
        if answer.status_code not in (done, gone):
            raise _cannot_know(f"status {first}, then {answer.status_code}")
        if first == 500 and answer.status_code == gone and _is_openbaos(answer):
            # A lost race, most likely. But OpenBao also answers 500, and consumes the claim, when it cannot write
            # its audit log; whoever operates it should know.
            logger.warning("a claim is gone after OpenBao failed with 500 while consuming it")
        return answer

    def burn(self, claim: str) -> None:
        """Make `claim` useless at once, without revealing its plan to anybody, us included.

        Raises:
            AlreadyRedeemed: there is nothing left to burn.
            OpenBaoUnavailable: OpenBao could not do it; the message tells whether the claim may still be valid.
        """
        answer = self._present(claim, _REVOKE)
        if answer.status_code == 500:
            # The loser of a race with somebody who redeems or burns it, most likely: ask once more.
            answer = self._ask_once_more(claim, 500, _REVOKE)
        # The claim is the token, and a wrapping token may always revoke itself: refused means that it is none any more.
        if answer.status_code == 403 and _is_openbaos(answer):
            raise AlreadyRedeemed("this confirmation is used up or has expired")
        if answer.status_code != 204:
            raise _unclear(answer)

    def _present(self, claim: str, path: str) -> requests.Response:
        """Send a request with the claim as its token: then no dead token of our own can get in the way."""
        if not _CLAIM.fullmatch(claim):
            raise AlreadyRedeemed("this confirmation was never issued")
        adapter = RawAdapter.from_adapter(self._client.adapter)
        adapter.token = claim
        adapter.allow_redirects = False  # the claim would go along, to whatever host the redirect names
        try:
            answer: requests.Response = adapter.post(f"/v1/{path}", raise_exception=False)
        except UNREACHABLE as error:
            forget_request(error)
            name = type(error).__name__
            raise (_not_asked(name) if _never_sent(error) else _cannot_know(name)) from None
        return answer


def _never_sent(error: Exception) -> bool:
    """Whether the request cannot have reached OpenBao: there was no connection, or none was tried."""
    if not isinstance(error, requests.RequestException):
        return True  # a CA file that is missing, an address that cannot be read
    cause = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(cause, NewConnectionError)


def _stored_size(text: str) -> int:
    """Bytes that a wrapped string takes in storage: JSON inside JSON, by an encoder that escapes `<`, `>` and `&`."""
    return len(json.dumps(json.dumps(text))) + 6 * sum(text.count(mark) for mark in "<>&")


def _is_openbaos(answer: requests.Response) -> bool:
    """Whether OpenBao itself said this, and not a proxy in front of it: its errors are JSON, in one known form."""
    try:
        return isinstance(answer.json()["errors"], list)
    except (ValueError, KeyError, TypeError):
        return False


def _plan(answer: requests.Response) -> dict[str, Any]:
    """The plan in a redeemed answer. Somebody may have wrapped something else and put its token into our hands."""
    try:
        data = answer.json()["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _cannot_know("an answer that is not OpenBao's") from None
    try:
        plan = json.loads(data["plan"])
    except (ValueError, KeyError, TypeError, RecursionError):
        plan = None
    if not isinstance(plan, dict):
        raise WrongPlan("no plan of ours was behind this confirmation")
    return plan


def _unclear(answer: requests.Response) -> OpenBaoUnavailable:
    # Sealed or overloaded, OpenBao refuses before anything happens; a proxy that says the same may have asked it.
    refused = answer.status_code in (429, 503) and _is_openbaos(answer)
    return (_not_asked if refused else _cannot_know)(f"status {answer.status_code}")


def _not_asked(why: str) -> OpenBaoUnavailable:
    return OpenBaoUnavailable(
        f"OpenBao could not be asked ({why}); the confirmation may still be valid: try again when OpenBao is back."
    )


def _cannot_know(why: str) -> OpenBaoUnavailable:
    return OpenBaoUnavailable(
        f"OpenBao was asked but did not say ({why}); whether the confirmation is used up cannot be known: "
        "look at what is there, then start over."
    )
