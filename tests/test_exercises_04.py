"""The exercises of notebook 04 tell a right answer from the usual wrong ones, and never fail on any."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import hvac
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_single_use import answering, http

import labkit
from labkit.exercises.single_use import ANSWERS, CASES, decide_each
from labkit.lab import Lab
from labkit.single_use import SingleUse, WrongPlan

Decide = Callable[[int, Any], Any]


def told(capsys: pytest.CaptureFixture[str], exercise: str, answer: object) -> str:
    labkit.check(exercise, answer)
    return capsys.readouterr().out.replace("\n", " ")


RIGHT = {200: "act", 204: "ask once more", 400: "refuse", 500: "ask once more"}


def right(status: int, body: Any) -> str:
    if status == 200 and "plan" not in body["data"]:
        return "refuse"
    return RIGHT.get(status, "report an outage")


def naive(status: int, body: Any) -> str:
    return "act" if status < 400 else "refuse"


def but(changed: int, word: object) -> Decide:
    return lambda status, body: word if status == changed else right(status, body)


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (right, "done. Only a 200 with a plan is a redemption"),
        (
            lambda status, body: "act" if body is None else "refuse",
            "not done yet. On the 204, your function says 'act'",
        ),
        (but(204, "act"), "not done yet. On the 204, your function says 'act'. A 204 is no error"),
        (but(204, "refuse"), "not done yet. On the 204, your function says 'refuse'. A 204 is no error"),
        (but(200, "act"), "not done yet. On the 200 without a plan, your function says 'act'. The claim was good"),
        (but(200, "refuse"), "not done yet. On the 200 with a plan, your function says 'refuse'. That is the one"),
        (but(400, "report an outage"), "not done yet. On the 400, your function says 'report an outage'. With its 400"),
        (but(403, "refuse"), "not done yet. On the 403, your function says 'refuse'. A 403 is about the caller's own"),
        (but(500, "refuse"), "not done yet. On the 500, your function says 'refuse'. Among racing redeemers"),
        (but(500, "report an outage"), "not done yet. On the 500, your function says 'report an outage'. Among racing"),
        (but(503, "refuse"), "not done yet. On the 503, your function says 'refuse'. A sealed OpenBao has not looked"),
        (but(204, "ask again"), "not done yet. On the 204, your function returned 'ask again': use one of act,"),
        (lambda status, body: None, "not done yet. On the 204, your function returned 'None': use one of act,"),
        (lambda status, body: body["data"] and "act", "not done yet. On the 204, your function raised TypeError"),
        (lambda status, body: {}[status], "not done yet. On the 204, your function raised KeyError"),
    ],
)
def test_reading_every_answer(capsys: pytest.CaptureFixture[str], decide: Decide, expected: str) -> None:
    assert told(capsys, "04.1", decide_each(decide)).startswith(f"Exercise 04.1: {expected}")


@pytest.mark.parametrize("name", ANSWERS)
def test_the_right_answer_is_what_the_shipped_class_does(name: str) -> None:
    """Sent over a real socket; after "ask once more" comes the 400 of a loser, and has to be asked for."""
    status, body = ANSWERS[name]
    sent = [http(status, json.dumps(body) if body else "")]
    word = right(status, body)
    if word == "ask once more":
        sent.append(http(400, json.dumps(ANSWERS["400"][1])))
    port: list[int] = []
    with answering(sent, port):
        claims = SingleUse(hvac.Client(f"http://127.0.0.1:{port[0]}", token=""))
        if word == "act":
            assert claims.redeem("s.claim") == {"keys": ["logs/1"]}
        else:
            away = word == "report an outage"
            with pytest.raises(labkit.OpenBaoUnavailable if away else (labkit.AlreadyRedeemed, WrongPlan)):
                claims.redeem("s.claim")


PLAN_FIELDS = ("tool", "arguments", "principal")


def exact(plan: dict[str, Any], request: dict[str, Any]) -> bool:
    return all(field in plan and plan[field] == request[field] for field in PLAN_FIELDS)


def without(missing: str) -> Callable[..., Any]:
    return lambda plan, request: all(plan.get(f, "no") == request[f] for f in PLAN_FIELDS if f != missing)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (exact, "done. A plan counts for the tool, the arguments and the user"),
        (lambda plan, request: True, "not done yet. A plan for 'another tool' got through. Compare the tool"),
        (lambda plan, request: False, "not done yet. For 'its own request', your function returned False"),
        (lambda plan, request: plan == request, "not done yet. For 'its own request', your function returned False"),
        (lambda plan, request: plan["keys"], "not done yet. For 'its own request', your function gave \"['logs/1']\""),
        (without("tool"), "not done yet. A plan for 'another tool' got through. Compare the tool"),
        (without("arguments"), "not done yet. A plan for 'other arguments' got through. Compare the arguments"),
        (without("principal"), "not done yet. A plan for 'another user' got through. Compare the principal"),
        (
            lambda plan, request: (
                plan["tool"] == request["tool"]
                and plan["arguments"]["prefix"].startswith(request["arguments"]["prefix"])
                and plan.get("principal", "") == request["principal"]
            ),
            "not done yet. A plan for 'a narrower prefix' got through. Arguments that only begin alike",
        ),
        (
            lambda plan, request: all(plan.get(field) == request[field] for field in PLAN_FIELDS),
            "not done yet. A plan for 'no user in the plan' got through. It names no principal at all",
        ),
        (
            lambda plan, request: request["principal"] is not None and exact(plan, request),
            "not done yet. For 'its own request, nobody signed in', your function returned False",
        ),
    ],
)
def test_checking_what_a_plan_is_for(
    capsys: pytest.CaptureFixture[str], check: Callable[..., Any], expected: str
) -> None:
    decided = {name: check(plan, request) for name, (plan, request) in CASES.items()}
    assert told(capsys, "04.2", decided).startswith(f"Exercise 04.2: {expected}")


def test_a_plan_of_the_exercise_survives_openbao(lab: Lab) -> None:
    claims = SingleUse(lab.client("confirmations"))
    for plan, _ in CASES.values():
        assert claims.redeem(claims.issue(plan)) == plan


anything = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())


@given(anything | st.dictionaries(st.sampled_from([*ANSWERS, *CASES]), anything))
@pytest.mark.parametrize("exercise", ["04.1", "04.2"])
def test_whatever_is_answered_there_is_a_hint_and_no_traceback(exercise: str, answer: object) -> None:
    labkit.check(exercise, answer)


@given(anything)
def test_whatever_a_function_returns_there_is_a_hint(word: object) -> None:
    labkit.check("04.1", decide_each(lambda status, body: word))
    labkit.check("04.2", {name: word for name in CASES})
