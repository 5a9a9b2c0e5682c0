"""Every defence that the series claims, how to take it away, and the proof that has to notice."""

from __future__ import annotations

from dataclasses import dataclass

import evidence


@dataclass(frozen=True)
class Mutant:
    """A defence removed.

    Attributes:
        defence: what is claimed.
        file: where the defence lies; below `src/mcp/`, in the installed SDK.
        old: what stands there, exactly once.
        new: what stands there when the defence is gone.
        killer: the notebook, or the test, that must fail then.
    """

    defence: str
    file: str
    old: str
    new: str
    killer: str


SDK = "src/mcp/server/request_state.py"
SERVER = "src/mcp/server/mcpserver/server.py"
TRANSIT = "src/labkit/transit.py"
SINGLE_USE = "src/labkit/single_use.py"
JANITOR = "src/labkit/janitor.py"
BUCKET = "src/labkit/bucket.py"
RING = "src/labkit/key_ring.py"
ROTATION = "src/labkit/rotation.py"
LIVE = "src/labkit/live_ring.py"
APPROLE = "src/labkit/approle.py"
OPENBAO = "src/labkit/openbao.py"
ERRORS = "src/labkit/errors.py"
PROVISION = "src/labkit/provision.py"
CHECKS = "src/labkit/checks.py"
POLICIES = "openbao/policies"
SANITIZE = "tests/sanitize.cfg"
EVIDENCE = "tests/evidence.py"

START = "notebooks/00-start-here.ipynb"
ENVELOPE = "notebooks/01-envelope-anatomy.ipynb"
SHARED = "notebooks/02-shared-key-ring.ipynb"
CODEC = "notebooks/03-transit-codec.ipynb"
ONCE = "notebooks/04-single-use.ipynb"
TIMELINE = "notebooks/05-rotation-timeline.ipynb"

ALTERED = "tests/test_transit.py::test_an_altered_token_is_refused"
ANSWERS = "tests/test_single_use.py::test_each_answer_that_a_race_or_a_proxy_can_give"
BURNED = "tests/test_single_use.py::test_each_answer_to_burning_a_claim"
PLANTED = "tests/test_janitor.py::test_a_plan_for_another_request_is_refused"
SPOILED = "tests/test_key_ring.py::test_a_spoiled_ring_in_kv_is_refused_and_no_key_is_shown"
TOO_EARLY = "tests/test_rotation.py::test_a_step_that_is_too_early_is_refused_until_just_then"
TWO_CALLS = "tests/test_rotation.py::test_transit_rotates_and_retires_in_two_calls"
LAST_GOOD = "tests/test_live_ring.py::test_the_last_good_ring_is_used_loudly_up_to_max_stale_and_then_refused"
STALE = "tests/test_live_ring.py::test_staleness_counts_from_before_the_question"
OLDER = "tests/test_live_ring.py::test_a_ring_that_is_older_than_the_one_in_use_is_not_taken_and_gives_no_time"
NO_OBJECTS = "tests/test_bucket.py::test_links_folders_and_foreign_files_are_no_objects"
GRANTS = "tests/test_lab.py::test_a_role_may_do_what_its_policy_names_and_nothing_else"
OPERATOR = "tests/test_rotation.py::test_the_operator_can_change_one_setting_of_the_transit_key_and_never_get_it"
SHORT = "tests/test_serve.py::test_what_somebody_at_the_address_says_is_shown_short_and_bends_no_terminal"
RULE = "tests/test_sanitize.py::test_a_rule_hides_what_it_should_and_nothing_else"
SPOILT = "tests/test_evidence.py::test_a_spoilt_notebook_is_complained_about"

IMPORT_AEAD = "from cryptography.hazmat.primitives.ciphers.aead import AESGCM\n"


