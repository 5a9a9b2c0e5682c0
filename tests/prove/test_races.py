"""Whoever races for one claim: one gets the plan, or one burns it, and everybody else is told that it is gone."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from on_disk import OnDisk

from labkit.lab import Lab
from labkit.openbao import Server, find_or_start
from labkit.single_use import AlreadyRedeemed, SingleUse

SIZE = float(os.environ.get("SIZE", "1"))
RACES = max(20, int(2000 * SIZE))
BURNS = max(20, int(500 * SIZE))
RACERS = 8
LANES = 4  # races that go on side by side: a server on disk spends most of its time waiting for it
GONE, BURNED = "told that it is gone", "told that it is burned"
Counts = collections.Counter[Any]
lock = threading.Lock()


@pytest.fixture(scope="module")
def raft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    bao = OnDisk(tmp_path_factory.mktemp("openbao"))
    yield Server(bao.address, bao.token)
    bao.kill()


@pytest.fixture(params=["in memory", "on raft"])
def races(request: pytest.FixtureRequest, no_settings: None) -> Iterator[tuple[SingleUse, Counts]]:
    """Claims on a server that keeps them in memory, or on disk; and a count of the statuses that racers are given."""
    statuses: Counts = collections.Counter()

    def count(answer: requests.Response, *_: object, **__: object) -> None:
        if str(answer.url).endswith(("unwrap", "revoke-self")):
            with lock:
                statuses[answer.status_code] += 1

    with Lab(request.getfixturevalue("raft") if request.param == "on raft" else find_or_start()) as lab:
        client = lab.client("confirmations")
        client.adapter.session.hooks["response"].append(count)
        yield SingleUse(client), statuses


def at_once(pool: ThreadPoolExecutor, attempts: list[Callable[[str], Any]], claim: str) -> list[Any]:
    """Let all of them go for `claim` at the same moment, and return what each is told; anything else is an error."""
    start = threading.Barrier(len(attempts))

    def attempt(call: Callable[[str], Any]) -> Any:
        start.wait(timeout=60)
        try:
            return call(claim) or BURNED  # burning returns nothing
        except AlreadyRedeemed:
            return GONE

    return list(pool.map(attempt, attempts))


def in_lanes(count: int, race: Callable[[ThreadPoolExecutor, int], None]) -> None:
    """Run `race` for each number below `count`, `LANES` at a time."""

    def lane(first: int) -> None:
        with ThreadPoolExecutor(RACERS) as pool:
            for number in range(first, count, LANES):
                race(pool, number)

    with ThreadPoolExecutor(LANES) as lanes:
        list(lanes.map(lane, range(LANES)))


def test_of_eight_who_redeem_one_gets_the_plan_and_seven_are_told_that_it_is_gone(
    races: tuple[SingleUse, Counts], record_property: Callable[[str, object], None]
) -> None:
    claims, statuses = races

    def race(pool: ThreadPoolExecutor, number: int) -> None:
        plan = {"number": number}
        told = at_once(pool, [claims.redeem] * RACERS, claims.issue(plan))
        assert told.count(plan) == 1, f"claim {number} was redeemed {told.count(plan)} times: {told}"
        assert told.count(GONE) == RACERS - 1, f"claim {number}: {told}"

    in_lanes(RACES, race)
    assert statuses[200] == RACES
    assert set(statuses) <= {200, 204, 400, 500}
    print(f"\n{RACES} claims x {RACERS} redeemers: {RACES} plans; statuses {dict(sorted(statuses.items()))}")
    record_property("proved", ("races", RACES))
    record_property("proved", ("plans redeemed twice", 0))


def test_of_one_who_redeems_and_one_who_burns_exactly_one_is_told_yes(
    races: tuple[SingleUse, Counts], record_property: Callable[[str, object], None]
) -> None:
    """Who comes first is left to chance. Whatever came out, nobody gets the plan afterwards."""
    claims, statuses = races
    ends: Counts = collections.Counter()

    def race(pool: ThreadPoolExecutor, number: int) -> None:
        plan = {"number": number}
        claim = claims.issue(plan)
        turn = 1 if number % 2 else -1  # whom the pool starts first has the better chance
        redeemed, burned = at_once(pool, [claims.redeem, claims.burn][::turn], claim)[::turn]
        assert (redeemed, burned) in ((plan, GONE), (GONE, BURNED)), f"claim {number}"
        with lock:
            ends["burned" if burned == BURNED else "redeemed"] += 1
        for late in (claims.redeem, claims.burn):
            with pytest.raises(AlreadyRedeemed):
                late(claim)

    in_lanes(BURNS, race)
    assert ends.keys() == {"redeemed", "burned"}
    print(f"\n{BURNS} claims, redeemed and burned at once: {dict(ends)}; statuses {dict(sorted(statuses.items()))}")
    record_property("proved", ("races", BURNS))
    record_property("proved", ("plans both redeemed and burned", 0))
