"""What the tests share: a lab on a real OpenBao, and servers of their own for those that break one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labkit.bucket import Bucket
from labkit.lab import Lab
from labkit.openbao import find_or_start


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """One lab for all the tests that leave it as it is."""
    with Lab(find_or_start()) as lab:
        yield lab


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