def _aead(encrypt: str, decrypt: str) -> str:
    """The SDK's cipher behind one of the same name, so that sealing and unsealing change together."""
    return (
        "from cryptography.hazmat.primitives.ciphers.aead import AESGCM as _AESGCM\n"
        "class AESGCM:\n"
        "    def __init__(self, key): self.real = _AESGCM(key)\n"
        f"    def encrypt(self, nonce, data, bound): return {encrypt}\n"
        f"    def decrypt(self, nonce, data, bound): return {decrypt}\n"
    )


def _bound(part: str) -> str:
    return _aead(f"self.real.encrypt(nonce, data, {part})", f"self.real.decrypt(nonce, data, {part})")


def _granting(role: str, path: str, capability: str, killer: str) -> Mutant:
    """A policy with one more path in it."""
    file = f"{POLICIES}/{role}.hcl"
    first = '# To tell a dead token from a denied request, and log in again only for the former.\npath "auth/'
    more = f'path "{path}" {{\n  capabilities = ["{capability}"]\n}}\n\n'
    return Mutant(f"role: {role} has no {capability} on {path}", file, first, more + first, killer)


ENVELOPES = [
    Mutant(
        "the SDK's servers seal",
        SERVER,
        "        self._lowlevel_server.middleware.append(RequestStateBoundary(security, default_audience=self.name))\n",
        "",
        START,
    ),
    Mutant(
        "seal: the tag is verified",
        SDK,
        "return aead.decrypt(nonce, sealed, _TOKEN_PREFIX.encode() + kid)",
        # The same stream of key bytes once more is what undoes it, and nobody looks at the tag.
        "return aead.encrypt(nonce, sealed[:-16], None)[:-16]",
        ENVELOPE,
    ),
    Mutant("seal: the tag covers the key id", SDK, IMPORT_AEAD, _bound("bound[:3]"), ENVELOPE),
    Mutant("seal: the tag covers the prefix", SDK, IMPORT_AEAD, _bound("bound[3:]"), ENVELOPE),
    Mutant(
        "seal: the message is encrypted",
        SDK,
        IMPORT_AEAD,
        _aead("data + self.real.encrypt(nonce, b'', data + bound)", "self.opened(nonce, data, bound)")
        + "    def opened(self, nonce, data, bound):\n"
        "        self.real.decrypt(nonce, data[-16:], data[:-16] + bound)\n"
        "        return data[:-16]\n",
        ENVELOPE,
    ),
    Mutant(
        "seal: a nonce is new each time",
        SDK,
        "nonce = os.urandom(_NONCE_LEN)",
        "nonce = bytes(_NONCE_LEN)",
        ENVELOPE,
    ),
    Mutant("seal: the prefix is compared", SDK, "if not token.startswith(_TOKEN_PREFIX):", "if False:", ENVELOPE),
    Mutant(
        "seal: the key id is looked up",
        SDK,
        "aead = self._ring.get(kid)",
        "aead = self._ring.get(kid) or self._ring[self._mint_kid]",
        ENVELOPE,
    ),
    Mutant("seal: a token has one spelling", SDK, "if _b64u(raw) != text:", "if False:", ENVELOPE),
    Mutant("seal: the first key of a ring seals", SDK, "            if i == 0:", "            if True:", SHARED),
    Mutant("envelope: expiry", SDK, " or not (now < exp):", ":", ENVELOPE),
    Mutant("envelope: not from the future", SDK, " or not (iat <= now + _FUTURE_SKEW):", ":", ENVELOPE),
    Mutant("envelope: a clock may be a minute ahead, no more", SDK, "_SKEW = 60.0", "_SKEW = 90.0", ENVELOPE),
    Mutant("envelope: method", SDK, 'claims.get("m") != ctx.method or ', "", ENVELOPE),
    Mutant("envelope: target", SDK, ' or claims.get("t") != target', "", ENVELOPE),
    Mutant(
        "envelope: a resource's target is its URI",
        SDK,
        'str(p.get("uri", ""))',
        '""',
        "tests/test_front_desk.py::test_a_state_for_one_resource_is_none_for_another",
    ),
    Mutant("envelope: arguments", SDK, ' or claims.get("a") != args_digest', "", ENVELOPE),
    Mutant("envelope: audience", SDK, 'if claims.get("aud") != self._audience:', "if False:", ENVELOPE),
    Mutant("envelope: principal", SDK, " or not _principal_matches(claim, principal):", ":", ENVELOPE),
    Mutant("envelope: principal drift", SDK, "if (claim is None) != (principal is None):", "if False:", ENVELOPE),
    Mutant(
        "envelope: principal drift, the reverse",
        SDK,
        "if (claim is None) != (principal is None):",
        "if claim is None and principal is not None:",
        "tests/test_front_desk.py::test_a_state_goes_neither_from_nobody_to_somebody_nor_back",
    ),
    Mutant("envelope: a state is a string", SDK, "if not isinstance(wire, str):", "if False:", ENVELOPE),
    Mutant(
        "wire: one message for every reason",
        SDK,
        'message="Invalid or expired requestState",',
        'message=f"Invalid or expired requestState: {reason}",',
        ENVELOPE,
    ),
    Mutant(
        "wire: no reason in the error's data",
        SDK,
        'data={"reason": "invalid_request_state"},',
        'data={"reason": reason},',
        ENVELOPE,
    ),
    Mutant(
        "wire: a state is never printed in full",
        "src/labkit/attacks.py",
        "state={self.state[:3]}…)",
        "state={self.state})",
        ENVELOPE,
    ),
    Mutant(
        "wire: a state is cut where messages are shown",
        "src/labkit/wire.py",
        "{state[: state.rindex(':') + 1] if ':' in state else state[:3]}…",
        "{state}…",
        START,
    ),
]

