"""The processes that train one agent together, as `torchrun` starts them.

Every rank runs the same loop over environments and rows of its own. What they must agree on goes
through here: sums of gradients and statistics, counts, decisions. A process that trains alone is a
rank of one, whose sums are what it gave.

Nobody waits for a rank that is no more. One that fails leaves word of it in the store that all
share, and the others, whose next sum then fails, tell of that. One that is silent (stopped, or cut
off) is noticed by its heart, which beats in a thread of its own: so an evaluation, a compilation or
a slow environment of one rank may take as long as it likes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor

from rlpyt import torchrun
from rlpyt.errors import RankError, StopAsked, UsageError
from rlpyt.processes.pickling import dumps, loads
from rlpyt.rank_hearts import BEAT_SECONDS, Hearts

T = TypeVar("T")

MEET_SECONDS: Final = 300.0
"""In which all ranks come: each imports PyTorch first, from a cold network disk, say."""
LONGEST: Final = timedelta(days=7)
"""Of a sum: it is hearts that say when to stop waiting."""


class Ranks:
    """One process, which trains alone."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes, evaluates and shows."""
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """Put the sum over ranks in a tensor's place; it is the same in all of them, to the bit."""
        return tensor

    def begin_sum_(self, tensor: Tensor) -> Callable[[], object]:
        """The same, done meanwhile; returns what waits for it. All ranks begin in one order."""
        return lambda: None

    def totals(self, *numbers: float) -> list[float]:
        """Each number's sum over ranks, in float64."""
        return list(numbers)

    def greatest(self, *numbers: float) -> list[float]:
        """The greatest of what each number is on the ranks."""
        return list(numbers)

    def gather(self, thing: T) -> list[T]:
        """What each rank gives, by rank: of few bytes."""
        return [thing]

    def gather_at_first(self, thing: T) -> list[T]:
        """The same at the first rank; nothing at the others."""
        return [thing]

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first rank makes, however long it takes. What it raises is raised in all."""
        return make()

    def moments(self, count: int, mean: Any, squares: Any) -> tuple[int, Any, Any]:
        """Merge the ranks' statistics (Chan et al., 1979).

        Args:
            count: of values; where it is 0 the others mean nothing.
            mean, squares: their mean, and the sum of their squared differences from it: float64
                tensors of one shape.
        """
        return count, mean, squares

    def failed(self, error: BaseException) -> None:
        """Tell the others why this rank ends."""


@final
class Joined(Ranks):
    """One of several processes; see `join`, which makes it."""

    def __init__(
        self, silent_seconds: float = torchrun.SILENT_SECONDS, meet_seconds: float = MEET_SECONDS
    ) -> None:
        import torch.distributed as dist

        self.rank, self.size = torchrun.whole("RANK", 0), torchrun.whole("WORLD_SIZE", 1)
        address, port = os.environ["MASTER_ADDR"], torchrun.whole("MASTER_PORT", 1)
        # torchrun's agent holds the store, which so outlasts every rank; else the first rank does.
        held = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._hosts = self.first and not held
        self._dist, self._calls, self.broken = dist, 0, False

        def store(host: bool) -> Any:
            limit = timedelta(seconds=max(silent_seconds, 2 * BEAT_SECONDS))
            whole = dist.TCPStore(address, port, None, host, timeout=limit, wait_for_workers=False)
            return dist.PrefixStore("rlpyt", whole)

        if held:
            _end_with_parent()
        try:
            self._store = store(self._hosts)
            # Says whose ranks are missing, where the group's own wait would name nobody.
            self._store.set(f"came/{self.rank}", _who(self.rank))
            _await_all(self._store, self.size, meet_seconds)
            self._hearts = Hearts(store(False), self.rank, self.size, silent_seconds, self._heard)
            self._hearts.start()
            self._numbers: Any = self._make_groups(meet_seconds)
        except (RuntimeError, TimeoutError) as error:  # of which the store's errors are kinds
            raise UsageError(
                f"MASTER_ADDR={address} MASTER_PORT={port}: {self.size} ranks did not meet there "
                f"({_first_line(error)}); start all of them, with one torchrun on each machine. "
                "Where a machine has several networks GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME "
                "name the one to use"
            ) from error

    def sum_(self, tensor: Tensor) -> Tensor:
        with self._exchange():
            self._dist.all_reduce(tensor)
        return tensor

    def begin_sum_(self, tensor: Tensor) -> Callable[[], object]:
        with self._exchange():
            work: Any = self._dist.all_reduce(tensor, async_op=True)

        def wait() -> None:
            with self._exchange():
                work.wait(LONGEST)

        return wait

    def totals(self, *numbers: float) -> list[float]:
        vector = torch.tensor(numbers, dtype=torch.float64)
        with self._exchange():
            self._dist.all_reduce(vector, group=self._numbers)
        return vector.tolist()

    def greatest(self, *numbers: float) -> list[float]:
        vector = torch.tensor(numbers, dtype=torch.float64)
        with self._exchange():
            self._dist.all_reduce(vector, self._dist.ReduceOp.MAX, group=self._numbers)
        return vector.tolist()

    def gather(self, thing: T) -> list[T]:
        found: list[Any] = [None] * self.size
        with self._exchange():
            self._dist.all_gather_object(found, thing, group=self._numbers)
        return found

    def gather_at_first(self, thing: T) -> list[T]:
        found: list[Any] | None = [None] * self.size if self.first else None
        with self._exchange():
            self._dist.gather_object(thing, found, dst=0, group=self._numbers)
        return found or []

    def from_first(self, make: Callable[[], T]) -> T:
        self._calls += 1
        key = f"made/{self._calls}"
        if self.first:
            made = make()  # what it raises ends this rank, and the others are told of it
            self._store.set(key, dumps(made))
            return made
        while True:
            try:
                self._store.wait([key], timedelta(seconds=BEAT_SECONDS))
                return loads(self._store.get(key))
            except self._dist.DistStoreError as error:  # it takes longer
                if self._heard(self._store):
                    raise self._lost(error) or error from error
            except RuntimeError as error:
                raise self._lost(error) or error from error

    def moments(self, count: int, mean: Any, squares: Any) -> tuple[int, Any, Any]:
        mean, squares = (torch.as_tensor(x, dtype=torch.float64) for x in (mean, squares))
        own = torch.cat([mean.new_tensor([float(count)]), mean.flatten(), squares.flatten()]).cpu()
        all_ranks = [torch.empty_like(own) for _ in range(self.size)]
        with self._exchange():
            self._dist.all_gather(all_ranks, own, group=self._numbers)
        merged = 0, torch.zeros_like(mean), torch.zeros_like(squares)
        for packed in all_ranks:
            n, of_mean, of_squares = int(packed[0]), *packed[1:].to(mean.device).chunk(2)
            if n:
                other = n, of_mean.view_as(mean), of_squares.view_as(squares)
                merged = merge_moments(*merged, *other)
        return merged

    def failed(self, error: BaseException) -> None:
        self.broken = True
        told = isinstance(error, UsageError | StopAsked)  # who reads it can do without the place
        text = str(error) if told else "".join(traceback.format_exception(error))
        with suppress(Exception):  # without a store the others are ended by their hearts
            if self._store.add("failures", 1) == 1:
                stopped = isinstance(error, StopAsked)
                self._store.set("failure", dumps((self.rank, _who(self.rank), text, stopped)))

    def leave(self) -> None:
        """End what joining began."""
        if not self.broken:
            with suppress(Exception):
                self._dist.destroy_process_group()
        self._hearts.end(self._hosts)

    def _make_groups(self, seconds: float) -> Any:
        """The group of gradients, and another for numbers, which never wait for those."""
        dist: Any = self._dist
        set_limit = getattr(dist.distributed_c10d, "_set_pg_timeout", None)  # of no public API
        limit = LONGEST if set_limit is None else timedelta(seconds=seconds)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            store=dist.PrefixStore("group", self._store),
            rank=self.rank,
            world_size=self.size,
            timeout=limit,
        )
        numbers = dist.new_group(backend="gloo", timeout=limit)
        if set_limit is not None:  # they have met
            for group in (dist.group.WORLD, numbers):
                set_limit(LONGEST, group)
        return numbers

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Say who is no more where an exchange with the others fails."""
        try:
            yield
        except RuntimeError as error:
            if (lost := self._lost(error)) is None:
                raise
            raise lost from error

    def _heard(self, store: Any) -> str:
        """What another rank has said of its failure."""
        if self.broken or not store.check(["failure"]):
            return ""
        rank, who, text, _ = loads(store.get("failure"))
        return "" if rank == self.rank else f"{who} failed\n\n{text}"

    def _lost(self, error: BaseException) -> RuntimeError | None:
        """What has become of another rank, which may still be writing that down; None: nothing."""
        self.broken = True
        until = time.monotonic() + 3 * BEAT_SECONDS
        with suppress(Exception):
            while time.monotonic() < until:
                if self._store.check(["failure"]):
                    _, who, text, stopped = loads(self._store.get("failure"))
                    return StopAsked(f"{who}: {text}") if stopped else RankError(who, text)
                time.sleep(0.1)
        if gone := self._hearts.silent(1.5 * BEAT_SECONDS):
            how = "is gone without a word (killed? out of memory?)"
        elif gone := self._hearts.left():
            how = "has left"
        else:
            return None
        return RankError(f"{', '.join(map(_rank, gone))} {how}: {_first_line(error)}")


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


