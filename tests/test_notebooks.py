"""The committed notebooks: fit to be seen, free of secrets, the same on every run, and compared for real."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import evidence
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from labkit.lab import Lab

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


@every_notebook
@pytest.mark.parametrize("checker", evidence.CHECKERS, ids=lambda c: c.__name__)
def test_a_notebook_is(path: Path, checker: Callable[[NotebookNode], list[str]]) -> None:
    assert checker(read(path)) == []


def test_notebooks_are_numbered_without_a_gap() -> None:
    assert [path.name[:3] for path in PATHS] == [f"{number:02}-" for number in range(len(PATHS))]
    assert PATHS


@pytest.mark.parametrize("listed_in", ["README.md", "notebooks/00-start-here.ipynb"])
def test_the_readme_and_the_map_list_every_notebook_with_its_minutes(listed_in: str) -> None:
    text = (ROOT / listed_in).read_text() if listed_in.endswith(".md") else evidence.prose(read(ROOT / listed_in))
    rows = dict(re.findall(r"^\| \[?\**(\d\d) .*?\| (\d+) \|", text, re.M))
    assert rows == {path.name[:2]: str(evidence.minutes(read(path))) for path in PATHS}


@every_notebook
def test_links_between_notebooks_lead_somewhere(path: Path) -> None:
    for link, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", evidence.prose(read(path))):
        target = path.parent / link if link else path
        assert target.is_file(), link
        if heading:
            headings = [h.replace(" ", "-") for h in re.findall(r"^#+ (.+)$", evidence.prose(read(target)), re.M)]
            assert heading in headings


@every_notebook
def test_every_exercise_of_a_notebook_is_its_own(path: Path) -> None:
    for cell in evidence.code_cells(read(path)):
        for number in re.findall(r'labkit\.check\("(\d\d)\.', cell.source):
            assert number == path.name[:2]


# Run before and behind each of two passes through the notebook, in one kernel. What they see never enters an output.
LISTEN = """
import logging as _logging
_logging.basicConfig(level=_logging.DEBUG, filename={log!r}, force=True)
"""
CONFESS = """
import json as _json
_lab_clients = [c for c in lab._clients if hasattr(c.adapter, "_credentials")]
_secrets = [lab.admin.token, *(k.hex() for k in labkit.load_key_ring(lab.client("ring-reader")))]
_secrets += [c.token for c in _lab_clients] + [c.adapter._credentials["secret_id"] for c in _lab_clients]
with open({secrets!r}, "a") as _file:
    _file.writelines(_json.dumps(s) + "\\n" for s in _secrets)
