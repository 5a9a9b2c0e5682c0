"""Judges of notebook 03."""

from __future__ import annotations

from typing import Any

from labkit.exercises.judge import Judge


def _another_spelling(told: dict[str, Any]) -> tuple[bool, str]:
    if isinstance(told["mine"], Exception):
        return False, f"Your function failed ({told['mine']!r}): it takes a string and returns one."
    if not isinstance(told["mine"], str):
        return False, f"Your function returned {type(told['mine']).__name__!r}: it takes a string and returns one."
    if told["mine"] == told["token"]:
        return False, "That is the token itself, which both accept: change it in a way that Transit does not mind."
    if told["mine"] in told["known"] or "".join(told["mine"].split()) == told["token"]:
        return False, "That is one of those above: find another one, and not with a line end or a space."
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
    if not isinstance(steps, list | tuple) or any(step not in ("rotate", "retire", "wait") for step in steps):
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
    return True, "The old version is retired, and nobody was turned away."


def _limits_of_a_batch(outcome: dict[str, Any]) -> tuple[bool, str]:
    batch, wait = outcome["batch"], outcome["wait"]
    if type(batch) is not int or type(wait) not in (int, float):
        return False, "Give two numbers: a whole one for the states, and one of seconds."
    if wait >= 1:
        return False, "That is a wait of a second or more: it is given in seconds, and a millisecond is 0.001."
    if "error" in outcome:
        return False, f"There is no such batch ({outcome['error']})."
    if wait > 0.03:
        return False, "Whoever comes first waits for all of that, which is longer than 30 milliseconds."
    if batch < 4:
        return False, "A batch of fewer than four can never have four states: let it be larger."
    # Not by the calls alone: where a machine is busy, users come in heaps, and any limits will do.
    if 1 + wait / 0.0025 < 4 or outcome["calls"] >= 80:
        return False, "Too many calls: hardly anybody else comes before a batch goes."
    return True, "OpenBao is spared, and nobody waits longer than they may."


JUDGES: dict[str, Judge] = {"03.1": _another_spelling, "03.2": _no_user_turned_away, "03.3": _limits_of_a_batch}
