"""Replicas as real processes on loopback, and the balancer between them and the client."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path

import uvicorn

from labkit import credentials, replicas
from labkit.balancer import balancer
from labkit.bucket import Bucket
from labkit.child import Child
from labkit.errors import LabError, outage
from labkit.lab import Lab


class Fleet:
    """`python -m labkit serve`, several times, behind a round-robin balancer. A context manager.

    Everything survives *Interrupt kernel*, and ends with the kernel at the latest.

    Attributes:
        url: the balancer's.
        replicas: the URL of each replica.
        served: the URL of the replica that answered each request so far, in order.
    """

    def __init__(
        self, lab: Lab, bucket: Bucket, *, count: int = 2, codec: str = "ring", ttl: int = 120, max_stale: int = 60
    ) -> None:
        """Start `count` replicas, each with credentials of its own, and wait until all of them are ready.

        Args:
            lab: where keys lie and plans are parked.
            bucket: what is purged.
            count: how many replicas, at least 1.
            codec: "ring", "envelope" or "transit".
            ttl: seconds that a round, and a claim, may take: 1 to 300.
            max_stale: seconds without having read the ring after which a replica refuses: 1 to 300.

        Raises:
            ValueError: `count` is less than 1.
            LabError: there is no such codec, or a replica did not start; the message is what it said.
            OpenBaoUnavailable: OpenBao is away, so nobody gets credentials.
        """
        if count < 1:
            raise ValueError(f"a fleet has at least 1 replica, not {count}")
        replicas.role_for(codec)  # a name that is none ends here, before anything is started
        self.served: list[str] = []
        self._children: list[Child] = []
        self._balancers: list[_Balancer] = []
        self.close = weakref.finalize(self, _end, self._children, self._balancers)
        try:
            for _ in range(count):
                self._children.append(_start(lab, bucket, codec, ttl, max_stale))
            self.replicas = [_ready(child) for child in self._children]
            self._balancers.append(_Balancer(self.replicas, self.served))
        except BaseException:
            self.close()
            raise
        self.url = self._balancers[0].url

    def log(self, number: int) -> list[str]:
        """Return the lines that replica `number`, from 0, has logged so far."""
        return (self._children[number].folder / "log").read_text().splitlines()

    def kill(self, number: int) -> None:
        """Kill replica `number`, from 0, as a power failure would."""
        self._children[number].process.kill()
        self._children[number].process.wait()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Fleet of {len(self.replicas)} at {self.url}>"


def _start(lab: Lab, bucket: Bucket, codec: str, ttl: int, max_stale: int) -> Child:
    folder = Path(tempfile.mkdtemp(prefix="labkit-replica-"))  # 0700
    try:
        with outage("handing out credentials", passing=(LabError,)):
            for role in (replicas.ROLES[codec], "confirmations"):
                credentials.hand_out(lab.admin, role, folder)
        return _launch(lab, bucket, codec, ttl, max_stale, folder)
    except BaseException:  # an interrupt, above all: credentials that nobody will use
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _launch(lab: Lab, bucket: Bucket, codec: str, ttl: int, max_stale: int, folder: Path) -> Child:
    # Nothing of what the kernel may do in OpenBao is handed on.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BAO_", "VAULT_"))} | lab.environment()
    arguments = ["--codec", codec, "--port", "0", "--bucket", str(bucket.folder.resolve()), "--ttl", str(ttl)]
    arguments += ["--max-stale", str(max_stale)]
    command = [sys.executable, "-m", "labkit", "serve", *arguments, "--credentials", str(folder)]
    with (folder / "log").open("wb") as log:
        return Child(command, folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)


def _ready(child: Child) -> str:
    line = child.process.stdout.readline().decode() if child.process.stdout is not None else ""
    found = re.search(r"http://\S+", line)
    if found is None:
        child.process.wait()
        said = (child.folder / "log").read_text().strip().rpartition("\n")[2]
        raise LabError(f"A replica did not start: {said.removeprefix('labkit: ') or 'it said nothing'}")
    return found[0]


class _Balancer:
    """A balancer in a thread of its own, which an Interrupt of the kernel does not reach."""

    def __init__(self, urls: list[str], served: list[str]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/mcp"
        # Whoever is still waiting for an answer when it closes is cut off, which is no error to print a traceback for.
        config = uvicorn.Config(balancer(urls, served), log_level="critical", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:  # any thread may come to collect what nobody uses any more
            self._thread.join(timeout=5)
            self._listening.close()


def _end(children: list[Child], balancers: list[_Balancer]) -> None:
    for balancing in balancers:
        balancing.close()
    for child in children:
        child.close()
