"""What the tests share: a lab on a real OpenBao, and servers of their own for those that break one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from queue import Empty
from typing import Any

import hvac.exceptions
import pytest
from jupyter_client import BlockingKernelClient, KernelManager
from jupyter_client.manager import start_new_kernel

from labkit import ledger as ledgers
from labkit.bucket import Bucket
from labkit.lab import Lab
from labkit.ledger import OPERATIONS, Ledger
from labkit.openbao import find_or_start


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """One lab for all the tests that leave it as it is."""
    with Lab(find_or_start()) as lab:
        yield lab


@pytest.fixture(scope="module")
def own_namespace(lab: Lab) -> Iterator[Lab]:
    """A namespace on the same server, whose secrets the tests of one file may spoil."""
    with Lab(replace(lab._server, folder=None, _child=None)) as own:
        yield own


@pytest.fixture
def own_lab(no_settings: None) -> Iterator[Lab]:
    """A lab on a server that the test may stop, seal or kill."""
    with Lab(find_or_start()) as lab:
        yield lab


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No BAO_ or VAULT_ setting, so that a server of our own is started."""
    for name in ("ADDR", "TOKEN", "NAMESPACE", "CACERT"):
        monkeypatch.delenv(f"BAO_{name}", raising=False)
        monkeypatch.delenv(f"VAULT_{name}", raising=False)


@pytest.fixture
def bucket() -> Bucket:
    bucket = Bucket()
    bucket.reset(["logs/1", "logs/2", "logs/3", "secrets/root.key"])
    return bucket


@pytest.fixture
def ledger(own_namespace: Lab) -> Ledger:
    """A ledger in which nothing lies yet."""
    kv = own_namespace.admin.secrets.kv.v2
    with suppress(hvac.exceptions.InvalidPath):
        for name in kv.list_secrets(OPERATIONS, mount_point="secret")["data"]["keys"]:
            kv.delete_metadata_and_all_versions(f"{OPERATIONS}/{name}", mount_point="secret")
    return Ledger(own_namespace.client("ledger"))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Put OpenBao's clock forward, as the ledger reads it."""
    ahead = [0.0]
    real = ledgers.now
    monkeypatch.setattr(ledgers, "now", lambda client: real(client) + ahead[0])

    def later(seconds: float) -> None:
        ahead[0] += seconds

    return later


class Kernel:
    """A real Jupyter kernel with a lab in it.

    Attributes:
        pid: the kernel's.
        address: the lab's.
    """

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager, self._client = manager, client
        said = self.run("import labkit, os; lab = labkit.start(); print(lab.address, os.getpid())")
        self.address, self.pid = said.split()[0], int(said.split()[1])

    def run(self, code: str) -> str:
        """Run a cell that has to succeed, and return what it prints."""
        said: list[str] = []

        def hear(message: dict[str, dict[str, str]]) -> None:
            said.append(message["content"].get("text", ""))

        status = "aborted"
        while status == "aborted":  # as the kernel says of what arrives right after an error
            status = self._client.execute_interactive(code, output_hook=hear, timeout=60)["content"]["status"]
        assert status == "ok"
        return "".join(said)

    def interrupt(self) -> str:
        """Interrupt a cell that waits, as the button does, and return the name of the error that ends it."""
        self._client.execute("import time; print('waiting', flush=True); time.sleep(60)")
        while self._client.get_iopub_msg(timeout=30)["content"].get("text", "").strip() != "waiting":
            pass
        reply: dict[str, Any] = {}
        for _ in range(10):  # an interrupt may come before the kernel listens for it
            self._manager.interrupt_kernel()
            with suppress(Empty):
                reply = self._client.get_shell_msg(timeout=5)
                break
        return str(reply["content"]["ename"])


@pytest.fixture
def kernel(no_settings: None) -> Iterator[Kernel]:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
