"""What these tests need beyond Python: Node.js and FastMCP, which `make conformance` installs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