"""


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: path.name)
def two_passes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[NotebookNode, list[list[NotebookNode]], list[str], str]:
    """A notebook, the outputs of two passes in one kernel, the secrets it used, and all that was logged."""
    folder = tmp_path_factory.mktemp("two-passes")
    log, secrets = str(folder / "log"), str(folder / "secrets")
    notebook = read(request.param)
    cells = [nbformat.v4.new_code_cell(LISTEN.format(log=log))]
    for _ in range(2):
        cells += [nbformat.v4.new_code_cell(cell.source) for cell in evidence.code_cells(notebook)]
        cells.append(nbformat.v4.new_code_cell(CONFESS.format(secrets=secrets)))
    run = nbformat.v4.new_notebook(cells=cells)
    place = {"metadata": {"path": str(request.param.parent)}}
    NotebookClient(run, kernel_name="python3", resources=place, coalesce_streams=True).execute()
    length = len(evidence.code_cells(notebook)) + 1
    passes = [run.cells[1:length], run.cells[length + 1 : 2 * length]]
    told = [json.loads(line) for line in Path(secrets).read_text().splitlines()]
    return notebook, passes, told, Path(log).read_text()


TwoPasses = tuple[NotebookNode, list[list[NotebookNode]], list[str], str]


def readable(cells: list[NotebookNode]) -> list[list[str]]:
    return [[text for output in cell.outputs for text in evidence.texts(output)] for cell in cells]


def test_a_second_pass_in_the_same_kernel_says_the_same(two_passes: TwoPasses) -> None:
    notebook, (first, second), _, _ = two_passes
    assert readable(first) == readable(evidence.code_cells(notebook))
    assert readable(second) == readable(first)


def spellings(secret: str) -> set[str]:
    """The ways in which a secret may show: as it is, or key material in another notation."""
    if not re.fullmatch(r"[0-9a-f]{64,}", secret):
        return {secret}
    raw = bytes.fromhex(secret)
    encoded = {base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    return {secret, secret.upper(), repr(raw)[2:-1], str(list(raw))[1:-1], *encoded}


def test_no_secret_of_the_run_is_in_an_output_or_a_log(two_passes: TwoPasses) -> None:
    _, passes, secrets, log = two_passes
    assert len(secrets) >= 8, "the notebook used secrets, and they were collected"
    assert "urllib3" in log, "what the libraries log was captured"
    seen = log + str(passes)
    for secret in secrets:
        for spelling in spellings(secret):
            assert spelling not in seen


def strict(notebook: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", str(notebook)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def spoil_text(notebook: NotebookNode) -> None:
    output = next(o for _, o in evidence.outputs(notebook) if "Purged 1 object(s)" in o.get("text", ""))
    output.text = output.text.replace("Purged 1 object(s)", "Purged 0 object(s)")


def spoil_alternative_text(notebook: NotebookNode) -> None:
    output = next(o for _, o in evidence.outputs(notebook) if "text/html" in o.get("data", {}))
    output.data["text/html"] = output.data["text/html"].replace("redeem the claim", "redeem nothing")


def spoil_reason(notebook: NotebookNode) -> None:
    cell = next(c for c in evidence.code_cells(notebook) if 'expect_refusal("seal")' in c.source)
    cell.source = cell.source.replace('expect_refusal("seal")', 'expect_refusal("expired")')


def spoil_attack(notebook: NotebookNode) -> None:
    """The attack stops being one: the state comes back unedited, and nothing is refused any more."""
    cell = next(c for c in evidence.code_cells(notebook) if 'expect_refusal("seal")' in c.source)
    cell.source = cell.source.replace("state[:middle] + swapped + state[middle + 1 :]", "state")


@pytest.mark.parametrize("spoil", [spoil_text, spoil_alternative_text, spoil_reason, spoil_attack])
def test_strict_nbval_notices(tmp_path: Path, spoil: Callable[[NotebookNode], None]) -> None:
    notebook = read(PATHS[0])
    before = str(notebook)
    spoil(notebook)
    assert str(notebook) != before
    nbformat.write(notebook, tmp_path / "spoilt.ipynb")
    done = strict(tmp_path / "spoilt.ipynb")
    assert done.returncode == 1, done.stdout
    assert re.search(r"[1-9]\d* failed", done.stdout)


def test_a_notebook_that_was_executed_anew_is_the_committed_one(tmp_path: Path) -> None:
    """What `make notebooks` would write, so that a second run changes nothing."""
    copies = [Path(shutil.copy(path, tmp_path)) for path in PATHS]
    subprocess.run([sys.executable, ROOT / "tests/execute.py", *copies], check=True, capture_output=True)
    for path, copy in zip(PATHS, copies, strict=True):
        assert _without_pictures(copy) == _without_pictures(path)


def _without_pictures(path: Path) -> str:
    notebook = read(path)
    notebook.metadata.pop("language_info", None)  # JupyterLab fills it in when the notebook is opened
    return evidence.PICTURE.sub("PICTURE", nbformat.writes(notebook))


def test_a_notebook_passes_on_somebody_elses_server(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAO_ADDR", own_lab.address)
    monkeypatch.setenv("BAO_TOKEN", str(own_lab.admin.token))
    done = strict(PATHS[0])
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
