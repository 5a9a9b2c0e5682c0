"""The exercises of notebook 07 tell a right answer from the usual wrong ones, and never fail on any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from labkit.attacks import ask, confirm
from labkit.bucket import Bucket
from labkit.exercises.attack_board import Slow, examined, explain_each, sit
from labkit.forensics import Event, Unseen, unseen
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
        (right, "done. 8 refusals that look alike to whoever was refused, told apart by their history."),
        (but("replayed", "expired"), "is not 'expired'. Was there a `consumed` event for this claim"),
        (but("after revocation", "replayed"), "is not 'replayed'. Look at the path of what consumed the claim"),
        (but("expired", "guessed"), "is not 'guessed'. No record says that a claim expires"),
        (but("guessed", "expired"), "is not 'expired'. Was the claim ever issued?"),
        (
            lambda refused, log: None,
            "your function said 'None'; use one of replayed, after revocation",
        ),
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


async def vandalize(alice: Client, mallory: Client, bucket: Bucket) -> None:
    bucket.reset([])


async def slip(alice: Client, mallory: Client, bucket: Bucket) -> None:
    raise ZeroDivisionError("a slip")


@pytest.mark.parametrize(
    ("mine", "found"),
    [
        ([], 0),
        ([replay, swap, refuse, vandalize], 0),
        ([cross], 1),
        ([race], 1),
        ([insist], 1),
        ([cross, cross, replay], 1),
        ([cross, insist], 2),
        ([slip, insist, race, cross], 3),
    ],
)
async def test_an_attack_counts_for_what_it_finds(
    lab: Lab, capsys: pytest.CaptureFixture[str], mine: list[Any], found: int
) -> None:
    outcome = await sit(lab, mine)
    assert outcome["found"] == found
    said = told(capsys, "07.2", outcome)
    if found == 3:
        assert "done. All three" in said
    else:
        assert f"not done yet. Your {len(mine)} attack(s) found {found} of 3 weaknesses." in said
        assert not any(word in said for word in ("principal", "claim", "burned", "prefix"))  # how many, not where


async def test_a_slip_of_the_reader_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert "ended with ZeroDivisionError: a slip." in told(capsys, "07.2", await sit(lab, [slip]))


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
