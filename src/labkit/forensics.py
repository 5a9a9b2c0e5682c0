"""What became of each claim, from OpenBao's audit log alone, in which every claim is a hash.

What the log cannot tell: who redeemed (a claim is its own credential, so its finder looks like its owner, but for the
address); what was in a plan, and whether the server then went by it ("wrong plan" is a redemption); and anything that
was refused before OpenBao was asked, by the seal above all.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from labkit.lab import Lab
from labkit.single_use import AlreadyRedeemed, SingleUse

WORDS = ("redeemed", "revoked", "replayed", "after revocation", "expired", "guessed", "unexplained")
"""What can become of a claim that is presented; the last five are refusals."""
_UNWRAP, _REVOKE = "sys/wrapping/unwrap", "auth/token/revoke-self"
_NAMED = ("auth/token/revoke", "auth/token/revoke-accessor")  # an operator's ways to end one claim
_ALL = "sys/leases/revoke-prefix/sys/wrapping/wrap"
_REFUSED = {_UNWRAP: "wrapping token is not valid or does not exist", _REVOKE: "permission denied"}


class Event(NamedTuple):
    """One record of the log that is about claims, without judgment.

    Attributes:
        at: seconds since the epoch, by OpenBao's clock.
        request: the id that a request and its response share.
        kind: "issued", "consumed", "ended" (by an operator), "all ended", or "refused".
        path: what was asked for.
        claim: its hash; for `revoke-accessor` the hash of its accessor; "" where all are meant.
        accessor: the hash of the accessor of a claim that is issued.
        ttl: seconds that a claim which is issued lives.
        address: where the request came from: all that tells a thief from the server.
    """

    at: float
    request: str
    kind: str
    path: str
    claim: str
    accessor: str = ""
    ttl: int = 0
    address: str = ""


def events(records: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return what the records of an audit log say about claims, in their order.

    A refused redemption is one record, of type `request`, with an error; anything else that was done is a `response`
    without one. A response that carries neither a plan nor a new claim redeemed nothing: a loser of a race may get it.

    Args:
        records: as `Lab.audit_records` returns them.

    Source: OpenBao documentation, "Audit devices", "Response wrapping".
    """
    found: list[Event] = []
    for record in records:
        request, response = record["request"], record.get("response") or {}
        path, error = request["path"], record.get("error") or ""
        data = request.get("data") or {}
        # Presented as the token itself, or in the body by somebody who has a login.
        claim = str(data.get("token") or request.get("client_token") or "")
        common = (_seconds(record["time"]), request["id"])
        address = request.get("remote_address", "")
        issued = response.get("wrap_info")
        if record["type"] == "response" and not error:
            if path == _REVOKE or (path == _UNWRAP and (response.get("data") or issued)):
                found.append(Event(*common, "consumed", path, claim, address=address))
            elif path in _NAMED:
                found.append(Event(*common, "ended", path, str(data.get("accessor") or claim), address=address))
            elif path.startswith(_ALL):
                found.append(Event(*common, "all ended", path, "", address=address))
            if issued:
                born = (issued["token"], issued["accessor"], issued["ttl"])
                found.append(Event(*common, "issued", issued["creation_path"], *born, address))
        elif record["type"] == "request" and path in _REFUSED and error == _REFUSED[path]:
            found.append(Event(*common, "refused", path, claim, address=address))
    return found


class Finding(NamedTuple):
    """One presentation of a claim, and what it was.

    Attributes:
        at: seconds since the epoch, by OpenBao's clock.
        request: the id of the request in the log.
        claim: the claim's hash.
        what: one of `WORDS`.
        address: where it came from.
    """

    at: float
    request: str
    claim: str
    what: str
    address: str


