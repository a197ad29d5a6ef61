"""`rlpyt plot`: learning curves as PNG, SVG or PDF."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpyt.errors import UsageError
from rlpyt.view.curves import Curve, Stat, combine, have_common
from rlpyt.view.runs import LoggedRun, column_name, fact_name, find_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RETURNS = ("eval/return_mean", "rollout/return_100", "rollout/return_mean")
FORMATS = (".png", ".svg", ".pdf")
WORDS = {
    "env_steps": "environment steps",
    "eval/return_mean": "evaluation return",
    "rollout/return_100": "training return, last 100 episodes",
    "rollout/return_mean": "training return",
}
# Okabe and Ito's colours, which colour-blind readers tell apart; the yellow is too faint for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
DASHES = ("-", "--", ":", "-.")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.xmargin": 0.02,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.8,
    "xtick.color": "#999999",
    "ytick.color": "#999999",
    "xtick.labelcolor": "#333333",
    "ytick.labelcolor": "#333333",
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "rlpyt",  # the same runs make the same file
}

Panels = dict[str, dict[str, Curve]]


def plot(
    paths: Iterable[Path | str],
    *,
    by: str | Sequence[str] = "algo",
    panel: str | Sequence[str] = "env",
    stat: Stat = "mean",
    x: str = "env_steps",
    y: str | None = None,
    out: Path | str = "curves.png",
) -> Path:
    """Draw the learning curves of runs, with 95 % bootstrap intervals over those of a group.

    Args:
        paths: run folders, or folders that hold them at any depth.
        by: options whose values tell the lines of a panel apart: dotted or flat (`algo.lr`, `lr`),
            or algo, env, seed, preset, run (every run alone).
        panel: options whose values tell the panels apart.
        stat: over the runs of a group: the mean, or the interquartile mean.
        x: column of progress.csv.
        y: column of progress.csv; None is the evaluation return where all runs have a curve of it,
            and those of a group have env steps in common, else the training return.
        out: file to write, .png, .svg or .pdf.
    """
    out = Path(out)
    if out.suffix.lower() not in FORMATS:
        raise UsageError(f"out={out} has no known ending; choose one of {', '.join(FORMATS)}")
    try:
        import matplotlib  # before the runs are read: this answer comes at once
    except ImportError:
        raise UsageError("plots need matplotlib; pip install 'rlpyt[plot]'") from None
    runs = find_runs(paths)
    x, y = column_name(x, runs), column_name(y, runs) if y else _returns(runs, by, panel, x)
    panels = _panels(runs, by, panel, stat, x, y)
    out.parent.mkdir(parents=True, exist_ok=True)
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(out.suffix.lower())
    with matplotlib.rc_context(STYLE):
        draw(panels, x, y, stat).savefig(out, dpi=200, metadata=undated)
    return out


def draw(panels: Panels, x: str, y: str, stat: Stat) -> Figure:
    """The figure of the curves, by panel and group."""
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys(group for curves in panels.values() for group in curves))
    wide = 2 if len(panels) == 4 else min(len(panels), 3)
    high = math.ceil(len(panels) / wide)
    size = (6.4, 4.0) if len(panels) == 1 else (0.6 + 3.2 * wide, 0.8 + 2.5 * high)
    figure = Figure(size, layout="constrained")
    grid = list(figure.subplots(high, wide, squeeze=False).flat)
    for axes, (title, curves) in zip(grid, panels.items(), strict=False):
        axes.set_title(title)
        _draw_panel(axes, curves, groups)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    intervals = any(c.runs > 1 for curves in panels.values() for c in curves.values())
    what = {"mean": "mean", "iqm": "IQM"}[stat] + ", 95 % interval" if intervals else ""
    figure.supxlabel(WORDS.get(x, x), fontsize=9)
    figure.supylabel("\n".join(filter(None, [WORDS.get(y, y), what])), fontsize=9)
    _draw_legend(figure, grid, groups)
    return figure


def _panels(
    runs: Sequence[LoggedRun],
    by: str | Sequence[str],
    panel: str | Sequence[str],
    stat: Stat,
    x: str,
    y: str,
) -> Panels:
    shown = [run for run in runs if len(run.points(x, y)[0])]
    for run in runs:
        if run not in shown:
            warnings.warn(f"{run.path} has no {y} yet and is left out", UserWarning, 3)
    if not shown:
        raise UsageError(f"no run has a value of {y} beside {x} yet; choose another column")
    panels: Panels = {}
    for title, groups in _grouped(shown, by, panel).items():
        panels[title] = {label: combine(group, x, y, stat) for label, group in groups.items()}
        for label, group in groups.items():
            _warn_of(group, panels[title][label], x, y)
    return panels


def _grouped(
    runs: Sequence[LoggedRun], by: str | Sequence[str], panel: str | Sequence[str]
) -> dict[str, dict[str, list[LoggedRun]]]:
    """The runs of each panel's groups."""
    return {title: _split(inside, by) for title, inside in _split(runs, panel).items()}


