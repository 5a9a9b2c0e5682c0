"""What the exercises of notebook 06 play, and their judges."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from labkit.bucket import Bucket
from labkit.exercises.judge import Judge
from labkit.janitor import TOOL, recover
from labkit.ledger import Ledger
from labkit.single_use import AlreadyRedeemed, SingleUse

_STEPS = ("begin", "delete", "finish", "redeem")
_KEYS = ["logs/1", "logs/2", "logs/3"]
# state, seconds in it, and what is right when a server may need 60 s and a claim lives for 120
_RECORDS = [
    ("planned", 5, "leave"),
    ("planned", 90, "leave"),
    ("executing", 5, "leave"),
    ("executing", 300, "finish"),
    ("executing", 55, "leave"),
    ("executing", 65, "finish"),
    ("done", 5, "leave"),
    ("done", 300, "leave"),
    ("planned", 300, "leave"),
]


def play(order: Sequence[str], single_use: SingleUse, ledger: Ledger) -> dict[str, Any]:
    """Carry out the steps of a confirmed purge in `order` on the real OpenBao, once for each point to stop at.

    Args:
        order: the four steps, such as ["redeem", "begin", "delete", "finish"].
        single_use: where the plan is parked.
        ledger: where the purge is written down.

    Returns:
        The order, and for each point to stop at, what it was, how many objects a recovery has left, and whether the
        confirmation can still be redeemed then.
    """
    if not isinstance(order, list | tuple) or sorted(map(str, order)) != list(_STEPS):
        return {"order": [], "stops": []}
    ends = ["nothing", *order]
    ends.insert(ends.index("delete"), "half of delete")
    return {"order": list(order), "stops": [_stop(order, end, single_use, ledger) for end in ends]}


def _stop(order: Sequence[str], end: str, single_use: SingleUse, ledger: Ledger) -> tuple[str, int, bool]:
    bucket = Bucket()
    bucket.reset(_KEYS)
    name = uuid.uuid4().hex
    plan = {"tool": TOOL, "arguments": {"prefix": "logs/"}, "principal": None, "keys": _KEYS, "operation": name}
    plan["bucket"] = bucket.name
    claim = single_use.issue(plan)
    ledger.plan(name, plan)
    steps: dict[str, Callable[[], Any]] = {
        "redeem": lambda: single_use.redeem(claim),
        "begin": lambda: ledger.begin(name, plan),
        "delete": lambda: [bucket.delete(key) for key in _KEYS],
        "finish": lambda: ledger.finish(name, plan),
    }
    done: list[str] = []
    for step in order:
        if end == "nothing" or (done and done[-1] == end):
            break
        if step == "delete" and end == "half of delete":
            bucket.delete(_KEYS[0])
            break
        try:
            steps[step]()
        except Exception as error:  # an order that the ledger does not go along with
            return f"{step}: {type(error).__name__}", len(bucket.keys()), False
        done.append(step)
    recover(ledger, bucket, after=0)
    left = len(bucket.keys())
    try:
        single_use.redeem(claim)
    except AlreadyRedeemed:
        return end, left, False
    return end, left, True


def _order(outcome: dict[str, Any]) -> tuple[bool, str]:
    order, stops = list(outcome["order"]), outcome["stops"]
    if not stops:
        return False, f"Give each of the four steps once: {', '.join(_STEPS)}."
    for end, left, open_ in stops:
        if end not in ("nothing", "half of delete", *order):
            return False, f"The ledger did not go along ({end}): what is finished must have been begun."
        if open_ and left < len(_KEYS):
            return False, (
                f"Stopped after {end}, {len(_KEYS) - left} of {len(_KEYS)} objects were gone, and the confirmation "
                "could still be used: nobody had redeemed it."
            )
        if 0 < left < len(_KEYS):
            return False, f"Stopped after {end}, {left} of {len(_KEYS)} objects were left, and nobody will come back."
    return True, f"Stopped at any of {len(stops)} points, all objects are there, or none is."


def judge_each(choose: Callable[[str, int], str]) -> list[tuple[str, int, str, Any]]:
    """Ask `choose(state, age)` about each record; return state, age, what is right, and what it said."""
    return [(state, age, right, _asked(choose, state, age)) for state, age, right in _RECORDS]


def _asked(choose: Callable[[str, int], str], state: str, age: int) -> Any:
    try:
        return choose(state, age)
    except Exception as error:
        return error


def _choices(choices: list[tuple[str, int, str, Any]]) -> tuple[bool, str]:
    for state, age, right, said in choices:
        if said not in ("leave", "finish"):
            return False, f'For an operation that is {state}, it gives {_shown(said)}: answer "leave" or "finish".'
        if said == right:
            continue
        if state == "planned":
            return False, f"Planned for {age} s, it would be started: nobody has confirmed it."
        if state == "done":
            return False, f"Done for {age} s, it would be done again: objects that came since would go, too."
        if right == "leave":
            return False, f"Executing for {age} s, it would be taken over: a server that is alive is at work on it."
        return False, f"Executing for {age} s, it is left as it is: its server will not come back."
    return True, f"You decided {len(choices)} of {len(choices)} operations as they should be."


def _shown(said: Any) -> str:
    try:
        return repr(said)[:60] if isinstance(said, str | int | Exception) else f"a {type(said).__name__}"
    except Exception:  # an int of thousands of digits, above all
        return f"a value of type {type(said).__name__}"


JUDGES: dict[str, Judge] = {"06.1": _choices, "06.2": _order}
