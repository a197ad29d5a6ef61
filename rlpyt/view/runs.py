"""Runs on the disk as facts (options, algorithm, seed, …) and columns of numbers."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.errors import UsageError
from rlpyt.folder import RunFolder
from rlpyt.logging import csv
from rlpyt.suggest import did_you_mean

FACTS = ("algo", "env", "seed", "preset", "status")  # of run.json beside its options
OTHER = ("resolved", "versions")  # behind their own names: resolved.device


@dataclass(frozen=True)
class LoggedRun:
    """One run's folder. Facts have dotted names: `algo.lr` is an option, `algo` the algorithm."""

    path: Path
    facts: dict[str, Any]

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns of progress.csv, each [lines], NaN where a line has no value."""
        file = self.path / "progress.csv"
        columns = csv.read(file) if file.exists() else {}
        return {tag: np.asarray(column, np.float64) for tag, column in columns.items()}

    def points(self, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
        """The lines that have both values, as two arrays [points], x increasing."""
        missing = np.full(0, np.nan)
        at, value = self.columns.get(x, missing), self.columns.get(y, missing)
        if len(at) != len(value):
            return missing, missing
        both = np.isfinite(at) & np.isfinite(value)
        at, first = np.unique(at[both], return_index=True)
        return at, value[both][first]


def find_runs(paths: Iterable[Path | str]) -> list[LoggedRun]:
    """The runs at or below each path, every one once, in the order of their paths.

    One whose files cannot be read is told of and left out.
    """
    paths = [Path(path) for path in paths]
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist; give run folders or folders that hold them")
    found = {folder.resolve(): folder for path in paths for folder in _run_folders(path)}
    if not found:
        places = ", ".join(map(str, paths))
        raise UsageError(f"no run in {places}; a run is a folder with a run.json, as train makes")
    runs = []
    for folder in sorted(found.values()):
        try:
            runs.append(read_run(folder))
        except UsageError as error:
            warnings.warn(f"left out: {error}", UserWarning, 3)
    if not runs:
        raise UsageError("no run can be read; restore copies of their files")
    return runs


def read_run(folder: Path) -> LoggedRun:
    """The run of one folder, which may still be training."""
    content = RunFolder(folder).read()
    for name in ("options", *OTHER):
        if not isinstance(content.get(name, {}), dict):
            raise UsageError(f"{folder / 'run.json'} has no {name} by name; restore a copy of it")
    facts = {name: content.get(name) for name in FACTS}
    facts |= dict(_flatten(content.get("options", {})))
    facts |= dict(_flatten({name: content.get(name, {}) for name in OTHER}))
    run = LoggedRun(folder, {"run": folder.name} | facts)
    try:
        _ = run.columns
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(f"{folder / 'progress.csv'} cannot be read: {error}") from None
    return run


def fact_name(name: str, runs: Sequence[LoggedRun]) -> str:
    """The dotted name that is meant by `algo.lr`, `lr` or `--num-envs`."""
    wanted = name.lstrip("-").replace("-", "_")
    known = list(dict.fromkeys(key for run in runs for key in run.facts))
    if wanted in known:
        return wanted
    ends = [key for key in known if key.endswith(f".{wanted}")]
    options = [key for key in ends if not key.startswith(OTHER)]
    match options or ends:
        case [only]:
            return only
        case []:
            raise UsageError(f"no run has an option {name}{_nearest(wanted, known)}")
        case several:
            raise UsageError(f"{name} could be {' or '.join(several)}; give the dotted name")


def column_name(name: str, runs: Sequence[LoggedRun]) -> str:
    """The column of this name, which some run must have."""
    known = sorted({tag for run in runs for tag in run.columns})
    if name not in known:
        raise UsageError(f"no run has a column {name}{_nearest(name, known)}")
    return name


def _nearest(name: str, known: Sequence[str]) -> str:
    flat = [key.rpartition(".")[2] for key in known]
    there_are = f"; there are {', '.join(known) or 'none'}"
    return did_you_mean(name, [*flat, *known]) or there_are


def _run_folders(path: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(path, followlinks=True):
        if "run.json" in files:
            below.clear()  # what lies in a run is its own
            yield Path(folder)


def _flatten(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
