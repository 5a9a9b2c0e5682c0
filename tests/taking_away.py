"""Ways to take OpenBao, or what a codec needs of it, away for good; only from a lab of one's own."""

from __future__ import annotations

import os
import signal

from labkit.lab import Lab
from labkit.provision import TRANSIT_KEY


def kill(lab: Lab) -> None:
    os.kill(lab._server._child.process.pid, signal.SIGKILL)


def seal_the_server(lab: Lab) -> None:
    lab._server.client("", token=lab._server.token).sys.seal()


def delete_the_role(lab: Lab) -> None:
    lab.admin.sys.delete_policy("transit")


def delete_the_key(lab: Lab) -> None:
    lab.admin.secrets.transit.update_key_configuration(TRANSIT_KEY, deletion_allowed=True)
    lab.admin.secrets.transit.delete_key(TRANSIT_KEY)
