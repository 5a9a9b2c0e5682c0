"""A figure: two things measured in turn in one run, as a ratio with a bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

Measure = Callable[[], float]


class Figure(NamedTuple):
    """What was measured, what it must reach, and what else there is to say.

    Attributes:
        name: what is divided by what, or a quantity with its unit.
        measured: that.
        bound: what it must reach; at most, or at least.
        at_least: whether more is better.
        detail: the two medians, for people.
        limit: what stands in the way of more, and how that was found.
    """

    name: str
    measured: float
    bound: float
    at_least: bool
    detail: str
    limit: str = ""

    @property
    def value(self) -> float:
        """What was measured, in hundredths: from run to run, it differs by more than that."""
        return round(self.measured, 2)

    @property
    def holds(self) -> bool:
        """Whether the bound is reached."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def row(self) -> str:
        """A line of the table, and another one about the limit."""
        sign, verdict = (">=" if self.at_least else "<="), ("holds" if self.holds else "MISSED")
        line = f"{self.name:<66} {self.value:6.2f}  {sign} {self.bound:<5g} {verdict:<7} {self.detail}"
        return f"{line}\n    {self.limit}" if self.limit else line


def ratio(
    name: str,
    one: Measure,
    other: Measure,
    *,
    bound: float,
    at_least: bool = False,
    rounds: int = 15,
    unit: str = "s",
    limit: str = "",
) -> Figure:
    """Measure `one` and `other` in turn, and return the ratio of their medians."""
    pairs = [(one(), other()) for _ in range(rounds)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    detail = f"({first:.4g} {unit} / {second:.4g} {unit}, median of {rounds})"
    return Figure(name, first / second, bound, at_least, detail, limit)
