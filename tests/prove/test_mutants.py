"""No proof stays green when its defense is removed: a mutant removes one, and the proof that it names must turn red."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import evidence
import mcp
import nbformat
import pytest
from mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
SDK = Path(mcp.__file__).parent
AT_ONCE = 3
LIMIT = 180  # seconds
LONG = ("notebooks/05", "notebooks/06")

# A cell that only shows code turns red at any change of it, and proves nothing: its output is not compared here.
SHOWS_CODE = re.compile(r"^labkit\.source\(|^print\(lab\.admin\.sys\.read_policy\(", re.M)


class Outcome(NamedTuple):
    """What became of a proof: "green", "red" or "broken", and where or why."""

    color: str
    why: str


class Runner:
    """Runs each proof in a tree of its own: once as things are, and once for each mutant."""

    def __init__(self, mutants: list[Mutant]) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._processes: set[subprocess.Popen[str]] = set()
        self._baselines: dict[str, Future[Outcome]] = {}
        self._mutants: dict[Mutant, Future[Outcome]] = {}
        # The long ones first, or the last of them would be waited for alone.
        for mutant in sorted(mutants, key=lambda mutant: mutant.killer.startswith(LONG), reverse=True):
            self.start(mutant)

    def start(self, mutant: Mutant) -> tuple[Future[Outcome], Future[Outcome]]:
        """Start a mutant and the baseline of its killer, where that was not done yet."""
        file = mutant.killer.partition("::")[0]
        if file not in self._baselines:
            # Those of one file together, because to start takes longer than most of them do.
            killers = sorted({each.killer for each in MUTANTS if each.killer.partition("::")[0] == file})
            self._baselines[file] = self._pool.submit(self._run, killers)
        if mutant not in self._mutants:
            self._mutants[mutant] = self._pool.submit(self._run, [mutant.killer], mutant)
        return self._baselines[file], self._mutants[mutant]

    def close(self) -> None:
        """Whoever interrupts the tests waits for none of what they started."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in list(self._processes):
            os.killpg(process.pid, signal.SIGKILL)
        self._pool.shutdown()

    def _run(self, killers: list[str], mutant: Mutant | None = None) -> Outcome:
        # Kernels are killed and leave things behind; all of it goes with the tree.
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
            tree = Path(name)
            plant(tree)
            witness = mutate(tree, mutant) if mutant else None
            if notebook := killers[0].endswith(".ipynb"):
                leave_out_what_shows_code(tree / killers[0])
            command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "--junitxml=report.xml"]
            command += ["-p", "no:hypothesispytest"]  # it only adds to the report, and takes a second to load
            command += ["-x"] if mutant else []
            # Where there is no notebook, what nbval brings along is loaded for nothing, for a third of a second.
            command += ["--nbval"] if notebook else ["-o", "addopts=--strict-markers", "-p", "no:nbval"]
            code = self._pytest([*command, *killers], tree)
            if code is None:
                return Outcome("broken", f"not done after {LIMIT} s")
            if code not in (0, 1):
                return Outcome("broken", f"pytest exits with {code}: {(tree / 'output.txt').read_text()[-300:]}")
            importers = witness.read_text().splitlines() if witness else [""]
            # In a notebook's run, whatever pytest itself imports is no part of the proof.
            if all(notebook and "pytest" in importer for importer in importers):
                return Outcome("broken", "the mutant was not imported")
            return outcome(tree / "report.xml", code, is_notebook=notebook)

    def _pytest(self, command: list[str], tree: Path) -> int | None:
        # What is set for this run is not for those: neither its plugins nor an OpenBao that both would share.
        own = {k: v for k, v in os.environ.items() if not k.startswith(("BAO_", "VAULT_", "PYTEST_"))}
        env = {**own, "PYTHONPATH": str(tree / "src"), "TMPDIR": str(tree / "tmp")}
        with open(tree / "output.txt", "w+") as output:
            process = subprocess.Popen(
                command, cwd=tree, env=env, stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )
            self._processes.add(process)
            try:
                return process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None
            finally:
                self._processes.discard(process)


@cache
def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def plant(tree: Path) -> None:
    """A copy of the checkout, and in it the SDK, which lies in front of the installed one."""
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(SDK, tree / "src" / "mcp")
    (tree / "tmp").mkdir()
    # Through nbformat, jsonschema spends two seconds of each process on a grammar for IRIs, where there is one.
    (tree / "src" / "rfc3987_syntax.py").write_text("raise ImportError\n")


def original(mutant: Mutant) -> str:
    sdk = mutant.file.removeprefix("src/mcp/")
    return (SDK / sdk if sdk != mutant.file else ROOT / mutant.file).read_text()


