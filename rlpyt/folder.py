"""A run's folder: `run.json` says what it is, what it runs on and how it ended."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError, from_here
from rlpyt.run import ALGORITHMS, LoopOptions, Run, network_of
from rlpyt.samplers.options import SamplerOptions

FORMAT = 1
PARTS = ("env", "algo", "model", "loop", "sampler")
_NEEDED = {"format", "algo", "env", "status", "env_steps", "options", "resolved", "resumed"}
_VERSIONED = ("rlpyt", "torch", "numpy", "gymnasium", "ale-py", "mujoco")


class RunFolder:
    """Reads and writes `run.json`, atomically.

    Args:
        path: the folder; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, run: Run, seed: int, runs: Path | None = None) -> RunFolder:
        """Make a folder of its own for a run, with a number behind a name that is taken.

        Args:
            runs: where the run's `runs` lies, if the working directory may be another by now.
        """
        runs = runs or Path(run.loop.runs)
        stamp = time.strftime("%m%d-%H%M%S")
        env = re.sub(r"[^\w.\-]+", "-", run.env_name)
        name = run.loop.name or f"{env}__{run.algo_name}__{seed}__{stamp}"
        for attempt in range(1, 1000):
            path = runs / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                path.mkdir(parents=True, exist_ok=False)
                return cls(path)
            except FileExistsError:
                if run.loop.name:
                    raise UsageError(
                        f"name={name}: {from_here(path)} exists; choose another --name, or go on "
                        f"with it: rlpyt resume {from_here(path)}"
                    ) from None
            except OSError as error:
                raise UsageError(
                    f"runs={run.loop.runs}: {from_here(path)} cannot be made ({error.strerror}); "
                    "choose a folder that can be written with --runs"
                ) from None
        raise UsageError(f"{run.loop.runs} holds a thousand runs named {name}; choose a --name")

    def begin(self, run: Run, resolved: dict[str, Any]) -> None:
        """Write what a run is before it starts."""
        self._write(
            {
                "format": FORMAT,
                "algo": run.algo_name,
                "env": run.env_name,
                "seed": resolved["seed"],
                "status": "running",
                "env_steps": 0,
                "preset": run.preset,
                "options": options(run),
                "resolved": resolved,
                "versions": versions(),
                "git": git_state(),
                "command": sys.argv,
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "resumed": [],
            }
        )

    def update(self, **fields: Any) -> None:
        """Change some fields of run.json."""
        self._write({**self.read(), **fields})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from going on with this run meanwhile.

        The system lets go of it when this process ends, however that happens; Windows and some
        network disks have no such lock.
        """
        with open(self.path / ".lock", "w") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"{from_here(self.path)} is being trained by another process; wait for it, or "
                    "stop it"
                ) from None
            except (ImportError, OSError):
                pass
            yield

    def read(self) -> dict[str, Any]:
        file = self.path / "run.json"
        try:
            content = json.loads(file.read_text())
        except FileNotFoundError:
            inner = self.path.parent.name == "checkpoints"
            path = from_here(self.path)
            what = f"{path.parent.parent}, whose" if inner else "a folder below --runs; its"
            raise UsageError(
                f"{path} is no run: it has no run.json; give {what} newest checkpoint is taken"
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{from_here(file)} cannot be read: {error}") from None
        file = from_here(file)
        damaged = UsageError(f"{file} does not describe a run; restore a copy of it")
        if not isinstance(content, dict) or not isinstance(content.get("format"), int):
            raise damaged
        if content["format"] > FORMAT:
            raise UsageError(
                f"{file} has format {content['format']}, this rlpyt reads up to {FORMAT}; "
                "install a newer rlpyt"
            )
        if not content.keys() >= _NEEDED:
            raise damaged
        return content

    def run(self) -> Run:
        """The run's options as they were."""
        content = self.read()
        try:
            parts = content["options"]
            algo = _construct(ALGORITHMS[content["algo"]], parts["algo"])
            return Run(
                env=_construct(EnvOptions, parts["env"]),
                algo=algo,
                model=_construct(network_of(algo), parts["model"]),
                loop=_construct(LoopOptions, parts["loop"]),
                preset=content.get("preset", "none"),
                schedule_steps_from=content.get("schedule_steps"),
                sampler=_construct(SamplerOptions, parts.get("sampler", {})),
            )
        except (KeyError, TypeError) as error:
            raise UsageError(
                f"{from_here(self.path / 'run.json')} does not hold the options of a run ({error})"
            ) from None

    def _write(self, content: dict[str, Any]) -> None:
        part = self.path / ".run.json.part"
        with open(part, "w") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.path / "run.json")


def options(run: Run) -> dict[str, Any]:
    """The options as JSON, by part."""
    parts = {name: dataclasses.asdict(getattr(run, name)) for name in PARTS}
    callable_ = not isinstance(run.env.env, str)  # of which a name is all that can be recorded
    parts["env"]["env"] = f"<callable {run.env_name}>" if callable_ else run.env_name
    return parts


def versions() -> dict[str, str]:
    """Versions of what a run's numbers depend on."""
    found = {"python": sys.version.split()[0]}
    for package in _VERSIONED:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state() -> dict[str, Any]:
    """Commit of the working folder and whether files differ from it; {} outside of a repository."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True, timeout=5
    )
    return done.stdout.strip()


def _construct(kind: type[Any], values: dict[str, Any]) -> Any:
    """A dataclass from JSON, whose lists are tuples again."""
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) and _is_tuple(hints[name]) else value
            for name, value in values.items()
            if name in known
        }
    )


def _is_tuple(hint: Any) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_is_tuple(part) for part in typing.get_args(hint))
    return typing.get_origin(hint) is tuple