def merge_moments(
    count: int, mean: Any, squares: Any, n: int, of_mean: Any, of_squares: Any
) -> tuple[int, Any, Any]:
    """Two sets' statistics as those of their union (Chan et al., 1979, eq. 2.1): see `moments`."""
    delta, total = of_mean - mean, count + n
    squares = squares + (of_squares + delta**2 * (count * n / total))
    return total, mean + delta * (n / total), squares


_world = Ranks()
_joined: Joined | None = None


def _leave() -> None:
    global _joined
    if _joined is not None:
        _joined.leave()
        _joined = None


def _end_with_parent() -> None:
    """Have the system end this process when torchrun ends, whatever of; Linux can."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            parent = os.getppid()
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:  # it ended before that was asked for
                os._exit(1)


def _await_all(store: Any, size: int, seconds: float) -> None:
    """Wait until every rank has come.

    Raises:
        TimeoutError: some have not, and are named.
    """
    until = time.monotonic() + seconds
    while True:
        missing = [r for r in range(size) if not store.check([f"came/{r}"])]
        if not missing:
            return
        if time.monotonic() > until:
            raise TimeoutError(f"{', '.join(map(_rank, missing))} did not come in {seconds:.0f} s")
        time.sleep(0.05)


def _who(rank: int) -> str:
    return f"{_rank(rank)} ({socket.gethostname()}, pid {os.getpid()})"


def _rank(rank: int) -> str:
    return f"rank {rank}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
