"""Judges of notebook 03."""

from __future__ import annotations

from typing import Any

from labkit.exercises.judge import Judge


def _another_spelling(told: dict[str, Any]) -> tuple[bool, str]:
    if isinstance(told["mine"], Exception):
        return False, f"Your function failed ({told['mine']!r}): it takes a string and returns one."
    if not isinstance(told["mine"], str):
        return False, f"Your function returned a {type(told['mine']).__name__}: it takes a string and returns one."
    if told["mine"] == told["token"]:
        return False, "That is the token itself, which both accept: change it in a way that Transit does not mind."
    if told["mine"] in told["known"]:
        return False, "That is one of those above: find another one."
    if "room 7" not in told["ten lines"]:
        return False, (
            "Transit does not open that: change how the version is written, or what a base64 decoder skips; the "
            "ciphertext itself is under the tag."
        )
    if "room 7" in told["strict"]:
        return False, "The strict codec accepts it as well, so it is no other spelling: is the token changed each time?"
    return True, "The ten lines open a string that nobody minted; the strict codec refuses it."


def _no_user_turned_away(outcome: dict[str, Any]) -> tuple[bool, str]:
    steps, lost = outcome["steps"], outcome["lost"]
    if not isinstance(steps, list | tuple) or not set(steps) <= {"rotate", "retire", "wait"}:
        return False, 'Give a list of steps, made of "rotate", "retire" and "wait".'
    if "rotate" not in steps:
        return False, "Without a new version, the current one cannot be retired: begin with that."
    if lost:
        return False, (
            f"Somebody who was asked before {lost[0]!r} was turned away after it, as `unknown key`: let the open "
            "questions run out before the version that they are sealed with is retired."
        )
    if not outcome["retired"]:
        return False, "Nobody was turned away, but the old version still opens: retire it, after the new one is there."
    return True, "The new version seals, the open questions run out, and only then does the old version go."


JUDGES: dict[str, Judge] = {"03.1": _another_spelling, "03.2": _no_user_turned_away}
