"""Judges of notebook 03."""

from __future__ import annotations

from typing import Any

from labkit.exercises.judge import Judge


def _seventh_spelling(told: dict[str, Any]) -> tuple[bool, str]:
    if "error" in told:
        return False, f"Your function failed ({told['error']}): it takes a string and returns one."
    ten, strict = told["TenLineCodec"], told["TransitCodec"]
    token, *six = told["known"]
    if told["mine"] == token:
        return False, "That is the token itself, which both accept: change it in a way that Transit does not mind."
    if "room 7" not in ten:
        return False, (
            "Transit does not open that: change how the version is written, or what a base64 decoder skips; the "
            "ciphertext itself is under the tag."
        )
    if told["mine"] in six:
        return False, "It works, and it is one of the six: find another one."
    if "room 7" in strict:
        return False, "The strict codec accepts it as well, so it is no other spelling: is the token changed each time?"
    return True, "The ten lines open a string that nobody minted; the strict codec refuses it before it asks OpenBao."


def _no_user_turned_away(outcome: dict[str, Any]) -> tuple[bool, str]:
    steps, lost = outcome["steps"], outcome["lost"]
    if not isinstance(steps, list) or not set(steps) <= {"rotate", "retire", "wait"}:
        return False, 'Give a list of steps, made of "rotate", "retire" and "wait".'
    if "rotate" not in steps:
        return False, "There is only one version yet, and the current one cannot be retired: begin with a new one."
    if lost:
        return False, (
            f"Somebody who was asked before {lost[0]!r} was turned away after it, as `unknown key`: let the open "
            "questions run out before the version that they are sealed with is retired."
        )
    if not outcome["retired"]:
        return False, "Nobody was turned away, but the old version still opens: retire it, after the new one is there."
    return True, "The new version seals, the open questions run out, and only then does the old version go."


JUDGES: dict[str, Judge] = {"03.1": _seventh_spelling, "03.2": _no_user_turned_away}
