"""An exercise tells a right answer from the usual wrong ones, and never fails on any."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit
from labkit.access import rights
from labkit.exercises import _JUDGES
from labkit.exercises.crash_safety import judge_each, play

FROZEN = "error -32602: Invalid or expired requestState"
LOGS = [f"logs/2026-08-0{day}.log" for day in (1, 2, 3)]
GOOD = {"said": f"Purged 3 object(s): {', '.join(LOGS)}", "deleted": LOGS, "logged": []}


def told(capsys: pytest.CaptureFixture[str], exercise: str, answer: object) -> str:
    labkit.check(exercise, answer)
    return capsys.readouterr().out.replace("\n", " ")


SECRET = "secrets/root.key"
REFUSED = "REFUSED: the state names 1 object(s), and the question was about 3."


@pytest.mark.parametrize(
    ("files", "said", "deleted", "expected"),
    [
        ([SECRET, *LOGS[:2]], "Purged 3 object(s)", [*LOGS[:2], SECRET], "done. Three objects were asked about"),
        ([SECRET] * 3, "Purged 1 object(s)", [SECRET], "done. Three objects were asked about"),
        (LOGS, "Purged 3 object(s)", LOGS, "not done yet. Those are the objects that the user did confirm"),
        ([], REFUSED, [], f"not done yet. The server said: {REFUSED}"),
        ([SECRET], REFUSED, [], f"not done yet. The server said: {REFUSED} Name as many as it expects"),
        ([SECRET], "Purged 1 object(s)", [SECRET], "not done yet. That was another server"),
        (["secret/root.key", *LOGS[:2]], "Purged 2", LOGS[:2], "not done yet. There is no object 'secret/root.key'"),
        ([SECRET + LOGS[0]], REFUSED, [], "not done yet. There is no object 'secrets/root.keylogs/"),
        (SECRET, REFUSED, [], "not done yet. my_files is a str: give a list of keys"),
        ({SECRET}, REFUSED, [], "not done yet. my_files is a set: give a list of keys"),
        (None, "error -32603: Internal server error", [], "not done yet. my_files is a NoneType"),
        ([SECRET, 1, 2], "error -32603: Internal server error", [SECRET], "not done yet. my_files is a list: give"),
    ],
)
def test_forging_past_a_count(
    capsys: pytest.CaptureFixture[str], files: object, said: str, deleted: list[str], expected: str
) -> None:
    answer = {"files": files, "said": said, "deleted": deleted}
    assert told(capsys, "00.1", answer).startswith(f"Exercise 00.1: {expected}")


FORGED = {"said": FROZEN, "deleted": [], "logged": ["malformed"]}


@pytest.mark.parametrize(
    ("honest", "forged", "expected"),
    [
        (GOOD, FORGED, "done. The honest round still purges"),
        (GOOD, {"said": "Purged 1", "deleted": [SECRET], "logged": []}, "not done yet. The forged state still"),
        (GOOD, {**FORGED, "said": "REFUSED: no"}, "not done yet. The forged state was not turned down by the SDK"),
        (GOOD, {**FORGED, "logged": []}, "not done yet. The forged state was not turned down by the SDK"),
        (GOOD, GOOD, "not done yet. The forged state was not turned down by the SDK"),
        (
            {**GOOD, "said": "Purged 3 object(s): logs/2026-08-01.log, …"},
            FORGED,
            "not done yet. This is another server",
        ),
        ({**GOOD, "said": FROZEN}, FORGED, "not done yet. Now the honest round fails"),
        ({**GOOD, "said": "TypeError: not callable"}, FORGED, "not done yet. Now the honest round fails"),
    ],
)
def test_putting_the_boundary_back(
    capsys: pytest.CaptureFixture[str], honest: object, forged: object, expected: str
) -> None:
    assert told(capsys, "00.2", [honest, forged]).startswith(f"Exercise 00.2: {expected}")


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ({}, "done. The prefix and the spelling come first"),
        ({"malformed": "accepted"}, "not done yet. Your string for 'malformed' is a genuine token"),
        ({"unknown key": "seal"}, "not done yet. Your string for 'unknown key' is refused as 'seal'. The key id"),
        ({"seal": "malformed"}, "not done yet. Your string for 'seal' is refused as 'malformed'. Keep the prefix"),
    ],
)
def test_being_refused_for_three_reasons(
    capsys: pytest.CaptureFixture[str], mine: dict[str, str], expected: str
) -> None:
    right = {reason: reason for reason in ("malformed", "unknown key", "seal")}
    assert told(capsys, "01.1", right | mine).startswith(f"Exercise 01.1: {expected}")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("done; the notes were: room 7", "minted in the future", "done. The boundary allows"),
        ("done; the notes were: room 7", "done; the notes were: room 7", "not done yet. Five seconds more"),
        ("minted in the future", "minted in the future", "not done yet. Your number is refused already"),
        ("expired", "minted in the future", "not done yet. Your number is refused, but as 'expired'"),
    ],
)
def test_finding_out_how_far_a_clock_may_be_ahead(
    capsys: pytest.CaptureFixture[str], first: str, second: str, expected: str
) -> None:
    assert told(capsys, "01.2", [[first], [second]]).startswith(f"Exercise 01.2: {expected}")


@pytest.mark.parametrize(
    ("a_to_b", "b_to_a", "tomorrow", "expected"),
    [
        ("completed", "completed", "completed", "done. B opens both keys"),
        ("completed", "completed", "refused: unknown key", "not done yet. What tomorrow's replicas seal"),
        ("completed", "refused: unknown key", "completed", "not done yet. B opens everything, but A cannot"),
        ("refused: unknown key", "refused: unknown key", "completed", "not done yet. What A asks, B cannot open"),
        ("no ring", "no ring", "no ring", "not done yet. The SDK cannot make a ring of that"),
    ],
)
def test_handing_a_second_key_to_half_of_the_replicas(
    capsys: pytest.CaptureFixture[str], a_to_b: str, b_to_a: str, tomorrow: str, expected: str
) -> None:
    answer = {"A to B": a_to_b, "B to A": b_to_a, "tomorrow to B": tomorrow}
    assert told(capsys, "02.1", answer).startswith(f"Exercise 02.1: {expected}")


METADATA, DATA = (f"secret/{kind}/mcp/request-state-keys" for kind in ("metadata", "data"))
PATHS = [METADATA, DATA, "secret/destroy/mcp/request-state-keys", "secret/metadata/mcp/"]
PATHS += ["secret/metadata/mcp/request-state-envelope", "transit/decrypt/mcp-request-state", "sys/wrapping/unwrap"]


def policy(path: str, *capabilities: str) -> str:
    return f'path "{path}" {{ capabilities = [{", ".join(f"{c!r}" for c in capabilities)}] }}'.replace("'", '"')


@pytest.mark.parametrize(
    ("hcl", "expected"),
    [
        (policy(METADATA, "read"), "done. It names one path"),
        (policy(DATA, "read"), "not done yet. With this policy the dashboard has the keys themselves"),
        (policy(METADATA, "read") + policy(DATA, "read"), "not done yet. With this policy the dashboard has the keys"),
        (policy("secret/*", "read"), "not done yet. With this policy the dashboard has the keys themselves"),
        (policy("secret/mcp/request-state-keys", "read"), "not done yet. The dashboard cannot do its job"),
        (policy("secret/metadata/*", "read"), "not done yet. The dashboard may also read at secret/metadata/mcp/"),
        (policy(f"{METADATA}*", "read"), "not done yet. It names secret/metadata/mcp/request-state-keys*: name"),
        (policy("secret/metadata/+/request-state-keys", "read"), "not done yet. It names secret/metadata/+/req"),
        (policy(METADATA, "read") + policy("sys/policies/acl/*", "update"), "not done yet. It names secret/metadata"),
        (policy(METADATA, "read", "delete"), "not done yet. At that path it may delete and read, and needs only"),
        (policy(METADATA, "list"), "not done yet. At that path it may list, and needs only `read`"),
        (policy(METADATA, "read") + policy("sys/wrapping/unwrap", "update"), "not done yet. The dashboard may also"),
        ("", "not done yet. OpenBao cannot read that policy"),
        ("path {", "not done yet. OpenBao cannot read that policy"),
        (policy(METADATA, "look"), "not done yet. OpenBao cannot read that policy"),
        (7, "not done yet. OpenBao cannot read that policy (it is of type int, and no text)"),
        (None, "not done yet. OpenBao cannot read that policy"),
        (b"path", "not done yet. OpenBao cannot read that policy"),
    ],
)
def test_writing_a_policy_for_somebody_who_only_watches(
    capsys: pytest.CaptureFixture[str], lab: labkit.Lab, hcl: Any, expected: str
) -> None:
    assert told(capsys, "02.2", rights(lab, hcl, PATHS)).startswith(f"Exercise 02.2: {expected}")
    assert not [name for name in lab.admin.sys.list_policies()["data"]["keys"] if name.startswith("try-")]


TOKEN, ZERO, OPENED = "vault:v1:AA", "vault:v01:AA", "done; the notes were: room 7"
SPELLED = {"token": TOKEN, "mine": "vault:v001:AA", "known": [ZERO], "ten lines": OPENED, "strict": FROZEN}


@pytest.mark.parametrize(
    ("different", "expected"),
    [
        ({}, "done. The ten lines open a string that nobody minted"),
        ({"mine": TOKEN}, "not done yet. That is the token itself"),
        ({"mine": ZERO}, "not done yet. That is one of those above"),
        ({"ten lines": FROZEN}, "not done yet. Transit does not open that"),
        ({"strict": OPENED}, "not done yet. The strict codec accepts it as well"),
        ({"mine": f"{TOKEN}\n"}, "not done yet. That is one of those above"),
        ({"mine": None}, "not done yet. Your function returned 'NoneType'"),
        ({"mine": b"vault"}, "not done yet. Your function returned 'bytes'"),
        ({"mine": KeyError()}, "not done yet. Your function failed (KeyError())"),
    ],
)
def test_finding_another_spelling(capsys: pytest.CaptureFixture[str], different: dict[str, Any], expected: str) -> None:
    assert told(capsys, "03.1", SPELLED | different).startswith(f"Exercise 03.1: {expected}")


@pytest.mark.parametrize(
    ("steps", "lost", "retired", "expected"),
    [
        (["rotate", "wait", "retire"], [], True, "done. The old version is retired"),
        (["wait", "rotate", "wait", "retire"], [], True, "done."),
        (["rotate", "retire"], ["retire"], True, "not done yet. Somebody who was asked before 'retire'"),
        (["wait", "rotate", "retire"], ["retire"], True, "not done yet. Somebody who was asked before 'retire'"),
        (["retire", "wait", "rotate"], [], False, "not done yet. Nobody was turned away, but the old version"),
        (["rotate", "wait"], [], False, "not done yet. Nobody was turned away, but the old version"),
        (["wait", "retire"], [], False, "not done yet. Without a new version"),
        ([], [], False, "not done yet. Without a new version"),
        (("rotate", "wait", "retire"), [], True, "done."),
        (["rotate", "sleep", "retire"], [], True, "not done yet. Give a list of steps"),
        ("rotate", [], False, "not done yet. Give a list of steps"),
        ([["rotate"]], [], False, "not done yet. Give a list of steps"),
    ],
)
def test_rotating_without_turning_anybody_away(
    capsys: pytest.CaptureFixture[str], steps: Any, lost: list[str], retired: bool, expected: str
) -> None:
    answer = {"steps": steps, "lost": lost, "retired": retired}
    assert told(capsys, "03.2", answer).startswith(f"Exercise 03.2: {expected}")


@pytest.mark.parametrize(
    ("batch", "wait", "rest", "expected"),
    [
        (64, 0.02, {"calls": 10}, "done. OpenBao is spared"),
        (8, 0.03, {"calls": 10}, "done."),
        (64, 0, {"calls": 78}, "not done yet. Too many calls"),
        (64, 0.005, {"calls": 5}, "not done yet. Too many calls"),
        (64, 0.02, {"calls": 80}, "not done yet. Too many calls"),
        (64, 0.1, {"calls": 2}, "not done yet. Whoever comes first waits"),
        (3, 0.02, {"calls": 27}, "not done yet. A batch of fewer than four"),
        (64, 20, {"error": ValueError("20 s")}, "not done yet. That is a wait of a second or more"),
        (1000, 0.02, {"error": ValueError("1 to 200")}, "not done yet. There is no such batch (1 to 200)"),
        ("64", 0.02, {"error": TypeError("a text")}, "not done yet. Give two numbers"),
        (64, None, {"error": TypeError("none")}, "not done yet. Give two numbers"),
        (64.5, 0.02, {"calls": 10}, "not done yet. Give two numbers"),
        (64, 0.02, {}, "not done yet. This is not what the cell gave at first"),
    ],
)
def test_choosing_the_limits_of_a_batch(
    capsys: pytest.CaptureFixture[str], batch: Any, wait: Any, rest: dict[str, Any], expected: str
) -> None:
    assert told(capsys, "03.3", {"batch": batch, "wait": wait, **rest}).startswith(f"Exercise 03.3: {expected}")


@pytest.mark.parametrize(
    ("timetable", "expected"),
    [
        ({"stage": 0, "activate": 60, "retire": 240}, "done. Each wait is for the slowest replica"),
        ({"stage": 0, "activate": 0, "retire": 0}, "not done yet. Activating at 0 is too early"),
        ({"stage": 0, "activate": 120, "retire": 300}, "not done yet. Activating at 120 is later than it need be"),
        ({"stage": 0, "activate": 60, "retire": 180}, "not done yet. The wait before retiring counts from"),
        ({"stage": 0, "activate": 60, "retire": 120}, "not done yet. Retiring at 120 is too early"),
        ({"stage": 0, "activate": 60, "retire": 300}, "not done yet. Retiring then is safe, and later"),
        ({"stage": 60, "activate": 120, "retire": 300}, "not done yet. The clock starts with the staging"),
        ({"stage": 0, "activate": "60", "retire": 240}, "not done yet. Give a number of seconds"),
        ({"stage": 0, "activate": True, "retire": 240}, "not done yet. Give a number of seconds"),
        ({"stage": 0, "activate": 60, "retire": float("nan")}, "not done yet. Give a number of seconds"),
        ({"stage": 0, "activate": 10**400, "retire": 240}, "not done yet. Give a number of seconds"),
    ],
)
def test_making_a_timetable(capsys: pytest.CaptureFixture[str], timetable: object, expected: str) -> None:
    assert told(capsys, "05.1", timetable).startswith(f"Exercise 05.1: {expected}")


@pytest.mark.parametrize(
    ("plan", "opened", "expected"),
    [
        ("stage activate retire", "unknown key", "done. Honest users are turned away for a while"),
        ("stage activate", True, "not done yet. The thief's state still opens"),
        ("stage 2 activate 4 retire", "unknown key", "not done yet. It is out, but the thief had all the time"),
        ("retire", "the next step is to stage", "not done yet. The plan stopped half-way (the next step is to stage)"),
        ("stage now", "could not convert string", "not done yet. The plan stopped half-way"),
        (["stage"], "no attribute 'split'", "not done yet. Give the plan as text"),
    ],
)
def test_putting_out_a_fire(capsys: pytest.CaptureFixture[str], plan: object, opened: object, expected: str) -> None:
    assert told(capsys, "05.2", {"plan": plan, "opened": opened}).startswith(f"Exercise 05.2: {expected}")


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (
            lambda state, age: "finish" if state == "executing" and age >= 60 else "leave",
            "done. You decided 9 of 9 operations as they should be.",
        ),
        (lambda state, age: "finish", "not done yet. Planned for 5 s, it would be started"),
        (lambda state, age: "leave", "not done yet. Executing for 300 s, it is left as it is"),
        (
            lambda state, age: "leave" if state == "planned" else "finish",
            "not done yet. Executing for 5 s, it would be",
        ),
        (
            lambda state, age: "leave" if state == "planned" or age < 60 else "finish",
            "not done yet. Done for 300 s, it would be done again",
        ),
        (lambda state, age: None, "not done yet. For an operation that is planned, it gives a NoneType: answer"),
        (lambda state, age: 60, "not done yet. For an operation that is planned, it gives 60: answer"),
        (lambda state, age: 10**5000, "not done yet. For an operation that is planned, it gives a value of type int:"),
        (lambda state, age: 1 // 0, "not done yet. For an operation that is planned, it gives ZeroDivisionError("),
    ],
)
def test_choosing_what_may_be_finished(capsys: pytest.CaptureFixture[str], choose: Any, expected: str) -> None:
    assert told(capsys, "06.1", judge_each(choose)).startswith(f"Exercise 06.1: {expected}")


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (["redeem", "begin", "delete", "finish"], "done. Stopped at any of 6 points, all objects are there, or none"),
        (["delete", "redeem", "begin", "finish"], "not done yet. Stopped after half of delete, 1 of 3 objects were"),
        (["redeem", "delete", "begin", "finish"], "not done yet. Stopped after half of delete, 2 of 3 objects were"),
        (["begin", "redeem", "delete", "finish"], "not done yet. Stopped after begin, 3 of 3 objects were gone"),
        (["redeem", "finish", "begin", "delete"], "not done yet. The ledger did not go along (finish: "),
        (["redeem"], "not done yet. Give each of the four steps once"),
        (None, "not done yet. Give each of the four steps once"),
    ],
)
def test_ordering_the_steps_of_a_purge(
    capsys: pytest.CaptureFixture[str], lab: labkit.Lab, order: Any, expected: str
) -> None:
    answer = play(order, labkit.SingleUse(lab.client("confirmations")), labkit.Ledger(lab.client("ledger")))
    assert told(capsys, "06.2", answer).startswith(f"Exercise 06.2: {expected}")


@given(st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
@pytest.mark.parametrize("exercise", sorted(_JUDGES))
def test_whatever_is_answered_there_is_a_hint_and_no_traceback(exercise: str, answer: object) -> None:
    labkit.check(exercise, answer)


def test_an_unknown_exercise_is_one_sentence() -> None:
    with pytest.raises(labkit.LabError, match=r"no exercise '99.9': use one of 00.1"):
        labkit.check("99.9", None)
