"""A fresh clone works with its first command, wherever it lies, and the repository keeps its promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from labkit import demo

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
README = (ROOT / "README.md").read_text()


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [Path(name) for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the repository, in a path that shells and make stumble over."""
    folder = tmp_path_factory.mktemp("fresh") / "it's a (fresh) clone"
    for path in tracked():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path)
    return folder


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("BAO_", "VAULT_", "MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, env=env, capture_output=True, text=True)


def test_a_fresh_clone_demos_with_its_first_command_and_again_right_after(clone: Path) -> None:
    first = make(clone, "demo")
    assert first.returncode == 0, first.stdout + first.stderr
    again = make(clone, "demo")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Setting up" in first.stdout
    assert "Setting up" not in again.stdout
    for output in (first.stdout, again.stdout):
        assert output.count(f"{'honest confirmation':<22} -> {demo.EXPECTED['honest confirmation']}\n") == 2


def test_a_clone_that_was_moved_sets_itself_up_anew(clone: Path) -> None:
    assert make(clone, "demo").returncode == 0
    moved = clone.rename(clone.with_name("moved elsewhere"))
    try:
        done = make(moved, "demo")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Setting up" in done.stdout
    finally:
        moved.rename(clone)


def test_a_python_that_is_too_old_is_one_sentence(clone: Path, tmp_path: Path) -> None:
    old = tmp_path / "python2"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    shutil.rmtree(clone / ".venv", ignore_errors=True)
    done = make(clone, f"PYTHON={old}", "demo")
    assert done.returncode != 0
    assert f"Python 3.11 or newer is needed, and {old} is none" in done.stdout + done.stderr
    assert not (clone / ".venv").exists()


def test_help_has_one_line_for_each_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert phony is not None
    lines = make(ROOT, "help").stdout.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(phony[1].split())
    assert make(ROOT).stdout.splitlines() == lines, "make alone helps"


def test_the_readme_names_only_targets_that_exist() -> None:
    for target in re.findall(r"`?make ([a-z-]+)\b", README.replace("make PYTHON=python3.12 ", "make ")):
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target


def test_links_in_the_readme_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_lock_has_a_hash_for_every_package_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert not re.search(r"^\s*-{1,2}(i|index-url|extra-index-url|find-links|trusted-host)\b", lock, re.M)
    entries = re.split(r"^(?=[a-z0-9])", lock, flags=re.M)[1:]
    assert len(entries) > 100
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)


def test_the_lock_holds_what_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    locked = re.findall(r"^([a-z0-9.-]+)==", (ROOT / "requirements.lock").read_text(), re.M)
    for requirement in asked:
        assert re.split(r"[><=]", requirement)[0] in locked


def test_each_dependency_says_why_it_is_there() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    project = text[text.index("dependencies = [") : text.index("[tool.hatch")]
    lines = [line for line in project.splitlines() if line.strip().startswith('"')]
    assert len(lines) > 10
    assert all(re.search(r'",\s+# \S', line) for line in lines)


def test_nothing_tracked_names_this_machine() -> None:
    for path in tracked():
        text = (ROOT / path).read_text()
        assert str(ROOT) not in text, path
        if path.name != "test_evidence.py":  # which has to show what a trace of a machine looks like
            assert not re.search(r"/(home|Users)/\w", text), path


def test_conda_and_binder_get_what_is_locked() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, installed = environment["dependencies"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert python == f"python{project['requires-python']}"
    assert pip == "pip"
    assert installed["pip"][-1] == "-e ."
    versions = dict(requirement.split("==") for requirement in installed["pip"][:-1])
    assert sorted(versions) == sorted(re.split(r"[><=]", requirement)[0] for requirement in project["dependencies"])
    locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M))
    assert versions == {name: locked[name] for name in versions}


def test_the_workflow_runs_the_same_checks() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    jobs = workflow["jobs"]
    commands = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert commands["test"].strip() == "make test"
    assert commands["conformance"].strip() == "make conformance"
    assert "make compose-up" in commands["official-image"]
    assert "make demo" in commands["official-image"]
    assert "mcp==$lowest" in commands["lowest-mcp"]
    for target in re.findall(r"\bmake ([a-z-]+)", "\n".join(commands.values())):
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target


def test_ci_runs_the_readmes_commands_one_after_the_other() -> None:
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("\nmake test\nmake conformance\nmake prove SIZE=0.1")
    assert "make test " in README
    assert os.access(ROOT / ".ci/run", os.X_OK)
