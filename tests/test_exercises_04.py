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
from labkit.exercises.single_use import ANSWERS, CASES, check_each, decide_each
from labkit.lab import Lab
from labkit.single_use import SingleUse, WrongPlan

Decide = Callable[[int, Any], Any]


def told(capsys: pytest.CaptureFixture[str], exercise: str, answer: object) -> str:
    labkit.check(exercise, answer)
    return capsys.readouterr().out.replace("\n", " ")


RIGHT = {204: "ask once more", 400: "refuse", 500: "ask once more"}


def right(status: int, body: Any) -> str:
    if status == 200:
        return "act" if isinstance((body["data"] or {}).get("plan"), str) else "refuse"
    if status == 400 and body is None:
        return "report an outage"
    return RIGHT.get(status, "report an outage")


def naive(status: int, body: Any) -> str:
    return "act" if status < 400 else "refuse"


def but(changed: int, word: object) -> Decide:
    return lambda status, body: word if status == changed else right(status, body)


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (right, "done. Only a 200 with a plan is a redemption. OpenBao's own 400, and a 200 without a plan, are a no."),
        (
            lambda status, body: "act" if body is None else "refuse",
            "not done yet. On the 204, your function says 'act'",
        ),
        (
            but(204, "act"),
            "not done yet. On the 204, your function says 'act'. A 204 is no error, and it is no plan either. Somebody "
            "else may have the plan: ask once more, which usually settles it.",
        ),
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
        (
            lambda status, body: right(status, body or {}),
            "not done yet. On the 400 of a proxy, your function says 'refuse'",
        ),
        (
            lambda status, body: "refuse" if status == 502 else right(status, body),
            "not done yet. On the 502 of a proxy, your function says 'refuse'. A proxy could not reach OpenBao",
        ),
        (
            lambda status, body: "act" if status == 200 and "plan" in (body["data"] or {}) else right(status, body),
            "not done yet. On the 200 with null for a plan, your function says 'act'. The field is there, and null",
        ),
        (
            lambda status, body: "act" if status == 200 and body["data"] is None else right(status, body),
            "not done yet. On the 200 with a login in place of data, your function says 'act'. Somebody wrapped a",
        ),
        (
            lambda status, body: "act" if status == 200 and "plan" in body["data"] else right(status, body),
            "not done yet. On the 200 with null for a plan, your function says 'act'.",
        ),
        (
            lambda status, body: (
                right(status, body) if status != 200 else "act" if body["data"].get("plan") else "refuse"
            ),
            "not done yet. On the 200 with a login in place of data, your function raised AttributeError: 'NoneType' "
            "object has no attribute 'get'. Not every answer has a body with everything in it.",
        ),
        (
            lambda status, body: body["data"] and "act",
            "not done yet. On the 204, your function raised TypeError: 'NoneType' object is not subscriptable. Not",
        ),
        (
            lambda status, body: {}[status],
            "not done yet. On the 204, your function raised KeyError: 204. Not every answer has a body",
        ),
        (
            lambda status, body: body["data"]["nothing"] if status == 200 else right(status, body),
            "not done yet. On the 200 with a plan, your function raised KeyError: 'nothing'.",
        ),
        (
            lambda status, body: 1 // 0,
            "not done yet. On the 204, your function raised ZeroDivisionError: integer division or modulo by zero.",
        ),
        (lambda status: "act", "not done yet. On the 204, your function raised TypeError: "),
        (lambda: "act", "not done yet. On the 204, your function raised TypeError: "),
        ("act", "not done yet. On the 204, your function raised TypeError: 'str' object is not callable. Keep it a"),
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
        (
            lambda plan, request: all(plan[field] == request[field] for field in PLAN_FIELDS),
            "not done yet. For 'no user in the plan', your function raised KeyError: 'principal'. A field may be",
        ),
        (
            lambda plan, request: all(plan[field] == request[field] for field in plan),
            "not done yet. For 'its own request', your function raised KeyError: 'keys'. A field may be missing",
        ),
        (
            lambda plan, request: 1 // 0,
            "not done yet. For 'its own request', your function raised ZeroDivisionError: integer division or modulo "
            "by zero.",
        ),
        (lambda plan: True, "not done yet. For 'its own request', your function raised TypeError: "),
        (
            True,
            "not done yet. For 'its own request', your function raised TypeError: 'bool' object is not callable. Keep",
        ),
    ],
)
def test_checking_what_a_plan_is_for(
    capsys: pytest.CaptureFixture[str], check: Callable[..., Any], expected: str
) -> None:
    assert told(capsys, "04.2", check_each(check)).startswith(f"Exercise 04.2: {expected}")


def test_a_plan_of_the_exercise_survives_openbao(lab: Lab) -> None:
    claims = SingleUse(lab.client("confirmations"))
    for plan, _ in CASES.values():
        assert claims.redeem(claims.issue(plan)) == plan


def test_an_outage_while_parking_is_not_taken_for_the_readers_mistake() -> None:
    def away(plan: dict[str, Any]) -> dict[str, Any]:
        raise labkit.OpenBaoUnavailable("away")

    with pytest.raises(labkit.OpenBaoUnavailable):
        check_each(exact, away)


def test_a_function_that_changes_what_it_is_given_spoils_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def greedy(plan: dict[str, Any], request: dict[str, Any]) -> bool:
        found = exact(plan, request)
        for mine in (plan, request):
            mine.pop("arguments").clear()
            mine.clear()
        return found

    def taking(status: int, body: Any) -> str:
        word = right(status, body)
        if body:
            (body.popitem()[1] or {}).clear()
        return word

    for _ in range(2):
        assert "done. A plan counts" in told(capsys, "04.2", check_each(greedy))
        assert "done. Only a 200" in told(capsys, "04.1", decide_each(taking))


@pytest.mark.parametrize("exercise", ["04.1", "04.2"])
def test_only_a_function_that_cannot_be_called_is_told_about_its_arguments(
    capsys: pytest.CaptureFixture[str], exercise: str
) -> None:
    each: Callable[..., Any] = decide_each if exercise == "04.1" else check_each
    hint = "Keep it a function of two arguments"
    assert hint in told(capsys, exercise, each(lambda: True))
    assert hint not in told(capsys, exercise, each(lambda one, two: len(1)))  # type: ignore[arg-type]


anything = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())


@given(anything | st.dictionaries(st.sampled_from([*ANSWERS, *CASES]), anything))
@pytest.mark.parametrize("exercise", ["04.1", "04.2"])
def test_whatever_is_answered_there_is_a_hint_and_no_traceback(exercise: str, answer: object) -> None:
    labkit.check(exercise, answer)


def test_the_answers_are_as_openbao_gives_them(lab: Lab) -> None:
    """A wrapped login, and null in the place of a plan."""
    client = lab.client("confirmations")
    made = [
        client.adapter.post("/v1/sys/wrapping/wrap", json={"plan": None}, wrap_ttl="60s"),
        lab.admin.adapter.post("/v1/auth/token/create", json={"policies": ["default"]}, wrap_ttl="60s"),
    ]
    for name, wrapped in zip(("200 with null for a plan", "200 with a login in place of data"), made, strict=True):
        body = lab.bearer(wrapped["wrap_info"]["token"]).adapter.post("/v1/sys/wrapping/unwrap")
        assert body["data"] == ANSWERS[name][1]["data"]


@given(anything)
def test_whatever_a_function_returns_there_is_a_hint(word: object) -> None:
    labkit.check("04.1", decide_each(lambda status, body: word))
    labkit.check("04.2", check_each(lambda plan, request: word))
