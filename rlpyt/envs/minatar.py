"""MinAtar: five games on a 10x10 grid, one channel per kind of object (Young and Tian, 2019).

The games come from the package `minatar` (1.0.11 and later; Seaquest was another game before). Only
their modules are loaded: the package itself would load pandas and seaborn for its window, where it
finds them. Importing this registers `MinAtar/<Game>-v1`, with the actions that do something in the
game, and `-v0`, with all six.
"""

from __future__ import annotations

import colorsys
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

GAMES: Final = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_PIXELS: Final = 16  # a cell's side in a picture
_FIXED: Final = ("random", "channels", "action_map")  # attributes of a game that are no state


class MinAtarEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """One game; observations are uint8 [10, 10, channels] of zeros and ones.

    Args:
        game: one of GAMES.
        sticky: probability that the last action is repeated instead; 0.1 in all published results.
        difficulty_ramping: the game gets faster with time, as published.
        minimal_actions: leave out the actions that do nothing in this game.
        render_mode: "rgb_array" or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        *,
        sticky: float = 0.1,
        difficulty_ramping: bool = True,
        minimal_actions: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.game, self.render_mode = game, render_mode
        self._game = _load(game).Env(ramping=difficulty_ramping)
        self._sticky = sticky
        self._last_action = 0
        self.actions: list[int] = (
            self._game.minimal_action_set() if minimal_actions else list(range(6))
        )
        self.observation_space = Box(0, 1, tuple(self._game.state_shape()), np.uint8)
        self.action_space = Discrete(len(self.actions))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a game; with a seed, the one that `minatar` begins with it.

        Without one the stickiness goes on from the last game's action, as it does there.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._game.random = np.random.RandomState(seed)
            self._last_action = 0
        self._game.reset()
        return self._game.state().view(np.uint8), {}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        game = self._game
        if game.random.rand() >= self._sticky:
            self._last_action = self.actions[action]
        reward, terminal = game.act(self._last_action)
        return game.state().view(np.uint8), float(reward), bool(terminal), False, {}

    def render(self) -> np.ndarray | None:
        """A picture, uint8 [160, 160, 3], with one colour a channel."""
        if self.render_mode != "rgb_array":
            return None
        state = self._game.state()  # [10, 10, C]
        n = state.shape[-1]
        colours = [(0, 0, 0), *(colorsys.hsv_to_rgb(c / n, 0.7, 1) for c in range(n))]
        palette = (255 * np.array(colours)).astype(np.uint8)
        cells = palette[(state * np.arange(1, n + 1)).max(-1)]  # [10, 10, 3]
        return cells.repeat(_PIXELS, 0).repeat(_PIXELS, 1)

    def snapshot(self) -> dict[str, np.ndarray]:
        """The game's attributes and its generator."""
        values = {k: v for k, v in vars(self._game).items() if k not in _FIXED}
        grids = {k: v.copy() for k, v in values.items() if isinstance(v, np.ndarray)}
        rest = {k: v for k, v in values.items() if k not in grids}
        text = json.dumps({"last_action": self._last_action, "game": rest}, default=_plain)
        _, words, *position = self._game.random.get_state()
        return {
            "values": np.frombuffer(text.encode(), np.uint8).copy(),
            "words": words,
            "position": np.array(position),
            **{f"grid_{name}": grid for name, grid in grids.items()},
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue exactly as the environment that made this snapshot would have."""
        values = json.loads(state["values"].tobytes())
        self._last_action = values["last_action"]
        vars(self._game).update(values["game"])
        for name, grid in state.items():
            if name.startswith("grid_"):
                setattr(self._game, name.removeprefix("grid_"), np.array(grid))
        position, has_gauss, gauss = state["position"].tolist()
        self._game.random.set_state(
            ("MT19937", state["words"], int(position), int(has_gauss), gauss)
        )


def _load(game: str) -> ModuleType:
    """The module of one game, without running the package's own code."""
    name = f"{__name__}.{game}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _folder() / f"{game}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def _folder() -> Path:
    found = importlib.util.find_spec("minatar")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(
            "MinAtar's games are not installed: pip install --no-deps minatar", name="minatar"
        )
    return Path(found.submodule_search_locations[0]) / "environments"


def _plain(value: Any) -> Any:
    """NumPy scalars as JSON knows them."""
    return value.item()


_folder()  # not installed: nothing to register
for _game in GAMES:
    for _version, _minimal in (("v0", False), ("v1", True)):
        gymnasium.register(
            id=f"MinAtar/{_game.title().replace('_', '')}-{_version}",
            entry_point=f"{__name__}:MinAtarEnvironment",
            kwargs={"game": _game, "minimal_actions": _minimal},
        )