TRANSIT_CODEC = [
    Mutant(
        "codec: not the ten lines",
        TRANSIT,
        "text = ciphertext_of(token)",
        'text = token.translate(str.maketrans("-_", "+/"))\n        text += "=" * (-len(text.split(":")[-1]) % 4)',
        CODEC,
    ),
    Mutant("codec: the last bits", TRANSIT, " or body != canonical:", ":", CODEC),
    Mutant("codec: no padding", TRANSIT, ":([A-Za-z0-9_-]+)", ":([A-Za-z0-9_-]+)=*", CODEC),
    Mutant(
        "codec: one alphabet",
        TRANSIT,
        "_TOKEN.fullmatch(token)",
        "_TOKEN.fullmatch(token.translate(_URL_SAFE))",
        ALTERED,
    ),
    Mutant("codec: nothing behind", TRANSIT, "_TOKEN.fullmatch(token)", "_TOKEN.match(token)", CODEC),
    Mutant(
        "codec: no line end inside",
        TRANSIT,
        "_TOKEN.fullmatch(token)",
        '_TOKEN.fullmatch(token.replace("\\n", ""))',
        CODEC,
    ),
    Mutant("codec: no space in front", TRANSIT, "_TOKEN.fullmatch(token)", "_TOKEN.fullmatch(token.lstrip())", CODEC),
    Mutant("codec: small letters in front", TRANSIT, "re.ASCII", "re.ASCII | re.IGNORECASE", CODEC),
    Mutant("codec: no zero before the version", TRANSIT, ":v([1-9]", ":v0*([1-9]", CODEC),
    Mutant("codec: no sign before the version", TRANSIT, ":v([1-9]", ":v\\+?([1-9]", CODEC),
    Mutant("codec: no version 0", TRANSIT, ":v([1-9][0-9]{0,8})", ":v([0-9]{1,9})", ALTERED),
    Mutant("codec: a version has nine digits at most", TRANSIT, "[0-9]{0,8})", "[0-9]*)", ALTERED),
    Mutant("codec: room for nonce and tag", TRANSIT, "len(raw) < _OVERHEAD or ", "", ALTERED),
    Mutant("codec: a limit to what is opened", TRANSIT, " if len(token) <= _MAX_TOKEN else None", "", ALTERED),
    Mutant(
        "codec: a limit to what is sealed",
        TRANSIT,
        "if len(token) > _MAX_TOKEN:",
        "if False:",
        "tests/test_transit.py::test_a_state_too_long_to_unseal_is_not_sealed",
    ),
    Mutant("codec: bound to its purpose", TRANSIT, ", associated_data=_FORMAT", "", CODEC),
    Mutant("codec: a forgery is no outage", TRANSIT, "if said(error).endswith(refusal):", "if False:", CODEC),
    Mutant(
        "codec: an outage is no forgery",
        TRANSIT,
        "if said(error).endswith(refusal):",
        "if True:",
        "tests/test_transit.py::test_an_outage_is_logged_as_one_and_lets_nothing_in",
    ),
    Mutant(
        "codec: an outage is logged as one", TRANSIT, 'logger.error("requestState', 'logger.debug("requestState', CODEC
    ),
    Mutant(
        "codec: a key that was retired is named as the reason",
        TRANSIT,
        'policy (too old)": "unknown key"',
        'policy (too old)": "seal"',
        CODEC,
    ),
    Mutant(
        "audit: values are hashed",
        "openbao/dev.hcl",
        'file_path = "audit.log"',
        'file_path = "audit.log"\n    log_raw = "true"',
        CODEC,
    ),
]

