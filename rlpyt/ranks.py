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
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from math import isfinite
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor

from rlpyt.errors import RankError, UsageError
from rlpyt.processes.pickling import dumps, loads

T = TypeVar("T")

BEAT_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 60.0
"""A rank whose heart has not beaten for so long is given up, and with it the run."""
SILENCE: Final = "RLPYT_RANK_TIMEOUT"
"""Names another number of seconds: a matter of the network, not of the run."""
LEAVE_SECONDS: Final = 10.0
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

    def __init__(self, silent_seconds: float = SILENT_SECONDS) -> None:
        import torch.distributed as dist

        self.rank, self.size = _whole("RANK", 0), _whole("WORLD_SIZE", 1)
        address, port = os.environ["MASTER_ADDR"], _whole("MASTER_PORT", 1)
        # torchrun's agent holds the store, which so outlasts every rank; else the first rank does.
        held = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._hosts = self.first and not held
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")

        def store(host: bool) -> Any:
            limit = timedelta(seconds=max(silent_seconds, 2 * BEAT_SECONDS))
            whole = dist.TCPStore(address, port, None, host, timeout=limit, wait_for_workers=False)
            return dist.PrefixStore(f"rlpyt/{attempt}", whole)

        if held:
            end_with_parent()
        try:
            self._store = store(self._hosts)
            # Says at once whose ranks are missing, where the group's own wait would name nobody.
            self._store.set(f"came/{self.rank}", _who(self.rank))
            _await_all(self._store, self.size, silent_seconds)
            gpu = torch.cuda.is_available()
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if gpu else "gloo",
                store=dist.PrefixStore("group", self._store),
                rank=self.rank,
                world_size=self.size,
                timeout=LONGEST,
            )
            # Sums of numbers on the CPU have a group of their own: they never wait for gradients.
            self._numbers: Any = dist.new_group(backend="gloo", timeout=LONGEST)
        except (RuntimeError, TimeoutError) as error:  # of which the store's errors are kinds
            raise UsageError(
                f"MASTER_ADDR={address} MASTER_PORT={port}: {self.size} ranks did not meet there "
                f"({str(error).splitlines()[0]}); start all of them, with one torchrun on each "
                "machine"
            ) from error
        self._dist, self._calls = dist, 0
        self._hearts = _Hearts(store(False), self.rank, self.size, silent_seconds)
        self._hearts.start()

    def sum_(self, tensor: Tensor) -> Tensor:
        with self._exchange():
            self._dist.all_reduce(tensor)
        return tensor

    def begin_sum_(self, tensor: Tensor) -> Callable[[], object]:
        with self._exchange():
            work: Any = self._dist.all_reduce(tensor, async_op=True)

        def wait() -> None:
            with self._exchange():
                work.wait()

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
            except self._dist.DistStoreError:  # it takes longer
                with self._exchange():
                    failed = self._store.check(["failure"])
            except RuntimeError as error:
                raise self._lost(error) from error
            if failed:
                raise self._lost()

    def moments(self, count: int, mean: Any, squares: Any) -> tuple[int, Any, Any]:
        own = torch.cat([torch.tensor([float(count)]).to(mean), mean.flatten(), squares.flatten()])
        own = own.cpu()
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
        told = isinstance(error, UsageError)  # who reads it can do without the place
        text = str(error) if told else "".join(traceback.format_exception(error))
        with suppress(Exception):  # without a store the others are ended by their hearts
            if self._store.add("failures", 1) == 1:
                self._store.set("failure", dumps((self.rank, _who(self.rank), text)))

    def leave(self) -> None:
        """End what joining began."""
        self._hearts.end(self._hosts)
        with suppress(Exception):
            self._dist.destroy_process_group()

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Say who is no more where an exchange with the others fails."""
        try:
            yield
        except RuntimeError as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException | None = None) -> RankError:
        """What has become of another rank: it may still be writing that down."""
        until = time.monotonic() + 3 * BEAT_SECONDS
        with suppress(Exception):
            while time.monotonic() < until:
                if self._store.check(["failure"]):
                    rank, who, text = loads(self._store.get("failure"))
                    return RankError(who, "failed", text, own=rank == self.rank)
                time.sleep(0.1)
        silent = self._hearts.silent(1.5 * BEAT_SECONDS)
        who = ", ".join(map(_rank, silent)) or "another rank"
        how = "is gone without a word (killed? out of memory?)"
        cause = f": {str(error).splitlines()[0]}" if error else ""
        return RankError(who, how + cause)


def world() -> Ranks:
    """The ranks that train together here; outside of training, this process alone."""
    return _world


def expected() -> int:
    """How many ranks `torchrun` has started; 1 where it has not started this process."""
    return _whole("WORLD_SIZE", 1) if "WORLD_SIZE" in os.environ else 1


def join() -> Ranks:
    """Meet the other ranks, where there are any, once in the life of a process.

    Raises:
        UsageError: what `torchrun` sets is incomplete, or some of them do not come.
    """
    global _joined
    if _joined is None and expected() > 1:
        for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
            if name not in os.environ:
                raise UsageError(
                    f"WORLD_SIZE={os.environ['WORLD_SIZE']} without {name}: torchrun sets both; "
                    "start with torchrun, or unset WORLD_SIZE to train in one process"
                )
        _joined = Joined(_silence())
        atexit.register(_leave)
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


@final
class _Hearts:
    """Beats for this rank, and watches the others'.

    One thread talks with the store, another judges: where a machine is cut off, talking may never
    end.

    Args:
        store: a connection of its own.
        rank, size: of this process.
        limit: seconds without a beat after which this process ends.
    """

    def __init__(self, store: Any, rank: int, size: int, limit: float) -> None:
        self._store, self._rank, self._limit = store, rank, limit
        self._heard = now = time.monotonic()  # of the store
        self._seen = {r: (b"", now) for r in range(size) if r != rank}  # newest beat, and when
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"ranks: {work.__name__[1:]}", daemon=True)
            for work in (self._beat, self._judge)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _beat(self) -> None:
        beats = 0
        while not self._over.wait(BEAT_SECONDS if beats else 0):
            beats += 1
            with suppress(Exception):  # of whichever store: none is a reason to end at once
                self._store.set(f"beat/{self._rank}", str(beats))
                self._look()
                self._heard = time.monotonic()

    def _judge(self) -> None:
        while not self._over.wait(BEAT_SECONDS / 2):
            for rank in self.silent(self._limit):
                why = f"{_rank(rank)} has not answered for {self._limit:.0f} s (stopped? cut off?)"
                _end(self._rank, why)
            if time.monotonic() - self._heard > self._limit + BEAT_SECONDS:
                _end(self._rank, "the store that ranks share does not answer (cut off?)")

    def silent(self, seconds: float) -> list[int]:
        """Ranks that have not beaten for so long."""
        now = time.monotonic()
        return [r for r, (beat, at) in self._seen.items() if beat != _LEFT and now - at > seconds]

    def end(self, hosts: bool) -> None:
        """No beat follows, and none is expected.

        Args:
            hosts: the store ends with this process: the others are given a moment to read it.
        """
        self._over.set()
        talking, _ = self._threads
        talking.join(BEAT_SECONDS)
        if talking.is_alive():
            return
        with suppress(Exception):
            self._store.set(f"beat/{self._rank}", _LEFT)
            until = time.monotonic() + LEAVE_SECONDS
            while hosts and time.monotonic() < until:
                self._look()
                if all(beat == _LEFT for beat, _ in self._seen.values()):
                    break
                time.sleep(0.05)

    def _look(self) -> None:
        for rank, (before, _) in self._seen.items():
            key = f"beat/{rank}"
            if self._store.check([key]) and (beat := self._store.get(key)) != before:
                self._seen[rank] = (beat, time.monotonic())


_LEFT = b"left"
_world = Ranks()
_joined: Joined | None = None


def _leave() -> None:
    global _joined
    if _joined is not None:
        _joined.leave()
        _joined = None


def _end(rank: int, why: str) -> None:
    """End this process, whatever it waits for; its run is resumed from the newest checkpoint."""
    print(f"rlpyt: {_rank(rank)} ends: {why}", file=sys.stderr, flush=True)
    os._exit(1)


def end_with_parent() -> None:
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


def _silence() -> float:
    text = os.environ.get(SILENCE, str(SILENT_SECONDS))
    with suppress(ValueError):
        if (seconds := float(text)) >= 2 * BEAT_SECONDS:
            return seconds
    raise UsageError(f"{SILENCE}={text} must be seconds, at least {2 * BEAT_SECONDS:g}: of silence")


def _who(rank: int) -> str:
    return f"{_rank(rank)} ({socket.gethostname()}, pid {os.getpid()})"


def _rank(rank: int) -> str:
    return f"rank {rank}"


def _whole(name: str, least: int) -> int:
    text = os.environ[name]
    with suppress(ValueError):
        if (number := float(text)) == int(number) and isfinite(number) and number >= least:
            return int(number)
    raise UsageError(f"{name}={text} is no whole number of at least {least}; torchrun sets it")
