"""Presets in files: an algorithm, a preset to start from, and the options that differ from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.flags import flags_of
from rlpyt.run import Run
from rlpyt.run_options import with_options

SUFFIX = ".json"
FORMAT = 1
_OF_A_LENGTH = ("env_steps",)  # what a preset gives of the loop; the rest is of where and when


def is_file(name: str) -> bool:
    """Whether a preset is named by its file."""
    return name.endswith(SUFFIX)


def read(path: Path, algo: str, env: Any, choose: Callable[[str, Any, str], Run]) -> Run:
    """The run of a preset's file.

    Args:
        path: the file.
        algo: what it must be of.
        env: an id or a factory.
        choose: finds the preset that it starts from.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"preset={path} cannot be read: {error}") from None
    if not isinstance(content, dict) or not {"algo", "preset", "options"} <= content.keys():
        raise UsageError(f'preset={path} is no preset: it has no "algo", "preset" and "options"')
    if content.get("format", FORMAT) > FORMAT:
        raise UsageError(f"preset={path} has format {content['format']}; install a newer rlpyt")
    if content["algo"] != algo:
        raise UsageError(f"preset={path} is of {content['algo']}, not of {algo}")
    try:
        run = with_options(choose(algo, env, content["preset"]), content["options"])
    except UsageError as error:
        raise UsageError(f"preset={path}: {error}") from None
    return dataclasses.replace(run, preset=str(path))


def write(path: Path, run: Run, names: set[str], **about: Any) -> None:
    """Write some options of a run as a preset.

    Args:
        names: the options, by field; of the loop the length alone is taken.
        about: what else the file says, for who reads it.
    """
    options: dict[str, Any] = {}
    for flag in flags_of(run):
        part: Any = run
        for name in flag.path:
            part = getattr(part, name)
        taken = flag.path[:1] != ("loop",) or flag.name in _OF_A_LENGTH
        if flag.name in names and taken and flag.path and flag.name != "env":
            options[flag.name] = getattr(part, flag.name)
    content = {"format": FORMAT, "algo": run.algo_name, "preset": run.preset, "options": options}
    path.write_text(json.dumps({**content, **about}, indent=1) + "\n")
