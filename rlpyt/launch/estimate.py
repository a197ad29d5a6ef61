"""How long runs still take, from how long they and others of their kind took so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlpyt.launch.journal import Record


def of_run(done: int, lacking: int, seconds: float) -> float | None:
    """Seconds that a run still takes at the speed that it had; None where it has done nothing.

    Args:
        done: env steps that this attempt has taken.
        lacking: those to come.
        seconds: since this attempt began.
    """
    return seconds / done * max(0, lacking) if done > 0 else None


def of_all(
    records: Iterable[Record],
    running: Mapping[str, tuple[float | None, float]],
    slots: int,
) -> float | None:
    """Seconds that a sweep still takes; None before anything can be told.

    Args:
        running: of each job in a slot the seconds that it still takes, and has taken.
        slots: how many run at once.
    """
    records = list(records)
    took: dict[str, list[float]] = {}
    for record in records:
        name, kind = record.job.name, record.job.kind
        left, taken = running.get(name, (None, 0.0))
        if record.state == "finished" and record.seconds:
            took.setdefault(kind, []).append(record.seconds)
        elif left is not None:
            took.setdefault(kind, []).append(left + taken)
    means = {kind: sum(x) / len(x) for kind, x in took.items()}
    if not means or not slots:  # a cluster may have none for a time
        return None
    total, unknown = 0.0, sum(means.values()) / len(means)
    for record in records:
        whole = means.get(record.job.kind, unknown)
        if record.job.name in running:
            left, taken = running[record.job.name]
            total += max(0.0, whole - taken) if left is None else left
        elif record.state in ("queued", "cut"):
            total += whole
    return total / slots
