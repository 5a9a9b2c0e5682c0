"""The official suite passes for each codec: each of its scenarios on this subject, each check in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from server import build
from serving import http, serving

from labkit import replicas
from labkit.lab import Lab

Suite = Callable[..., tuple[int, list[dict[str, Any]]]]
SUBJECT = "input-required-result-"
SCENARIOS = [
    "basic-elicitation",
    "basic-sampling",
    "basic-list-roots",
    "request-state",
    "multiple-input-requests",
    "multi-round",
    "missing-input-response",
    "non-tool-request",
    "result-type",
    "unsupported-methods",
    "tampered-state",
    "capability-check",
    "ignore-extra-params",
    "validate-input",
]


@pytest.fixture(scope="module", params=replicas.ROLES)
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def url(lab: Lab, codec: str) -> Iterator[str]:
    security = replicas.security(codec, lab.client(replicas.ROLES[codec]))
    server = build(security)
    replicas.attach(server, security)
    with serving(http(server)) as url:
        yield url


def faults(outcome: tuple[int, list[dict[str, Any]]]) -> list[str]:
    """What keeps a scenario from counting as passed.

    The suite exits with 0 for a scenario that it skips and for one that ends in a warning; neither has shown anything.
    """
    status, checks = outcome
    found = [f"{check['id']}: {check['status']} {check.get('errorMessage')}" for check in checks]
    found = [line for line, check in zip(found, checks, strict=True) if check["status"] != "SUCCESS"]
    if not any(check["id"].startswith("sep-2322-") for check in checks):
        found.append("no check of multi-round requests has run")
    return found + ([f"exit status {status}"] if status else [])


def test_the_lock_has_a_hash_for_every_package_and_no_address() -> None:
    packages = json.loads((Path(__file__).parent / "package-lock.json").read_text())["packages"]
    packages.pop("")
    assert len(packages) > 100
    assert all("integrity" in package and "resolved" not in package for package in packages.values())


def test_every_file_is_run_with_each_codec_alike() -> None:
    """That it is the codec of the name is for a test in each file to say."""
    here = Path(__file__).parent
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", str(here)], capture_output=True, text=True
    ).stdout
    tests = re.findall(r"(test_\w+)\.py::(\w+)\[(ring|envelope|transit|batched)(.*)\]\n", listed)
    for file in here.glob("test_*.py"):
        of_each = [
            {(test, more) for its_file, test, codec, more in tests if (its_file, codec) == (file.stem, wanted)}
            for wanted in replicas.ROLES
        ]
        assert of_each[0], file.name
        assert of_each == [of_each[0]] * len(replicas.ROLES), file.name


def test_no_scenario_of_the_suite_is_missed(node: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    listed = node("node_modules/@modelcontextprotocol/conformance/dist/index.js", "list", "--server").stdout
    assert re.findall(rf"- {SUBJECT}(\S+)", listed) == SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_official_suite_passes(
    url: str, scenario: str, suite: Suite, request: pytest.FixtureRequest, sealed_by: Callable[[str], str]
) -> None:
    outcome = suite(url, SUBJECT + scenario)
    assert faults(outcome) == []
    states = re.findall(r'"requestState": "([^"]*)"', json.dumps(outcome[1]))
    assert all(f"[{sealed_by(state)}-" in request.node.name for state in states), "it is the codec of the test's name"
    assert states or scenario != "request-state", "the codec took part"


def test_a_server_that_checks_nothing_fails_it(suite: Suite) -> None:
    server = build(RequestStateSecurity.ephemeral())
    server.middleware[:] = [each for each in server.middleware if not isinstance(each, RequestStateBoundary)]
    with serving(http(server)) as url:
        assert faults(suite(url, SUBJECT + "request-state")) == [], "an honest round needs no defense"
        found = faults(suite(url, SUBJECT + "tampered-state"))
    assert len(found) == 2
    assert "Server accepted tampered requestState" in found[0]
    assert found[1] == "exit status 1"


def test_a_warning_is_no_pass(suite: Suite) -> None:
    with serving(http(MCPServer("no tools"))) as url:
        outcome = suite(url, SUBJECT + "missing-input-response")
    assert outcome[0] == 0, "the suite alone lets this pass"
    assert "WARNING" in faults(outcome)[0]


def test_a_skipped_scenario_is_no_pass(suite: Suite) -> None:
    with serving(http(build(RequestStateSecurity.ephemeral()))) as url:
        outcome = suite(url, SUBJECT + "tampered-state", spec_version="2025-11-25")
    assert outcome == (0, []), "the suite alone lets this pass"
    assert faults(outcome) == ["no check of multi-round requests has run"]
