"""What a sweep expands to: every setting with every seed, each a command that stands alone."""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlpyt.errors import UsageError
from rlpyt.flags import Flag
from rlpyt.run import Run

LONGEST = 150  # bytes of a folder's name; file systems take 255, and names get suffixes
Parse = Callable[[Sequence[str]], Run]
"""Reads what `rlpyt train` is given, or raises a UsageError."""


@dataclass(frozen=True)
class Job:
    """One run to be made, in a folder of its name."""

    name: str
    options: tuple[str, ...]  # what `rlpyt train` is given, but for where the run's folder is made
    env_steps: int = 0
    kind: str = ""  # jobs of one kind take about as long as each other
    run: Run | None = field(default=None, compare=False)  # None where it is read from a journal

    def train(self, folder: Path) -> list[str]:
        """The arguments of `rlpyt` that make the run, below a sweep's folder."""
        return ["train", *self.options, "--name", self.name, "--runs", str(folder)]

    def command(self, folder: Path) -> str:
        """The same as it would be typed."""
        return shlex.join(["rlpyt", *self.train(folder)])


@dataclass(frozen=True)
class Axis:
    """Options that vary together, and the points that they go through."""

    names: tuple[str, ...]  # as they were typed
    points: tuple[tuple[str, ...], ...]  # a text for each name


def read_axis(text: str) -> Axis:
    """One axis of a grid: name=value,value or, varied together, name/name=value/value,value/value.

    Commas within brackets or quotes part nothing.
    """
    names, equals, values = text.partition("=")
    keys = tuple(name.strip().lstrip("-") for name in names.split("/"))
    points = split(values, ",")
    if not equals or not all(keys) or not all(points):
        raise UsageError(f"--grid {text}: write name=value,value, such as learning-rate=1e-4,3e-4")
    if twice := [point for point, count in Counter(points).items() if count > 1]:
        raise UsageError(f"--grid {text}: {twice[0]} stands there twice; give each value once")
    if len(keys) == 1:
        return Axis(keys, tuple((point,) for point in points))
    parted = [tuple(split(point, "/")) for point in points]
    for point, parts in zip(points, parted, strict=True):
        if len(parts) != len(keys):
            raise UsageError(
                f"--grid {text}: {point} has {len(parts)} values for {len(keys)} options; write "
                "name/name=value/value,value/value"
            )
    return Axis(keys, tuple(parted))


def expand(
    algos: Sequence[str],
    envs: Sequence[str],
    seeds: Sequence[int] | None,
    axes: Sequence[Axis],
    fixed: Sequence[str],
    flags: Sequence[Flag],
    parse: Parse,
) -> list[Job]:
    """Every algorithm on every environment at every point of the grid with every seed.

    The seeds are the outermost loop: each setting has run once before any runs again.

    Args:
        seeds: None where the fixed options or the grid give the seed.
        fixed: options that all runs have, as they were typed.
        flags: all options of `rlpyt train`.
        parse: checks each command.
    """
    varied_names = Counter(name.replace("_", "-") for axis in axes for name in axis.names)
    if twice := [name for name, count in varied_names.items() if count > 1]:
        raise UsageError(
            f"--grid: {twice[0]} stands there twice; give its values together: "
            f"{twice[0]}=value,value"
        )
    jobs: list[Job] = []
    of: dict[Run, Job] = {}
    points = list(itertools.product(*(axis.points for axis in axes)))
    for seed, env, algo, point in itertools.product(seeds or [None], envs, algos, points):
        chosen = {
            name: text
            for axis, texts in zip(axes, point, strict=True)
            for name, text in zip(axis.names, texts, strict=True)
        }
        varied = [token for name, text in chosen.items() for token in tokens(name, text, flags)]
        own = [] if seed is None else ["--seed", str(seed)]
        options = (algo, "--env", env, *fixed, *varied, *own)
        run = parse(options)
        drawn = "" if run.loop.seed is None else str(run.loop.seed)
        settings = [f"{name}={text}" for name, text in chosen.items() if name != "seed"]
        name = _name([env, algo, *settings, drawn], options)
        job = Job(name, options, run.loop.env_steps, f"{algo} {env}", run)
        if run in of:
            raise UsageError(
                f"the same run twice: {shlex.join(of[run].options)} and {shlex.join(options)}; "
                "leave one out"
            )
        of[run] = job
        jobs.append(job)
    return _told_apart(jobs)


def tokens(name: str, text: str, flags: Sequence[Flag]) -> list[str]:
    """An option and its value as they stand on a command line; an unknown one is left as it is."""
    spelling = f"--{name.replace('_', '-')}"
    flag = next((flag for flag in flags if spelling in flag.spellings), None)
    if flag is not None and flag.hint is bool:
        if text not in ("true", "false"):
            raise UsageError(f"{spelling}={text} must be true or false")
        return [spelling if text == "true" else f"--no-{spelling[2:]}"]
    if flag is not None and str(flag.hint).startswith("tuple"):
        return [spelling, *shlex.split(text)]
    return [f"{spelling}={text}"] if text.startswith("-") else [spelling, text]


def sweep_name(jobs: Sequence[Job], algos: Sequence[str], envs: Sequence[str]) -> str:
    """A folder's name that the same jobs have again, and no others."""
    content = "\n".join(sorted(shlex.join(job.options) for job in jobs))
    shown = [*envs[:2], *([f"and-{len(envs) - 2}-more"] if len(envs) > 2 else [])]
    name = f"{_clean('-'.join(shown))}__{'-'.join(algos)}"
    return f"{_short(name)}__{_digest(content)}"


def split(text: str, comma: str) -> list[str]:
    """The parts between commas that are neither in brackets nor in quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if letter == comma and depth == 0:
                parts.append("")
                continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def _told_apart(jobs: Sequence[Job]) -> list[Job]:
    """Names that two jobs have are made longer (values that differ in their punctuation alone)."""
    counts: Mapping[str, int] = Counter(job.name for job in jobs)
    return [
        replace(job, name=f"{job.name}-{_digest(shlex.join(job.options))}")
        if counts[job.name] > 1
        else job
        for job in jobs
    ]


def _name(parts: Sequence[str], options: Sequence[str]) -> str:
    name = "__".join(_clean(part) for part in parts if part)
    short = _short(name)
    return name if short == name else f"{short}-{_digest(shlex.join(options))}"


def _short(name: str) -> str:
    """As much of a name as a folder's can have."""
    return name.encode(errors="replace")[:LONGEST].decode(errors="ignore")


def _clean(text: str) -> str:
    return re.sub(r"[^\w.\-=]+", "-", text).strip("-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
