"""What `rlpyt bench sampler` shows: a line for each measurement as it is made, then what to use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpyt.cores import allowed_cores
from rlpyt.logging.displays import choose
from rlpyt.run import Run
from rlpyt.samplers.recommended import Recommendation

if TYPE_CHECKING:
    from rlpyt.cli.sampling_speed import Setting, Speed

_PARTS = ("env", "act", "inter-process", "wait")
_HEAD = f"{'envs':>5}  {'sampler':<21}{'workers':>7}{'groups':>8}{'steps/s':>12}"


class Table:
    """Lines on standard output, and below them what is being measured.

    Args:
        run: whose environments and agent are measured.
        seconds: how long each measurement takes.
    """

    def __init__(self, run: Run, seconds: float) -> None:
        self._display = choose("auto", None)
        self._said = ""  # last
        self._loud: list[int] = []  # numbers of environments that were measured beside other work
        self._found: dict[str, Any] = {
            "algo": run.algo_name,
            "env": run.env_name,
            "cores": allowed_cores(),
            "measured": [],
            "failed": [],
            "recommended": [],
            "kept": None,
        }
        cores = f"{allowed_cores()} core{'s' if allowed_cores() > 1 else ''}"
        self._say(
            f"rlpyt · sampling {run.env_name} with {run.algo_name}, learning nothing · {cores} · "
            f"{seconds:g} s each"
        )
        self._say(
            f"percentages are of the time of {cores}; wait: a core is idle, or others use it\n"
        )
        self._say(_HEAD + "".join(f"{name:>{_width(name)}}" for name in _PARTS))

    @property
    def rows(self) -> int:
        """Measurements that were made or failed."""
        return len(self._found["measured"]) + len(self._found["failed"])

    @property
    def exit_code(self) -> int:
        """2 where nothing could be measured of what was asked for, 1 where all of it failed."""
        if self._found["measured"]:
            return 0
        return 1 if self._found["failed"] else 2

    def not_measured(self, run: Run, what: Sequence[str]) -> None:
        """Say what cannot be had with so many environments, if anything."""
        if what:
            self._say(f"{run.env.num_envs:>5}  not measured: {'; '.join(what)}")

    def measuring(self, run: Run, setting: Setting) -> None:
        """What is measured now."""
        self._display.show([[(f"{_what(run.env.num_envs, setting)}   …", "dim")]])

    def measured(self, speed: Speed) -> None:
        """A measurement was made."""
        self._found["measured"].append(speed.as_dict())
        parts = [f"{speed.shares[name]:.0%}" if speed.shares else "" for name in _PARTS]
        shares = "".join(f"{x:>{_width(n)}}" for n, x in zip(_PARTS, parts, strict=True))
        what = _what(speed.num_envs, speed.setting)
        self._say(f"{what}{speed.steps_per_second:>12,.0f}{shares}".rstrip())

    def failed(self, run: Run, setting: Setting, error: Exception) -> None:
        """A sampler cannot be used."""
        reason = (str(error) or repr(error)).splitlines()[0]
        self._found["failed"].append({"num_envs": run.env.num_envs, "setting": setting.name})
        self._found["failed"][-1]["error"] = str(error)
        self._say(f"{_what(run.env.num_envs, setting)}  failed: {reason}")

    def recommend(
        self, run: Run, found: Recommendation, kept: Path | None, quiet: bool = True
    ) -> None:
        """What to use for so many environments.

        Args:
            kept: where what was measured is, if it is.
            quiet: whether nothing else was at work here, as far as it was seen.
        """
        if not quiet:
            self._loud.append(run.env.num_envs)
        options = f"--num-envs {run.env.num_envs} {found.options}"
        speed = found.steps_per_second
        self._found["recommended"].append(
            {"num_envs": run.env.num_envs, "options": options, "steps_per_second": speed}
        )
        if kept is not None:
            self._found["kept"] = str(kept)
        self._say("")

    def close(self) -> None:
        """Say what to use, and leave the terminal as it was."""
        self._display.show([])
        self._display.close()
        best = self._found["recommended"]
        if not best:
            return
        if self._said:
            self._say("")
        self._say("fastest, as options of rlpyt train")
        for found in best:
            self._say(f"{found['steps_per_second']:>12,.0f} steps/s   {found['options']}")
        if self._loud:
            self._say(
                "\nother work has the cores of this machine: what is fastest beside it is not kept "
                f"for --sampler auto (--num-envs {' '.join(map(str, self._loud))}); measure again "
                "when it is done"
            )
        if self._found["kept"]:
            these = "the others" if self._loud else "these"
            self._say(
                f"\n--sampler auto, the default, takes {these} for {self._found['algo']} on "
                f"{self._found['env']} from now on ({self._found['kept']})"
            )

    def as_dict(self) -> dict[str, Any]:
        """All of it, for `--json`."""
        return {**self._found, "quiet": not self._loud}

    def _say(self, line: str) -> None:
        self._said = line
        self._display.say(line)


def _what(num_envs: int, setting: Setting) -> str:
    workers = setting.workers or ""
    return f"{num_envs:>5}  {setting.name:<21}{workers:>7}{setting.groups:>8}"


def _width(part: str) -> int:
    return max(7, len(part) + 2)
