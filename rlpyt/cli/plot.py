"""rlpyt plot: learning curves of any number of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from rlpyt.cli.parsing import parse_or_help


@dataclass(frozen=True)
class PlotOptions:
    """Draw learning curves with 95 % bootstrap intervals over the runs of a group."""

    paths: Annotated[tuple[str, ...], Positional, arg(metavar="[PATH ...]")] = ("runs",)
    """Run folders, or folders that hold them at any depth."""

    by: tuple[str, ...] = ("algo",)
    """Options that tell the lines of a panel apart: algo, env, seed, preset, run, lr, ..."""

    panel: tuple[str, ...] = ("env",)
    """Options that tell the panels apart."""

    stat: Literal["mean", "iqm"] = "mean"
    """Over the runs of a group: the mean, or the interquartile mean."""

    x: str = "env_steps"
    """Column of progress.csv."""

    y: Annotated[str | None, arg(metavar="COLUMN")] = None
    """Column of progress.csv; unset: the evaluation return where all runs have a curve of it, and
    those of a line have steps in common; else the training return."""

    out: str = "curves.png"
    """File to write: .png, .svg or .pdf."""


def main(argv: Sequence[str]) -> int:
    """Plot as the arguments say; returns the exit code."""
    options = parse_or_help(PlotOptions(), argv, "rlpyt plot")
    if options is None:
        return 0
    from rlpyt.view.plot import plot

    path = plot(
        options.paths,
        by=options.by,
        panel=options.panel,
        stat=options.stat,
        x=options.x,
        y=options.y,
        out=options.out,
    )
    print(path)
    return 0
