"""What another process makes environments from: options, and what the script registered."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.noise import ResetSeeds
from rlpyt.processes.heart import Heart
from rlpyt.processes.pickling import dumps, loads
from rlpyt.vector.choose import in_process
from rlpyt.vector.in_process import InProcess

# Packages whose environments every process can register by importing them.
_KNOWN = ("gymnasium.", "ale_py.", "rlpyt.", "shimmy.", "minatar.")


@dataclass(frozen=True)
class Making:
    """Makes some columns of a run's environments, in whatever process.

    Args:
        options: of the environments; a factory of the user's script travels as it is.
        spec: what they observe and how they act.
        seeds: of resets.
        total: how many columns there are in all.
        drop: give up episodes in which a NaN or an infinity arrives.
        registered: ids that the script registered itself, as they are sent to other processes.
    """

    options: EnvOptions
    spec: EnvSpec
    seeds: ResetSeeds
    total: int
    drop: bool = False
    registered: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        try:
            dumps(self.options)
        except Exception as error:
            raise UsageError(
                f"env={self.options.name} cannot be sent to other processes "
                f"({type(error).__name__}: {error}); name a function of a module that makes it "
                "(module:function), or choose sampler=serial"
            ) from error

    def __call__(
        self, columns: range, heart: Heart | None = None, resets: np.ndarray | None = None
    ) -> InProcess:
        """The environments of these columns; `heart` and `resets` as `InProcess` takes them."""
        for packed in self.registered:
            entry = loads(packed)
            gymnasium.registry.setdefault(entry.id, entry)
        given = self.options, self.spec, self.seeds, columns, self.total
        return in_process(*given, heart=heart, resets=resets, drop=self.drop)


def registered_here() -> tuple[bytes, ...]:
    """What this process registered that another one would not find by importing a package."""
    return tuple(filter(None, map(_packed, gymnasium.registry.values())))


def _packed(entry: Any) -> bytes | None:
    point = entry.entry_point
    module = point if isinstance(point, str) else getattr(point, "__module__", "") or ""
    if f"{module}.".startswith(_KNOWN):
        return None
    with suppress(Exception):  # an entry that cannot be sent may be of no matter
        return dumps(entry)
    return None
