"""What each login may do, how it is made, and what goes over the network."""

from __future__ import annotations

from mutants.mutant import APPROLE, CODEC, ERRORS, OPENBAO, POLICIES, PROVISION, SHARED, Mutant

GRANTS = "tests/test_lab.py::test_a_role_may_do_what_its_policy_names_and_nothing_else"
OPERATOR = "tests/test_rotation.py::test_the_operator_can_change_one_setting_of_the_transit_key_and_never_get_it"
ENDED = "tests/test_live_ring.py::test_a_login_that_was_ended_hurts_nobody_else"
SHORT = "tests/test_serve.py::test_what_somebody_at_the_address_says_is_shown_short_and_bends_no_terminal"


def granting(role: str, path: str, capability: str, killer: str) -> Mutant:
    """A policy with one more path in it."""
    file = f"{POLICIES}/{role}.hcl"
    first = '# To tell a dead token from a denied request, and log in again only for the former.\npath "auth/'
    more = f'path "{path}" {{\n  capabilities = ["{capability}"]\n}}\n\n'
    return Mutant(f"role: {role} has no {capability} on {path}", file, first, more + first, killer)


LOGINS = [
    granting("ring-reader", "secret/data/mcp/request-state-envelope", "read", SHARED),
    granting("envelope-reader", "transit/encrypt/mcp-request-state-envelope", "update", SHARED),
    granting("transit", "transit/keys/mcp-request-state/config", "update", CODEC),
    granting("confirmations", "sys/wrapping/unwrap", "update", SHARED),
    granting("mcp-server", "transit/keys/mcp-request-state/rotate", "update", SHARED),
    granting("ring-operator", "transit/export/encryption-key/mcp-request-state", "read", OPERATOR),
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
    Mutant("login: one that was refused for good is not tried again", APPROLE, "if self._ended:", "if False:", ENDED),
    Mutant(
        "login: one that is locked out is tried again",
        APPROLE,
        "self._ended = isinstance(error, hvac.exceptions.InvalidRequest)",
        "self._ended = True",
        "tests/test_lab.py::test_a_login_that_others_have_locked_out_is_tried_again",
    ),
    Mutant(
        "login: bad ones lock nobody else out",
        PROVISION,
        '{"lockout_disable": True}',
        '{"lockout_disable": False}',
        ENDED,
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
        "    if not isinstance(answer, dict) or not answer.get(name):\n        return {}\n    if False:\n",
        "tests/test_ledger_access.py::test_an_answer_that_is_none_is_an_outage_and_not_an_empty_ledger",
    ),
    Mutant(
        "errors: no request in those behind an outage",
        ERRORS,
        "        forget_request(error)\n",
        "",
        "tests/test_key_ring.py::test_an_outage_keeps_no_token_in_the_errors_behind_it",
    ),
    Mutant(
        "errors: an answer of any shape is one sentence",
        ERRORS,
        "except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:",
        "except (ValueError, TypeError, RecursionError) as error:",
        "tests/test_single_use.py::test_an_answer_with_a_part_of_another_shape_is_an_outage",
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
