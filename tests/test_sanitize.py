"""The sanitizing rules hide what varies for no reason of ours, and nothing else."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("sanitize.cfg")
IMG = '<img alt="Three logs are gone." src="data:image/png;base64,{}" style="max-width:100%">'

# For each rule: two texts that must come out alike, and pairs that must stay apart.
CASES = {
    "picture bytes": {
        "alike": (IMG.format("iVBORw0KGgo="), IMG.format("iVBORw0KGgoAAAA+/9=")),
        "apart": [
            (IMG.format("iVBO="), IMG.format("iVBO=").replace("Three", "Two")),
            (IMG.format("iVBO="), IMG.format("iVBO=").replace("max-width", "width")),
            (IMG.format("iVBO="), "Figure: Three logs are gone."),
            ('src="logs/1"', 'src="logs/2"'),
            ("data:image/png;base64,iVBO", "data:image/png;base64,iVBP"),
        ],
    },
}


def rules() -> dict[str, tuple[str, str]]:
    # Read as nbval reads it.
    parser = configparser.ConfigParser()
    parser.read(FILE)
    return {name: (parser.get(name, "regex"), parser.get(name, "replace")) for name in parser.sections()}


def sanitize(text: str) -> str:
    for regex, replacement in rules().values():
        text = re.sub(re.compile(regex), replacement, text)
    return text


def test_there_are_few_rules_each_with_its_cases_in_plain_ascii() -> None:
    assert FILE.read_bytes().isascii()
    assert 0 < len(rules()) <= 10
    assert set(rules()) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_hides_what_it_should_and_nothing_else(name: str) -> None:
    one, other = CASES[name]["alike"]
    assert one != other
    assert sanitize(one) == sanitize(other)
    for first, second in CASES[name]["apart"]:
        assert sanitize(first) != sanitize(second)
