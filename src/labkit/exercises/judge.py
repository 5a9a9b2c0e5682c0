"""What a judge of an exercise is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Judge = Callable[[Any], tuple[bool, str]]
"""Takes an answer of any type; returns whether it is right, and a sentence: what that proves, or a hint.

A KeyError, TypeError, ValueError, AttributeError or IndexError says that the answer is not of the shape the cell gives.
"""
