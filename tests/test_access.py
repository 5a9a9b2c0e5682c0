"""What a login may do is found out by trying it, and nothing is changed by that."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import labkit
from labkit.access import attempt, rights
from labkit.lab import Lab
from labkit.provision import RING_PATH, TRANSIT_KEY

RING = f"secret/data/{RING_PATH}"
STALE = {"data": {}, "options": {"cas": 10**6}}


@pytest.mark.parametrize(
    ("role", "method", "path", "body", "verdict"),
    [
        ("ring-reader", "get", RING, None, "allowed"),
        ("ring-reader", "post", RING, STALE, "denied"),
        ("ring-reader", "get", f"transit/export/encryption-key/{TRANSIT_KEY}", None, "denied"),
        ("transit", "get", RING, None, "denied"),
        ("transit", "post", f"transit/encrypt/{TRANSIT_KEY}", {"plaintext": "YQ=="}, "allowed"),
        ("confirmations", "post", "sys/wrapping/wrap", {"a": "plan"}, "allowed"),
        ("ring-reader", "post", "sys/wrapping/wrap", {"a": "plan"}, "denied"),
        (None, "post", RING, STALE, "allowed"),
        (None, "list", "sys/policies/acl", None, "allowed"),
        (None, "get", f"transit/export/encryption-key/{TRANSIT_KEY}", None, "impossible"),
        (None, "get", f"transit/backup/{TRANSIT_KEY}", None, "impossible"),
    ],
)
def test_an_attempt_tells_what_openbao_allows(
    lab: Lab, role: str | None, method: str, path: str, body: dict[str, Any] | None, verdict: str
) -> None:
    ring = labkit.load_key_ring(lab.admin)
    assert attempt(lab.client(role) if role else lab.admin, method, path, body) == verdict
    assert labkit.load_key_ring(lab.admin) == ring


def test_an_attempt_with_a_dead_token_is_no_verdict(lab: Lab) -> None:
    with pytest.raises(labkit.OpenBaoUnavailable, match="permission denied"):
        attempt(lab.bearer("s.none"), "get", RING)


def test_an_attempt_at_what_is_not_there_is_no_verdict(lab: Lab) -> None:
    with pytest.raises(labkit.OpenBaoUnavailable, match="status 404"):
        attempt(lab.admin, "get", "secret/data/nothing")


def test_an_attempt_at_a_dead_server_is_an_outage(own_lab: Lab) -> None:
    assert own_lab._server._child is not None
    os.kill(own_lab._server._child.process.pid, signal.SIGKILL)
    own_lab._server._child.process.wait()
    with pytest.raises(labkit.OpenBaoUnavailable, match="unreachable while trying get"):
        attempt(own_lab.admin, "get", RING)


def test_rights_are_those_of_the_policy_and_it_is_gone_afterwards(lab: Lab) -> None:
    before = lab.admin.sys.list_policies()["data"]["keys"]
    policy = f'path "{RING}" {{ capabilities = ["read", "list"] }}'
    assert rights(lab, policy, [RING, "sys/mounts"]) == {
        RING: ["list", "read"],
        "sys/mounts": ["deny"],
        "paths": [RING],
    }
    assert rights(lab, "nonsense {", [RING]).keys() == {"error"}
    assert rights(lab, None, [RING]).keys() == {"error"}  # type: ignore[arg-type]
    assert lab.admin.sys.list_policies()["data"]["keys"] == before


def test_rights_are_of_the_policy_alone_and_their_token_is_gone_in_a_minute(own_lab: Lab) -> None:
    of_every_token = ["auth/token/lookup-self", "sys/wrapping/wrap", "cubbyhole/x"]
    default = own_lab.admin.auth.token.create(policies=["default"])["auth"]["client_token"]
    answer = own_lab.admin.adapter.post("/v1/sys/capabilities", json={"token": default, "paths": of_every_token})
    assert not any(answer["data"][path] == ["deny"] for path in of_every_token), "the default policy grants each"
    policy = f'path "{RING}" {{ capabilities = ["read"] }}'
    assert rights(own_lab, policy, of_every_token) == {path: ["deny"] for path in of_every_token} | {"paths": [RING]}
    accessors = own_lab.admin.auth.token.list_accessors()["data"]["keys"]
    tokens = [own_lab.admin.auth.token.lookup_accessor(accessor)["data"] for accessor in accessors]
    (tried,) = (token for token in tokens if token["policies"][0].startswith("try-"))
    assert tried["policies"][1:] == []
    assert 0 < tried["creation_ttl"] <= 60


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ('path "a/b" { capabilities = ["read"] }', ["a/b"]),
        ('path "a" {\n  capabilities = ["read"]\n}\n\npath "b/*" { capabilities = ["list"] }', ["a", "b/*"]),
        ('path\t"a/+/c"{ capabilities = ["sudo"] }', ["a/+/c"]),
        ('{"path": {"a": {"capabilities": ["read"]}, "b": {"capabilities": ["read"]}}}', []),  # in no form of ours
        ("# nothing", []),
    ],
)
def test_rights_tell_which_paths_the_policy_names(lab: Lab, policy: str, named: list[str]) -> None:
    assert rights(lab, policy, [RING])["paths"] == named
