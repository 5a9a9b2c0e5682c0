"""Replicas as real processes on loopback, and the balancer between them and the client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

from labkit import credentials, replicas
from labkit.balancer import Balancer
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
        self,
        lab: Lab,
        bucket: Bucket,
        *,
        count: int = 2,
        codec: str = "ring",
        ttl: int = 120,
        max_stale: int = 60,
        recover_after: int | None = None,
    ) -> None:
        """Start `count` replicas, each with credentials of its own, and wait until all of them are ready.

        Args:
            lab: where keys lie and plans are parked.
            bucket: what is purged.
            count: how many replicas, at least 1.
            codec: "ring", "envelope", "transit" or "batched".
            ttl: seconds that a round, and a claim, may take: 1 to 300.
            max_stale: seconds without having read the ring after which a replica refuses: 1 to 300.
            recover_after: write each purge down in the ledger, and let each replica finish those that any of them
                began so many seconds ago, 1 to 300; by default, there is no ledger.

        Raises:
            ValueError: `count` is less than 1.
            LabError: there is no such codec, or a replica did not start; the message is what it said.
            OpenBaoUnavailable: OpenBao is away, so nobody gets credentials.
        """
        if count < 1:
            raise ValueError(f"a fleet has at least 1 replica, not {count}")
        roles = [replicas.role_for(codec), "confirmations"]  # a name that is none ends here
        arguments = ["--codec", codec, "--ttl", str(ttl), "--max-stale", str(max_stale)]
        if recover_after is not None:
            roles.append("ledger")
            arguments += ["--recover-after", str(recover_after)]
        self.served: list[str] = []
        self._children: list[Child] = []
        self._balancers: list[Balancer] = []
        self.close = weakref.finalize(self, _end, self._children, self._balancers)
        try:
            for _ in range(count):
                self._children.append(_start(lab, bucket, roles, arguments))
            self.replicas = [_ready(child) for child in self._children]
            self._balancers.append(Balancer(self.replicas, self.served))
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


def _start(lab: Lab, bucket: Bucket, roles: list[str], arguments: list[str]) -> Child:
    folder = Path(tempfile.mkdtemp(prefix="labkit-replica-"))  # 0700
    try:
        with outage("handing out credentials", passing=(LabError,)):
            for role in roles:
                credentials.hand_out(lab.admin, role, folder)
        return _launch(lab, bucket, arguments, folder)
    except BaseException:  # an interrupt, above all: credentials that nobody will use
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _launch(lab: Lab, bucket: Bucket, arguments: list[str], folder: Path) -> Child:
    # Nothing of what the kernel may do in OpenBao is handed on.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BAO_", "VAULT_"))} | lab.environment()
    ours = ["--port", "0", "--bucket", str(bucket.folder.resolve()), "--credentials", str(folder)]
    command = [sys.executable, "-m", "labkit", "serve", *arguments, *ours]
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


def _end(children: list[Child], balancers: list[Balancer]) -> None:
    for balancing in balancers:
        balancing.close()
    for child in children:
        child.close()
