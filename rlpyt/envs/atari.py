"""Atari 2600 games under a protocol, written straight on the emulator's interface.

Observations are single frames; stacks are built where rows are read. Rewards are raw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import ale_py
import cv2
import gymnasium
import numpy as np
from ale_py import roms
from gymnasium.spaces import Box, Discrete

from rlpyt.envs.protocols import Protocol, check, game_of, protocol_for
from rlpyt.errors import UsageError

_NOOP: Final = ale_py.Action.NOOP
_FIRE: Final = ale_py.Action.FIRE
_BLOCK: Final = 1024  # frames whose stickiness is drawn at once


def make_atari(
    env_id: str,
    protocol: str | Protocol | None = None,
    *,
    render_mode: str | None = None,
    **settings: Any,
) -> AtariEnvironment:
    """One game.

    Args:
        env_id: a Gymnasium id that ale-py registers.
        protocol: a protocol or its name; None takes the one that the id stands for.
        render_mode: "rgb_array" or None.
        settings: fields of the protocol to change, and the game's `mode` and `difficulty`.
    """
    game = game_of(env_id)
    if not isinstance(protocol, Protocol):
        protocol = protocol_for(env_id, protocol)
    game_settings = {key: settings.pop(key) for key in ("mode", "difficulty") if key in settings}
    protocol = protocol.adjusted(settings)
    return AtariEnvironment(game, protocol, render_mode=render_mode, **game_settings)


class AtariEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """One game under a protocol: uint8 frames, raw rewards, exact snapshots.

    Every info holds `lives`, `game_over` (the game ended, by its rules or by max_frames; an
    episode that ended without it was a life) and `game_return`, the sum of the game's rewards.
    After a lost life `reset` does one NOOP step in the same game, whose reward only `game_return`
    sees, and ignores its seed; `options={"new_game": True}` begins a new game all the same. Should
    that NOOP end the game, `reset` begins the next one and says `game_over`.

    A seeded reset is a function of the seed alone, and begins the game that ale-py's own begins.
    ALE takes a seed only while it loads the ROM, 90 ms; going back to the state just after loading
    is the same in 4 ms, because all that a seed changes is the generator of sticky actions.

    Args:
        game: the emulator's name of the game, such as "ms_pacman".
        protocol: how it is played.
        mode, difficulty: switches of the console, None for the game's own defaults.
        render_mode: "rgb_array" or None.
    """

    def __init__(
        self,
        game: str,
        protocol: Protocol,
        *,
        mode: int | None = None,
        difficulty: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        check(game, protocol)
        self.game, self.protocol, self.render_mode = game, protocol, render_mode
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": max(1, 60 // protocol.frame_skip),
        }
        self._ale = ale = _emulator(game, mode, difficulty)
        self.actions = (
            ale.getLegalActionSet() if protocol.full_action_space else ale.getMinimalActionSet()
        )
        self._fires = protocol.fire and _FIRE in self.actions
        self._pools = protocol.max_pool and protocol.frame_skip > 1

        height, width = ale.getScreenDims()
        size = protocol.screen_size
        colours = () if protocol.grayscale else (3,)
        self._grab = ale.getScreenGrayscale if protocol.grayscale else ale.getScreenRGB
        self._screens = np.zeros((2, height, width, *colours), np.uint8)
        self.observation_space = Box(0, 255, (size, size, *colours), np.uint8)
        self.action_space = Discrete(len(self.actions))

        self._loaded = ale.cloneState(include_rng=True)
        ale.reset_game()
        self._sticky = StickyActions(protocol.sticky)
        self._held = _NOOP  # what the emulator's stick does: the action that may be repeated
        self._lives = ale.lives()
        self._frames = 0  # of this game, from its first action
        self._game_return = 0.0
        self._life_lost = False  # the last step ended an episode, but not the game

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode: the next life of this game, or a new game."""
        ended = False
        if self._life_lost and not (options or {}).get("new_game", False):
            observation, _, ended = self._advance(_NOOP)
            if not ended:
                self._life_lost = False
                return observation, self._info(False)
        super().reset(seed=seed)
        observation = self._new_game(seed)
        self._lives, self._life_lost = self._ale.lives(), False
        self._frames, self._game_return = 0, 0.0
        return observation, self._info(ended)

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold an action for `frame_skip` frames."""
        lives = self._lives
        observation, reward, ended = self._advance(self.actions[action])
        life_lost = self.protocol.life_loss and self._lives < lives
        self._life_lost = life_lost and not ended
        terminated = life_lost or (ended and self._ale.game_over())
        truncated = self._frames >= self.protocol.max_frames
        return observation, reward, terminated, truncated, self._info(ended)

    def render(self) -> np.ndarray | None:
        """The screen in colour, uint8 [height, width, 3]."""
        return self._ale.getScreenRGB() if self.render_mode == "rgb_array" else None

    def get_action_meanings(self) -> list[str]:
        """The actions' names in the emulator."""
        return [action.name for action in self.actions]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that the next steps depend on, 20 kB."""
        emulator = self._ale.cloneState(include_rng=True).serialize()
        generator = json.dumps(self.np_random.bit_generator.state).encode()
        return {
            "emulator": np.frombuffer(emulator, np.uint8).copy(),
            "generator": np.frombuffer(generator, np.uint8).copy(),
            "counters": np.array(
                [self._held.value, self._lives, self._frames, self._life_lost], np.int64
            ),
            "game_return": np.array(self._game_return),
            **self._sticky.snapshot(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue exactly as the environment that made this snapshot would have.

        The picture is no part of the emulator's state: `render` shows it from the next step on.
        """
        emulator = ale_py.ALEState(state["emulator"].tobytes())
        self._ale.restoreState(emulator)
        # Nor are the television chip's masks, which every frame sets anew. With those of another
        # game, Q*bert and Tetris go on differently; so one frame is played to set them, and undone.
        self._ale.act(_NOOP)
        self._ale.restoreState(emulator)
        self.np_random.bit_generator.state = json.loads(state["generator"].tobytes())
        held, self._lives, self._frames, life_lost = state["counters"].tolist()
        self._held, self._life_lost = ale_py.Action(held), bool(life_lost)
        self._game_return = float(state["game_return"])
        self._sticky.restore(state)

    def _info(self, game_over: bool) -> dict[str, Any]:
        return {"lives": self._lives, "game_over": game_over, "game_return": self._game_return}

    def _advance(self, action: ale_py.Action) -> tuple[np.ndarray, float, bool]:
        """Play a step's frames: observation, reward, whether the game ended."""
        skip, screens = self.protocol.frame_skip, self._screens
        reward = sum([self._frame(action) for _ in range(skip - 1)])
        if self._pools:
            self._grab(screens[1])
        reward += self._frame(action)
        self._lives = self._ale.lives()
        self._frames += skip
        self._game_return += reward
        ended = self._ale.game_over() or self._frames >= self.protocol.max_frames
        return self._observe(self._pools), float(reward), ended

    def _frame(self, action: ale_py.Action) -> int:
        if not self._sticky.repeats():
            self._held = action
        return self._ale.act(self._held)

    def _new_game(self, seed: int | None) -> np.ndarray:
        """Start a game and press what the protocol presses: its first observation."""
        noop_max = self.protocol.noop_max
        if seed is None:
            noops = int(self.np_random.integers(max(noop_max, 1)))
        else:
            self._ale.restoreState(self._loaded)
            noops = self._sticky.seed(seed) * noop_max >> 32  # as std::uniform_int_distribution
        self._ale.reset_game()
        self._held = _NOOP
        if self._fires:
            self._frame(_FIRE)
        for _ in range(noops - self._fires):
            self._frame(_NOOP)
            if self._ale.game_over():
                self._ale.reset_game()
                self._held = _NOOP
        return self._observe()

    def _observe(self, pool: bool = False) -> np.ndarray:
        """The screen, or its maximum with the one kept before, resized by area."""
        screen, before = self._screens
        self._grab(screen)
        if pool:
            np.maximum(screen, before, out=screen)
        size = self.protocol.screen_size
        return cv2.resize(screen, (size, size), interpolation=cv2.INTER_AREA)