def _split(runs: Sequence[LoggedRun], by: str | Sequence[str]) -> dict[str, list[LoggedRun]]:
    """Groups of runs by the label of their options' values, sorted by the values."""
    names = [fact_name(n, runs) for n in ([by] if isinstance(by, str) else by)]
    groups: dict[str, list[LoggedRun]] = {}
    for run in sorted(runs, key=lambda run: [_order(run.facts.get(name)) for name in names]):
        label = ", ".join(_label(name, run.facts.get(name, "–")) for name in names)
        groups.setdefault(label, []).append(run)
    return groups


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def _label(name: str, value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else "unset" if value is None else str(value)
    return text if name in ("algo", "env", "run", "preset") else f"{name.split('.')[-1]} = {text}"


def _returns(
    runs: Sequence[LoggedRun], by: str | Sequence[str], panel: str | Sequence[str], x: str
) -> str:
    """The first return that is a curve in every run and group, else the first that any run has."""
    apart = ""
    for least, some in ((2, all), (1, all), (1, any)):
        for y in RETURNS:
            if not some(len(run.points(x, y)[0]) >= least for run in runs):
                continue
            shown = [run for run in runs if len(run.points(x, y)[0])]
            panels = _grouped(shown, by, panel).values()
            if not all(have_common(g, x, y) for groups in panels for g in groups.values()):
                apart = apart or y
                continue
            if apart:
                warnings.warn(
                    f"runs of one group have no {x} in common for {apart}, so that {y} is shown; "
                    f"y={apart} with by=run shows every run alone",
                    UserWarning,
                    3,
                )
            return y
    if apart:
        return apart  # `combine` says which runs
    raise UsageError(f"no run has a return yet (one of {', '.join(RETURNS)}); choose a column y")


def _warn_of(runs: Sequence[LoggedRun], curve: Curve, x: str, y: str) -> None:
    """Say what a reader of the figure would not see."""
    envs = sorted({str(run.facts["env"]) for run in runs})
    if len(envs) > 1:
        message = (
            f"one curve mixes the scales of {', '.join(envs)}; panel or by env tells them apart"
        )
        warnings.warn(message, UserWarning, 4)
    elif len(runs) > 1 and "<" in envs[0]:
        warnings.warn(
            f"{envs[0]} is all that is recorded of the callable that made these {len(runs)} runs' "
            "environments: if they differ, one curve mixes them, and by=run tells them apart",
            UserWarning,
            4,
        )
    ends = {run.path: run.points(x, y)[0][-1] for run in runs}
    if curve.x[-1] < 0.9 * max(ends.values()):
        warnings.warn(
            f"a curve of {len(runs)} runs ends at {x} = {curve.x[-1]:.6g} of "
            f"{max(ends.values()):.6g}: {min(ends, key=lambda path: ends[path])} has got no "
            "further; leave it out to see the rest",
            UserWarning,
            4,
        )


def _draw_panel(axes: Axes, curves: dict[str, Curve], groups: Sequence[str]) -> None:
    for group, curve in curves.items():
        index = groups.index(group)
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]
        label = f"{group}  ({curve.runs} runs)" if curve.runs > 1 else group
        marker = "o" if len(curve.x) == 1 else None
        axes.plot(
            curve.x, curve.center, dash, color=colour, linewidth=1.6, marker=marker, label=label
        )
        if curve.runs > 1:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
    if axes.dataLim.x0 >= 0:
        axes.set_xlim(left=0)  # learning begins there, also where the first value comes later
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.locator_params(nbins=5)


def _draw_legend(figure: Figure, grid: Sequence[Axes], groups: Sequence[str]) -> None:
    """One legend above all panels; the numbers of runs only where every panel has the same."""
    entries: dict[str, tuple[Any, str]] = {}
    same = True
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            group = label.partition("  (")[0]
            same = same and entries.setdefault(group, (handle, label))[1] == label
    handles = [entries[group][0] for group in groups]
    labels = [entries[group][1] if same else group for group in groups]
    characters = 12 * figure.get_figwidth()  # that fit beside each other at this size
    columns = max(1, int(characters // (7 + max(map(len, labels)))))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, frameon=False, fontsize=9
    )


def _short(value: float) -> str:
    """Tick labels: 20k, 1.5M, 3G."""
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.6g}{suffix}".replace("-", "−")
    return f"{value:.6g}".replace("-", "−")
