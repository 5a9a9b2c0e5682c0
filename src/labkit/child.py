"""A process that survives *Interrupt kernel*, and ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from labkit.errors import LabError

# Ends the child when the process that started it is gone, however it went: then its input ends and its parent changes
# (a forked child may keep the one open, and some systems do not have the other). A child of the shell or a
# parent-death signal would not do: Interrupt reaches the former, and the latter fires when a *thread* ends.
_WATCHDOG = """
import contextlib, os, shutil, sys, threading, time
def end():
    with contextlib.suppress(OSError):
        os.kill(int(sys.argv[1]), 9)
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    os._exit(0)
def watch(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    end()
threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()
sys.stdin.read()
end()
"""


class Child:
    """A running command and its working folder, which goes with it.

    Attributes:
        process: the command.
        folder: its working folder.
    """

    def __init__(self, command: list[str], folder: Path, **options: Any) -> None:
        """Start `command` in `folder`; `options` are those of `subprocess.Popen`.

        Raises:
            LabError: a program is missing or may not be run.
        """
        self.folder = folder
        self._owner = os.getpid()
        self._processes: list[subprocess.Popen[bytes]] = []
        # A session of their own keeps an Interrupt of the kernel away from both (on Windows, a process group).
        apart: dict[str, Any] = {
            "start_new_session": True,
            "creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        }
        try:
            self.process = subprocess.Popen(command, cwd=folder, **options, **apart)
            self._processes.append(self.process)
            watchdog = [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(self.process.pid), str(folder)]
            self._processes.insert(0, subprocess.Popen(watchdog, stdin=subprocess.PIPE, **apart))
        except OSError as error:
            self.close()
            raise LabError(
                f"{error.filename or 'A program'} cannot be started ({error.strerror}): set up anew, `make clean lab`."
            ) from None
        except BaseException:  # an interrupt, above all
            self.close()
            raise

    def close(self) -> None:
        """Kill the command and remove its folder; do nothing in a forked child. Twice does no harm."""
        if os.getpid() != self._owner:
            return
        # The command first, so that an interrupt in between cannot leave it without its watchdog; reaped last, so
        # that the pid that the watchdog may kill is nobody else's.
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)
