"""Where the ranks of a job meet, and for how long they train together."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager

from rlpyt import torchrun
from rlpyt.errors import RankError, UsageError
from rlpyt.ranks.alone import Ranks
from rlpyt.ranks.joined import Joined

_world = Ranks()
_joined: Joined | None = None


def world() -> Ranks:
    """The ranks that train together here; outside of training, this process alone."""
    return _world


def join() -> Ranks:
    """Meet the other ranks, where there are any, once in the life of a process.

    Raises:
        UsageError: what `torchrun` sets is incomplete, or some of them do not come; or a rank of
            this process has failed before.
    """
    global _joined
    if _joined is None and torchrun.expected() > 1:
        torchrun.check()
        _joined = Joined(torchrun.silence())
        torchrun.met = True
        atexit.register(_leave)
    if _joined is not None and _joined.broken:
        raise UsageError("these ranks have failed and cannot train together again; start anew")
    return _joined or _world


@contextmanager
def together() -> Iterator[Ranks]:
    """Join, and let the others know where what is done here fails."""
    global _world
    alone, _world = _world, join()
    try:
        yield _world
    except BaseException as error:
        if not isinstance(error, RankError):
            _world.failed(error)
        raise
    finally:
        _world = alone


def _leave() -> None:
    global _joined
    if _joined is not None:
        _joined.leave()
        _joined = None
