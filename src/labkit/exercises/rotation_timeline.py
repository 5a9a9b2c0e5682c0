"""Judges of notebook 05."""

from __future__ import annotations

import re
from typing import Any

from labkit.exercises.judge import Judge


def _timetable(timetable: dict[str, Any]) -> tuple[bool, str]:
    stage, activate, retire = timetable["stage"], timetable["activate"], timetable["retire"]
    times = (stage, activate, retire)
    if not all(isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at <= 86_400 for at in times):
        return False, "Give a number of seconds for each step."
    if stage != 0:
        return False, "The clock starts with the staging: leave that at 0."
    if activate != 60:
        early = activate < 60
        why = (
            "a replica may still hold the ring from before"
            if early
            else "every replica has read the staged ring by then"
        )
        return False, f"Activating at {activate} is {'too early' if early else 'later than it need be'}: {why}."
    if retire == 180:
        return False, "The wait before retiring counts from the activation, and not from the staging."
    if retire < 240:
        return False, (
            f"Retiring at {retire} is too early: the last replica stops sealing with the old key 60 s after the "
            "activation, and what it sealed lives for another 120 s."
        )
    if retire != 240:
        return False, "Retiring then is safe, and later than it need be."
    return True, "Each wait is for the slowest replica that keeps its promise, and the last one for a slow user, too."


def _put_out(outcome: dict[str, Any]) -> tuple[bool, str]:
    plan, opened = outcome["plan"], outcome["opened"]
    if not isinstance(plan, str):
        return False, 'Give the plan as text, such as "stage activate".'
    if isinstance(opened, str) and opened.endswith("mend the plan."):
        return False, opened
    if opened is True:
        return False, "The thief's state still opens: the leaked key is in the ring until it is retired."
    if opened != "unknown key":
        return False, f"The plan stopped half-way ({opened}): use stage, activate and retire, in this order."
    if re.search(r"[1-9]", plan.partition("retire")[0]):
        return False, "It is out, but the thief had all the time that the plan waits: what are the waits good for now?"
    return True, (
        "Honest users are turned away for a while; so is the thief, unless they can still read the ring. So end the "
        "stolen login first. And a replica that cannot reach OpenBao goes on for up to max_stale: start it anew, or "
        "stop it."
    )


JUDGES: dict[str, Judge] = {"05.1": _timetable, "05.2": _put_out}
