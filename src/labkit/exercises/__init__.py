"""Judges the exercises: done and what that proves, or a hint that fits the answer."""

from __future__ import annotations

import textwrap
from typing import Any

from labkit.errors import LabError
from labkit.exercises import (
    attack_board,
    crash_safety,
    envelope_anatomy,
    rotation_timeline,
    shared_key_ring,
    single_use,
    start_here,
    transit_codec,
)

_JUDGES = (
    start_here.JUDGES
    | envelope_anatomy.JUDGES
    | shared_key_ring.JUDGES
    | transit_codec.JUDGES
    | single_use.JUDGES
    | rotation_timeline.JUDGES
    | crash_safety.JUDGES
    | attack_board.JUDGES
)


def check(exercise: str, answer: Any) -> None:
    """Judge an answer to an exercise and print the result.

    Args:
        exercise: its number, such as "00.1".
        answer: the reader's, of any type; the notebook says what to give.

    Raises:
        LabError: there is no such exercise.
    """
    if exercise not in _JUDGES:
        raise LabError(f"There is no exercise {exercise!r}: use one of {', '.join(sorted(_JUDGES))}.")
    try:
        done, sentence = _JUDGES[exercise](answer)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        done, sentence = (
            False,
            "This is not what the cell gave at first: restore it, and change only what is asked for.",
        )
    print(
        textwrap.fill(
            f"Exercise {exercise}: {'done' if done else 'not done yet'}. {sentence}", width=76, break_on_hyphens=False
        )
    )
