"""Judges of notebook 00."""

from __future__ import annotations

from typing import Any

from labkit.exercises.judge import Judge

_FROZEN = "error -32602: Invalid or expired requestState"


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

JUDGES: dict[str, Judge] = {"00.1": _forge_past_a_count, "00.2": _put_the_boundary_back}
