"""What documentation shows works: its blocks run from top to bottom.

A block of Python runs in the names that the blocks before it made; one with `file=NAME` is written
to that file instead. Of a block of the console the lines behind `$ ` run.
"""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from rlpyt.cli import main

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(python|console)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str, str, int]]:
    """Kind, file, text and first line's number of each block."""
    text = (DOCS / page).read_text()
    return [(*m.groups(""), text[: m.start(3)].count("\n")) for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", ["agents.md"])
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    before, names = set(sys.modules), {"__name__": "docs"}
    found = blocks(page)
    assert len(found) == (DOCS / page).read_text().count("```") // 2
    try:
        for kind, file, text, line in found:
            if file:
                Path(file).write_text(text)
            elif kind == "python":
                run(text, DOCS / page, line, names)
            else:
                for command in re.findall(r"^\$ rlpyt (.*)$", text, re.M):
                    assert main(shlex.split(command, comments=True)) == 0, command
    finally:
        for name in set(sys.modules) - before:  # modules that the page wrote
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == tmp_path:
                del sys.modules[name]


def test_control_a_block_that_is_wrong_names_its_line():
    page = DOCS / "agents.md"
    with pytest.raises(NameError) as caught:
        run("a = 1\nmisspelt", page, 40, {})
    place = caught.traceback[-1]
    assert (str(place.path), place.lineno + 1) == (str(page), 42)


def run(text: str, page: Path, line: int, names: dict[str, Any]) -> None:
    """Run a block whose first line has `line` lines before it on the page."""
    exec(compile("\n" * line + text, str(page), "exec"), names)