def classify(records: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Tell what each presentation of a claim was: redeemed, revoked, or refused, and why OpenBao refused it.

    To its holder OpenBao says the same of all that it refuses; the history of the hash tells them apart.

    "guessed" is a claim that this log has not seen issued: invented, altered, of another namespace, or older than the
    log. "unexplained" is one that was issued, was in time, and was refused all the same.

    Args:
        records: as `Lab.audit_records` returns them.
    """
    seen = events(records)
    issued = {event.claim: event for event in seen if event.kind == "issued"}
    redeemed = {event.claim for event in seen if event.kind == "consumed" and event.path == _UNWRAP}
    ends = [event for event in seen if event.kind == "ended" or (event.kind, event.path) == ("consumed", _REVOKE)]
    revoked = {event.claim for event in ends}
    swept = [event.at for event in seen if event.kind == "all ended"]

    def why(refused: Event) -> str | None:
        born = issued.get(refused.claim)
        if born is None:
            # A login that is dead, and revokes itself, looks the same as a claim that nobody issued.
            return "guessed" if refused.path == _UNWRAP else None
        # Not by the order of the records: a loser of a race may be written down before the winner is.
        if refused.claim in redeemed:
            return "replayed"
        if {refused.claim, born.accessor} & revoked:
            return "after revocation"
        if refused.at >= born.at + born.ttl:
            return "expired"
        return "after revocation" if any(born.at <= at <= refused.at for at in swept) else "unexplained"

    findings = []
    for event in seen:
        what = None
        if event.kind == "consumed" and event.claim in issued:
            what = "redeemed" if event.path == _UNWRAP else "revoked"
        elif event.kind == "refused":
            what = why(event)
        if what is not None:
            findings.append(Finding(event.at, event.request, event.claim, what, event.address))
    return findings


def unused(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the hashes of claims that were issued and never presented: no record says when such a claim expires."""
    seen = events(records)
    presented = {event.claim for event in seen if event.kind != "issued"}
    return [event.claim for event in seen if event.kind == "issued" and event.claim not in presented]


class Unseen:
    """A small log of a story that nobody has told, for a reader to solve.

    Attributes:
        records: as `Lab.audit_records` returns them.
        truth: what each refusal was, in their order; for a judge.
    """

    def __init__(self, records: list[dict[str, Any]], truth: list[str]) -> None:
        self.records = records
        self.truth = truth

    @property
    def refusals(self) -> list[Event]:
        """The refused presentations in their order: what a reader has to explain."""
        return [event for event in events(self.records) if event.kind == "refused"]


def unseen(lab: Lab, seed: int | None = None, *, size: int = 8) -> Unseen:
    """Act out a random story on the real OpenBao, and return its log.

    Each kind of refusal occurs at least once. It takes a little more than a second, the shortest life of a claim.

    Args:
        lab: on a server of our own; the log is of this lab from now on.
        seed: the same number gives the same story, with other claims; by default any.
        size: refusals to act out, at least 4.

    Raises:
        LabError: the audit log is not ours to read.
    """
    before = len(lab.audit_records())
    chance = random.Random(seed)  # noqa: S311 - a story and no secret
    kinds = [*_ACTS, *chance.choices([*_ACTS], k=max(0, size - len(_ACTS)))]
    chance.shuffle(kinds)
    parking = lab.client("confirmations")
    long, short = SingleUse(parking), SingleUse(parking, ttl=1)
    # Everything that has to expire is issued first, so that one wait is enough for all of it.
    stale = [short.issue({"of": "nobody"}) for kind in kinds if kind == "expired"]
    for _ in range(chance.randint(1, 3)):
        long.redeem(long.issue({"of": "somebody"}))
    if stale:
        time.sleep(1.1)
    for kind in kinds:
        claim = _ACTS[kind](long, stale, chance)
        try:
            long.redeem(claim)
        except AlreadyRedeemed:
            continue
        raise AssertionError(f"a claim that should be {kind} was redeemed")
    return Unseen(lab.audit_records()[before:], kinds)


def _replayed(claims: SingleUse, stale: list[str], chance: random.Random) -> str:
    claim = claims.issue({"of": "somebody"})
    claims.redeem(claim)
    return claim


def _revoked(claims: SingleUse, stale: list[str], chance: random.Random) -> str:
    claim = claims.issue({"of": "somebody"})
    claims.burn(claim)
    return claim


def _expired(claims: SingleUse, stale: list[str], chance: random.Random) -> str:
    return stale.pop()


def _guessed(claims: SingleUse, stale: list[str], chance: random.Random) -> str:
    good = claims.issue({"of": "somebody"})  # from which the guess takes its form, and which stays unused
    letters = [*good.split(".")[1]]
    chance.shuffle(letters)
    return ".".join(["s", "".join(letters)[::-1] + "x", *good.split(".")[2:]])


_ACTS: dict[str, Callable[[SingleUse, list[str], random.Random], str]] = {
    "replayed": _replayed,
    "after revocation": _revoked,
    "expired": _expired,
    "guessed": _guessed,
}


def tally(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings there are of each of `WORDS`, those that occur, in that order."""
    count = Counter(finding.what for finding in findings)
    return {word: count[word] for word in WORDS if count[word]}


def _seconds(text: str) -> float:
    """The time of a record. OpenBao gives nanoseconds, without trailing zeros; Python reads six digits."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
