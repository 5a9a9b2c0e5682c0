"""The operator's commands say what is, what comes next and when; a step that is refused changes nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labkit import credentials
from labkit.lab import Lab

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(lab: Lab, tmp_path: Path) -> Run:
    namespace = Lab(lab._server)
    credentials.hand_out(namespace.admin, "ring-operator", tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BAO_", "VAULT_"))} | namespace.environment()

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "labkit", *arguments, "--credentials", str(tmp_path)]
        return subprocess.run(command, env=env | settings, capture_output=True, text=True)

    return run


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_the_ring_is_rotated_step_by_step(run: Run) -> None:
    assert said(run("ring", "show")) == "The ring is steady, with 1 key, as version 1. Next step: stage, now."
    staged = said(run("ring", "stage"))
    assert re.fullmatch(
        (
            r"The ring is staged, with 2 keys, as version 2\. Next step: activate, in [56]\d s, at [\d:]{8} UTC, "
            r"if no server was started with more than --max-stale 60\."
        ),
        staged,
    )
    assert "too early to activate" in refused(run("ring", "activate"))
    assert "the next step is to activate, not to stage" in refused(run("ring", "stage"))
    assert said(run("ring", "show")).startswith("The ring is staged, with 2 keys, as version 2.")
    forced = said(run("ring", "activate", "--force")).splitlines()
    assert re.fullmatch(r"Forced, \d+ s too early: it breaks every round that a replica which .*", forced[0])
    assert re.search(
        r"retire, in 1[78]\d s, .*, if no server was started with more than --max-stale 60 or --ttl 120", forced[1]
    )
    assert "Next step: stage, now." in said(run("ring", "retire", "--force")).splitlines()[1]


def test_nothing_is_said_to_be_forced_that_was_refused(run: Run) -> None:
    assert "the next step is to stage, not to retire" in refused(run("ring", "retire", "--force"))
    said(run("ring", "stage"))
    assert "the next step is to activate, not to retire" in refused(run("ring", "retire", "--force"))
    said(run("transit", "rotate"))
    said(run("transit", "retire", "--force"))
    assert "the only one in use" in refused(run("transit", "retire", "--force"))


def test_force_is_not_abbreviated(run: Run) -> None:
    done = run("ring", "stage", "--forc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unrecognized arguments: --forc" in done.stderr


def test_times_of_ones_own_count(run: Run) -> None:
    assert re.search(r"activate, in [5-7] s", said(run("ring", "stage", "--max-stale", "5", "--ttl", "10")))


def test_the_transit_key_is_rotated_in_two_steps(run: Run) -> None:
    only = "Version 1 seals, and is the only one that unseals. Next step: rotate, now."
    assert said(run("transit", "show")) == only
    assert "the only one in use: rotate it first" in refused(run("transit", "retire"))
    assert re.match(
        r"Version 2 seals, and 1 and later unseal\. Next step: retire, in 12\d s", said(run("transit", "rotate"))
    )
    assert "too early to retire" in refused(run("transit", "retire"))
    assert said(run("transit", "retire", "--force")).splitlines()[1] == only.replace("1", "2", 1)


@pytest.mark.parametrize("command", ["ring", "transit"])
def test_a_mistake_is_one_sentence(run: Run, tmp_path: Path, command: str) -> None:
    assert "BAO_ADDR is not set" in refused(run(command, "show", BAO_ADDR=""))
    assert "unreachable while logging in as ring-operator" in refused(
        run(command, "show", BAO_ADDR="http://127.0.0.1:1")
    )
    (tmp_path / "ring-operator.secret-id").unlink()
    assert "ring-operator.secret-id cannot be read" in refused(run(command, "show"))


def test_no_secret_is_printed(run: Run, tmp_path: Path) -> None:
    secret = (tmp_path / "ring-operator.secret-id").read_text().strip()
    for done in (run("ring", "show"), run("ring", "stage"), run("ring", "retire"), run("transit", "show")):
        assert secret not in done.stdout + done.stderr
        assert not re.search(r"[0-9a-f]{64}", done.stdout + done.stderr)
