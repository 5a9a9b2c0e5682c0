"""What a committed notebook must be, one checker each. A checker takes a notebook and returns its complaints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from nbformat import NotebookNode

MAX_LINES = 15
MAX_COLUMNS = 88
MAX_IGNORED = 2
PICTURE = re.compile(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=\s]+")

SECRETS = {
    "an OpenBao token": re.compile(r"\b(?:hv)?[sbr]\.[A-Za-z0-9]{20,}"),
    "a sealed requestState": re.compile(r"\bv1\.[A-Za-z0-9_-]{40,}"),
    "a Transit ciphertext": re.compile(r"\bvault:v\d+:[A-Za-z0-9+/_-]{20,}"),
    "a key in hexadecimal": re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{64,}(?![0-9a-fA-F])"),
    "key material in base64": re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{43}=(?!=)"),
    "key material as bytes": re.compile(r"""\bb(["'])(?:\\x[0-9a-f]{2}|[^"'\\]|\\[^x]){0,60}\\x[0-9a-f]{2}"""),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a UUID, as secret-ids are": re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
}


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def prose(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def outputs(notebook: NotebookNode) -> Iterator[tuple[NotebookNode, NotebookNode]]:
    for cell in code_cells(notebook):
        for output in cell.get("outputs", []):
            yield cell, output


def texts(output: NotebookNode) -> Iterator[str]:
    """Everything readable in an output, pictures aside."""
    yield output.get("text", "")
    yield "\n".join(output.get("traceback", []))
    for kind, value in output.get("data", {}).items():
        if not kind.startswith("image/"):
            yield PICTURE.sub("PICTURE", value if isinstance(value, str) else str(value))


def ignored(cell: NotebookNode) -> bool:
    tags = cell.metadata.get("tags", [])
    return "nbval-ignore-output" in tags or bool(re.search(r"^\s*#\s*NBVAL_IGNORE_OUTPUT\b", cell.source, re.M))


def executed_from_the_first_cell_to_the_last(notebook: NotebookNode) -> list[str]:
    counts = [cell.execution_count for cell in code_cells(notebook)]
    wanted = list(range(1, len(counts) + 1))
    return [] if counts == wanted and counts else [f"its execution counts are {counts}, and should be {wanted}"]


def without_an_error_in_an_output(notebook: NotebookNode) -> list[str]:
    return [f"an error output: {o.ename}" for _, o in outputs(notebook) if o.output_type == "error"]


def without_anything_on_standard_error(notebook: NotebookNode) -> list[str]:
    return [f"a line on stderr: {o.text[:60]!r}" for _, o in outputs(notebook) if o.get("name") == "stderr"]


BANNED_TAGS = {"raises-exception", "nbval-raises-exception", "nbval-skip", "skip-execution"}


def without_a_way_around_the_comparison(notebook: NotebookNode) -> list[str]:
    """A cell that may raise stays green when the refusal stops coming; a skipped one, or a magic, proves nothing."""
    said = []
    for cell in code_cells(notebook):
        said += [f"the tag {tag}" for tag in cell.metadata.get("tags", []) if tag in BANNED_TAGS]
        said += re.findall(r"NBVAL_(?:RAISES_EXCEPTION|SKIP)|PYTEST_VALIDATE_IGNORE_OUTPUT", cell.source)
        said += [f"the magic {line}" for line in re.findall(r"^\s*[%!]\S*", cell.source, re.M)]
        said += ["clear_output"] if "clear_output" in cell.source else []
    return said


def with_few_ignored_outputs_each_for_a_reason(notebook: NotebookNode) -> list[str]:
    cells = [cell for cell in code_cells(notebook) if ignored(cell)]
    said = [f"{len(cells)} outputs are ignored, more than {MAX_IGNORED}"] if len(cells) > MAX_IGNORED else []
    for cell in cells:
        comments = [line for line in re.findall(r"#\s*(.+)", cell.source) if not line.startswith("NBVAL_")]
        said += [] if comments else [f"an output is ignored without a reason: {cell.source[:40]!r}"]
    return said


def with_something_to_compare(notebook: NotebookNode) -> list[str]:
    compared = [
        text
        for cell, output in outputs(notebook)
        if not ignored(cell)
        for text in texts(output)
        if text.strip() and PICTURE.sub("", text).strip()
    ]
    return [] if len(compared) >= 3 else [f"only {len(compared)} outputs are compared"]


def with_a_claim_in_an_assertion(notebook: NotebookNode) -> list[str]:
    strong = [c for c in code_cells(notebook) if re.search(r"^\s*assert |expect_refusal\(", c.source, re.M)]
    return [] if strong else ["no cell asserts anything"]


def with_the_parts_of_a_lesson(notebook: NotebookNode) -> list[str]:
    text, code = prose(notebook), "\n".join(cell.source for cell in code_cells(notebook))
    wanted = {
        "a title": r"\A# \S",
        "what the reader will be able to do": r"\|\s*\*\*You will be able to\*\*\s*\|\s*\S",
        "what the reader needs first": r"\|\s*\*\*You need first\*\*\s*\|\s*\S",
        "the minutes": r"\|\s*\*\*Minutes\*\*\s*\|\s*\d+\s*\|",
        "a prediction": r"\*\*Predict\.\*\*",
        "an exercise": r"^## Exercise \d\d\.\d+: ",
        "a recap": r"^## Recap$",
        "what was broken": r"\*\*What was broken|\*\*What a client has",
        "what fixed it": r"\*\*What fixed it|\*\*What did it",
        "what it does not do": r"\*\*What it still does not do",
        "a link to another notebook at the end": r"\]\(\d\d-[a-z-]+\.ipynb[^)]*\)",
    }
    said = [f"{part} is missing" for part, pattern in wanted.items() if not re.search(pattern, text, re.M)]
    last = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"][-1:]
    if not any(re.search(wanted["a link to another notebook at the end"], source) for source in last):
        said.append("the last cell does not lead on")
    if "labkit.start()" not in (code_cells(notebook) or [NotebookNode(source="")])[0].source:
        said.append("the first cell does not start the lab")
    for number in re.findall(r"^## Exercise (\d\d\.\d+): ", text, re.M):
        checks = code.count(f'labkit.check("{number}"')
        said += [] if checks == 2 else [f"exercise {number} has {checks} checks: one to fill in and one solution"]
        said += [] if _solution(notebook, number) else [f"the solution of exercise {number} is not collapsed"]
    return said


def _solution(notebook: NotebookNode, number: str) -> bool:
    return any(
        f'labkit.check("{number}"' in cell.source
        and cell.metadata.get("jupyter", {}).get("source_hidden")
        and cell.metadata.get("jupyter", {}).get("outputs_hidden")
        and "hide-cell" in cell.metadata.get("tags", [])
        for cell in code_cells(notebook)
    )


def with_exercises_that_are_open_and_solved(notebook: NotebookNode) -> list[str]:
    """As committed, each exercise says "not done yet" where the reader works, and "done" under the solution."""
    said = []
    for cell in code_cells(notebook):
        for number in re.findall(r'labkit\.check\("(\d\d\.\d+)"', cell.source):
            hidden = bool(cell.metadata.get("jupyter", {}).get("source_hidden"))
            shown = "".join(output.get("text", "") for output in cell.outputs)
            verdict = f"Exercise {number}: {'done' if hidden else 'not done yet'}. "
            said += [] if verdict in shown.replace("\n", " ") else [f"exercise {number} does not say {verdict!r}"]
    return said


def with_cells_of_a_readable_size(notebook: NotebookNode) -> list[str]:
    sizes = [(len(cell.source.splitlines()), cell.source) for cell in code_cells(notebook)]
    said = [f"{size} lines in {source[:40]!r}" for size, source in sizes if size > MAX_LINES]
    wide = [line for _, source in sizes for line in source.splitlines() if len(line) > MAX_COLUMNS]
    return said + [f"a line of {len(line)} characters: {line[:40]!r}" for line in wide]


DEFAULTS = {"", "no description has been provided for this image", "image", "figure", "output image", "png", "alt"}


def with_alternative_text_on_every_picture(notebook: NotebookNode) -> list[str]:
    said = []
    for _, output in outputs(notebook):
        data: dict[str, Any] = output.get("data", {})
        said += [f"a bare {kind}, which has no alternative text" for kind in data if kind.startswith("image/")]
        for tag in re.findall(r"<(?:img|svg)\b[^>]*>", data.get("text/html", "")):
            alt = re.search(r'\b(?:alt|aria-label)="([^"]*)"', tag)
            if alt is None or alt[1].strip().lower().rstrip(".") in DEFAULTS or len(alt[1].split()) < 5:
                said.append(f"a picture with the alternative text {alt and alt[1]!r}")
            elif not data.get("text/plain", "").startswith("Figure: "):
                said.append("a picture without a text of its own")
    for tag in re.findall(r"!\[([^\]]*)\]\(|<img\b([^>]*)>", prose(notebook)):
        alt_text = tag[0] or (re.search(r'alt="([^"]*)"', tag[1]) or ["", ""])[1]
        if len(alt_text.split()) < 5:
            said.append(f"a picture in the text with the alternative text {alt_text!r}")
    return said


def without_a_secret(notebook: NotebookNode) -> list[str]:
    readable = [cell.source for cell in notebook.cells]
    readable += [text for _, output in outputs(notebook) for text in texts(output)]
    readable += [str(notebook.metadata), *(str(cell.metadata) for cell in notebook.cells)]
    return [name for name, pattern in SECRETS.items() for text in readable if pattern.search(text)]


def without_a_trace_of_the_machine(notebook: NotebookNode) -> list[str]:
    said = [f"metadata {key}" for key in notebook.metadata if key not in ("kernelspec", "language_info")]
    # language_info is not looked at: JupyterLab fills it in as soon as somebody opens the notebook.
    for cell in notebook.cells:
        said += [f"cell metadata {key}" for key in cell.metadata if key not in ("tags", "jupyter")]
    readable = [text for _, output in outputs(notebook) for text in texts(output)]
    found = (re.search(r"/(?:home|Users|tmp|root|work)/\S+|ipykernel_\d+|127\.0\.0\.1:\d{4,}", t) for t in readable)
    return said + [f"{match[0]} in an output" for match in found if match]


CHECKERS: list[Callable[[NotebookNode], list[str]]] = [
    executed_from_the_first_cell_to_the_last,
    without_an_error_in_an_output,
    without_anything_on_standard_error,
    without_a_way_around_the_comparison,
    with_few_ignored_outputs_each_for_a_reason,
    with_something_to_compare,
    with_a_claim_in_an_assertion,
    with_the_parts_of_a_lesson,
    with_exercises_that_are_open_and_solved,
    with_cells_of_a_readable_size,
    with_alternative_text_on_every_picture,
    without_a_secret,
    without_a_trace_of_the_machine,
]


def minutes(notebook: NotebookNode) -> int:
    """The minutes that a notebook asks for."""
    found = re.search(r"\|\s*\*\*Minutes\*\*\s*\|\s*(\d+)\s*\|", prose(notebook))
    return int(found[1]) if found else 0
