"""What makes the ranks of a run one run: the same options, one folder, one checkpoint.

Alone a process agrees with itself; nothing here costs it anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rlpyt import checkpoint, tree_format
from rlpyt.errors import UsageError
from rlpyt.folder import RunFolder, options, versions
from rlpyt.ranks import world
from rlpyt.run import Run

COMMON = {"learner", "actor", "temperature"}  # of an algorithm's state: the same on all ranks


def check_alike(run: Run) -> None:
    """Refuse ranks that were started with options of their own, or are of other versions."""
    if world().size == 1:
        return
    known = versions()
    own = {f"{part}.{name}": x for part, of in options(run).items() for name, x in of.items()}
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


def check_ranks(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Refuse to go on with more or fewer ranks than a run has parts for."""
    began, now = record["resolved"].get("ranks", 1), world().size
    if began == now:
        return
    how = f"rlpyt resume {folder.path}"
    if began > 1:
        how = f"torchrun --nproc-per-node {began} -m {how}"
    raise UsageError(
        f"{folder.path} is trained by {began} rank{'s' if began > 1 else ''}, each with "
        f"environments and rows of its own, and here are {now}; go on with: {how}"
    )


def check_shared(folder: RunFolder) -> None:
    """Refuse a folder that some rank does not see."""
    sees = world().gather((folder.path / "run.json").exists())
    if not all(sees):
        raise UsageError(
            f"runs={folder.path.parent}: rank {sees.index(False)} does not see what the first one "
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
    names = world().from_first(lambda: checkpoint.names(folder))
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
        if world().first:
            warnings.warn(f"{reasons[0]}; trying the one before it", RuntimeWarning, 2)
    raise UsageError(f"no checkpoint in {folder} is whole on all ranks; train anew")


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
