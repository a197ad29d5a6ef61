"""Atari protocols: what a score means, said once for every backend.

A score means something only together with how sticky the actions are, how many frames one lasts,
and what begins and ends an episode (Machado et al., 2018, section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import gymnasium

from rlpyt.errors import UsageError


@dataclass(frozen=True)
class Protocol:
    """The settings of a game that scores depend on."""

    name: str
    """What scores are reported under."""
    sticky: float
    """Probability that the emulator repeats the last action instead, drawn every frame."""
    life_loss: bool
    """End an episode where a life is lost; the game goes on in the next one (training only)."""
    noop_max: int
    """A game starts with 0 .. noop_max - 1 frames without action; 0 and 1: with none."""
    fire: bool
    """Press FIRE for a game's first frame, where the game has that action."""
    frame_skip: int = 4
    """Frames that an action lasts."""
    max_frames: int = 108_000
    """Frames, counted from the first action, after which a game is truncated: half an hour."""
    full_action_space: bool = False
    """All 18 actions instead of those that do something in this game."""
    max_pool: bool = True
    """Observe the maximum over an action's last two frames, because sprites flicker."""
    grayscale: bool = True
    """Observe luminance instead of three colours."""
    screen_size: int = 84
    """Height and width of a frame after resizing by area."""

    def whole_games(self) -> Protocol:
        """The same protocol for evaluation, where losing a life ends nothing."""
        return replace(self, life_loss=False)

    def adjusted(self, settings: Mapping[str, Any]) -> Protocol:
        """This protocol with some fields changed."""
        known = [field.name for field in fields(self)]
        if unknown := settings.keys() - set(known):
            raise UsageError(
                f"an Atari protocol has no setting {', '.join(sorted(unknown))}; games have mode "
                f"and difficulty, and protocols {', '.join(known)}"
            )
        return replace(self, **settings)


# Machado et al. (2018), as Gymnasium registers it in "ALE/…-v5": sticky actions are the only
# randomness, and an episode is a game. The paper's own runs had frame_skip=5,
# full_action_space=True and max_frames=18_000.
machado2018: Final = Protocol("machado2018", sticky=0.25, life_loss=False, noop_max=0, fire=False)

# Mnih et al. (2015), methods, in the form that later papers compare with: "…NoFrameskip-v4" in
# the wrappers of OpenAI Baselines, whose FIRE at the start is not in the paper.
mnih2015: Final = Protocol("mnih2015", sticky=0.0, life_loss=True, noop_max=30, fire=True)

# Castro et al. (2018), Dopamine, section 3: 27,000 actions at most, whole games. Field for field
# it is Machado et al.'s protocol; its own name keeps results under their source.
dopamine: Final = replace(machado2018, name="dopamine")

PROTOCOLS: Final[Mapping[str, Protocol]] = {p.name: p for p in (machado2018, mnih2015, dopamine)}
_BY_SUFFIX: Final[Mapping[str, Protocol]] = {"-v5": machado2018, "NoFrameskip-v4": mnih2015}


def game_of(env_id: str) -> str:
    """The emulator's name of an id's game: "ms_pacman" for "ALE/MsPacman-v5"."""
    entry = gymnasium.registry.get(env_id)
    if entry is None or entry.entry_point != "ale_py.env:AtariEnv":
        raise UsageError(f"{env_id} is not an Atari id; Atari ids look like ALE/Pong-v5")
    return entry.kwargs["game"]


def protocol_for(env_id: str, name: str | None = None) -> Protocol:
    """The protocol called `name`; without one, the protocol that an id stands for."""
    if name is not None:
        if name not in PROTOCOLS:
            raise UsageError(f"protocol={name!r} is unknown; choose one of {', '.join(PROTOCOLS)}")
        return PROTOCOLS[name]
    for suffix, protocol in _BY_SUFFIX.items():
        if env_id.endswith(suffix):
            return protocol
    raise UsageError(
        f"{env_id} stands for no known protocol; use ALE/…-v5 (machado2018) or …NoFrameskip-v4 "
        f"(mnih2015), or choose protocol={' or '.join(PROTOCOLS)}"
    )


def check(game: str, protocol: Protocol) -> None:
    """Refuse a game or settings that cannot be."""
    from ale_py import roms

    if game not in roms.get_all_rom_ids():
        raise UsageError(f"game={game!r} is no game of ale-py; names look like ms_pacman")
    rules = (
        ("sticky", 0 <= protocol.sticky < 1, "in [0, 1)"),
        ("frame_skip", protocol.frame_skip >= 1, "at least 1"),
        ("noop_max", protocol.noop_max >= 0, "at least 0"),
        ("max_frames", protocol.max_frames % protocol.frame_skip == 0, "a multiple of frame_skip"),
        ("screen_size", protocol.screen_size >= 1, "at least 1"),
    )
    for name, holds, rule in rules:
        if not holds:
            raise UsageError(
                f"{name}={getattr(protocol, name)} of an Atari protocol must be {rule}"
            )
