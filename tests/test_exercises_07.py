"""The exercises of notebook 07 tell a right answer from the usual wrong ones, and never fail on any."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError

import labkit
from labkit import attacks
from labkit.attacks import ask, confirm, text_of
from labkit.bucket import Bucket
from labkit.exercises import attack_board as exam
from labkit.exercises.attack_board import Slow, examined, explain_each, sit
from labkit.forensics import Event, Unseen, unseen
from labkit.janitor import REFUSALS
from labkit.lab import Lab
from labkit.openbao import start_own

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def story() -> Iterator[Unseen]:
    with Lab(start_own()) as own:
        yield unseen(own, 7)


def told(capsys: pytest.CaptureFixture[str], exercise: str, answer: object) -> str:
    labkit.check(exercise, answer)
    return capsys.readouterr().out.replace("\n", " ")


def right(refused: Event, log: list[Event]) -> str:
    mine = [event for event in log if event.claim == refused.claim]
    born = next((event for event in mine if event.kind == "issued"), None)
    if born is None:
        return "guessed"
    for event in mine:
        if event.kind == "consumed":
            return "replayed" if event.path == "sys/wrapping/unwrap" else "after revocation"
    return "expired" if refused.at >= born.at + born.ttl else "unexplained"


def but(word: str, instead: object) -> Callable[[Event, list[Event]], Any]:
    return lambda refused, log: instead if (said := right(refused, log)) == word else said


@pytest.mark.parametrize(
    ("explain", "expected"),
    [
        (right, "Exercise 07.1: done. You explained 8 of 8 refusals."),
        (but("replayed", "expired"), "is not 'expired'. Was there a `consumed` event for this claim"),
        (but("after revocation", "replayed"), "is not 'replayed'. Look at the path of what consumed the claim"),
        (but("expired", "guessed"), "is not 'guessed'. No record says that a claim expires"),
        (but("guessed", "expired"), "is not 'expired'. Was the claim ever issued?"),
        (
            lambda refused, log: None,
            "your function said None; use one of replayed, after revocation",
        ),
        (lambda refused, log: 10**5000, "your function said a value of type int; use one of replayed"),
        (lambda refused, log: 1 // 0, "your function raised ZeroDivisionError: integer division"),
        (lambda refused: "guessed", "your function raised TypeError"),
        (lambda refused, log: log.clear() or "replayed", "is not 'replayed'"),
    ],
)
def test_explaining_an_unseen_log(
    capsys: pytest.CaptureFixture[str], story: Unseen, explain: Callable[..., Any], expected: str
) -> None:
    assert expected in told(capsys, "07.1", explain_each(explain, story))


async def cross(alice: Client, mallory: Client, bucket: Bucket) -> None:
    await attacks.cross_user(mallory, await ask(alice, "logs/"))


async def race(alice: Client, mallory: Client, bucket: Bucket) -> None:
    await attacks.race(alice, await ask(alice, "logs/"))


async def insist(alice: Client, mallory: Client, bucket: Bucket) -> None:
    question = await ask(alice, "logs/")
    for one in (question, await attacks.ask_again(alice, question)):
        await confirm(alice, one)


async def replay(alice: Client, mallory: Client, bucket: Bucket) -> None:
    question = await ask(alice, "logs/")
    for _ in range(2):
        await confirm(alice, question)
        bucket.put("logs/1")


async def swap(alice: Client, mallory: Client, bucket: Bucket) -> None:
    await attacks.swap_arguments(alice, await ask(alice, "logs/"), "secrets/")


async def refuse(alice: Client, mallory: Client, bucket: Bucket) -> None:
    question = await ask(alice, "logs/")
    await attacks.decline(alice, question)


async def regret(alice: Client, mallory: Client, bucket: Bucket) -> None:
    question = await ask(alice, "logs/")
    await attacks.decline(alice, question)
    await confirm(alice, question)


async def vandalize(alice: Client, mallory: Client, bucket: Bucket) -> None:
    bucket.reset([])


async def slip(alice: Client, mallory: Client, bucket: Bucket) -> None:
    raise ZeroDivisionError("a slip")


@pytest.mark.parametrize(
    ("mine", "found"),
    [
        ([], 0),
        ([replay, swap, refuse, regret, vandalize], 0),
        ([cross], 1),
        ([race], 1),
        ([insist], 1),
        ([cross, cross, replay], 1),
        ([cross, insist], 2),
        ((slip, insist, race, cross), 3),
    ],
)
async def test_an_attack_counts_for_what_it_finds(
    lab: Lab, capsys: pytest.CaptureFixture[str], mine: Sequence[Any], found: int
) -> None:
    outcome = await sit(lab, mine)
    assert outcome["found"] == found
    said = told(capsys, "07.2", outcome)
    mark = "done" if found == 3 else "not done yet"
    attacks_ = "1 attack" if len(mine) == 1 else f"{len(mine)} attacks"
    assert said.startswith(f"Exercise 07.2: {mark}. Your {attacks_} found {found} of 3 weaknesses.")
    assert not any(word in said for word in ("principal", "claim", "burned", "prefix"))  # how many, not where


async def test_a_slip_of_the_reader_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert "ended with ZeroDivisionError: a slip." in told(capsys, "07.2", await sit(lab, [slip]))


@pytest.mark.parametrize("mine", [None, 5, cross, "cross", {cross}, itertools.repeat(cross), [cross] * 51])
async def test_what_is_no_list_of_attacks_is_answered_with_one_sentence(
    lab: Lab, capsys: pytest.CaptureFixture[str], mine: Any
) -> None:
    said = told(capsys, "07.2", await sit(lab, mine))
    assert said.strip() == (
        "Exercise 07.2: not done yet. Give `sit` a list of your attacks, 50 at most, such as `sit(lab, [my_attack])`."
    )


async def test_an_attack_that_takes_too_long_is_not_played_again(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exam, "_PATIENCE", 1)
    plays = []

    async def wait(alice: Client, mallory: Client, bucket: Bucket) -> None:
        plays.append(1)
        await attacks.come_late(alice, await ask(alice, "logs/"), 130)

    outcome = await sit(lab, [wait, cross])
    assert (len(plays), outcome["found"]) == (1, 1), "the others are played all the same"
    assert "One of your attacks took longer than 1 s." in told(capsys, "07.2", outcome)


async def test_what_an_attack_deletes_before_its_time_is_up_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exam, "_PATIENCE", 2)
    plays = []

    async def cross_and_wait(alice: Client, mallory: Client, bucket: Bucket) -> None:
        plays.append(1)
        await cross(alice, mallory, bucket)  # where it is refused, this ends it
        await asyncio.sleep(130)

    assert (await sit(lab, [cross_and_wait]))["found"] == 1
    assert len(plays) == 2


async def test_a_time_out_of_the_attack_itself_is_a_slip(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    async def hurry(alice: Client, mallory: Client, bucket: Bucket) -> None:
        raise TimeoutError("mine")

    assert "ended with TimeoutError: mine." in told(capsys, "07.2", await sit(lab, [hurry]))


WEAKNESSES = [frozenset(some) for size in range(4) for some in itertools.combinations("abc", size)]


@pytest.mark.parametrize("weaknesses", WEAKNESSES, ids=lambda some: "".join(sorted(some)) or "none")
async def test_after_a_no_the_same_question_purges_nothing(lab: Lab, weaknesses: frozenset[str]) -> None:
    bucket = Slow()
    bucket.restock()
    server = examined("alice", RequestStateSecurity.ephemeral(), lab.client("confirmations"), bucket, weaknesses)
    async with Client(server) as alice:
        question = await ask(alice, "logs/")
        for _ in range(2):
            assert text_of(await attacks.decline(alice, question)) == "Declined: nothing was purged."
        assert text_of(await confirm(alice, question)) == REFUSALS["already redeemed"]
    assert not bucket.deletions


async def test_the_exam_without_its_weaknesses_and_with_them(lab: Lab) -> None:
    """What each attack deletes, told by the bucket."""
    parking, sealing = lab.client("confirmations"), RequestStateSecurity.ephemeral()
    for attack, weakness in ((cross, "a"), (race, "b"), (insist, "c")):
        deleted = []
        for weaknesses in (frozenset(), frozenset("abc") - {weakness}, frozenset(weakness), frozenset("abc")):
            bucket = Slow()
            bucket.restock()
            servers = [examined(user, sealing, parking, bucket, weaknesses) for user in ("alice", "mallory")]
            async with Client(servers[0]) as alice, Client(servers[1]) as mallory:
                with suppress(MCPError):
                    await attack(alice, mallory, bucket)
            deleted.append(bucket.deletions.total())
        assert deleted[0] == deleted[1] < min(deleted[2:]), weakness


anything = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text() | st.tuples(st.text(), st.text()))


@given(anything | st.dictionaries(st.sampled_from(["attacks", "found", "broken"]), anything))
@pytest.mark.parametrize("exercise", ["07.1", "07.2"])
def test_whatever_is_answered_there_is_a_hint_and_no_traceback(exercise: str, answer: object) -> None:
    labkit.check(exercise, answer)
