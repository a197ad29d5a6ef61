"""The index of laws in README.md names tests that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CELL = re.compile(r"\[[\w/]+\]\(([\w/]+\.py)\): ((?:`test_\w+`(?:, )?)+)")
INDEX = [
    (module, name)
    for line in (TESTS / "README.md").read_text().splitlines()
    for module, names in CELL.findall(line)
    for name in re.findall(r"test_\w+", names)
]


@pytest.mark.parametrize("module", sorted({module for module, _ in INDEX}))
def test_every_test_that_is_named_exists(module):
    named = {name for other, name in INDEX if other == module}
    there = set(re.findall(r"^def (test_\w+)", (TESTS / module).read_text(), re.M))
    assert named <= there


def test_every_row_names_a_test():
    rows = [line for line in (TESTS / "README.md").read_text().splitlines() if line[:2] == "| "]
    assert len(rows) > 50
    assert all(CELL.search(row) or row.startswith("| entry") for row in rows)