def mutated(mutant: Mutant) -> str:
    text = original(mutant)
    assert text.count(mutant.old) == 1, f"{mutant.file} has this {text.count(mutant.old)} times: {mutant.old}"
    changed = text.replace(mutant.old, mutant.new)
    assert changed != text
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
    return changed


def mutate(tree: Path, mutant: Mutant) -> Path:
    """Put a mutant into a tree; returns the file in which whoever imports it leaves a line.

    What is no Python is read by what lies beside it, so there the module that reads the policies is the witness.
    """
    witness = tree / "witness.txt"
    witness.touch()
    (tree / mutant.file).write_text(mutated(mutant))
    module = tree / (mutant.file if mutant.file.endswith(".py") else "src/labkit/provision.py")
    line = f'with open({str(witness)!r}, "a") as _witness:\n    _witness.write(__import__("sys").argv[0] + "\\n")\n'
    start, future, rest = module.read_text().rpartition("from __future__ import annotations\n")
    text = f"{start}{future}{line}{rest}" if module.name == "__main__.py" else f"{start}{future}{rest}\n{line}"
    module.write_text(text)  # at the end, where that is reached: an import that fails half-way is none
    return witness


def leave_out_what_shows_code(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code" and SHOWS_CODE.search(cell.source):
            cell.metadata.setdefault("tags", []).append("nbval-ignore-output")
    nbformat.write(notebook, path)


def outcome(report: Path, code: int, *, is_notebook: bool) -> Outcome:
    cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - pytest has just written it
    red = [case for case in cases if case.find("failure") is not None]
    if code == 0:
        return Outcome("green", f"{len(cases)} passed") if cases else Outcome("broken", "nothing ran")
    if not red:
        return Outcome("broken", "an error, and no failure")
    if is_notebook and red[0] is cases[0]:
        return Outcome("broken", "its first cell fails, so it says nothing of what the others would have")
    return Outcome("red", f"{red[0].get('name')}: {_said(red[0])}")


def _said(case: ElementTree.Element) -> str:
    """The end of what a failed test says, without colors."""
    text = "".join(failure.text or "" for failure in case.iter("failure"))
    return " ".join(re.sub(r"(?:\x1b|#x1B)\[[0-9;]*m", "", text).split())[-300:]


@pytest.fixture(scope="module")
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    selected = [item.callspec.params["mutant"] for item in request.session.items if "mutant" in _parameters(item)]
    # With xdist, each worker sees all the tests and runs only some of them; the workers are then those at once.
    runner = Runner([] if "PYTEST_XDIST_WORKER" in os.environ else selected)
    yield runner
    runner.close()


def _parameters(item: pytest.Item) -> dict[str, object]:
    return getattr(getattr(item, "callspec", None), "params", {})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.defense)
def test_a_proof_turns_red_without_its_defense(
    mutant: Mutant, runner: Runner, record_property: Callable[[str, object], None]
) -> None:
    baseline, changed = (future.result() for future in runner.start(mutant))
    killed = (baseline.color, changed.color) == ("green", "red")
    record_property("mutant", "killed" if killed else "survived")
    record_property("why", changed.why)
    assert baseline.color == "green", f"{mutant.killer} is {baseline.color} without any mutant: {baseline.why}"
    assert changed.color == "red", f"{mutant.killer} is {changed.color} although the defense is gone: {changed.why}"


@pytest.mark.parametrize(("line", "color"), [("# nothing", "green"), ("1 / 0", "broken")])
def test_neither_a_change_of_nothing_nor_a_labkit_that_does_not_start_is_a_kill(
    runner: Runner, line: str, color: str
) -> None:
    killer = "tests/test_rotation.py::test_a_time_that_cannot_be_is_turned_down"
    idle = Mutant("nothing", "src/labkit/errors.py", "import contextlib\n", f"import contextlib\n{line}\n", killer)
    assert runner._run([killer], idle).color == color


def test_the_table_is_whole() -> None:
    """What is new has to have a mutant, too."""
    changed = {(mutant.file, mutant.old) for mutant in MUTANTS}
    files = {file for file, _ in changed}
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "openbao/policies").glob("*.hcl")} <= files
    rules = configparser.ConfigParser()
    rules.read(ROOT / "tests/sanitize.cfg")
    for rule in rules.sections():
        assert any(file == "tests/sanitize.cfg" and rules.get(rule, "regex") in old for file, old in changed), rule
    for checker in evidence.CHECKERS:
        assert any(file == "tests/evidence.py" and f"def {checker.__name__}(" in old for file, old in changed)
    notebooks = {path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks <= {mutant.killer for mutant in MUTANTS}


def test_each_mutant_removes_one_thing_in_one_place_and_has_a_name_of_its_own() -> None:
    assert len({mutant.defense for mutant in MUTANTS}) == len({mutated(mutant) for mutant in MUTANTS}) == len(MUTANTS)
