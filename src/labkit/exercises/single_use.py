"""Judges of notebook 04, the answers that a redeemer has to tell apart, and the plans that a tool has to check."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.exercises.judge import Judge

ACT, REFUSE, ASK, OUTAGE = WORDS = ("act", "refuse", "ask once more", "report an outage")
"""What a redeemer can do with an answer of OpenBao."""

_GONE = "wrapping token is not valid or does not exist"
ANSWERS: dict[str, tuple[int, Any]] = {
    "200 with a plan": (200, {"data": {"plan": json.dumps({"keys": ["logs/1"]})}}),
    "200 without a plan": (200, {"data": {"note": "not from this tool"}}),
    "200 with null for a plan": (200, {"data": {"plan": None}}),
    "200 with a login in place of data": (200, {"data": None, "auth": {"policies": ["default"]}}),
    "204": (204, None),
    "400": (400, {"errors": [_GONE]}),
    "403": (403, {"errors": ["permission denied"]}),
    "500": (500, {"errors": ["1 error occurred:\n\t* internal error\n\n"]}),
    "503": (503, {"errors": ["Vault is sealed"]}),
    "400 of a proxy": (400, None),
    "502 of a proxy": (502, None),
}
"""Status and JSON of answers to `sys/wrapping/unwrap`, as OpenBao 2.7 gave them; a proxy's HTML is no JSON."""

_RIGHT = {
    "200 with a plan": ACT,
    "200 without a plan": REFUSE,
    "200 with null for a plan": REFUSE,
    "200 with a login in place of data": REFUSE,
    "204": ASK,
    "400": REFUSE,
    "403": OUTAGE,
    "500": ASK,
    "503": OUTAGE,
    "400 of a proxy": OUTAGE,
    "502 of a proxy": OUTAGE,
}
_HINTS = {
    "200 with a plan": "That is the one answer that is a redemption: act on its plan.",
    "200 without a plan": "The claim was good and is now gone, but nothing behind it is a plan: there is nothing to "
    "act on, and nothing to ask for again. Look for body['data']['plan'].",
    "200 with null for a plan": "The field is there, and null is no plan: whoever may wrap can put anything into it.",
    "200 with a login in place of data": "Somebody wrapped a login of theirs; its data is null, so there is no plan.",
    "204": "A 204 is no error, and it is no plan either. Somebody else may have the plan: ask once more, which usually "
    "settles it.",
    "400": "With its 400 OpenBao says that the claim is gone, and that is final.",
    "403": "A 403 is about the caller's own token. The claim was not touched, and the user has done nothing wrong: "
    "this is an outage, not a replay.",
    "500": "Among racing redeemers a 500 is a loser, most likely; but not surely. Ask once more, which usually settles "
    "it.",
    "503": "A sealed OpenBao has not looked at the claim, which may still be valid: this is an outage, not a replay.",
    "400 of a proxy": "It has no JSON, so it is not OpenBao that says so: nobody has told you that the claim is gone.",
    "502 of a proxy": "A proxy could not reach OpenBao, or lost its answer: this is an outage, not a replay.",
}


class Raised(NamedTuple):
    """What became of a reader's function that raised."""

    kind: str
    message: str
    inside: bool
    """In the function's own code; otherwise it could not be called like that."""


def _decided(function: Callable[..., Any], *given: Any) -> Any:
    """What `function` makes of copies of `given`, which it may change as it likes; an exception is an answer too."""
    try:
        return function(*copy.deepcopy(given))
    except Exception as error:
        inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        return Raised(type(error).__name__, str(error), inside)


def _raised(raised: Raised, of: str, missing: str) -> str:
    """A hint for an exception; `missing` says what may not be there, which explains some kinds of them."""
    told = f"{of}, your function raised {raised.kind}: {raised.message[:80]}."
    if not raised.inside:
        return f"{told} Keep it a function of two arguments, as it was."
    return f"{told} {missing}" if raised.kind in _OF_WHAT_IS_MISSING else told


_OF_WHAT_IS_MISSING = ("KeyError", "TypeError", "AttributeError", "IndexError")


