"""From the audit log alone, what became of each claim; and what the log cannot tell."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hvac.adapters import RawAdapter

from labkit.forensics import Finding, classify, events, tally, unseen, unused
from labkit.lab import Lab
from labkit.openbao import start_own
from labkit.single_use import AlreadyRedeemed, SingleUse


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """On a server of our own whatever is set, because the audit log of another is not ours."""
    with Lab(start_own()) as own:
        yield own


@pytest.fixture
def claims(lab: Lab) -> SingleUse:
    return SingleUse(lab.client("confirmations"))


@pytest.fixture
def log(lab: Lab, claims: SingleUse) -> Log:
    return Log(lab)


class Log:
    """What was written since the test began."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.before = len(lab.audit_records())

    @property
    def records(self) -> list[dict[str, Any]]:
        return self.lab.audit_records()[self.before :]

    def of(self, claim: str) -> list[str]:
        """What became of one claim: only whoever may use sys/audit-hash can ask that."""
        mark = self.lab.audit_hash(claim)
        return [finding.what for finding in classify(self.records) if finding.claim == mark]


def refused(claims: SingleUse, claim: str) -> None:
    with pytest.raises(AlreadyRedeemed):
        claims.redeem(claim)


def test_a_replay(claims: SingleUse, log: Log) -> None:
    claim = claims.issue({"a": "plan"})
    claims.redeem(claim)
    refused(claims, claim)
    refused(claims, claim)
    assert log.of(claim) == ["redeemed", "replayed", "replayed"]


def test_a_declined_claim(claims: SingleUse, log: Log) -> None:
    claim = claims.issue({"a": "plan"})
    claims.burn(claim)
    refused(claims, claim)
    with pytest.raises(AlreadyRedeemed):
        claims.burn(claim)
    assert log.of(claim) == ["revoked", "after revocation", "after revocation"]


def test_a_no_that_comes_after_the_yes_is_a_replay(claims: SingleUse, log: Log) -> None:
    claim = claims.issue({"a": "plan"})
    claims.redeem(claim)
    with pytest.raises(AlreadyRedeemed):
        claims.burn(claim)
    assert log.of(claim) == ["redeemed", "replayed"]


def test_an_expired_claim_and_one_that_was_used_in_time(lab: Lab, log: Log) -> None:
    short = SingleUse(lab.client("confirmations"), ttl=1)
    late, used = short.issue({"a": "plan"}), short.issue({"a": "plan"})
    short.redeem(used)
    time.sleep(1.1)
    refused(short, late)
    refused(short, used)
    assert log.of(late) == ["expired"]
    assert log.of(used) == ["redeemed", "replayed"], "that its time is up as well makes it no better"


def test_a_guess(lab: Lab, claims: SingleUse, log: Log) -> None:
    claim = claims.issue({"a": "plan"})
    altered = ("A" if claim[5] != "A" else "B").join([claim[:5], claim[6:]])
    refused(claims, altered)
    refused(claims, "hello")
    assert (log.of(altered), log.of("hello"), log.of(claim)) == (["guessed"], ["guessed"], [])
    assert unused(log.records) == [lab.audit_hash(claim)]


def test_what_is_no_claim_by_its_form_never_reaches_the_log(claims: SingleUse, log: Log) -> None:
    refused(claims, "no claim\n")
    assert classify(log.records) == []


@pytest.mark.parametrize("way", ["token", "accessor", "prefix"])
def test_a_claim_that_an_operator_revoked(lab: Lab, claims: SingleUse, log: Log, way: str) -> None:
    claim = claims.issue({"a": "plan"})
    token = lab.admin.auth.token
    if way == "token":
        token.revoke(claim)
    elif way == "accessor":
        token.revoke_accessor(token.lookup(claim)["data"]["accessor"])
    else:
        lab.admin.sys.revoke_prefix("sys/wrapping/wrap")
    later = claims.issue({"a": "plan"})
    refused(claims, claim)
    claims.redeem(later)
    refused(claims, later)
    assert log.of(claim) == ["after revocation"]
    assert log.of(later) == ["redeemed", "replayed"]


def test_what_is_refused_in_time_and_by_no_record_is_not_explained_away(lab: Lab, claims: SingleUse, log: Log) -> None:
    lab.admin.sys.revoke_prefix("sys/wrapping/wrap")  # of what was issued before
    claim = claims.issue({"a": "plan"})
    claims.burn(claim)
    refused(claims, claim)
    without = [record for record in log.records if record["request"]["path"] != "auth/token/revoke-self"]
    assert [finding.what for finding in classify(without)] == ["unexplained"]


