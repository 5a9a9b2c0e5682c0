"""A notebook shows the source of labkit as it is, without the rest of its docstrings."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from labkit import listing


class Shown:
    """The first line.

    The rest.
    """

    def method(self, text: str = "<b>") -> str:
        """One line."""
        return text


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    displayed: list[Any] = []
    monkeypatch.setattr(listing, "display", lambda data, **_: displayed.append(data))
    return displayed


def test_each_docstring_is_cut_to_its_first_line(shown: list[dict[str, str]]) -> None:
    listing.source(Shown)
    assert shown[0]["text/plain"].splitlines() == [
        "class Shown:",
        '    """The first line."""',
        "",
        '    def method(self, text: str = "<b>") -> str:',
        '        """One line."""',
        "        return text",
    ]


def test_a_browser_shows_the_same_text_and_wraps_no_line_of_it(shown: list[dict[str, str]]) -> None:
    listing.source(Shown.method)
    page, text = shown[0]["text/html"], shown[0]["text/plain"]
    assert text.startswith("def method")
    assert html.unescape(re.sub(r"<[^>]*>", "", page)) == text
    assert re.match(r'<pre style="white-space: pre;', page)


def test_what_has_no_source_is_an_error() -> None:
    with pytest.raises(TypeError):
        listing.source(7)
