"""Judges of notebook 01."""

from __future__ import annotations

from labkit.exercises.judge import Judge


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


JUDGES: dict[str, Judge] = {"01.1": _three_reasons, "01.2": _clock_ahead}
