"""A rotation in its order, and in time."""

from __future__ import annotations

from mutants.mutant import CLOCK, ROTATION, TIMELINE, TRANSIT_ROTATION, Mutant

TOO_EARLY = "tests/test_rotation.py::test_a_step_that_is_too_early_is_refused_until_just_then"
IN_RANGE = "tests/test_rotation.py::test_a_time_that_cannot_be_is_turned_down"
PHASES = "tests/test_rotation.py::test_a_ring_whose_phase_does_not_fit_is_one_sentence_without_a_key"
TWO_CALLS = "tests/test_rotation.py::test_transit_rotates_and_retires_in_two_calls"

RANGE = "if not 0 <= seconds <= 86_400:"

ROTATIONS = [
    Mutant(
        "rotation: a new key is staged behind the old one",
        ROTATION,
        "[*state.keys, secrets.token_bytes(32)]",
        "[secrets.token_bytes(32), *state.keys]",
        TIMELINE,
    ),
    Mutant(
        "rotation: no step too early",
        ROTATION,
        "        if state.wait and not force:\n            raise RotationRefused(\n"
        '                f"It is too early to {step}',
        '        if False:\n            raise RotationRefused(\n                f"It is too early to {step}',
        TIMELINE,
    ),
    Mutant("rotation: time to activate", ROTATION, '"staged": max_stale,', '"staged": 0.0,', TOO_EARLY),
    Mutant(
        "rotation: time by OpenBao's clock",
        CLOCK,
        'return int(part(adapter.get("/v1/sys/health?standbyok=true"), "server_time_utc"))',
        "import time\n\n    return int(time.time())",
        "tests/test_rotation.py::test_the_time_is_openbaos_and_not_the_operators",
    ),
    Mutant("rotation: time to retire, for the rounds", ROTATION, "max_stale + ttl}", "max_stale}", TOO_EARLY),
    Mutant("rotation: time to retire, for the replicas", ROTATION, "max_stale + ttl}", "ttl}", TOO_EARLY),
    Mutant(
        "rotation: retired keys are destroyed",
        ROTATION,
        "earlier = tuple(int(n) for",
        "earlier = () and tuple(int(n) for",
        TIMELINE,
    ),
    Mutant(
        "rotation: an interrupted retirement is finished",
        ROTATION,
        'next="retire" if cleaning else _NEXT[phase],',
        "next=_NEXT[phase],",
        "tests/test_rotation.py::test_a_retirement_that_was_interrupted_is_finished_by_the_next_operator",
    ),
    Mutant(
        "rotation: check-and-set",
        ROTATION,
        "self._path, secret, cas=state.version, ",
        "self._path, secret, ",
        "tests/test_rotation.py::test_of_eight_operators_at_once_exactly_one_wins_and_the_others_are_told",
    ),
    Mutant(
        "rotation: a step in its turn",
        ROTATION,
        "if state.next != step:",
        "if False:",
        "tests/test_rotation.py::test_a_step_out_of_turn_is_refused_even_by_force",
    ),
    Mutant(
        "rotation: a phase that fits",
        ROTATION,
        "(count, phase) not in _FITTING:",
        "phase not in _NEXT:",
        PHASES,
    ),
    Mutant(
        "rotation: between two keys, not three",
        ROTATION,
        "(count, phase) not in _FITTING:",
        "(min(count, 2), phase) not in _FITTING:",
        PHASES,
    ),
    Mutant(
        "rotation: of two keys, somebody says which one seals",
        ROTATION,
        '"steady" if count == 1 else None)',
        '"steady" if count == 1 else "staged")',
        PHASES,
    ),
    Mutant(
        "rotation: what a ring written by hand replaced may be in use",
        ROTATION,
        'safe = phase == "steady" and not (cleaning and "phase" not in data)',
        'safe = phase == "steady"',
        "tests/test_rotation.py::test_what_a_ring_written_by_hand_replaced_is_kept_as_long_as_it_may_be_in_use",
    ),
    Mutant("rotation: no negative time", ROTATION, RANGE, "if not seconds <= 86_400:", IN_RANGE),
    Mutant("rotation: no time without end", ROTATION, RANGE, "if not 0 <= seconds:", IN_RANGE),
    Mutant(
        "rotation: Transit's time has the same range",
        TRANSIT_ROTATION,
        'self._ttl = in_range("ttl", ttl)',
        "self._ttl = ttl",
        IN_RANGE,
    ),
    Mutant(
        "rotation: no key in a repr",
        ROTATION,
        "keys: list[bytes] = field(repr=False)",
        "keys: list[bytes]",
        "tests/test_rotation.py::test_no_key_is_in_the_repr_of_a_state",
    ),
    Mutant(
        "rotation: Transit's versions are retired in time",
        TRANSIT_ROTATION,
        "        if state.wait and not force:\n            raise RotationRefused(\n"
        '                f"It is too early to retire',
        '        if False:\n            raise RotationRefused(\n                f"It is too early to retire',
        TWO_CALLS,
    ),
    Mutant("rotation: Transit's time is that of the rounds", TRANSIT_ROTATION, " + self._ttl + 1", " + 1", TWO_CALLS),
    Mutant(
        "rotation: something is left of Transit's versions",
        TRANSIT_ROTATION,
        "if state.oldest == state.latest:",
        "if False:",
        TWO_CALLS,
    ),
    Mutant(
        "operator: force is spelled out",
        "src/labkit/__main__.py",
        "            allow_abbrev=False,\n",
        "",
        "tests/test_operate.py::test_force_is_not_abbreviated",
    ),
    Mutant(
        "operator: what a forced step breaks is said",
        "src/labkit/operate.py",
        "    if early:\n",
        "    if False:\n",
        "tests/test_operate.py::test_the_ring_is_rotated_step_by_step",
    ),
]
