"""What `rlpyt bench sampler` measured on this machine: `--sampler auto` takes the fastest of it.

A small file in the user's cache folder. One that cannot be read or written is none: nothing that
only makes a run faster may stop one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from rlpyt.cores import allowed_cores

Sampler = Literal["serial", "workers", "replicated"]
Vectorization = Literal["in-process", "native"]
SIMPLER = 0.97  # of the fastest is fast enough for one with fewer processes and groups


@dataclass(frozen=True)
class Recommendation:
    """A sampler that was measured, and how fast it was."""

    sampler: Sampler
    workers: int  # 0: none
    groups: int
    vectorization: Vectorization
    steps_per_second: float

    @property
    def options(self) -> str:
        """The same as options of the command line."""
        texts = [f"--sampler {self.sampler}"]
        texts += [f"--workers {self.workers}"] if self.workers else []
        texts += [f"--groups {self.groups}"] if self.groups > 1 or self.sampler == "workers" else []
        if self.sampler == "serial":
            texts.append(f"--vectorization {self.vectorization}")
        return " ".join(texts)


Measured = Sequence[Recommendation]
Allowed = Callable[[Recommendation], bool]


def best(measured: Measured) -> Recommendation:
    """The fastest, or the simplest of those that are about as fast."""
    fastest = max(x.steps_per_second for x in measured)
    enough = [x for x in measured if x.steps_per_second >= SIMPLER * fastest]
    return min(enough, key=lambda x: (x.workers, x.groups, -x.steps_per_second))


def kind(algo: str, images: bool, memory: str, device: str) -> str:
    """What an agent costs, in words: its algorithm gives the length of windows, too."""
    network = "images" if images else "numbers"
    return f"{algo}, {network}, memory {memory}, {device.partition(':')[0]}"


def find(
    env: str, num_envs: int, agent: str, allowed: Allowed = lambda _: True
) -> Recommendation | None:
    """The best of what was measured for an environment, as many of it, and as many cores.

    Args:
        agent: its `kind`.
        allowed: what else a run's options ask for.
    """
    measured = _read().get(_key(env, num_envs, agent))
    found = map(_recommendation, measured if isinstance(measured, list) else [])
    fitting = [x for x in found if x is not None and allowed(x)]
    return best(fitting) if fitting else None


def keep(env: str, num_envs: int, agent: str, measured: Measured) -> Path | None:
    """Write down what was measured, in place of what was before; None where that cannot be."""
    content = {**_read(), _key(env, num_envs, agent): [asdict(x) for x in measured]}
    with suppress(OSError, RuntimeError):
        path = file()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(part, path)
        return path
    return None


def file() -> Path:
    """Where it is kept; RLPYT_CACHE names another folder. RuntimeError where there is no home."""
    if own := os.environ.get("RLPYT_CACHE"):
        return Path(own) / "samplers.json"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "rlpyt" / "samplers.json"


def _read() -> dict[str, Any]:
    content = None
    with suppress(OSError, ValueError, RuntimeError, RecursionError):
        content = json.loads(file().read_text())
    return content if isinstance(content, dict) else {}


def _recommendation(fields: Any) -> Recommendation | None:
    """Fields as they were read; None where they are not what was written."""
    try:
        found = Recommendation(**fields)
    except TypeError:
        return None
    sound = (
        found.sampler in get_args(Sampler)
        and found.vectorization in get_args(Vectorization)
        and type(found.workers) is type(found.groups) is int
        and found.workers >= (found.sampler != "serial")
        and found.groups >= 1
        and type(found.steps_per_second) in (int, float)
    )
    return found if sound else None


def _key(env: str, num_envs: int, agent: str) -> str:
    return f"{env} x {num_envs} on {allowed_cores()} cores ({agent})"
