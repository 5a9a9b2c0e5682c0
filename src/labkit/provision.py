"""What a namespace needs before a server can use it: mounts, ring, Transit key, policies, AppRoles. Idempotent."""

from __future__ import annotations

import secrets

import hvac
import hvac.exceptions

from labkit.errors import LabError, part
from labkit.openbao import CONFIG

RING_PATH = "mcp/request-state-keys"
"""Where the key ring lies in the KV v2 mount `secret/`."""
ENVELOPE_PATH = "mcp/request-state-envelope"
"""Where the ring lies whose entries are encrypted."""
TRANSIT_KEY = "mcp-request-state"
"""The Transit key that seals `requestState`."""
ENVELOPE_KEY = "mcp-request-state-envelope"
"""The Transit key that the entries of that ring are encrypted with, and nothing else."""
TOKEN_TTL = 1200
"""Seconds that a role's token lives; its client then logs in again."""
SECRET_ID_TTL = 86_400
"""Seconds that a secret-id lives, so that one that leaked does not let anybody in for ever."""


def roles() -> list[str]:
    """Return the names of the roles: one for each file in `openbao/policies/`."""
    return sorted(path.stem for path in (CONFIG / "policies").glob("*.hcl"))


def provision(admin: hvac.Client, *, token_ttl: int = TOKEN_TTL) -> None:
    """Bring the namespace of `admin` into the state that the series needs.

    A ring and a Transit key that are there stay; policies and roles become what `openbao/policies/` says.

    Args:
        admin: a client that may administer its namespace.
        token_ttl: seconds that a role's token lives, at least 1.

    Raises:
        hvac.exceptions.VaultError: when `admin` may not do this.
        LabError: when `secret/` is there and is not KV v2, which alone can protect a ring from being overwritten.

    Source: OpenBao documentation, "KV v2", "Transit", "AppRole auth method", "User lockout", "Policies".
    """
    mounts = part(admin.sys.list_mounted_secrets_engines(), "data")
    if "secret/" not in mounts:
        admin.sys.enable_secrets_engine("kv", path="secret", options={"version": "2"})
    elif (mounts["secret/"].get("options") or {}).get("version") != "2":
        raise LabError("secret/ is there, and is not a KV v2 mount: use another namespace, or mount KV v2 there.")
    if "transit/" not in mounts:
        admin.sys.enable_secrets_engine("transit")
    if "approle/" not in part(admin.sys.list_auth_methods(), "data"):
        admin.sys.enable_auth_method("approle")
    # A secret-id cannot be guessed. But five bad logins would lock out everybody who shares the role, so one login that
    # was ended, or a stranger who knows no more than the role-id, would stop the whole fleet.
    admin.adapter.post("/v1/sys/auth/approle/tune", json={"user_lockout_config": {"lockout_disable": True}})
    for key in (TRANSIT_KEY, ENVELOPE_KEY):
        # An existing Transit key is left as it is; this call only creates.
        admin.secrets.transit.create_key(key, exportable=False, allow_plaintext_backup=False)
    _create(admin, RING_PATH, secrets.token_hex(32))
    # "wrapped": OpenBao makes the key and gives the ciphertext only, so not even the one who provisions sees it.
    data_key = admin.secrets.transit.generate_data_key(ENVELOPE_KEY, "wrapped", bits=256)
    _create(admin, ENVELOPE_PATH, part(part(data_key, "data"), "ciphertext"))
    for role in roles():
        admin.sys.create_or_update_policy(role, (CONFIG / "policies" / f"{role}.hcl").read_text())
        admin.auth.approle.create_or_update_approle(
            role,
            token_policies=[role],
            token_no_default_policy=True,
            token_ttl=f"{token_ttl}s",
            secret_id_ttl=f"{SECRET_ID_TTL}s",
        )


def credentials(admin: hvac.Client, role: str) -> tuple[str, str]:
    """Return (role-id, a new secret-id) for `role`.

    Raises:
        LabError: when there is no such role.
    """
    if role not in roles():
        raise LabError(f"There is no role {role!r}: use one of {', '.join(roles())}.")
    role_id = part(part(admin.auth.approle.read_role_id(role), "data"), "role_id")
    secret_id = part(part(admin.auth.approle.generate_secret_id(role), "data"), "secret_id")
    return role_id, secret_id


def _create(admin: hvac.Client, path: str, keys: str) -> None:
    try:
        # cas=0 writes only where nothing is, so two provisioners cannot replace each other's ring.
        admin.secrets.kv.v2.create_or_update_secret(path, secret={"keys": keys}, cas=0, mount_point="secret")
    except hvac.exceptions.InvalidRequest as error:
        if "check-and-set" not in str(error):
            raise
