"""One of several ranks: what it exchanges with the others, and what it says where one is lost."""

from __future__ import annotations

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
from rlpyt.ranks import nearby
from rlpyt.ranks.alone import Ranks, merge_moments
from rlpyt.ranks.hearts import BEAT_SECONDS, Hearts
from rlpyt.ranks.nearby import Nearby
from rlpyt.ranks.waits import await_all, within
from rlpyt.stopping import asked_by

T = TypeVar("T")

MEET_SECONDS: Final = 300.0
"""In which all ranks come: each imports PyTorch first, from a cold network disk, say."""
LONGEST: Final = timedelta(days=7)
"""Of a sum: it is hearts that say when to stop waiting."""


@final
class Joined(Ranks):
    """One of several processes; see `meeting.join`, which makes it."""

    def __init__(
        self, silent_seconds: float = torchrun.SILENT_SECONDS, meet_seconds: float = MEET_SECONDS
    ) -> None:
        import torch.distributed as dist

        self.rank, self.size = torchrun.whole("RANK", 0), torchrun.whole("WORLD_SIZE", 1)
        address, port = os.environ["MASTER_ADDR"], torchrun.whole("MASTER_PORT", 1, 65535)
        # torchrun's agent holds the store, which so outlasts every rank; else the first rank does.
        held = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._hosts = self.first and not held
        self._dist, self._calls, self.broken = dist, 0, False

        def store(host: bool) -> Any:
            seconds = max(silent_seconds, 2 * BEAT_SECONDS)
            given: Any = {"timeout": timedelta(seconds=seconds), "wait_for_workers": False}
            # It tries twice to connect; of a server that never answers it would wait for ever.
            whole = within(
                2 * seconds + BEAT_SECONDS,
                lambda: dist.TCPStore(address, port, None, host, **given),
            )
            return dist.PrefixStore("rlpyt", whole)

        if held:
            _end_with_parent()
        try:
            self._store = store(self._hosts)
            # Says whose ranks are missing, where the group's own wait would name nobody.
            self._store.set(f"came/{self.rank}", _who(self.rank))
            if self._store.add(f"times/{self.rank}", 1) > 1:
                raise UsageError(
                    f"two processes have come as RANK={self.rank} of MASTER_ADDR={address} "
                    f"MASTER_PORT={port}: torchrun gives each its own. Start what runs beside "
                    "training without these variables"
                )
            await_all(self._store, self.size, meet_seconds)
            self._hearts = Hearts(store(False), self.rank, self.size, silent_seconds, self._heard)
            self._hearts.start()
            self._numbers: Any = self._make_groups(meet_seconds)
            self._nearby = nearby.meet(self.rank, self.size, self.gather, self._hearts.told)
        except (RuntimeError, TimeoutError) as error:  # of which the store's errors are kinds
            raise UsageError(
                f"MASTER_ADDR={address} MASTER_PORT={port}: {self.size} ranks did not meet there "
                f"({_first_line(error)}); start all of them, with one torchrun on each machine. "
                "Where a machine has several networks GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME "
                "name the one to use"
            ) from error

    def sum_(self, tensor: Tensor) -> Tensor:
        with self._exchange():
            if (near := self._near(tensor)) is not None:
                near.sum_(tensor)
            else:
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
        return torch.stack(self._everywhere(numbers)).sum(0).tolist()

    def greatest(self, *numbers: float) -> list[float]:
        return torch.stack(self._everywhere(numbers)).amax(0).tolist()

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
        own = torch.cat([mean.new_tensor([float(count)]), mean.flatten(), squares.flatten()])
        merged = 0, torch.zeros_like(mean), torch.zeros_like(squares)
        for packed in self._everywhere(own.cpu()):
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
                asked = asked_by() if isinstance(error, StopAsked) else ""
                self._store.set("failure", dumps((self.rank, _who(self.rank), text, asked)))

    def leave(self) -> None:
        """End what joining began."""
        if not self.broken:
            with suppress(Exception):
                self._dist.destroy_process_group()
        if self._nearby is not None:
            self._nearby.close()
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

    def _near(self, tensor: Tensor) -> Nearby | None:
        """Where a tensor is exchanged if not by a network."""
        near = self._nearby
        return near if near is not None and near.takes(tensor) else None

    def _everywhere(self, numbers: Any) -> list[Tensor]:
        """What each rank gives, by rank: as many float64; to be read before another exchange."""
        own = torch.as_tensor(numbers, dtype=torch.float64)
        with self._exchange():
            if (near := self._near(own)) is not None:
                return near.gather(own)
            theirs = [torch.empty_like(own) for _ in range(self.size)]
            self._dist.all_gather(theirs, own, group=self._numbers)
            return theirs

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
        try:
            while time.monotonic() < until:
                if self._store.check(["failure"]):
                    _, who, text, asked = loads(self._store.get("failure"))
                    return StopAsked(f"{who}: {text}", asked) if asked else RankError(who, text)
                time.sleep(0.1)
        except Exception:
            return RankError(
                "the first rank, or the torchrun of its machine, is gone without a word (killed? "
                f"cut off?), and with it the store that ranks share: {_first_line(error)}"
            )
        if gone := self._hearts.silent(1.5 * BEAT_SECONDS):
            how = "is gone without a word (killed? out of memory?)"
        elif gone := self._hearts.left():
            how = "has left"
        else:
            return None
        return RankError(f"{', '.join(map(_rank, gone))} {how}: {_first_line(error)}")


def _end_with_parent() -> None:
    """Have the system end this process when torchrun ends, whatever of; Linux can."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            parent = os.getppid()
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:  # it ended before that was asked for
                os._exit(1)


def _who(rank: int) -> str:
    return f"{_rank(rank)} ({socket.gethostname()}, pid {os.getpid()})"


def _rank(rank: int) -> str:
    return f"rank {rank}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
