"""The official TypeScript client against replicas in processes of their own: what it is told, and what is left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from labkit import replicas
from labkit.bucket import Bucket
from labkit.fleet import Fleet
from labkit.janitor import REFUSALS
from labkit.lab import Lab

LOGS = ["logs/1", "logs/2", "logs/3"]
REST = ["secrets/root.key"]
QUESTION = "Purge 3 object(s) under 'logs/'? logs/1, …"
PURGED = "Purged 3 object(s): logs/1, …"
Move = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def shared() -> Bucket:
    return Bucket()


@pytest.fixture(scope="module", params=replicas.ROLES)
def fleet(request: pytest.FixtureRequest, lab: Lab, shared: Bucket) -> Iterator[Fleet]:
    with Fleet(lab, shared, codec=request.param) as fleet:
        yield fleet


@pytest.fixture
def play(fleet: Fleet, shared: Bucket, node: Callable[..., subprocess.CompletedProcess[str]]) -> Move:
    shared.reset(LOGS + REST)

    def play(move: str, state: str = "") -> dict[str, Any]:
        done = node("client.mjs", fleet.url, move, "logs/", stdin=state)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    return play


def test_each_test_is_run_with_the_codec_that_it_is_named_after(
    play: Move, request: pytest.FixtureRequest, sealed_by: Callable[[str], str]
) -> None:
    assert request.node.name.endswith(f"[{sealed_by(play('ask')['requestState'])}]")


def test_a_purge_is_completed(play: Move, fleet: Fleet, shared: Bucket) -> None:
    assert play("complete") == {"asked": [QUESTION], "said": PURGED, "isError": False}
    assert shared.keys() == REST
    assert set(fleet.served[-2:]) == set(fleet.replicas), "each round met another replica"


def test_a_purge_is_declined(play: Move, shared: Bucket) -> None:
    said = "Declined: nothing was purged, and the confirmation is revoked."
    assert play("decline") == {"asked": [QUESTION], "said": said, "isError": False}
    assert shared.keys() == LOGS + REST


def test_a_state_is_played_again(play: Move, shared: Bucket) -> None:
    state = play("ask")["requestState"]
    assert play("confirm", state) == {"asked": [], "said": PURGED, "isError": False}
    assert shared.keys() == REST
    shared.reset(LOGS + REST)
    assert play("confirm", state) == {"asked": [], "said": REFUSALS["already redeemed"], "isError": True}
    assert shared.keys() == LOGS + REST


def test_a_state_is_spelled_otherwise(play: Move, fleet: Fleet, shared: Bucket) -> None:
    state = play("ask")["requestState"]
    assert play("confirm", state + "\n") == {
        "asked": [],
        "code": -32602,
        "message": "Invalid or expired requestState",
    }
    logged = fleet.log(fleet.replicas.index(fleet.served[-1]))
    assert "malformed" in logged[-1]
    assert shared.keys() == LOGS + REST


def test_the_typescript_codec_accepts_other_spellings_of_its_token_too(
    node: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """Said in notebook 03. Should a later release refuse them, so should that sentence go."""
    done = node("codec.mjs", "", "\n", " ", "=", "A")
    assert json.loads(done.stdout) == {"": True, "\n": True, " ": True, "=": True, "A": False}, done.stderr
