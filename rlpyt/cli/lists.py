"""rlpyt envs, algos, presets: what there is."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import Positional, arg

from rlpyt.cli.parsing import parse_or_help
from rlpyt.errors import UsageError
from rlpyt.suggest import did_you_mean


@dataclass(frozen=True)
class EnvsOptions:
    """List the environments, and what those need that cannot be made here yet."""

    pattern: Annotated[str, Positional, arg(metavar="[PATTERN]")] = "*"
    """Part of an id, or a pattern with * and ?, whatever its case."""

    json: bool = False
    """Print the names as one JSON object."""


@dataclass(frozen=True)
class AlgosOptions:
    """List the algorithms."""

    json: bool = False
    """Print the names as one JSON object."""


@dataclass(frozen=True)
class PresetsOptions:
    """List the presets, or show the options of one."""

    name: Annotated[str, Positional, arg(metavar="[NAME]")] = "all"
    """An algorithm, whose presets are listed, or a preset such as ppo/atari, whose options are."""

    json: bool = False
    """Print the same as one JSON object."""


_KINDS: dict[str, Any] = {"envs": EnvsOptions, "algos": AlgosOptions, "presets": PresetsOptions}


def main(command: str, argv: Sequence[str]) -> int:
    """List as the arguments say; returns the exit code."""
    options = parse_or_help(_KINDS[command](), argv, f"rlpyt {command}")
    if options is None:
        return 0
    found = {"envs": _envs, "algos": _algos, "presets": _presets}[command](options)
    if options.json:
        import json

        print(json.dumps(found))
        return 0
    name = getattr(options, "name", "")
    head, foot = _around(name) if "/" in name else ("", "")
    width = max(map(len, found), default=0) + 2
    print(head, end="")
    for key, text in found.items():
        print(f"{key:<{width}}{text}".rstrip())
    print(foot, end="")
    return 0


def _envs(options: EnvsOptions) -> dict[str, str]:
    from rlpyt.envs.registry import lacks, registered

    names = registered()
    pattern = options.pattern.lower()
    if not set(pattern) & set("*?["):
        pattern = f"*{pattern}*"
    found = [name for name in names if fnmatch.fnmatch(name.lower(), pattern)]
    if not found:
        raise UsageError(
            f"no environment matches {options.pattern!r}{did_you_mean(options.pattern, names)}; "
            f"{len(names)} are registered here (rlpyt envs)"
        )
    return {name: lacks(name) for name in found}


def _algos(_: AlgosOptions) -> dict[str, str]:
    from rlpyt.run import ALGORITHMS

    return {name: _summary(kind) for name, kind in ALGORITHMS.items()}


def _presets(options: PresetsOptions) -> dict[str, Any]:
    from rlpyt import presets
    from rlpyt.run import ALGORITHMS

    if options.name == "all" or options.name in ALGORITHMS:
        algo = None if options.name == "all" else options.name
        return {name: _summary(presets.PRESETS[name]) for name in presets.names(algo)}
    if options.name not in presets.PRESETS:
        known = [*ALGORITHMS, *presets.names()]
        raise UsageError(
            f"{options.name!r} is no preset{did_you_mean(options.name, known)}; "
            "`rlpyt presets` lists them"
        )
    return _differences(presets.choose(options.name.partition("/")[0], "ENV", options.name))


def _around(name: str) -> tuple[str, str]:
    """What is printed before and after the options of a preset."""
    from rlpyt.presets import PRESETS

    algo, file = name.partition("/")[0], PRESETS[name].__module__.replace(".", "/")
    foot = (
        f"all else is the default (rlpyt train {algo} --help); where each number is from: {file}.py"
    )
    return f"{_summary(PRESETS[name])}\n\n", f"\n{foot}\n"


def _differences(run: Any) -> dict[str, Any]:
    """The options of a preset that are not their own defaults."""
    from rlpyt.cli.values import show
    from rlpyt.flags import flags_of

    found: dict[str, Any] = {}
    for part in (run.env, run.algo, run.model, run.loop):
        plain = type(part)(env="ENV") if part is run.env else type(part)()
        for flag in flags_of(part):
            value = getattr(part, flag.name)
            if value != getattr(plain, flag.name):
                switch = flag.hint is bool
                off = switch and value is False
                spelling = f"--no-{flag.text[2:]}" if off else flag.text
                found[spelling] = "" if switch else show(value)
    return found


def _summary(thing: Any) -> str:
    return (thing.__doc__ or "").partition("\n")[0]
