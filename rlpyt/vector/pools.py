"""Vector environments that step their columns themselves: Gymnasium's, ale-py's, EnvPool's.

A pool translates one library: actions go in as it wants them, and what arrives comes out as arrays
[B, ...]. All of them reset in the step after an episode's end, which is where a row begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from rlpyt.cores import allowed_cores
from rlpyt.envs import protocols
from rlpyt.envs.make import Role, is_atari, require_next_step
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.registry import find
from rlpyt.envs.spaces import to_spec
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import EnvironmentFault, UsageError

Infos = dict[str, Any]  # name -> [B, ...]; where "_name" [B] is there, it says who has a value
# What arrives: observation [B, ...], reward [B], terminated [B], truncated [B], and infos.
Arrival = tuple[Any, np.ndarray, np.ndarray, np.ndarray, Infos]


class Pool(Protocol):
    """B environments of one library, stepped together."""

    num_envs: int
    observation_space: Space[Any]  # of one environment
    action_space: Space[Any]

    def reset(self, seeds: list[int]) -> tuple[Any, Infos]: ...
    def send(self, actions: Any, last: np.ndarray) -> None:
        """Step the columns that are not last and reset the others, whose action is void."""

    def recv(self) -> Arrival: ...
    def close(self) -> None: ...


def make_pool(options: EnvOptions, num_envs: int, *, role: Role = "train") -> Pool:
    """The native pool of an environment that has one: a game of Atari, or a vector entry point.

    Args:
        options: `env` is an id.
        num_envs: columns.
        role: in evaluation a game of Atari is played to its end, whatever the protocol.
    """
    name = options.name
    if options.wrapper:
        raise UsageError(
            f"wrapper={', '.join(options.wrapper)} wraps single environments; leave it out, or "
            "choose --vectorization in-process"
        )
    entry = find(name)  # which registers it: a process that was just started knows no games
    if is_atari(options):
        protocol = protocols.protocol_for(name, options.protocol)
        if role == "evaluation":
            protocol = protocol.whole_games()
        if switches := options.kwargs.keys() & {"mode", "difficulty"}:
            raise UsageError(
                f"ale-py's vector environment cannot set {', '.join(sorted(switches))} of {name}; "
                "choose --vectorization in-process"
            )
        if options.max_episode_steps is not None:
            protocol = replace(protocol, max_frames=options.max_episode_steps * protocol.frame_skip)
        return AtariPool(protocols.game_of(name), protocol.adjusted(options.kwargs), num_envs)
    if entry.vector_entry_point is None:
        raise UsageError(
            f"{name} has no vector environment of its own; choose --vectorization in-process"
        )
    limit = (
        {}
        if options.max_episode_steps is None
        else {"max_episode_steps": options.max_episode_steps}
    )
    envs = gymnasium.make_vec(
        entry, num_envs, vectorization_mode="vector_entry_point", **limit, **options.kwargs
    )
    return GymnasiumPool(envs, name)


def describe_pool(pool: Pool, name: str, env_info: tuple[str, ...] = ()) -> EnvSpec:
    """The specification of a pool that was not made from options; it has no action masks."""
    observation = to_spec(pool.observation_space, "observation")
    return EnvSpec(name, observation, to_spec(pool.action_space, "action"), env_info=env_info)


def pool_for(envs: Any, name: str) -> Pool:
    """The pool of a vector environment that exists; `name` is for messages."""
    kind = type(envs).__name__
    if kind == "AtariVectorEnv":
        raise UsageError(
            f"{name}: what an AtariVectorEnv was made with cannot be seen from outside (clipped "
            "rewards, stacked frames, restarts at a lost life); give AtariPool(game, protocol, "
            "num_envs), which makes it"
        )
    if isinstance(envs, VectorEnv):
        return GymnasiumPool(envs, name)
    if all(callable(getattr(envs, method, None)) for method in ("send", "recv", "reset")):
        return EnvPoolPool(envs, name)
    raise UsageError(
        f"{name}: {type(envs).__module__}.{kind} is no vector environment that is known here; "
        "give a gymnasium.vector.VectorEnv, or a factory of single environments"
    )


class GymnasiumPool:
    """Any gymnasium.vector.VectorEnv whose metadata says that it resets in the next step."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], name: str) -> None:
        require_next_step(envs, name)
        self.num_envs = envs.num_envs
        self.observation_space = envs.single_observation_space
        self.action_space = envs.single_action_space
        self._envs = envs
        self._arrival: Any = None

    def reset(self, seeds: list[int]) -> tuple[Any, Infos]:
        # Environments that are one program for all columns know one generator, so one seed.
        one_each = isinstance(self._envs.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        seed: Any = seeds if one_each else seeds[0]
        return self._envs.reset(seed=seed)

    def send(self, actions: Any, last: np.ndarray) -> None:
        if isinstance(self._envs, AsyncVectorEnv):
            self._envs.step_async(actions)
        else:
            self._arrival = self._envs.step(actions)

    def recv(self) -> Arrival:
        if isinstance(self._envs, AsyncVectorEnv):
            return self._envs.step_wait()
        return self._arrival

    def close(self) -> None:
        self._envs.close()


class AtariPool:
    """ale-py's AtariVectorEnv under a protocol: the same games as AtariEnvironment plays.

    Infos hold `lives`, `game_over` and `game_return` as there. A seed begins the same game as
    there, event by event; later games go on with ale-py's generators. Two pictures differ, where a
    game is over: ale-py stops looking when it ends in the middle of an action or at max_frames,
    and shows parts of an older frame.

    Args:
        game: the emulator's name of the game, such as "ms_pacman".
        protocol: how they are played.
        num_envs: games.
        num_threads: emulators that run at once; 0: as many as there are allowed cores.
    """

    def __init__(
        self, game: str, protocol: protocols.Protocol, num_envs: int, num_threads: int = 0
    ) -> None:
        from ale_py import Action, AtariVectorEnv

        protocols.check(game, protocol)
        self.num_envs, self._protocol = num_envs, protocol
        self._envs = AtariVectorEnv(
            game,
            num_envs,
            num_threads=num_threads or min(num_envs, allowed_cores()),
            max_num_frames_per_episode=protocol.max_frames,
            repeat_action_probability=protocol.sticky,
            full_action_space=protocol.full_action_space,
            autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
            img_height=protocol.screen_size,
            img_width=protocol.screen_size,
            grayscale=protocol.grayscale,
            stack_num=1,
            frameskip=protocol.frame_skip,
            maxpool=protocol.max_pool,
            noop_max=protocol.noop_max,
            use_fire_reset=protocol.fire,
            episodic_life=False,  # restarts the whole game at the first lost life
            life_loss_info=protocol.life_loss,
            reward_clipping=False,
        )
        assert self._envs.ale.get_action_set()[0] == Action.NOOP
        size = protocol.screen_size
        shape = (size, size) if protocol.grayscale else (size, size, 3)
        self.observation_space: Space[Any] = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = self._envs.single_action_space
        self._last = self._life_lost = np.zeros(num_envs, np.bool_)
        self._game_return = np.zeros(num_envs)

    def reset(self, seeds: list[int]) -> tuple[Any, Infos]:
        observation, infos = self._envs.reset(seed=np.array(seeds) % 2**31)
        none = np.zeros(self.num_envs, np.bool_)
        self._life_lost, self._game_return = none, np.zeros(self.num_envs)
        return observation[:, 0], self._infos(infos["lives"], none)

    def send(self, actions: Any, last: np.ndarray) -> None:
        self._last = last.copy()
        self._envs.send(np.where(last, 0, actions))  # NOOP where a life was lost

    def recv(self) -> Arrival:
        observation, reward, terminated, truncated, infos = self._envs.recv()
        last, observation, lives = self._last, observation[:, 0], infos["lives"]
        begun = last & ~self._life_lost  # these began a game; the others played a step of theirs
        self._game_return = np.where(begun, 0, self._game_return + reward)
        life_lost = terminated & ~truncated & (lives > 0) & self._protocol.life_loss
        game_over = (terminated & ~life_lost) | truncated
        lost = last & game_over  # the NOOP after a lost life ended the game: begin the next one
        if lost.any():
            fresh, infos = self._envs.reset(options={"reset_mask": lost})
            observation = observation.copy()
            observation[lost] = fresh[lost, 0]
            lives = np.where(lost, infos["lives"], lives)
            self._game_return[lost] = 0
        self._life_lost = life_lost & ~last
        infos = self._infos(lives, game_over)
        return observation, reward, terminated & ~last, truncated & ~last, infos

    def close(self) -> None:
        self._envs.close()

    def _infos(self, lives: np.ndarray, game_over: np.ndarray) -> Infos:
        return {"lives": lives, "game_over": game_over, "game_return": self._game_return.copy()}


class EnvPoolPool:
    """EnvPool's gymnasium interface: spaces of one environment, and seeds given when it is made."""

    def __init__(self, envs: Any, name: str) -> None:
        config = envs.config
        self.num_envs = config["num_envs"]
        if config["batch_size"] != self.num_envs:
            raise UsageError(
                f"{name}: batch_size={config['batch_size']} of EnvPool must be num_envs="
                f"{self.num_envs}, so that every column arrives in every row"
            )
        self.observation_space, self.action_space = envs.observation_space, envs.action_space
        self._envs, self._name = envs, name
        self._columns = np.arange(self.num_envs)

    def reset(self, seeds: list[int]) -> tuple[Any, Infos]:
        observation, infos = self._envs.reset()
        self._check(infos)
        return observation, infos

    def send(self, actions: Any, last: np.ndarray) -> None:
        self._envs.send(actions)

    def recv(self) -> Arrival:
        observation, reward, terminated, truncated, infos = self._envs.recv()
        self._check(infos)
        return observation, reward, terminated.astype(bool), truncated.astype(bool), infos

    def close(self) -> None:
        self._envs.close()

    def _check(self, infos: Infos) -> None:
        if not np.array_equal(infos["env_id"], self._columns):
            raise EnvironmentFault(
                f"{self._name}: EnvPool handed out environments {infos['env_id'].tolist()} where "
                f"0 .. {self.num_envs - 1} in this order were due"
            )
