"""One table at the end: how much of what was proven."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what the tests recorded: `mutant` with its fate, and `proved` with what was counted and how often."""
    # From the reports and not from the tests, because only reports come back from another process.
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    recorded = [each for report in reports if getattr(report, "when", "") == "call" for each in report.user_properties]
    fates = Counter(fate for name, fate in recorded if name == "mutant")
    counts: Counter[str] = Counter()
    for name, value in recorded:
        if name == "proved":
            what, number = value
            counts[what] += number
    rows = [("mutants killed", f"{fates['killed']:,} of {fates.total():,}")] if fates else []
    rows += [(what, f"{number:,}") for what, number in counts.items()]
    if not rows:
        return
    width = max(len(what) for what, _ in rows)
    terminalreporter.section("proven")
    for what, count in rows:
        terminalreporter.line(f"{what:<{width}}  {count:>12}")
