"""Which way environments are stepped, and the environments stepped that way."""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from rlpyt.envs.alike import require_spaces
from rlpyt.envs.exits import no_exit
from rlpyt.envs.make import Role, is_atari, make
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.noise import TRAINING_RESETS, ResetSeeds
from rlpyt.processes.heart import MAKE, Heart
from rlpyt.vector.columns import cut
from rlpyt.vector.grouped import Grouped
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.native import NativeEnvironments
from rlpyt.vector.pools import make_pool
from rlpyt.vector.watchdog import Watchdog

Vectorization = Literal["in-process", "native"]


def choose(options: EnvOptions, cores: int) -> Vectorization:
    """The faster way for training: Atari's C++ vector environment where it has two cores.

    A wrapper, a mode or a difficulty needs single environments, and so do decorrelated starts.
    """
    if options.vectorization != "auto":
        return options.vectorization
    switched = options.kwargs.keys() & {"mode", "difficulty"}
    plain = not (options.wrapper or options.decorrelate or switched)
    return "native" if is_atari(options) and plain and cores > 1 else "in-process"


def environments(
    options: EnvOptions,
    spec: EnvSpec,
    num_envs: int,
    seeds: ResetSeeds,
    how: Vectorization,
    groups: int = 1,
    watchdog: Watchdog | None = None,
    drop: bool = False,
) -> Any:
    """B environments in this process; evaluation's are always stepped one by one.

    Args:
        groups: of native environments, that take turns.
        watchdog: of those that are stepped one by one.
        drop: give up episodes in which a NaN or an infinity arrives.
    """
    if how != "native" or seeds.role != TRAINING_RESETS:
        heart = watchdog.heart if watchdog else None
        columns = range(num_envs)
        envs = in_process(options, spec, seeds, columns, num_envs, heart=heart, drop=drop)
        if watchdog:
            watchdog.watch(envs)
        return envs
    parts = []
    for columns in cut(range(num_envs), groups):
        pool = make_pool(options, len(columns))
        parts.append(NativeEnvironments(pool, spec, seeds, columns, drop))
    return parts[0] if groups == 1 else Grouped(parts)


def in_process(
    options: EnvOptions,
    spec: EnvSpec,
    seeds: ResetSeeds,
    columns: range,
    total: int,
    *,
    heart: Heart | None = None,
    resets: np.ndarray | None = None,
    drop: bool = False,
) -> InProcess:
    """Single environments, numbered as `seeds` says: evaluation's after all the training ones.

    Args:
        columns: numbers of these environments among those of the run.
        total: how many the run has.
        heart, resets, drop: as `InProcess` takes them.
    """
    role: Role = "train" if seeds.role == TRAINING_RESETS else "evaluation"
    envs, inner, made = [], set(), columns.start
    try:
        for b in columns:
            if heart is not None:
                heart.beat(b, MAKE)
            made = b
            env = make(options, seeds.numbered + b, role=role)
            _require_new(env, inner, options)
            envs.append(env)
            inner.add(id(env.unwrapped))
            require_spaces(env, options, spec, f"environment {b} of {total}, {role}")
    except Exception as error:
        error.add_note(f"while environment {made} of {total} ({spec.id}, {role}) was made")
        for env in envs:
            with suppress(Exception), no_exit("close()"):  # it must not mask the first one
                env.close()
        raise
    stepped = InProcess(
        envs,
        spec,
        seeds,
        columns=columns,
        total=total,
        heart=heart,
        resets=resets,
        decorrelate=options.decorrelate if role == "train" else 0,
        drop=drop,
    )
    _stepping.update({id(env.unwrapped): stepped for env in envs})
    return stepped


_stepping: WeakValueDictionary[int, InProcess] = WeakValueDictionary()
"""Who steps environments here, by the identity of the innermost one; also after it was closed."""


def _require_new(env: Any, made: Set[int], options: EnvOptions) -> None:
    """Refuse an environment that is stepped already: who resets it ends the other's episodes.

    Args:
        made: identities of the innermost environments that were made together with it.
    """
    own, other = env.unwrapped, _stepping.get(id(env.unwrapped))
    if id(own) in made or (other is not None and other.steps(own)):
        raise UsageError(
            f"env={options.name} returned an environment that it had returned before and that is "
            "still used; have it make a new one whenever it is called (or train in one alone, with "
            "num_envs=1 and eval_episodes=0; what several share on purpose, a simulator say, is to "
            "be held by a gymnasium.Env of each, in place of wrappers around it)"
        )
