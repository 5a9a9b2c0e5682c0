"""A notebook with parameters holds for others than the ones that it is committed with."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import nbformat
import pytest

AT_ONCE = 2
ALONE = "05-rotation-timeline"  # its users must not wait for the others
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SETS = [
    ("02-shared-key-ring", {"ttl": "60"}),
    ("03-transit-codec", {"ttl": "60"}),
    ("04-single-use", {"codec": "transit", "ttl": "60"}),
    ("04-single-use", {"codec": "envelope", "ttl": "300"}),
    ("05-rotation-timeline", {"replicas": "3", "ttl": "4", "rate": "20", "strategy": "stage 5 activate"}),
    ("06-crash-safety", {"repeats": "1"}),
]


def parameters(path: Path) -> dict[str, str]:
    """What the cell tagged `parameters` sets, and to what."""
    cells = nbformat.read(path, as_version=4).cells
    lines = [line for c in cells if "parameters" in c.metadata.get("tags", []) for line in c.source.splitlines()]
    return {name: str(ast.literal_eval(value)) for name, value in (line.split(" = ") for line in lines)}


def test_every_parameter_of_every_notebook_is_tried() -> None:
    tried: dict[str, set[str]] = {}
    for name, values in SETS:
        tried.setdefault(name, set()).update(values)
    assert tried == {path.stem: set(parameters(path)) for path in NOTEBOOKS.glob("*.ipynb") if parameters(path)}


def test_each_is_tried_with_another_value_than_it_is_committed_with() -> None:
    for name, values in SETS:
        committed = parameters(NOTEBOOKS / f"{name}.ipynb")
        assert [given for given in values.items() if given in committed.items()] == []


def run(name: str, values: dict[str, str], out: Path) -> subprocess.CompletedProcess[str]:
    given = [argument for item in values.items() for argument in ("-p", *item)]
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", *given]
    return subprocess.run([*command, str(NOTEBOOKS / f"{name}.ipynb"), str(out)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def outs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [tmp_path_factory.mktemp(name) / "out.ipynb" for name, _ in SETS]


@pytest.fixture(scope="module")
def runs(outs: list[Path]) -> Iterator[dict[int, Future[subprocess.CompletedProcess[str]]]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        several = {n: pool.submit(run, *SETS[n], outs[n]) for n in range(len(SETS)) if SETS[n][0] != ALONE}
        yield several
        for each in several.values():
            each.cancel()


@pytest.mark.parametrize(
    "number", sorted(range(len(SETS)), key=lambda n: SETS[n][0] == ALONE), ids=lambda number: SETS[number][0]
)
def test_a_notebook_holds_with_other_parameters(
    number: int,
    runs: dict[int, Future[subprocess.CompletedProcess[str]]],
    outs: list[Path],
    record_property: Callable[[str, object], None],
) -> None:
    if number not in runs:
        wait(runs.values())
    done = runs[number].result() if number in runs else run(*SETS[number], outs[number])
    assert done.returncode == 0, done.stderr[-3000:]
    cells = nbformat.read(outs[number], as_version=4).cells
    assert any("injected-parameters" in cell.metadata.get("tags", []) for cell in cells)
    record_property("proved", ("notebooks run with other parameters", 1))
