"""The proofs themselves: checks, comparison, committed evidence."""

from __future__ import annotations

import evidence

from mutants.mutant import CHECKS, CRASH, EVIDENCE, SANITIZE, Mutant

RULE = "tests/test_sanitize.py::test_a_rule_hides_what_it_should_and_nothing_else"
SPOILT = "tests/test_evidence.py::test_a_spoilt_notebook_is_complained_about"

PROOFS = [
    Mutant(
        "proof: expect_refusal fails when nothing is refused",
        CHECKS,
        "        if self.wire is None:\n",
        "        if self.wire is None:\n            return\n        if False:\n",
        "tests/test_checks.py::test_nothing_refused_fails",
    ),
    Mutant(
        "proof: expect_refusal fails for another reason",
        CHECKS,
        "if reasons != [wanted]:",
        "if False:",
        "tests/test_checks.py::test_another_reason_fails",
    ),
    Mutant(
        "proof: expect_refusal fails when an answer refuses nothing",
        CHECKS,
        "        if self._accepted:\n",
        "        if False:\n",
        "tests/test_checks.py::test_a_refusal_in_a_result_counts_when_it_is_shown",
    ),
    Mutant(
        "proof: a replica that is to die is killed",
        "src/labkit/crash.py",
        "if self._left == 0:",
        "if False:",
        CRASH,
    ),
    Mutant(
        "comparison: picture bytes, and not other sources",
        SANITIZE,
        'regex: src="data:image/png;base64,[A-Za-z0-9+/=]+"',
        'regex: src="[^"]*"',
        RULE,
    ),
    Mutant(
        "comparison: picture bytes, and not the rest of the picture",
        SANITIZE,
        'regex: src="data:image/png;base64,[A-Za-z0-9+/=]+"',
        "regex: <img.*>",
        RULE,
    ),
    # Disabled one after the other; a new checker is among them by itself.
    *[
        Mutant(
            f"committed notebooks are {checker.__name__.replace('_', ' ')}",
            EVIDENCE,
            f"def {checker.__name__}(notebook: NotebookNode) -> list[str]:\n",
            f"def {checker.__name__}(notebook: NotebookNode) -> list[str]:\n    return []\n",
            SPOILT,
        )
        for checker in evidence.CHECKERS
    ],
]