SINGLE = [
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


def _unbound(field: str) -> Mutant:
    old = "        if field not in plan or plan[field] != value:\n"
    new = f'        if field != "{field}" and (field not in plan or plan[field] != value):\n'
    return Mutant(f"plan: bound to the {field}", JANITOR, old, new, ONCE)


PLANS = [
    _unbound("tool"),
    _unbound("arguments"),
    _unbound("principal"),
    Mutant(
        "plan: bound to who calls",
        JANITOR,
        "principal = security.bind_principal(ctx.request_context) if security.bind_principal else None",
        "principal = None",
        ONCE,
    ),
    Mutant(
        "plan: a field that is missing is no match",
        JANITOR,
        "if field not in plan or plan[field] != value:",
        "if plan.get(field) != value:",
        PLANTED,
    ),
    Mutant("plan: keys under the prefix", JANITOR, " and key.startswith(prefix)", "", ONCE),
    Mutant(
        "plan: the yes covers what was listed",
        JANITOR,
        "return _delete(keys, bucket)",
        'return _delete(bucket.keys(binding["arguments"]["prefix"]), bucket)',
        ONCE,
    ),
    Mutant("janitor: a no burns the claim", JANITOR, "        single_use.burn(claim)\n", "        pass\n", ONCE),
    Mutant(
        "janitor: a late no does not say that nothing was purged",
        JANITOR,
        'return "Declined: this call purged nothing; the confirmation had already',
        'return "Declined: nothing was purged; the confirmation had already',
        ONCE,
    ),
    Mutant(
        "janitor: a no that is not burned is logged",
        JANITOR,
        'logger.error("a declined',
        'logger.debug("a declined',
        ONCE,
    ),
    Mutant("janitor: an outage is logged", JANITOR, 'logger.error("purge not', 'logger.debug("purge not', ONCE),
    Mutant(
        "janitor: a no in any form",
        JANITOR,
        'if response.action != "accept":\n        return False',
        'if response.action != "accept":\n        return None',
        "tests/test_janitor.py::test_a_no_in_any_form_burns_the_claim_at_once",
    ),
    Mutant(
        "janitor: only a true is a yes",
        JANITOR,
        "return confirm if isinstance(confirm, bool) else None",
        "return bool(confirm)",
        "tests/test_janitor.py::test_only_a_true_under_confirm_purges",
    ),
    Mutant(
        "janitor: asks again with the same claim",
        JANITOR,
        'still needs a yes or a no.", claim)',
        'still needs a yes or a no.", single_use.issue({**binding, "keys": bucket.keys(prefix)}))',
        ENVELOPE,
    ),
    Mutant(
        "janitor: a foreign state",
        JANITOR,
        'if fields["step"] == "confirm" and isinstance(fields["claim"], str):',
        'if isinstance(fields["claim"], str):',
        "tests/test_janitor.py::test_a_verified_state_of_another_shape_is_refused",
    ),
    Mutant(
        "janitor: no empty prefix",
        JANITOR,
        "    if not prefix:\n",
        "    if False:\n",
        "tests/test_janitor.py::test_an_empty_prefix_is_turned_down_before_anything_is_parked",
    ),
    Mutant(
        "janitor: what others wrote is in quotes",
        JANITOR,
        "plain = _PLAIN.fullmatch(keys[0]) and ",
        "plain = ",
        "tests/test_janitor.py::test_a_key_cannot_forge_the_question",
    ),
    Mutant(
        "janitor: every character is visible",
        JANITOR,
        "quoted = ascii(text)",
        "quoted = repr(text)",
        "tests/test_janitor.py::test_a_key_cannot_forge_the_question",
    ),
    Mutant(
        "bucket: a key is no path",
        BUCKET,
        'quote(key, safe="", ',
        'quote(key, safe="/", ',
        "tests/test_bucket.py::test_a_key_is_a_name_and_not_a_path",
    ),
    Mutant(
        "bucket: a dot is no folder",
        BUCKET,
        'return f"%2E{name[1:]}" if name.startswith(".") else name',
        "return name",
        "tests/test_bucket.py::test_a_key_is_a_name_and_not_a_path",
    ),
    Mutant("bucket: a link is no object", BUCKET, " and not path.is_symlink()", "", NO_OBJECTS),
    Mutant(
        "bucket: nothing is stored through a link",
        BUCKET,
        "        os.replace(fresh.name, path)\n",
        "        os.replace(fresh.name, path.resolve())\n",
        "tests/test_bucket.py::test_storing_over_a_link_does_not_write_through_it",
    ),
    Mutant("bucket: what is no object is not deleted", BUCKET, " or _key(path) is None:", ":", NO_OBJECTS),
]

RINGS = [
    Mutant("ring: hexadecimal only", RING, "if not _HEX.fullmatch(entry) or len(entry) % 2:", "if False:", SHARED),
    Mutant("ring: whole bytes", RING, " or len(entry) % 2:", ":", SPOILED),
    Mutant("ring: no line end", RING, 'return text.split(",")', 'return text.strip().split(",")', SHARED),
    Mutant("ring: at least 32 bytes", RING, "if len(key) < _MIN_BYTES:", "if False:", SHARED),
    Mutant("ring: no key twice", RING, "    if key in ring:\n", "    if False:\n", SHARED),
    Mutant(
        "ring: no message repeats a key",
        RING,
        "line ends allowed): write it anew.",
        "line ends allowed): write {entry} anew.",
        SPOILED,
    ),
    Mutant(
        "envelope ring: no key in plain text",
        RING,
        "        if not _CIPHERTEXT.fullmatch(entry):\n",
        "        if _HEX.fullmatch(entry):\n"
        "            _append(ring, bytes.fromhex(entry), path)\n"
        "            continue\n"
        "        if not _CIPHERTEXT.fullmatch(entry):\n",
        CODEC,
    ),
    Mutant(
        "envelope ring: what is no ciphertext is sent nowhere",
        RING,
        "        if not _CIPHERTEXT.fullmatch(entry):\n",
        "        if False:\n",
        "tests/test_key_ring.py::test_no_key_can_be_planted_in_kv_and_none_is_shown",
    ),
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
        ROTATION,
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
        'next="retire" if phase == "steady" and earlier else _NEXT[phase],',
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
        ' or (len(keys) == 1) != (phase == "steady"):',
        ":",
        "tests/test_rotation.py::test_a_ring_whose_phase_does_not_fit_is_one_sentence_without_a_key",
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
        ROTATION,
        "        if state.wait and not force:\n            raise RotationRefused(\n"
        '                f"It is too early to retire',
        '        if False:\n            raise RotationRefused(\n                f"It is too early to retire',
        TWO_CALLS,
    ),
    Mutant("rotation: Transit's time is that of the rounds", ROTATION, " + self._ttl + 1", " + 1", TWO_CALLS),
    Mutant(
        "rotation: something is left of Transit's versions",
        ROTATION,
        "if state.oldest == state.latest:",
        "if False:",
        TWO_CALLS,
    ),
    Mutant(
        "live ring: a stale one does not seal",
        LIVE,
        "if _clock(_CLOCK) < self._until:\n            return self._codec.seal(",
        "if True:\n            return self._codec.seal(",
        LAST_GOOD,
    ),
    Mutant(
        "live ring: a stale one does not unseal",
        LIVE,
        "if _clock(_CLOCK) < self._until:\n            return self._codec.unseal(",
        "if True:\n            return self._codec.unseal(",
        LAST_GOOD,
    ),
    Mutant(
        "live ring: time from before the question",
        LIVE,
        "        until = _clock(_CLOCK) + _USED * self._max_stale\n"
        "        secret = read_ring(self._client, self._path)\n",
        "        secret = read_ring(self._client, self._path)\n"
        "        until = _clock(_CLOCK) + _USED * self._max_stale\n",
        STALE,
    ),
    Mutant("live ring: room for a slow write", LIVE, "    0.9  #", "    1.0  #", STALE),
    Mutant(
        "live ring: no older version",
        LIVE,
        "if version < self._version:",
        "if False:",
        OLDER,
    ),
    Mutant(
        "live ring: a change is followed",
        LIVE,
        "if keys != self._keys:",
        "if not self._keys:",
        OLDER,
    ),
    Mutant(
        "live ring: a closed one refuses",
        LIVE,
        "            self._closed = True\n            self._until = -math.inf\n",
        "            self._closed = True\n",
        "tests/test_live_ring.py::test_one_thread_follows_and_it_goes_with_close_or_with_the_ring",
    ),
    Mutant(
        "live ring: a closed one is not opened by a late answer",
        LIVE,
        "            if self._closed:\n                return\n",
        "",
        "tests/test_live_ring.py::test_a_read_that_was_under_way_does_not_open_a_closed_ring",
    ),
    Mutant(
        "live ring: follows on, whatever comes",
        LIVE,
        "except Exception as error:",
        "except LabError as error:",
        "tests/test_live_ring.py::test_a_follower_lives_on_whatever_comes",
    ),
]