class StickyActions:
    """On which frames the emulator repeats the action before: the draws that ALE would make.

    ALE 0.12 draws two words of a std::mt19937 a frame, one a player, and repeats where
    word / 2^32 < probability. Drawn here, because its saved state leaves out the action that it
    is repeating, so that a restored game would not go on as before.
    """

    def __init__(self, probability: float) -> None:
        self._limit = probability * 2**32
        self._generator = np.random.RandomState()
        self.seed(int(np.random.SeedSequence().generate_state(1)[0]))

    def seed(self, seed: int) -> int:
        """Begin again as ALE does with this seed; returns the generator's first word."""
        self._generator.seed(seed % 2**31)  # ALE takes a C int
        return self._draw()

    def repeats(self) -> bool:
        """Whether the next frame repeats the action before."""
        if self._at == _BLOCK:
            self._draw()
        self._at += 1
        return self._block[self._at - 1]

    def snapshot(self) -> dict[str, np.ndarray]:
        """The generator before the current block, and the place in the block."""
        words = self._before["state"]
        return {"sticky_words": words["key"], "sticky_at": np.array([words["pos"], self._at])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on as the one that made this snapshot."""
        position, at = state["sticky_at"].tolist()
        words = {"key": state["sticky_words"], "pos": position}
        self._generator.set_state({"bit_generator": "MT19937", "state": words})
        self._draw()
        self._at = at

    def _draw(self) -> int:
        self._before: dict[str, Any] = self._generator.get_state(legacy=False)
        words = self._generator.randint(2**32, size=(_BLOCK, 2), dtype=np.uint32)
        self._block: list[bool] = (words[:, 0] < self._limit).tolist()
        self._at = 0
        return int(words[0, 0])


def _emulator(game: str, mode: int | None, difficulty: int | None) -> ale_py.ALEInterface:
    """The game, loaded; the same every time."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)  # StickyActions does it
    ale.setInt("max_num_frames_per_episode", 0)  # its count would include the start's frames
    ale.loadROM(str(roms.get_rom_path(game)))
    for name, value, known, choose in (
        ("mode", mode, ale.getAvailableModes(), ale.setMode),
        ("difficulty", difficulty, ale.getAvailableDifficulties(), ale.setDifficulty),
    ):
        if value is None:
            continue
        if value not in known:
            raise UsageError(f"{name}={value} is not among {game}'s: {known}")
        choose(value)
    return ale
