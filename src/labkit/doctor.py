"""Is this machine ready? Every "no" prints its fix. Needs nothing but Python, so that it can miss everything else."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from typing import Any, NamedTuple

_PIP = "make clean lab, or .venv/bin/python -m pip install"
_INSTALL = f"{_PIP} --require-hashes -r requirements.lock"


class Finding(NamedTuple):
    """One thing looked at: whether it is well, what was found, and what to do if it is not."""

    ok: bool
    found: str
    fix: str = ""


def main() -> int:
    """Look at everything, print a line for each finding, and return 0 if all is well, else 1."""
    findings = [python(), *packages()]
    findings.append(openbao() if all(f.ok for f in findings) else Finding(False, "OpenBao: not tried", "mend the rest"))
    for finding in findings:
        print(f"{'ok ' if finding.ok else 'NO '} {finding.found}" + (f": {finding.fix}" if finding.fix else ""))
    return 0 if all(finding.ok for finding in findings) else 1


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Look at the Python that runs this."""
    found = f"Python {'.'.join(map(str, version))}"
    if version < (3, 11):
        return Finding(False, found, "install 3.11 or newer, then make PYTHON=python3.12 lab")
    return Finding(True, found)


def packages() -> list[Finding]:
    """Look at each package that labkit needs, in the order in which it names them."""
    try:
        wanted = importlib.metadata.requires("labkit") or []
    except importlib.metadata.PackageNotFoundError:
        return [Finding(False, "labkit is not installed", f"{_PIP} --no-deps --no-build-isolation -e .")]
    return [package(requirement) for requirement in wanted if "extra ==" not in requirement]


def package(requirement: str) -> Finding:
    """Look at one package, given as in pyproject.toml: a name, then `>=` and perhaps `<` bounds."""
    name = re.split(r"[<>=]", requirement)[0].strip()
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(False, f"{name} is missing", _INSTALL)
    for sign, bound in re.findall(r"(>=|<)\s*([\d.]+)", requirement):
        if (_numbers(version) >= _numbers(bound)) != (sign == ">="):
            return Finding(False, f"{name} {version} is not {sign} {bound}", _INSTALL)
    return Finding(True, f"{name} {version}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def openbao() -> Finding:
    """Start a lab, on the OpenBao at `BAO_ADDR` or on one of our own, and log in to it."""
    from labkit.errors import LabError
    from labkit.lab import start

    try:
        with start() as lab:
            lab.client("ring-reader")
            status: Any = lab.admin.seal_status
            version = status["version"]
    except LabError as error:
        found, _, fix = str(error).partition(": ")
        return Finding(False, found, fix)
    return Finding(True, f"OpenBao {version}, provisioned and logged in to")
