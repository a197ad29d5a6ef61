"""The options of a run by flat name, as Python gives them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpyt.errors import UsageError
from rlpyt.flags import fitted, flags_of, replaced
from rlpyt.rules import OF_MEMORY
from rlpyt.run import Run
from rlpyt.suggest import did_you_mean


def whole(name: str, value: Any) -> int:
    """A count of at least 1 that was given in Python; NumPy's are plain ones after that."""
    try:
        count = fitted(value, int)
    except ValueError as error:
        raise UsageError(f"{name}={value!r} {error}") from None
    if count < 1:
        raise UsageError(f"{name}={count} must be at least 1")
    return count


def with_options(run: Run, given: dict[str, Any], own_network: bool = False) -> Run:
    """The run with some of its options changed, by flat name or an accepted alias.

    Args:
        own_network: the network is a user's, of whose memory no option says anything.
    """
    known = {s[2:].replace("-", "_"): flag for flag in flags_of(run) for s in flag.spellings}
    for hidden in ("preset", "schedule_steps_from"):
        known.pop(hidden, None)
    changes: dict[Any, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"{run.algo_name} has no option {name!r}{did_you_mean(name, known)}")
        if known[name] in changes:
            raise UsageError(f"{known[name].name} is given twice, once as {name}; give it once")
        try:
            # env_kwargs may be a dict; EnvOptions puts it into the form that is recorded
            as_it_is = isinstance(value, Mapping) and name == "env_kwargs"
            changes[known[name]] = value if as_it_is else fitted(value, known[name].hint)
        except ValueError as error:
            raise UsageError(f"{name}={value!r} {error}") from None
    changed = replaced(run, changes)
    idle = changed.without_effect()
    for flag in changes:
        if flag.name in idle and not (own_network and flag.name in OF_MEMORY):
            raise UsageError(f"{flag.name} has no effect beside the rest; {idle[flag.name]}")
    return changed
