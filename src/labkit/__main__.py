"""The command line: `python -m labkit …`."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 failed, 2 not understood."""
    parser = argparse.ArgumentParser(prog="python -m labkit", description="Helpers of the notebook series.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser(
        "doctor",
        help='is this machine ready? every "no" prints its fix',
        description="Look at Python, the packages and OpenBao; exit 1 if anything is missing, and say how to mend it.",
    )
    up = commands.add_parser(
        "up",
        help="run an OpenBao in the foreground",
        description="Run an OpenBao on loopback until Ctrl-C, and print how to reach it.",
    )
    up.add_argument("--port", type=_port, default=8200, help="the port to listen on (default: 8200)")
    provision = commands.add_parser(
        "provision",
        help="prepare the namespace at BAO_ADDR, and write each role's credentials to a folder",
        description="Make the mounts, keys, policies and roles in BAO_NAMESPACE at BAO_ADDR, with BAO_TOKEN, and write "
        "a role-id and a new secret-id for each role to a folder, in files that only you can read.",
    )
    provision.add_argument("--credentials", type=_folder, required=True, metavar="FOLDER", help="where to write them")
    serve = commands.add_parser(
        "serve",
        help="run one replica of the server under study over HTTP",
        description="Serve storage-janitor on loopback until Ctrl-C, with the OpenBao at BAO_ADDR and BAO_NAMESPACE.",
    )
    serve.add_argument(
        "--codec", choices=("ring", "envelope", "transit", "batched"), default="ring", help="(default: ring)"
    )
    serve.add_argument("--port", type=_port_or_any, default=8000, help="the port, or 0 for any (default: 8000)")
    serve.add_argument("--bucket", type=_folder, required=True, metavar="FOLDER", help="the folder that is purged")
    serve.add_argument(
        "--credentials",
        type=_folder,
        required=True,
        metavar="FOLDER",
        help="what `provision` wrote, for the roles that it needs",
    )
    serve.add_argument("--role", type=_role, help="log in as this role for the codec (default: the one that it needs)")
    serve.add_argument("--ttl", type=_ttl, default=120, help="seconds for a round, 1 to 300 (default: 120)")
    serve.add_argument(
        "--max-stale",
        type=_ttl,
        default=60,
        help="with the ring: seconds, 1 to 300, without having read it after which rounds are refused; with less than "
        "30, one slow answer of OpenBao can do that (default: 60)",
    )
    serve.add_argument(
        "--recover-after",
        type=_ttl,
        metavar="SECONDS",
        help="write each purge down in a ledger, and finish those that any replica began so long ago (default: do not)",
    )
    for name, help_, steps, told in (
        (
            "ring",
            "rotate the key ring in KV, step by step",
            ("show", "stage", "activate", "retire"),
            "stage hands out a new key, activate lets it seal, retire drops the old one.",
        ),
        (
            "transit",
            "rotate the Transit key",
            ("show", "rotate", "retire"),
            "rotate makes a new version that seals, retire refuses the older ones.",
        ),
    ):
        operate = commands.add_parser(
            name,
            help=help_,
            description=f"{help_[0].upper()}{help_[1:]}, at BAO_ADDR and BAO_NAMESPACE, as the role ring-operator. "
            f"{told} Each command prints the next step and when it is safe; one that comes too early is refused.",
            allow_abbrev=False,
        )
        operate.add_argument("step", choices=steps)
        operate.add_argument(
            "--credentials",
            type=_folder,
            required=True,
            metavar="FOLDER",
            help="what `provision` wrote",
        )
        operate.add_argument(
            "--ttl",
            type=_ttl,
            default=120,
            help="seconds, 1 to 300: the largest --ttl that any replica was started with; give it with each step "
            "(default: 120, as for serve)",
        )
        if name == "ring":
            operate.add_argument(
                "--max-stale",
                type=_ttl,
                default=60,
                help="seconds, 1 to 300: the largest --max-stale of any replica; give it with each step "
                "(default: 60, as for serve)",
            )
        operate.add_argument(
            "--force",
            action="store_true",
            help="activate or retire without the wait, and turn honest users away; the order stays",
        )
    commands.add_parser(
        "demo",
        help="run the four moves against one requestState, with the key ring and with Transit",
        description="Run the four moves, with the key ring and with Transit; exit 1 if any verdict differs.",
    )
    arguments = parser.parse_args(argv)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - closed by whoever started this
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another one instead

    # Each command is imported when it is called: the doctor has to answer where packages are missing.
    if arguments.command == "doctor":
        from labkit.doctor import main as doctor

        try:
            return doctor()
        except OSError as error:
            return _unwritable(error)

    from labkit.errors import LabError

    try:
        if arguments.command == "up":
            from labkit.up import main as run_up

            return run_up(arguments.port)
        if arguments.command == "provision":
            from labkit.credentials import main as provision_here

            return provision_here(arguments.credentials)
        if arguments.command == "serve":
            from labkit.serve import main as serve_one

            return serve_one(
                arguments.codec,
                port=arguments.port,
                bucket=arguments.bucket,
                folder=arguments.credentials,
                role=arguments.role,
                ttl=arguments.ttl,
                max_stale=arguments.max_stale,
                recover_after=arguments.recover_after,
            )
        if arguments.command in ("ring", "transit"):
            from labkit import operate as operator

            step, folder, ttl, force = arguments.step, arguments.credentials, arguments.ttl, arguments.force
            if arguments.command == "ring":
                return operator.ring(step, folder, ttl=ttl, max_stale=arguments.max_stale, force=force)
            return operator.transit(step, folder, ttl=ttl, force=force)
        from labkit.demo import main as demo

        return demo()
    except LabError as error:
        print(f"labkit: {' '.join(str(error).split())}", file=sys.stderr)  # one line, whatever was quoted in it
        return 1
    except OSError as error:  # of our own output: every other one has been told by then
        return _unwritable(error)
    except KeyboardInterrupt:
        return 130


def _unwritable(error: OSError) -> int:
    print(f"labkit: The output cannot be written ({error.strerror}): give a place for it.", file=sys.stderr)
    return 1


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty name would be the folder you are in: name it, or give .")
    try:
        return Path(text).expanduser()  # as in --bucket=~/bucket, which the shell leaves as it is
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{text!r} is the folder of a user who is not known here") from None


def _number(text: str, highest: int) -> int | None:
    """The number from 1 to `highest` that `text` is, if it is one."""
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(highest))
    return int(text) if plain and 1 <= int(text) <= highest else None


def _port(text: str) -> int:
    port = _number(text, 65535)
    if port is None:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no port: give a number from 1 to 65535")
    return port


def _port_or_any(text: str) -> int:
    return 0 if text == "0" else _port(text)


def _role(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a role: give one such as ring-reader")
    return text


def _ttl(text: str) -> int:
    ttl = _number(text, 300)
    if ttl is None:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of seconds: give a whole one from 1 to 300")
    return ttl


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