def decide_each(decide: Callable[[int, Any], Any]) -> dict[str, Any]:
    """Return what `decide(status, body)` makes of each of `ANSWERS`; an exception becomes a `Raised`."""
    return {name: _decided(decide, *answer) for name, answer in ANSWERS.items()}


def _read_every_answer(decided: dict[str, Any]) -> tuple[bool, str]:
    # The 204 first: it is the answer that the naive rule gets wrong, and the one that costs most.
    for name in ("204", *_RIGHT):
        got = decided[name]
        if isinstance(got, Raised):
            bare = "" if name == "200 with a plan" else "Not every answer has a body with everything in it."
            return False, _raised(got, f"On the {name}", bare)
        if got not in WORDS:
            return False, f"On the {name}, your function returned {str(got)[:40]!r}: use one of {', '.join(WORDS)}."
        if got != _RIGHT[name]:
            return False, f"On the {name}, your function says {got!r}. {_HINTS[name]}"
    return True, (
        "Only a 200 with a plan is a redemption. OpenBao's own 400, and a 200 without a plan, are a no. An outage is "
        "neither."
    )


_LOGS = {"tool": "archive_objects", "arguments": {"prefix": "logs/"}, "principal": "alice"}
_NOBODY = {**_LOGS, "principal": None}
_KEYS = {"keys": ["logs/1"]}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "its own request": ({**_LOGS, **_KEYS}, _LOGS),
    "its own request, nobody signed in": ({**_NOBODY, **_KEYS}, _NOBODY),
    "another tool": ({**_LOGS, "tool": "purge_objects", **_KEYS}, _LOGS),
    "other arguments": ({**_LOGS, "arguments": {"prefix": "secrets/"}, **_KEYS}, _LOGS),
    "a narrower prefix": ({**_LOGS, "arguments": {"prefix": "logs/2026"}, **_KEYS}, _LOGS),
    "another user": ({**_LOGS, "principal": "bob", **_KEYS}, _LOGS),
    "no user in the plan": ({"tool": _LOGS["tool"], "arguments": _LOGS["arguments"], **_KEYS}, _NOBODY),
}
"""Plans, each with the request that presents its claim."""


def check_each(
    is_for: Callable[[dict[str, Any], dict[str, Any]], Any],
    through_openbao: Callable[[dict[str, Any]], dict[str, Any]] = copy.deepcopy,
) -> dict[str, Any]:
    """Return what `is_for(plan, request)` makes of each of `CASES`; an exception becomes a `Raised`.

    Args:
        is_for: the reader's.
        through_openbao: parks a plan and redeems it; what it raises is not the reader's doing, and is raised on.
    """
    return {name: _decided(is_for, through_openbao(plan), request) for name, (plan, request) in CASES.items()}


def _check_the_plan(decided: dict[str, Any]) -> tuple[bool, str]:
    for name in CASES:
        got = decided[name]
        honest = name.startswith("its own")
        if isinstance(got, Raised):
            return False, _raised(got, f"For {name!r}", "A field may be missing from a plan.")
        if not isinstance(got, bool):
            return False, f"For {name!r}, your function gave {str(got)[:40]!r}: return True or False."
        if got is honest:
            continue
        if honest:
            return False, f"For {name!r}, your function returned False: a check must let honest requests through."
        return False, f"A plan for {name!r} got through. {_MISSED[name]}"
    return True, "A plan counts for the tool, the arguments and the user that it names, and for nothing else."


_MISSED = {
    "another tool": "Compare the tool: one OpenBao may keep the plans of many.",
    "other arguments": "Compare the arguments: they are what the user was asked about.",
    "a narrower prefix": "Arguments that only begin alike are other arguments: compare them as a whole.",
    "another user": "Compare the principal: a yes is somebody's yes.",
    "no user in the plan": "It names no principal at all, and .get() makes that look like nobody: a field that is "
    "missing must not match.",
}

JUDGES: dict[str, Judge] = {"04.1": _read_every_answer, "04.2": _check_the_plan}
