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
    assert rights(lab, policy, [RING, "sys/mounts"]) == {RING: ["list", "read"], "sys/mounts": ["deny"]}
    assert rights(lab, "nonsense {", [RING]).keys() == {"error"}
    assert lab.admin.sys.list_policies()["data"]["keys"] == before
