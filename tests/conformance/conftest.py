"""What these tests need beyond Python: Node.js and FastMCP, which `make conformance` installs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labkit.key_ring import key_id, key_id_in, load_envelope_ring, load_key_ring
from labkit.lab import Lab
from labkit.transit import ciphertext_of

HERE = Path(__file__).parent
# At the end, so that FastMCP runs on the very SDK that labkit runs on.
sys.path.append(str(HERE.parents[1] / ".venv" / "fastmcp"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def node() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script of this folder with the locked Node.js."""
    program = HERE / "node_modules" / ".bin" / "node"
    if not program.exists():
        pytest.exit("Node.js and the suite are not installed: run `make conformance`.", returncode=1)

    def run(script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(program), str(HERE / script), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="session")
def suite(
    node: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """Run one scenario of the official suite; return its exit status and its checks, of which there may be none."""

    def run(url: str, scenario: str, spec_version: str = "2026-07-28") -> tuple[int, list[dict[str, Any]]]:
        folder = tmp_path_factory.mktemp("suite")
        done = node(
            "node_modules/@modelcontextprotocol/conformance/dist/index.js",
            *("server", "--url", url, "--scenario", scenario),
            *("--spec-version", spec_version, "--output-dir", str(folder)),
        )
        checks = [check for report in folder.glob("*/checks.json") for check in json.loads(report.read_text())]
        return done.returncode, checks

    return run


@pytest.fixture(scope="session")
def sealed_by(lab: Lab) -> Callable[[str], str]:
    """Tell which codec has sealed a state: by its prefix and the id of the key that it names, or by the audit log."""
    ring, envelope = ({key_id(key) for key in load(lab.admin)} for load in (load_key_ring, load_envelope_ring))
    assert not ring & envelope, "the two rings have no key in common"

    def sealed_by(state: str) -> str:
        if state.startswith("vault:v1:"):
            written = lab.audit_hash(ciphertext_of(state))
            (record,) = (each for each in lab.audit_records() if written in json.dumps(each.get("response", {})))
            return "batched" if "batch_results" in record["response"]["data"] else "transit"
        assert state.startswith("v1.")
        return {**dict.fromkeys(ring, "ring"), **dict.fromkeys(envelope, "envelope")}[key_id_in(state)]

    return sealed_by
