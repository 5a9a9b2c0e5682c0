"""Judges the exercises: done and what that proves, or a hint that fits the answer."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from labkit.errors import LabError

_FROZEN = "error -32602: Invalid or expired requestState"


def check(exercise: str, answer: Any) -> None:
    """Judge an answer to an exercise and print the result.

    Args:
        exercise: its number, such as "00.1".
        answer: the reader's, of any type; the notebook says what to give.

    Raises:
        LabError: there is no such exercise.
    """
    if exercise not in _EXERCISES:
        raise LabError(f"There is no exercise {exercise!r}: use one of {', '.join(sorted(_EXERCISES))}.")
    try:
        done, sentence = _EXERCISES[exercise](answer)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        done, sentence = (
            False,
            "This is not what the cell gave at first: restore it, and change only what is asked for.",
        )
    print(textwrap.fill(f"Exercise {exercise}: {'done' if done else 'not done yet'}. {sentence}", width=76))


def _forge_past_a_count(outcome: dict[str, Any]) -> tuple[bool, str]:
    files, deleted, said = outcome["files"], outcome["deleted"], outcome["said"]
    if not isinstance(files, list) or not all(isinstance(key, str) for key in files):
        return False, f"my_files is a {type(files).__name__}: give a list of keys, each a string in quotes."
    if not files:
        return False, f"The server said: {said}"
    unknown = [key for key in files if key not in _KEYS]
    if unknown:
        return False, f"There is no object {unknown[0]!r} in the bucket: mind the spelling, and the comma between two."
    if said.startswith("REFUSED"):
        return False, f"The server said: {said} Name as many as it expects, and choose which."
    if _SECRET not in deleted:
        return False, "Those are the objects that the user did confirm: name the one that they never saw."
    if len(files) != 3:
        return False, "That was another server: play your state on `counting`."
    return True, f"Three objects were asked about, three were named, and {_SECRET} is gone: a count is no seal."


def _put_the_boundary_back(outcomes: list[dict[str, Any]]) -> tuple[bool, str]:
    honest, forged = outcomes
    if not honest["said"].startswith("Purged 3"):
        return False, (
            f"Now the honest round fails ({honest['said']}). A defense must let honest users through: append one "
            "RequestStateBoundary, made as described above, and nothing else."
        )
    if _KEYS[2] not in honest["said"]:
        return False, "This is another server: keep `defended` as the first line makes it."
    if _SECRET in forged["deleted"]:
        return False, (
            f"The forged state still deleted {_SECRET}: nothing between the wire and the tool of `defended` looks at "
            "the state yet. Append a RequestStateBoundary to defended.middleware."
        )
    if forged["said"] != _FROZEN or forged["logged"] != ["malformed"]:
        return False, (
            f"The forged state was not turned down by the SDK's boundary; the answer was: {forged['said']!r}. Keep the "
            "tool, `forge` and `play` as they are, and leave the refusal to the boundary."
        )
    return (
        True,
        f"The honest round still purges three logs. The forged one got {_FROZEN!r}, and the log says: malformed.",
    )


_SECRET = "secrets/root.key"  # noqa: S105
_KEYS = ["logs/2026-08-01.log", "logs/2026-08-02.log", "logs/2026-08-03.log", _SECRET]


def _three_reasons(reasons: dict[str, str]) -> tuple[bool, str]:
    for wanted in ("malformed", "unknown key", "seal"):
        got = reasons[wanted]
        if got == "accepted":
            return False, f"Your string for {wanted!r} is a genuine token, and the codec accepts it: change it."
        if got != wanted:
            return False, f"Your string for {wanted!r} is refused as {got!r}. {_WHERE[wanted]}"
    return True, "The prefix and the spelling come first, then the key id, and the tag has the last word."


_WHERE = {
    "malformed": "The codec reads the prefix and the base64url first: spoil one of these.",
    "unknown key": "The key id is in the six characters after the prefix; or seal with a key that is not in the ring.",
    "seal": "Keep the prefix and the six characters after it, and change one in the middle.",
}


def _clock_ahead(answers: list[list[str]]) -> tuple[bool, str]:
    (first,), (second,) = answers
    late = "minted in the future"
    if first == late:
        return False, "Your number is refused already: try a smaller one."
    if "room 7" not in first:
        return (
            False,
            f"Your number is refused, but as {first!r}: a whole number of seconds, zero or more, is asked for.",
        )
    if second != late:
        return False, "Five seconds more are accepted too: try a larger number."
    return (
        True,
        "The boundary allows a clock to be a minute ahead: enough for replicas, too little to store a token up.",
    )


_EXERCISES: dict[str, Callable[[Any], tuple[bool, str]]] = {
    "00.1": _forge_past_a_count,
    "00.2": _put_the_boundary_back,
    "01.1": _three_reasons,
    "01.2": _clock_ahead,
}
