"""The schedule of an asynchronous run: what it depends on beside its options.

Each time the learner asks for rows it finds some windows, each of which was collected with some
version of the weights. A run whose windows are collected in turn with the learning, with the same
versions and found at the same times, is the same run, bit for bit: `ScheduledSampler` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from rlpyt.errors import UsageError
from rlpyt.ring_window import RingWindow
from rlpyt.rotation import Rotation
from rlpyt.samplers.arrivals import arrivals_of
from rlpyt.samplers.background import env_steps_of
from rlpyt.samplers.link import Entry
from rlpyt.samplers.published import acting_tensors, copy_tensors
from rlpyt.samplers.sampler import Sampler


class Found(NamedTuple):
    """What the learner found at one time."""

    resting: bool  # whether the sampler was asked to rest before
    published: int  # newest version of the weights then
    versions: tuple[int, ...]  # of each window that was there


def lag_metrics(lags: Sequence[int]) -> dict[str, float]:
    """How many versions behind the newest the weights were that collected some windows."""
    if not lags:
        return {}
    mean = sum(lags) / len(lags)
    return {"sampler/version_lag": mean, "sampler/version_lag_max": float(max(lags))}


@final
class Schedule:
    """What was found, in the order of time; in a file one line each.

    Args:
        path: a file that is written anew; None keeps it in memory alone.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.found: list[Found] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    def record(self, found: Found) -> None:
        if self.path is None:
            self.found.append(found)
            return
        with open(self.path, "a") as file:
            print(int(found.resting), found.published, *found.versions, file=file)

    @classmethod
    def read(cls, path: Path) -> Schedule:
        """What was written to a file."""
        schedule = cls()
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"schedule={path} cannot be read ({error}); give the schedule-0.txt of a run that "
                "was made with --record-schedule"
            ) from error
        for number, line in enumerate(lines, 1):
            try:
                resting, published, first, *versions = map(int, line.split())
            except ValueError:
                raise UsageError(
                    f"schedule={path}, line {number}: {line[:60]!r} is not a line of a schedule "
                    "(0 or 1, and two numbers or more); the file is not one, or was cut short"
                ) from None
            schedule.found.append(Found(bool(resting), published, (first, *versions)))
        return schedule


@final
class ScheduledSampler:
    """Collects in this process what an asynchronous run's sampler did, and with the same weights.

    Args:
        sampler: over rows that lie as that run's; its agent is a copy of the one that learns.
        agent: learns.
        schedule: that was recorded.
        total: environment steps of the run.
        check: raises where the weights of the one that learns are not finite.
    """

    def __init__(
        self,
        sampler: Sampler,
        agent: Any,
        schedule: Schedule,
        total: int,
        check: Callable[[], None] | None = None,
    ) -> None:
        window: Any = sampler.window
        assert isinstance(window, RingWindow | Rotation)
        self.sampler, self.agent, self.window = sampler, agent, window
        self._actor: Any = sampler.agent
        self.seconds, self.infos = sampler.seconds, {}
        self._arrivals, self._check_agent = arrivals_of(window), check
        self._schedule, self._total = list(reversed(schedule.found)), total
        self._kept: dict[int, list[Tensor]] = {}  # weights by version, while windows need them
        self._env_steps = 0
        self._lags: list[int] = []

    def reset(self) -> None:
        self.sampler.reset()
        self._arrivals.begin()

    def restore(self, state: dict[str, Any]) -> list[int]:
        cut = self.sampler.restore(state)
        self._arrivals.begin()
        return cut

    def rows_for(self, env_steps: int) -> int:
        return self.sampler.rows_for(env_steps)

    def collect(self, horizon: int | None = None, env_steps: int | None = None) -> Any:
        """Collect what was found at this time."""
        assert env_steps is not None
        if self._check_agent is not None:
            self._check_agent()
        self.agent.set_exploration(env_steps)
        self._env_steps = env_steps
        return self._collect(resting=False)

    def settle(self) -> Iterator[Any]:
        """What was found once the sampler rested."""
        while self._schedule and self._schedule[-1].resting:
            yield self._collect(resting=True)

    def snapshot(self) -> dict[str, Any]:
        return self.sampler.snapshot()

    def metrics(self) -> dict[str, float]:
        lags, self._lags = self._lags, []
        return lag_metrics(lags)

    def close(self) -> None:
        self.sampler.close()

    def _collect(self, resting: bool) -> Any:
        if not self._schedule or self._schedule[-1].resting != resting:
            raise RuntimeError("the schedule is that of another run: it found nothing at this time")
        found = self._schedule.pop()
        if found.published not in self._kept:
            self._kept[found.published] = [x.clone() for x in acting_tensors(self.agent)]
        self.infos, entries, begun = {}, [], 0
        for version in found.versions:
            copy_tensors(acting_tensors(self._actor), self._kept[version])
            steps = self._env_steps
            window = self.sampler.collect(self.rows_for(self._total - steps), steps)
            self.infos |= {(begun + t, b): x for (t, b), x in self.sampler.infos.items()}
            begun += window.horizon
            entries.append(Entry(window.start, window.horizon, steps, version))
            self._env_steps += env_steps_of(window.rows)
        self._lags += [found.published - version for version in found.versions]
        for version in [x for x in self._kept if x < found.versions[-1]]:
            del self._kept[version]
        return self._arrivals.take(entries)
