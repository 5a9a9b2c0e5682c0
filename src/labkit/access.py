"""What a login may do, found out by trying it on the real server."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any

import hvac
import hvac.exceptions
import requests

from labkit.errors import outage, said
from labkit.lab import Lab


def attempt(client: hvac.Client, method: str, path: str, body: dict[str, Any] | None = None) -> str:
    """Try one operation for real, and return how OpenBao answered.

    Args:
        client: whose login is tried.
        method: "get", "post" or "list".
        path: below `/v1/`, such as "secret/data/mcp/request-state-keys".
        body: the request's JSON.

    Returns:
        "allowed"; "denied", when a policy forbids it; or "impossible", when it is permitted and OpenBao cannot do it,
        as with the export of a key that is not exportable. A check-and-set that does not match counts as allowed: it
        gets that far only with the right to write.

    Raises:
        OpenBaoUnavailable: OpenBao is away, or said anything else.
    """
    wrap = "60s" if path == "sys/wrapping/wrap" else None
    with outage(f"trying {method} {path}"):
        answer = client.adapter.request(method, f"/v1/{path}", json=body, wrap_ttl=wrap, raise_exception=False)
        if not isinstance(answer, requests.Response) or answer.status_code == 204:
            return "allowed"
        errors = " ".join(answer.json()["errors"])
        if answer.status_code == 403 and "* permission denied" in errors:
            return "denied"
        if answer.status_code == 400 and "check-and-set" in errors:
            return "allowed"
        if "not exportable" in errors or "exporting is disallowed" in errors:
            return "impossible"
        raise hvac.exceptions.UnexpectedError(f"status {answer.status_code}: {errors}")


def rights(lab: Lab, policy: str, paths: Sequence[str]) -> dict[str, list[str]]:
    """Return what a login with nothing but `policy` could do at each of `paths`, as OpenBao works it out.

    Args:
        lab: where the policy is tried; it is removed again.
        policy: in HCL.
        paths: below `/v1/`.

    Returns:
        The capabilities for each path, sorted, `["deny"]` for none, and under "paths" those that the policy names; or
        `{"error": [why]}` for a policy that cannot be read.
    """
    if not isinstance(policy, str):
        return {"error": [f"it is of type {type(policy).__name__}, and no text"]}
    name = f"try-{secrets.token_hex(4)}"
    try:
        lab.admin.sys.create_or_update_policy(name, policy)
    except hvac.exceptions.InvalidRequest as error:
        return {"error": [said(error)]}
    try:
        login = lab.admin.auth.token.create(policies=[name], no_default_policy=True, ttl="60s")["auth"]
        answer = lab.admin.adapter.post(
            "/v1/sys/capabilities", json={"token": login["client_token"], "paths": list(paths)}
        )
        named = re.findall(r'\bpath\s+"([^"]*)"', policy)
        return {path: sorted(answer["data"][path]) for path in paths} | {"paths": named}
    finally:
        lab.admin.sys.delete_policy(name)
