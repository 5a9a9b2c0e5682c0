"""The demo prints the four verdicts, and fails when any of the defenses behind them is taken away."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from typing import Any

import anyio
import pytest
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity

from labkit import demo, replicas
from labkit.bucket import Bucket
from labkit.janitor import build_janitor
from labkit.key_ring import load_key_ring
from labkit.lab import Lab
from labkit.openbao import find_or_start
from labkit.single_use import SingleUse

VERDICTS = """\
tamper one byte        -> error -32602: Invalid or expired requestState
swap args to secrets/  -> error -32602: Invalid or expired requestState
honest confirmation    -> Purged 3 object(s): logs/2026-08-01.log, …
replay same state      -> REFUSED: this confirmation is used up or has expired. Look at what is there, and start over.
"""


def test_the_command_prints_the_four_verdicts_twice_and_exits_0() -> None:
    done = subprocess.run([sys.executable, "-m", "labkit", "demo"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(VERDICTS) == 2
    assert done.stderr == ""


def test_three_at_once_on_one_machine_do_not_collide() -> None:
    """Each on a server of its own, and each on one that they share."""
    with Lab(find_or_start()) as shared:
        ours = {"BAO_ADDR": shared.address, "BAO_TOKEN": str(shared.admin.token)}
        for settings in ({}, ours):
            env = {**{k: v for k, v in os.environ.items() if not k.startswith(("BAO_", "VAULT_"))}, **settings}
            command = [sys.executable, "-m", "labkit", "demo"]
            running = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
            outputs = [process.communicate()[0] for process in running]
            assert [process.returncode for process in running] == [0, 0, 0]
            assert all(output.count(VERDICTS) == 2 for output in outputs)


class Reusable(SingleUse):
    """Single use with its defense removed: a plan can be had again and again."""

    plans: dict[str, dict[str, Any]]

    def issue(self, plan: dict[str, Any]) -> str:
        claim = super().issue(plan)
        self.plans[claim] = plan
        return claim

    def redeem(self, claim: str) -> dict[str, Any]:
        return self.plans[claim]


class Unprotected:
    """A codec with its defense removed: whoever can write JSON can write a state."""

    def seal(self, payload: bytes) -> str:
        return f"v1.{payload.hex()}"

    def unseal(self, token: str) -> bytes:
        return bytes.fromhex(token.removeprefix("v1."))


def failures(a: MCPServer, b: MCPServer, bucket: Bucket) -> str:
    return "\n".join(anyio.run(demo.four_moves, a, b, bucket))


def test_without_single_use_the_replay_is_reported(lab: Lab) -> None:
    bucket, plans = Bucket(), {}
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    servers = []
    for _ in range(2):
        reusable = Reusable(lab.client("confirmations"))
        reusable.plans = plans
        servers.append(build_janitor(security, reusable, bucket))
    said = failures(*servers, bucket)
    assert "replay same state should have ended with: REFUSED" in said
    assert "replay same state should have left" in said
    assert "tamper" not in said


def test_without_a_shared_ring_the_honest_confirmation_is_reported(lab: Lab) -> None:
    bucket = Bucket()
    a, b = (
        build_janitor(RequestStateSecurity.ephemeral(ttl=120), SingleUse(lab.client("confirmations")), bucket)
        for _ in range(2)
    )
    said = failures(a, b, bucket)
    assert "honest confirmation should have ended with: Purged 3" in said
    assert "tamper one byte was refused for another reason: ['unknown key']" in said


def test_without_a_seal_the_tampering_is_not_refused_for_its_seal(lab: Lab) -> None:
    bucket = Bucket()
    security = RequestStateSecurity(codec=Unprotected(), ttl=120)
    a, b = (build_janitor(security, SingleUse(lab.client("confirmations")), bucket) for _ in range(2))
    assert "tamper one byte was refused for another reason" in failures(a, b, bucket)


def test_without_the_boundary_the_swapped_arguments_are_reported(lab: Lab) -> None:
    bucket = Bucket()
    servers = [replicas.replica(lab, bucket) for _ in range(2)]
    for server in servers:
        server.middleware[:] = [m for m in server.middleware if type(m).__name__ != "RequestStateBoundary"]
    said = failures(*servers, bucket)
    for move in ("tamper one byte", "swap args to secrets/"):
        assert f"{move} should have ended with: error -32602" in said


def test_a_verdict_that_differs_is_told_and_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_settings: None
) -> None:
    monkeypatch.setitem(demo.EXPECTED, "honest confirmation", "another verdict")
    assert demo.main() == 1
    assert capsys.readouterr().out.count("FAILED: honest confirmation should have ended with: another verdict") == 2
    with pytest.raises(SystemExit, match="1"):
        monkeypatch.setattr(sys, "argv", ["labkit", "demo"])
        runpy.run_module("labkit", run_name="__main__")


def test_an_outage_is_one_sentence_and_exits_1() -> None:
    env = {"BAO_ADDR": "http://127.0.0.1:1", "BAO_TOKEN": "x", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-m", "labkit", "demo"], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("labkit: Nothing answers at http://127.0.0.1:1")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["demo", "--unknown"]])
def test_a_wrong_command_line_exits_2_and_shows_the_usage(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "labkit", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m labkit")
    assert "Traceback" not in done.stderr
