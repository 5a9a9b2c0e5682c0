"""Judges of notebook 02."""

from __future__ import annotations

from labkit.exercises.judge import Judge

_RING = "mcp/request-state-keys"


def _half_of_the_replicas(rounds: dict[str, str]) -> tuple[bool, str]:
    to_b, from_b, tomorrow = rounds["A to B"], rounds["B to A"], rounds["tomorrow to B"]
    if "no ring" in (to_b, from_b, tomorrow):
        return False, "The SDK cannot make a ring of that: give a list of keys, such as `[old]`."
    if to_b != "completed":
        return False, f"What A asks, B cannot open ({to_b}): B still needs the key that A seals with."
    if tomorrow != "completed":
        return False, f"What tomorrow's replicas seal, B cannot open ({tomorrow}): B needs the new key too."
    if from_b != "completed":
        return False, f"B opens everything, but A cannot open what B seals ({from_b}): the first key of a ring seals."
    return (
        True,
        "B opens both keys and seals with the one that everybody has: a new key is handed out before it is used.",
    )


def _only_watches(rights: dict[str, list[str]]) -> tuple[bool, str]:
    if "error" in rights:
        return False, f"OpenBao cannot read that policy ({rights['error'][0]}): compare its form with the one above."
    wanted, named = f"secret/metadata/{_RING}", rights.pop("paths")
    extra = {path: can for path, can in rights.items() if path != wanted and can != ["deny"]}
    if f"secret/data/{_RING}" in extra:
        return (
            False,
            "With this policy the dashboard has the keys themselves: `data` is the content, `metadata` is not.",
        )
    if rights[wanted] == ["deny"]:
        return False, f"The dashboard cannot do its job: it needs to read {wanted}. KV v2 has `metadata` in the path."
    if extra:
        path, can = next(iter(extra.items()))
        return (
            False,
            f"The dashboard may also {' and '.join(can)} at {path}: name one path in full, without a wildcard.",
        )
    if named != [wanted]:
        return False, f"It names {', '.join(named) or 'no path'}: name just one path, in full and without a wildcard."
    if rights[wanted] != ["read"]:
        more = " Deleting the metadata deletes the ring." if "delete" in rights[wanted] else ""
        return False, f"At that path it may {' and '.join(rights[wanted])}, and needs only `read`.{more}"
    return True, "It names one path and one capability: when the ring was changed, and neither a key nor anything else."


JUDGES: dict[str, Judge] = {"02.1": _half_of_the_replicas, "02.2": _only_watches}
