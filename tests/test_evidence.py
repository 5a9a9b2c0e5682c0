"""Each checker is content with a good notebook and complains about a bad one: a checker that cannot fail is none."""

from __future__ import annotations

import copy
from collections.abc import Callable

import evidence
import nbformat
import pytest
from nbformat import NotebookNode

ALT = "Three logs are gone and the key is left: logs 3, keys 1."
PICTURE = f'<figure><img alt="{ALT}" src="data:image/png;base64,iVBORw0KGgo="></figure>'


def printed(text: str) -> NotebookNode:
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def shown(html: str, plain: str = f"Figure: {ALT}") -> NotebookNode:
    return nbformat.v4.new_output("display_data", data={"text/html": html, "text/plain": plain})


def good() -> NotebookNode:
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [
        text("# Watch a purge\n\nWhy it hurts."),
        text(
            "| | |\n|--|--|\n| **You will be able to** | purge |\n| **You need first** | Python |\n| **Minutes** | 20 |"
        ),
        code("lab = labkit.start()", outputs=[]),
        text("**Predict.** What is left?"),
        code("print(bucket.keys())\nassert bucket.keys() == []", outputs=[printed("[]\n")]),
        code("picture()", outputs=[shown(PICTURE)]),
        text("## Exercise 09.1: do it\n\nTry."),
        code('labkit.check("09.1", None)', outputs=[printed("Exercise 09.1: not done yet. Try.\n")]),
        code(
            'labkit.check("09.1", 1)',
            outputs=[printed("Exercise 09.1: done. Good.\n")],
            metadata={"tags": ["hide-cell"], "jupyter": {"source_hidden": True, "outputs_hidden": True}},
        ),
        text(
            "## Recap\n\n- **What was broken.** It.\n- **What fixed it.** That.\n- **What it still does not do.** Much."
        ),
        text("Next: [more](10-more.ipynb)."),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata = nbformat.from_dict({"kernelspec": {"name": "python3"}, "language_info": {"name": "python"}})
    for count, cell in enumerate(evidence.code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


def setup(n: NotebookNode) -> NotebookNode:
    return n.cells[2]


def work(n: NotebookNode) -> NotebookNode:
    return n.cells[4]


def picture(n: NotebookNode) -> NotebookNode:
    return n.cells[5]


def set_source(cell: NotebookNode, source: str) -> None:
    cell.source = source


def replace(n: NotebookNode, old: str, new: str) -> None:
    before = [cell.source for cell in n.cells]
    for cell in n.cells:
        cell.source = cell.source.replace(old, new)
    assert before != [cell.source for cell in n.cells], old


def ignore(*cells: NotebookNode, reason: str = "") -> None:
    for cell in cells:
        cell.source = f"# NBVAL_IGNORE_OUTPUT\n{reason}{cell.source}"


E = evidence
SPOILT: list[tuple[Callable[[NotebookNode], list[str]], str, Callable[[NotebookNode], object]]] = [
    (E.executed_from_the_first_cell_to_the_last, "not executed", lambda n: work(n).update(execution_count=None)),
    (E.executed_from_the_first_cell_to_the_last, "out of order", lambda n: work(n).update(execution_count=7)),
    (E.executed_from_the_first_cell_to_the_last, "a second run", lambda n: [c.update(execution_count=c.execution_count + 6) for c in E.code_cells(n)]),
    (E.executed_from_the_first_cell_to_the_last, "no code at all", lambda n: n.update(cells=[c for c in n.cells if c.cell_type == "markdown"])),
    (E.without_an_error_in_an_output, "an error", lambda n: work(n).outputs.append(nbformat.v4.new_output("error", ename="KeyError", evalue="", traceback=[]))),
    (E.without_anything_on_standard_error, "a log line", lambda n: work(n).outputs.append(nbformat.v4.new_output("stream", name="stderr", text="warning"))),
    (E.without_a_way_around_the_comparison, "raises-exception", lambda n: work(n).metadata.update(tags=["raises-exception"])),
    (E.without_a_way_around_the_comparison, "nbval-skip", lambda n: work(n).metadata.update(tags=["nbval-skip"])),
    (E.without_a_way_around_the_comparison, "a comment that lets a cell raise", lambda n: set_source(work(n), "# NBVAL_RAISES_EXCEPTION\n1 / 0")),
    (E.without_a_way_around_the_comparison, "a comment that skips", lambda n: set_source(work(n), "# NBVAL_SKIP\n1 / 0")),
    (E.without_a_way_around_the_comparison, "a magic", lambda n: set_source(work(n), "%%capture\nassert False")),
    (E.without_a_way_around_the_comparison, "a shell line", lambda n: set_source(work(n), "!bao status")),
    (E.without_a_way_around_the_comparison, "clear_output", lambda n: set_source(work(n), "clear_output()")),
    (E.with_few_ignored_outputs_each_for_a_reason, "no reason", lambda n: ignore(work(n))),
    (E.with_few_ignored_outputs_each_for_a_reason, "three", lambda n: ignore(setup(n), work(n), picture(n), reason="# it varies\n")),
    (E.with_something_to_compare, "no output", lambda n: [c.update(outputs=[]) for c in E.code_cells(n)]),
    (E.with_something_to_compare, "all ignored", lambda n: ignore(*E.code_cells(n))),
    (E.with_something_to_compare, "all ignored by tag", lambda n: [c.metadata.update(tags=["nbval-ignore-output"]) for c in E.code_cells(n)]),
    (E.with_something_to_compare, "bare pictures only", lambda n: [c.update(outputs=[nbformat.v4.new_output("display_data", data={"image/png": "iVBOR"})]) for c in E.code_cells(n)]),
    (E.with_a_claim_in_an_assertion, "nothing asserted", lambda n: set_source(work(n), "print(bucket.keys())")),
    *[
        (E.with_the_parts_of_a_lesson, f"no {old}", lambda n, old=old: replace(n, old, "x"))
        for old in ("# Watch", "**You will be able to**", "**You need first**", "| **Minutes** | 20 |", "**Predict.**", "## Exercise 09.1: ", "## Recap", "**What was broken.**", "**What fixed it.**", "**What it still does not do.**", "[more](10-more.ipynb)", "labkit.start()")
    ],
    (E.with_the_parts_of_a_lesson, "minutes that are no number", lambda n: replace(n, "| **Minutes** | 20 |", "| **Minutes** | some |")),
    (E.with_the_parts_of_a_lesson, "no solution", lambda n: n.cells.pop(8)),
    (E.with_the_parts_of_a_lesson, "a solution in plain view", lambda n: n.cells[8].metadata.clear()),
    (E.with_the_parts_of_a_lesson, "a solution that HTML shows", lambda n: n.cells[8].metadata.update(tags=[])),
    (E.with_exercises_that_are_open_and_solved, "solved as committed", lambda n: n.cells[7].update(outputs=[printed("Exercise 09.1: done. Good.\n")])),
    (E.with_exercises_that_are_open_and_solved, "a solution that fails", lambda n: n.cells[8].update(outputs=[printed("Exercise 09.1: not done yet. Try.\n")])),
    (E.with_exercises_that_are_open_and_solved, "a silent check", lambda n: n.cells[7].update(outputs=[])),
    (E.with_cells_of_a_readable_size, "sixteen lines", lambda n: set_source(work(n), "x = 1\n" * 16)),
    (E.with_cells_of_a_readable_size, "a wide line", lambda n: set_source(work(n), f"x = '{'y' * 120}'")),
    (E.with_alternative_text_on_every_picture, "a bare picture", lambda n: picture(n).update(outputs=[nbformat.v4.new_output("display_data", data={"image/png": "iVBOR"})])),
    (E.with_alternative_text_on_every_picture, "none", lambda n: picture(n).update(outputs=[shown(PICTURE.replace(f'alt="{ALT}"', ""))])),
    (E.with_alternative_text_on_every_picture, "an empty one", lambda n: picture(n).update(outputs=[shown(PICTURE.replace(ALT, ""))])),
    (E.with_alternative_text_on_every_picture, "the default", lambda n: picture(n).update(outputs=[shown(PICTURE.replace(ALT, "No description has been provided for this image"))])),
    (E.with_alternative_text_on_every_picture, "two words", lambda n: picture(n).update(outputs=[shown(PICTURE.replace(ALT, "A picture"))])),
    (E.with_alternative_text_on_every_picture, "in HTML only", lambda n: picture(n).update(outputs=[shown(PICTURE, "<Figure size 640x480>")])),
    (E.with_alternative_text_on_every_picture, "in the text", lambda n: replace(n, "Why it hurts.", "![](diagram.png)")),
    (E.without_a_secret, "a token in an output", lambda n: work(n).update(outputs=[printed("s." + "Ab3dEf6hIj" * 3)])),
    (E.without_a_secret, "a namespaced token", lambda n: work(n).update(outputs=[printed("s." + "Ab3dEf6hIj" * 2 + "Ab3d.gXZxEF")])),
    (E.without_a_secret, "a token in a source", lambda n: set_source(work(n), 'token = "s.' + "Ab3dEf6hIj" * 3 + '"')),
    (E.without_a_secret, "a token in the text", lambda n: replace(n, "Why it hurts.", "b." + "Ab3dEf6hIj" * 3)),
    (E.without_a_secret, "a requestState", lambda n: work(n).update(outputs=[printed("v1." + "Ab3d_f6hIj" * 6)])),
    (E.without_a_secret, "a Transit ciphertext", lambda n: work(n).update(outputs=[printed("vault:v1:" + "Ab3dEf6hIj" * 6)])),
    (E.without_a_secret, "a hexadecimal key", lambda n: work(n).update(outputs=[printed("0123456789abcdef" * 4)])),
    (E.without_a_secret, "a base64 key", lambda n: work(n).update(outputs=[printed("q" * 43 + "=")])),
    (E.without_a_secret, "a key as bytes", lambda n: work(n).update(outputs=[printed(r"b'k\x8f\x01w\xfe'")])),
    (E.without_a_secret, "a secret-id", lambda n: work(n).update(outputs=[printed("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed")])),
    (E.without_a_secret, "a secret in HTML", lambda n: picture(n).update(outputs=[shown("<p>s." + "Ab3dEf6hIj" * 3 + "</p>")])),
    (E.without_a_secret, "a secret in metadata", lambda n: work(n).metadata.update(note="s." + "Ab3dEf6hIj" * 3)),
    (E.without_a_trace_of_the_machine, "a path", lambda n: work(n).update(outputs=[printed("/home/ada/labkit")])),
    (E.without_a_trace_of_the_machine, "a port", lambda n: work(n).update(outputs=[printed("http://127.0.0.1:40231")])),
    (E.without_a_trace_of_the_machine, "a kernel's file", lambda n: work(n).update(outputs=[printed("in ipykernel_4711")])),
    (E.without_a_trace_of_the_machine, "times", lambda n: work(n).metadata.update(execution={"iopub.status.busy": "2026"})),
    (E.without_a_trace_of_the_machine, "papermill's notes", lambda n: n.metadata.update(papermill={})),
]  # fmt: skip


@pytest.mark.parametrize("checker", evidence.CHECKERS, ids=lambda c: c.__name__)
def test_a_good_notebook_has_nothing_to_complain_about(checker: Callable[[NotebookNode], list[str]]) -> None:
    assert checker(good()) == []


@pytest.mark.parametrize(
    ("checker", "spoil"), [(c, s) for c, _, s in SPOILT], ids=[f"{c.__name__}: {what}" for c, what, _ in SPOILT]
)
def test_a_spoilt_notebook_is_complained_about(
    checker: Callable[[NotebookNode], list[str]], spoil: Callable[[NotebookNode], object]
) -> None:
    notebook = good()
    before = copy.deepcopy(notebook)
    spoil(notebook)
    assert notebook != before, "this spoils nothing"
    assert checker(notebook)


def test_every_checker_is_shown_a_notebook_that_fails_it() -> None:
    assert {checker for checker, _, _ in SPOILT} == set(evidence.CHECKERS)
