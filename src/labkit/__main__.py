"""The command line: `python -m labkit …`."""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 failed, 2 not understood."""
    parser = argparse.ArgumentParser(prog="python -m labkit", description="Helpers of the notebook series.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = "run the four moves against one requestState, with the key ring and with Transit"
    commands.add_parser("demo", help=demo, description=f"{demo[0].upper()}{demo[1:]}; exit 1 if any verdict differs.")
    parser.parse_args(argv)

    from labkit.openbao import LabError  # after parsing: --help works where a package is missing

    try:
        from labkit.demo import main as run

        return run()
    except LabError as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
