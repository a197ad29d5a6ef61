"""Run folders made by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def make_run() -> Callable[..., Path]:
    """Makes a run folder of columns (None is an empty cell) and of fields of run.json."""

    def make(folder: Path, columns: dict[str, list[Any]], **fields: Any) -> Path:
        folder.mkdir(parents=True)
        content = {"format": 1, "algo": "ppo", "env": "CartPole-v1", "seed": 0, "env_steps": 0}
        content |= {"options": {}, "resolved": {}, "resumed": [], "status": "finished"}
        (folder / "run.json").write_text(json.dumps(content | fields))
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
        (folder / "progress.csv").write_text("\n".join(lines) + "\n")
        return folder

    return make
