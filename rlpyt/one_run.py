"""What makes the ranks of a run one run: the same options, one folder, one checkpoint.

Alone a process agrees with itself; nothing here costs it anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from rlpyt import checkpoint, torchrun, tree_format
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError, from_here
from rlpyt.folder import RunFolder, options, versions
from rlpyt.ranks import bits, differing, world
from rlpyt.run import Run

COUNTS, SLOWEST = {"workers/restarts", "workers/dropped"}, "workers/slowest"
COMMON = {"learner", "actor", "temperature"}  # of an algorithm's state: the same on all ranks


def check_same_options(run: Run) -> None:
    """Refuse ranks that were started with options of their own, or are of other versions."""
    if world().size == 1:
        return
    known = versions()
    own = {f"{part}.{name}": x for part, of in options(run).items() for name, x in of.items()}
    own["schedule_steps"] = run.schedule_steps
    own |= {f"version of {name}": known.get(name) for name in ("rlpyt", "torch")}
    del own["loop.seed"]  # the first one's is everyone's
    for rank, other in enumerate(world().gather(own)):
        for name, value in own.items():
            if other.get(name) != value:
                where = f"{value} on rank {world().rank}, {other.get(name)} on rank {rank}"
                raise UsageError(
                    f"{name.removeprefix('loop.')} is {where}; start all ranks with the same "
                    "options and versions"
                )


def check_same_agents(agent: nn.Module, spec: EnvSpec, drawn: bool) -> None:
    """Refuse ranks whose environments or networks are not the same.

    Args:
        drawn: whether weights are those that a run begins with; else they are loaded later.
    """
    if world().size == 1:
        return
    own: dict[str, Any] = {
        "what environments observe": repr(spec.observation),
        "what actions are": repr(spec.action),
        **{f"the shape of {name}": tuple(x.shape) for name, x in agent.state_dict().items()},
    }
    if drawn:
        own |= {f"the sum of {name}": bits(x) for name, x in agent.state_dict().items()}
    for rank, other in enumerate(world().gather(own)):
        for name in {**own, **other}:
            if own.get(name) != other.get(name):
                where = f"{own.get(name)} on rank {world().rank}, {other.get(name)} on rank {rank}"
                raise UsageError(
                    f"{name} is {where}; start all ranks with the same code, versions and files. A "
                    "network of your own begins with what torch draws, which is seeded"
                )


def assert_same_agents(agent: nn.Module) -> None:
    """Raise unless weights and statistics are the same on all ranks: what is saved is of all."""
    if world().size == 1:
        return
    names = differing({name: bits(x) for name, x in agent.state_dict().items()}, world())
    if names:
        raise RuntimeError(
            f"the ranks' {names[0]} differ, so that no checkpoint is written: what ranks train is "
            "changed by gradients, and by what all have in common, alone (docs/ranks.md); go back "
            "to an earlier checkpoint"
        )


def check_ranks(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Refuse to go on with more or fewer ranks than a run has parts for."""
    began, now = record["resolved"].get("ranks", 1), world().size
    if began == now:
        return
    raise UsageError(
        f"{from_here(folder.path)} is trained by {began} rank{'s' if began > 1 else ''}, each with "
        f"environments and rows of its own, and here are {now}; go on with: "
        f"{torchrun.resuming(folder.path, began)}"
    )


def check_shared(folder: RunFolder) -> None:
    """Refuse a folder that some rank does not see."""
    sees = world().gather((folder.path / "run.json").exists())
    if not all(sees):
        runs = from_here(folder.path.parent)
        raise UsageError(
            f"runs={runs}: rank {sees.index(False)} does not see what the first one "
            "wrote there; choose --runs on a disk that all machines share"
        )


@contextmanager
def held(folder: RunFolder) -> Iterator[None]:
    """Keep the run to these ranks: the first holds its folder before another goes on."""
    with ExitStack() as stack:
        world().from_first(lambda: stack.enter_context(folder.held()))
        yield


def newest(folder: Path, accept: Callable[[Any], object]) -> tuple[Any, dict[str, Any]]:
    """The newest checkpoint that is whole, with the replay of every rank."""
    if world().size == 1:
        return checkpoint.load(folder, accept=accept)
    names, last = world().from_first(lambda: checkpoint.names(folder)), "there is none"
    for name in names:
        found, why = None, ""
        try:
            found = checkpoint.load(folder / name, accept=accept)
        except UsageError as error:
            why = str(error)
        reasons = [text for text in world().gather(why) if text]
        if not reasons:
            assert found is not None
            return found
        last = reasons[0]
        if world().first:
            warnings.warn(f"{reasons[0]}; trying the one before it", RuntimeWarning, 2)
    raise UsageError(
        f"no checkpoint in {folder} is whole on all ranks; restore a copy, or train anew ({last})"
    )


def of_all(own: dict[str, float]) -> dict[str, float]:
    """A line's metrics of samplers and of time as those of all ranks: counts are summed, of what is
    the most the most is taken, of shares, speeds and means the mean.

    Which worker is the slowest is told of the rank whose others waited longest for it.
    """
    everywhere = world().gather(own)
    if len(everywhere) == 1:
        return own
    waits = max(everywhere, key=lambda one: one.get(SLOWEST + "_share", 0.0))
    merged: dict[str, float] = {}
    for name in dict.fromkeys(name for one in everywhere for name in one):
        values = [one[name] for one in everywhere if name in one]
        if name in COUNTS:
            merged[name] = sum(values)
        elif name.startswith(SLOWEST):
            merged[name] = waits[name]
        else:
            merged[name] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return merged


def with_others(own: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint holds of the other ranks, at the first: all but what they have in common.

    Args:
        own: this rank's part, with its "algorithm".
    """
    ranks = world()
    if ranks.size == 1:
        return {}
    lean = {name: x for name, x in own["algorithm"].items() if name not in COMMON}
    packed = None if ranks.first else tree_format.packed({**own, "algorithm": lean})
    return {"others": [tree_format.unpacked(x) for x in ranks.gather_at_first(packed) if x]}


def of_rank(state: dict[str, Any], rank: int) -> dict[str, Any]:
    """A checkpoint's state as the rank takes it up that wrote its part of it."""
    if not rank:
        return state
    own = state["others"][rank - 1]
    return {**state, **own, "algorithm": {**state["algorithm"], **own["algorithm"]}}
