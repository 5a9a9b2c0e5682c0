"""A claim is redeemed or burned once, and nobody is told what is not known."""

from __future__ import annotations

from mutants.mutant import ONCE, SINGLE_USE, Mutant

ANSWERS = "tests/test_single_use.py::test_each_answer_that_a_race_or_a_proxy_can_give"
BURNED = "tests/test_single_use.py::test_each_answer_to_burning_a_claim"

CLAIMS = [
    Mutant(
        "single use: a claim is redeemed once",
        SINGLE_USE,
        "    def redeem(self, claim: str) -> dict[str, Any]:\n",
        "    def redeem(self, claim, _plans={}):\n"
        "        if claim not in _plans:\n"
        "            _plans[claim] = self._redeem(claim)\n"
        "        return _plans[claim]\n\n"
        "    def _redeem(self, claim: str) -> dict[str, Any]:\n",
        ONCE,
    ),
    Mutant(
        "single use: a 204 is no yes",
        SINGLE_USE,
        "        if answer.status_code in (204, 500):\n",
        "        if answer.status_code == 204:\n            return {}\n        if answer.status_code == 500:\n",
        ONCE,
    ),
    Mutant("single use: a second question after a 204", SINGLE_USE, "in (204, 500):", "in (500,):", ONCE),
    Mutant("single use: a second question after a 500", SINGLE_USE, "in (204, 500):", "in (204,):", ONCE),
    Mutant(
        "single use: no third question",
        SINGLE_USE,
        "        if answer.status_code not in (done, gone):\n            raise",
        "        if answer.status_code not in (done, gone):\n"
        "            return self._ask_once_more(claim, first, path)\n"
        "        if False:\n            raise",
        ONCE,
    ),
    Mutant(
        "single use: an unclear second answer is no reassurance",
        SINGLE_USE,
        "if answer.status_code not in (done, gone):",
        "if False:",
        ONCE,
    ),
    Mutant(
        "single use: an outage after a 500 is no reassurance",
        SINGLE_USE,
        'raise _cannot_know(f"status {first}") from None',
        "raise",
        "tests/test_single_use.py::test_a_server_that_is_gone_after_a_500_leaves_nobody_to_believe_that_the_claim_is_good",
    ),
    Mutant(
        "single use: a claim that is gone after a 500 is logged",
        SINGLE_USE,
        'logger.warning("a claim is gone',
        'logger.debug("a claim is gone',
        ONCE,
    ),
    Mutant(
        "single use: only a 200 has the plan",
        SINGLE_USE,
        "        if answer.status_code != 200:\n            raise _unclear(answer)\n        return _plan(answer)",
        "        return _plan(answer) if answer.content else {}",
        ONCE,
    ),
    Mutant(
        "single use: only OpenBao's own 200 has the plan",
        SINGLE_USE,
        'raise _cannot_know("an answer that is not OpenBao\'s") from None',
        "return {}",
        ANSWERS,
    ),
    Mutant(
        "single use: only OpenBao's own 400 is a refusal",
        SINGLE_USE,
        "if answer.status_code == 400 and _is_openbaos(answer):",
        "if answer.status_code == 400:",
        ONCE,
    ),
    Mutant(
        "single use: only OpenBao's own 503 is a reassurance",
        SINGLE_USE,
        "in (429, 503) and _is_openbaos(answer)",
        "in (429, 503)",
        ANSWERS,
    ),
    Mutant(
        "single use: a sealed OpenBao has not looked at the claim",
        SINGLE_USE,
        "refused = answer.status_code in (429, 503) and _is_openbaos(answer)",
        "refused = False",
        ONCE,
    ),
    Mutant(
        "single use: only OpenBao's own 403 is a claim that was burned",
        SINGLE_USE,
        "if answer.status_code == 403 and _is_openbaos(answer):",
        "if answer.status_code == 403:",
        BURNED,
    ),
    Mutant(
        "single use: only a 204 burns",
        SINGLE_USE,
        "if answer.status_code != 204:",
        "if False:",
        BURNED,
    ),
    Mutant(
        "single use: burning asks once more after a 500",
        SINGLE_USE,
        "        if answer.status_code == 500:\n",
        "        if False:\n",
        ONCE,
    ),
    Mutant(
        "single use: what is no plan is none",
        SINGLE_USE,
        "    if not isinstance(plan, dict):\n",
        "    if plan is None:\n        return {}\n    if not isinstance(plan, dict):\n",
        "tests/test_single_use.py::test_what_somebody_else_wrapped_is_no_plan",
    ),
    Mutant(
        "single use: an outage is no replay",
        SINGLE_USE,
        "raise (_not_asked(name) if _never_sent(error) else _cannot_know(name)) from None",
        'raise AlreadyRedeemed("this confirmation was already used or has expired") from None',
        ONCE,
    ),
    Mutant(
        "single use: after a silence nobody knows",
        SINGLE_USE,
        "(_not_asked(name) if _never_sent(error) else _cannot_know(name))",
        "_not_asked(name)",
        ONCE,
    ),
    Mutant(
        "single use: a claim does not follow a redirect",
        SINGLE_USE,
        "adapter.allow_redirects = False",
        "adapter.allow_redirects = True",
        ANSWERS,
    ),
    Mutant(
        "single use: no claim in the errors behind an outage",
        SINGLE_USE,
        "            forget_request(error)\n",
        "",
        "tests/test_single_use.py::test_a_claim_is_not_kept_in_the_errors_behind_an_outage",
    ),
    Mutant(
        "single use: what can be no claim is not sent",
        SINGLE_USE,
        "if not _CLAIM.fullmatch(claim):",
        "if False:",
        "tests/test_single_use.py::test_a_claim_that_was_never_issued_is_turned_down",
    ),
    Mutant(
        "single use: a claim lives five minutes at most",
        SINGLE_USE,
        "if type(ttl) is not int or not 1 <= ttl <= 300:",
        "if False:",
        "tests/test_single_use.py::test_a_lifetime_that_no_claim_can_have_is_turned_down",
    ),
    Mutant(
        "single use: a limit to a plan",
        SINGLE_USE,
        "> _PLAN_LIMIT:",
        "> 10 * _PLAN_LIMIT:",
        "tests/test_single_use.py::test_a_plan_that_is_too_large_is_one_sentence",
    ),
]
