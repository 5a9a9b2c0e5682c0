"""A figure: two things measured in turn in one run, as a ratio with a bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

Measure = Callable[[], float]


class Figure(NamedTuple):
    """What was measured, what it must reach, and what else there is to say.

    Attributes:
        name: what is divided by what.
        value: a ratio, or a number with its unit in the name.
        bound: what `value` must reach; at most, or at least.
        at_least: whether more is better.
        detail: the two medians, for people.
    """

    name: str
    value: float
    bound: float
    at_least: bool
    detail: str

    @property
    def holds(self) -> bool:
        """Whether the bound is reached."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def row(self) -> str:
        """One line of the table."""
        sign, verdict = (">=" if self.at_least else "<="), ("holds" if self.holds else "MISSED")
        return f"{self.name:<68} {self.value:7.2f}  {sign} {self.bound:<5g} {verdict:<7} {self.detail}"


def ratio(
    name: str, one: Measure, other: Measure, *, bound: float, at_least: bool = False, rounds: int = 15, unit: str = "s"
) -> Figure:
    """Measure `one` and `other` in turn, and return the ratio of their medians."""
    pairs = [(one(), other()) for _ in range(rounds)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    detail = f"({first:.4g} {unit} / {second:.4g} {unit}, median of {rounds})"
    return Figure(name, first / second, bound, at_least, detail)
