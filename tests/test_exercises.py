"""An exercise tells a right answer from the usual wrong ones, and never fails on any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit

FROZEN = "error -32602: Invalid or expired requestState"
LOGS = [f"logs/2026-08-0{day}.log" for day in (1, 2, 3)]
GOOD = {"said": "Purged 3 object(s): …", "deleted": LOGS, "logged": []}


def told(capsys: pytest.CaptureFixture[str], exercise: str, answer: object) -> str:
    labkit.check(exercise, answer)
    return capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    ("said", "deleted", "expected"),
    [
        ("Purged 3 object(s)", ["secrets/root.key", *LOGS[:2]], "done. Three objects were asked about"),
        ("Purged 3 object(s)", ["secrets/root.key"], "done. Three objects were asked about"),
        ("Purged 3 object(s)", LOGS, "not done yet. It deleted 3 of the logs"),
        ("REFUSED: the state names 0 object(s), and the question was about 3.", [], "not done yet. The server said"),
        ("error -32603: Internal error", [], "not done yet. The server could not read your state"),
        ("Purged 0 object(s): ", [], "not done yet. Nothing was deleted"),
    ],
)
def test_forging_past_a_count(capsys: pytest.CaptureFixture[str], said: str, deleted: list[str], expected: str) -> None:
    assert told(capsys, "00.1", {"said": said, "deleted": deleted}).startswith(f"Exercise 00.1: {expected}")


@pytest.mark.parametrize(
    ("honest", "forged", "expected"),
    [
        (GOOD, {"said": FROZEN, "deleted": [], "logged": ["malformed"]}, "done. The honest round still purges"),
        (
            GOOD,
            {"said": "Purged 1", "deleted": ["secrets/root.key"], "logged": []},
            "not done yet. The forged state still",
        ),
        (GOOD, {"said": "REFUSED: no", "deleted": [], "logged": []}, "not done yet. The forged state was turned down"),
        ({"said": FROZEN}, {"said": FROZEN, "deleted": []}, "not done yet. Now the honest round fails too"),
    ],
)
def test_putting_the_boundary_back(
    capsys: pytest.CaptureFixture[str], honest: object, forged: object, expected: str
) -> None:
    assert told(capsys, "00.2", [honest, forged]).startswith(f"Exercise 00.2: {expected}")


@given(st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
@pytest.mark.parametrize("exercise", ["00.1", "00.2"])
def test_whatever_is_answered_there_is_a_hint_and_no_traceback(exercise: str, answer: object) -> None:
    labkit.check(exercise, answer)


def test_an_unknown_exercise_is_one_sentence() -> None:
    with pytest.raises(labkit.LabError, match=r"no exercise '99.9': use one of 00.1"):
        labkit.check("99.9", None)
