"""Workers of which one steps a faulty environment."""

from typing import Any

from small_sampling import parts_of
from small_workers import stream

B = 4


def faulty(how: str = "raise", groups: int = 1, kind: str = "ppo", **given: Any) -> Any:
    """Four environments on two workers, of which column 2 is faulty."""
    names = ("where", "k", "once", "n", "column")
    kwargs = {"column": 2, "how": how, **{x: given.pop(x) for x in names if x in given}}
    options: Any = {"sampler": "workers", "workers": 2, "groups": groups, "strict": True}
    return parts_of(kind, "small_workers:Faulty", kwargs, **options | given)


def collect(parts: Any, windows: int = 2) -> Any:
    try:
        return stream(parts.sampler, windows)
    finally:
        parts.close()
