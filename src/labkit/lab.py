"""A reader's own lab: a provisioned namespace on an OpenBao, for as long as the kernel lives."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import threading
from typing import Any

import hvac
import hvac.exceptions

from labkit import approle, provision
from labkit.errors import UNREACHABLE, LabError, OpenBaoUnavailable, outage, part, said
from labkit.openbao import Server, find_or_start


class Lab:
    """A fresh, provisioned namespace. Made by `start()`; a context manager.

    Attributes:
        address: the server's base URL.
        namespace: the namespace of this lab, unique to it.
        admin: the client that provisioned it, with every right in the namespace. A server never gets this one.
    """

    def __init__(self, server: Server, *, token_ttl: int = provision.TOKEN_TTL) -> None:
        """Create and provision the namespace on `server`; see `start()`."""
        self._server = server
        self.address = server.address
        self._name = f"lab-{secrets.token_hex(6)}"
        self.namespace = f"{server.namespace}/{self._name}".lstrip("/")
        self.admin: hvac.Client = server.client(self.namespace, token=server.token)
        self._clients: list[hvac.Client] = [self.admin]
        self._open = True
        self._owner = os.getpid()
        try:
            self._set_up(token_ttl)
        except BaseException:  # an interrupt, above all: nothing half-made stays on a shared server
            self.close()
            raise

    def _set_up(self, token_ttl: int) -> None:
        try:
            with outage("setting up a namespace", passing=(hvac.exceptions.VaultError, LabError)):
                self._parent().write_data(f"sys/namespaces/{self._name}")
                provision.provision(self.admin, token_ttl=token_ttl)
        except OpenBaoUnavailable:
            raise LabError(
                f"Nothing answers at {self.address}: start that OpenBao, "
                "or unset BAO_ADDR and the lab starts one of its own."
            ) from None
        except hvac.exceptions.VaultError as error:
            what, fix = f"OpenBao at {self.address}", "check its status, its version and BAO_NAMESPACE"
            if isinstance(error, hvac.exceptions.Forbidden):
                what, fix = "The token in BAO_TOKEN", "use one that may create namespaces there"
            raise LabError(
                f"{what} cannot set up a namespace in {self._server.namespace or 'root'} ({said(error)}): "
                f"{fix}, or unset BAO_ADDR."
            ) from None

    def client(self, role: str) -> hvac.Client:
        """Return a new client logged in as `role`, which logs in again by itself when its token has died.

        Args:
            role: a name from `openbao/policies/`, such as "ring-reader".

        Raises:
            LabError: no such role, or the lab is closed.
            OpenBaoUnavailable: the login failed.
        """
        if not self._open:
            raise LabError("This lab is closed: call labkit.start() for a new one.")
        with outage(f"getting credentials for {role}", passing=(LabError,)):
            role_id, secret_id = provision.credentials(self.admin, role)
        client = approle.log_in(self._server, self.namespace, role, role_id, secret_id)
        self._clients.append(client)
        return client

    def lock_out(self, client: hvac.Client) -> None:
        """End one login, as an operator does when it was stolen: its token, and the secret-id to log in again with.

        Args:
            client: one that `client()` returned; others of the same role are left alone.
        """
        adapter: Any = client.adapter
        role, secret_id = adapter.identity
        token = client.token
        with outage(f"ending a login of {role}"):
            self.admin.auth.approle.destroy_secret_id(role, secret_id)
            self.admin.auth.token.revoke(token)

    def bearer(self, token: str) -> hvac.Client:
        """Return a new client that presents `token`, a claim for example, and logs in as nobody."""
        client = self._server.client(self.namespace, token=token)
        self._clients.append(client)
        return client

    def environment(self) -> dict[str, str]:
        """Return the settings with which another process finds this namespace. No token is among them."""
        settings = {"BAO_ADDR": self.address, "BAO_NAMESPACE": self.namespace}
        if self._server.folder is not None:
            settings |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        elif isinstance(self._server.verify, str):
            settings |= {"BAO_CACERT": os.path.abspath(self._server.verify)}  # it may run in another folder
        return settings

    def audit_records(self) -> list[dict[str, Any]]:
        """Return what the audit device wrote about this namespace, oldest first, secrets hashed by OpenBao.

        Raises:
            LabError: the server is not ours, so its audit log is not ours to read.
        """
        if self._server.folder is None:
            raise LabError(
                f"The audit log of {self.address} belongs to whoever runs it: "
                "unset BAO_ADDR to read that of an OpenBao of your own."
            )
        if not self._open:
            raise LabError("This lab is closed and its audit log is gone: call labkit.start() for a new one.")
        with (self._server.folder / "audit.log").open(encoding="utf-8", newline="\n") as lines:
            records = [json.loads(line) for line in lines]
        return [r for r in records if r["request"].get("namespace", {}).get("path") == f"{self.namespace}/"]

    def audit_hash(self, text: str) -> str:
        """Return how the audit device of a server of our own writes `text`: `hmac-sha256:` and the hash.

        Raises:
            LabError: the server is not ours, so nor is the audit device.

        Source: OpenBao documentation, "/sys/audit-hash".
        """
        if self._server.folder is None:
            raise LabError(
                f"The audit device of {self.address} belongs to whoever runs it: "
                "unset BAO_ADDR to use that of an OpenBao of your own."
            )
        with outage("hashing for the audit log"):
            answer = self._parent().adapter.post("/v1/sys/audit-hash/file", json={"input": text})
            return str(part(part(answer, "data"), "hash"))

    def close(self) -> None:
        """End the server if it is ours; on a shared one, remove the namespace.

        Twice is as good as once, and a forked child closes nothing of its parent's.
        """
        if not self._open or os.getpid() != self._owner:
            return
        self._open = False
        if self._server.folder is None:
            # What fails here is left to whoever runs the server: it went first, or grants us less than it should.
            gone = (*UNREACHABLE, hvac.exceptions.VaultError)
            with contextlib.suppress(*gone):
                # A claim that nobody redeemed would keep its namespace from ever being removed.
                self.admin.sys.revoke_prefix("sys/wrapping/wrap")
            with contextlib.suppress(*gone):
                self._parent().delete(f"sys/namespaces/{self._name}")
        for client in self._clients:
            client.adapter.close()
            client.adapter.request = _closed  # type: ignore[method-assign]
        self._server.close()

    def _parent(self) -> hvac.Client:
        """A client for the namespace that holds ours."""
        parent = self._server.client(self._server.namespace, token=self._server.token)
        self._clients.append(parent)
        return parent

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lab {'at ' + self.address if self._open else 'closed'}, namespace {self.namespace}>"


def _closed(*_: Any, **__: Any) -> Any:
    raise OpenBaoUnavailable("This lab is closed: run the cell with labkit.start(), and those below it, again.")


_current: Lab | None = None
_starting = threading.Lock()


def start(*, token_ttl: int = provision.TOKEN_TTL) -> Lab:
    """Start a lab: a fresh, provisioned namespace on the OpenBao at `BAO_ADDR`, or on one of our own.

    A second call in the same process closes the first lab.

    Args:
        token_ttl: seconds that a role's token lives, at least 1.

    Returns:
        The lab, ready for use.

    Raises:
        LabError: no OpenBao could be reached or started, or its token may not create a namespace.
    """
    global _current
    with _starting:
        if _current is not None:
            _current.close()
        server = find_or_start()
        try:
            _current = lab = Lab(server, token_ttl=token_ttl)
        except BaseException:
            server.close()
            raise
    # A server of our own goes with the process in any case; a namespace on a shared one needs a goodbye.
    atexit.register(lab.close)
    return lab