def test_a_claim_presented_in_the_body_counts_as_well(lab: Lab, claims: SingleUse, log: Log) -> None:
    claim, caller = claims.issue({"a": "plan"}), lab.client("mcp-server")
    for _ in range(2):
        with suppress(Exception):
            caller.adapter.post("/v1/sys/wrapping/unwrap", json={"token": claim})
    assert log.of(claim) == ["redeemed", "replayed"]


def test_a_finder_who_gets_a_new_claim_with_a_longer_life(lab: Lab, claims: SingleUse, log: Log) -> None:
    claim = claims.issue({"a": "plan"})
    finder = RawAdapter.from_adapter(lab.bearer(claim).adapter)
    longer = finder.post("/v1/sys/wrapping/unwrap", wrap_ttl="700h").json()["wrap_info"]["token"]
    claims.redeem(longer)
    refused(claims, claim)
    assert log.of(claim) == ["redeemed", "replayed"]
    assert log.of(longer) == ["redeemed"]
    paths = {event.path: event.ttl for event in events(log.records) if event.kind == "issued"}
    assert paths == {"sys/wrapping/wrap": 120, "sys/wrapping/unwrap": 700 * 3600}, "the new one shows by its path"


def test_of_a_race_one_redeemed_and_everybody_else_replayed(lab: Lab, claims: SingleUse, log: Log) -> None:
    start = threading.Barrier(8)

    def race(claim: str) -> None:
        start.wait()
        with suppress(AlreadyRedeemed):
            claims.redeem(claim)

    raced = [claims.issue({"n": n}) for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        for claim in raced:
            list(pool.map(race, [claim] * 8))
    for claim in raced:
        became = log.of(claim)
        assert (became.count("redeemed"), became.count("replayed")) == (1, 7)


def test_a_loser_that_got_neither_error_nor_plan_has_not_redeemed(claims: SingleUse, log: Log) -> None:
    """The 204 of a race, which is rare: the winner's record without what was in the answer."""
    claims.redeem(claims.issue({"a": "plan"}))
    winner = log.records[-1]
    loser = {**winner, "response": {k: v for k, v in winner["response"].items() if k != "data"}}
    assert tally(classify([*log.records, loser])) == {"redeemed": 1}


def test_a_dead_login_that_revokes_itself_is_no_guess(lab: Lab, log: Log) -> None:
    dead = lab.client("confirmations").token
    lab.admin.auth.token.revoke(dead)
    with pytest.raises(AlreadyRedeemed):
        SingleUse(lab.bearer("")).burn(dead)
    assert classify(log.records) == []


def test_no_record_has_a_claim_or_a_plan_in_it(claims: SingleUse, log: Log) -> None:
    claim = claims.issue({"objects": "of interest"})
    claims.redeem(claim)
    assert claim not in str(log.records)
    assert "of interest" not in str(log.records)


def test_equal_plans_show_as_equal(claims: SingleUse, log: Log) -> None:
    """A hash is not a secret's end: whoever reads the log can tell which questions were about the same."""
    for plan in ({"n": 1}, {"n": 1}, {"n": 2}):
        claims.issue(plan)
    one, same, other = [r["request"]["data"]["plan"] for r in log.records if r["type"] == "response"]
    assert (one == same, one == other) == (True, False)


def test_times_are_read_to_the_fraction(claims: SingleUse, log: Log) -> None:
    before = time.time()
    claims.redeem(claims.issue({"a": "plan"}))
    found = [event.at for event in events(log.records)]
    assert before - 0.001 <= found[0] <= found[1] <= time.time() + 0.001
    record = log.records[0]
    for text, fraction in (("05Z", 0.0), ("05.1Z", 0.1), ("05.123456789Z", 0.123456789)):
        at = events([{**log.records[1], "time": f"2026-01-02T03:04:{text}"}])[0].at
        assert at - 1767323045 == pytest.approx(fraction, abs=1e-6), record


@pytest.mark.parametrize("seed", [1, 7])
def test_an_unseen_log_is_solved_by_what_it_holds(lab: Lab, seed: int) -> None:
    story = unseen(lab, seed)
    found: list[Finding] = [f for f in classify(story.records) if f.what not in ("redeemed", "revoked")]
    assert [finding.what for finding in found] == story.truth
    assert [finding.request for finding in found] == [event.request for event in story.refusals]
    assert set(story.truth) == {"replayed", "after revocation", "expired", "guessed"}
    assert len(story.truth) == 8
    assert not any(word in str(story.records) for word in ("nobody", "somebody"))


def test_a_seed_gives_the_same_story_and_another_one_another(lab: Lab) -> None:
    stories = [unseen(lab, seed, size=12).truth for seed in (3, 3, 4)]
    assert stories[0] == stories[1] != stories[2]