LOGINS = [
    _granting("ring-reader", "secret/data/mcp/request-state-envelope", "read", SHARED),
    _granting("envelope-reader", "transit/encrypt/mcp-request-state-envelope", "update", SHARED),
    _granting("transit", "transit/keys/mcp-request-state/config", "update", CODEC),
    _granting("confirmations", "sys/wrapping/unwrap", "update", SHARED),
    _granting("mcp-server", "transit/keys/mcp-request-state/rotate", "update", SHARED),
    _granting("ring-operator", "transit/export/encryption-key/mcp-request-state", "read", OPERATOR),
    Mutant(
        "role: ring-reader does not write the ring",
        f"{POLICIES}/ring-reader.hcl",
        'request-state-keys" {\n  capabilities = ["read"]',
        'request-state-keys" {\n  capabilities = ["read", "update"]',
        SHARED,
    ),
    Mutant(
        "role: transit makes no key",
        f"{POLICIES}/transit.hcl",
        'encrypt/mcp-request-state" {\n  capabilities = ["update"]',
        'encrypt/mcp-request-state" {\n  capabilities = ["create", "update"]',
        GRANTS,
    ),
    Mutant(
        "role: confirmations wraps for five minutes at most",
        f"{POLICIES}/confirmations.hcl",
        '  max_wrapping_ttl = "300s"\n',
        "",
        "tests/test_lab.py::test_a_claim_cannot_be_given_more_than_five_minutes",
    ),
    Mutant(
        "role: ring-operator changes one setting",
        f"{POLICIES}/ring-operator.hcl",
        '  allowed_parameters = { "min_decryption_version" = [] }\n',
        "",
        OPERATOR,
    ),
    Mutant(
        "login: without the policy that OpenBao adds",
        PROVISION,
        "token_no_default_policy=True",
        "token_no_default_policy=False",
        SHARED,
    ),
    Mutant("key: not exportable", PROVISION, "(key, exportable=False,", "(key, exportable=True,", SHARED),
    Mutant(
        "key: no backup",
        PROVISION,
        "allow_plaintext_backup=False",
        "allow_plaintext_backup=True",
        "tests/test_lab.py::test_a_transit_key_can_be_neither_exported_nor_backed_up",
    ),
    Mutant(
        "ring: provisioning again replaces none",
        PROVISION,
        ', cas=0, mount_point="secret")',
        ', mount_point="secret")',
        "tests/test_lab.py::test_provisioning_twice_changes_nothing",
    ),
    Mutant(
        "login: a secret-id lives for a day",
        PROVISION,
        '            secret_id_ttl=f"{SECRET_ID_TTL}s",\n',
        "",
        "tests/test_serve.py::test_a_secret_id_lets_nobody_in_for_longer_than_a_day",
    ),
    Mutant(
        "login: credentials are for nobody else to read",
        "src/labkit/credentials.py",
        "0o600)",
        "0o666)",
        "tests/test_serve.py::test_a_generous_umask_opens_nothing",
    ),
    Mutant(
        "login: again after its token has died",
        APPROLE,
        "if _status(answer) == 403 and (self.token != used or self._is_dead()):",
        "if False:",
        "tests/test_lab.py::test_a_client_logs_in_again_when_its_token_was_revoked",
    ),
    Mutant(
        "login: not again after a denial",
        APPROLE,
        " and (self.token != used or self._is_dead()):",
        ":",
        "tests/test_lab.py::test_a_denied_request_is_no_reason_to_log_in_again",
    ),
    Mutant(
        "login: its token does not follow a redirect",
        OPENBAO,
        "            allow_redirects=False,\n",
        "",
        "tests/test_lab.py::test_a_redirect_is_not_followed_with_a_token",
    ),
    Mutant(
        "answers: only OpenBao's own JSON is one",
        OPENBAO,
        "if isinstance(answer, requests.Response) and (answer.status_code == 200 or answer.is_redirect):",
        "if False:",
        "tests/test_lab.py::test_a_redirect_is_not_followed_with_a_token",
    ),
    Mutant(
        "answers: one without its part is none",
        ERRORS,
        "    if not isinstance(answer, dict) or not answer.get(name):\n",
        "    if False:\n",
        "tests/test_single_use.py::test_an_answer_that_is_none_is_an_outage",
    ),
    Mutant("errors: no odd character", ERRORS, 'c if c.isprintable() else "?" for c', "c for c", SHORT),
    Mutant("errors: short", ERRORS, "in text[:_SHOWN])", "in text)", SHORT),
    Mutant(
        "errors: no token in a repr",
        OPENBAO,
        "    token: str = field(repr=False)\n",
        "    token: str\n",
        "tests/test_lab.py::test_no_secret_shows_in_a_repr",
    ),
    Mutant(
        "balancer: what may have been carried out is not sent again",
        "src/labkit/balancer.py",
        "                break  # it may",
        "                continue  # it may",
        "tests/test_fleet.py::test_a_request_that_may_have_been_carried_out_is_not_sent_to_another_replica",
    ),
]

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

MUTANTS = [*ENVELOPES, *TRANSIT_CODEC, *SINGLE, *PLANS, *RINGS, *LOGINS, *PROOFS]
