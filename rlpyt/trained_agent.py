"""An agent and the run that trains it, as one object: what `PPO(...)` and its like have in common.

A thin layer over `presets`, `training` and `policy`; scripts that need more use those.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from rlpyt import checkpoint, presets, saved
from rlpyt.acting import open_agent
from rlpyt.agent_making import ModelFactory, load_weights, make_agent
from rlpyt.envs.factories import factory
from rlpyt.envs.make import describe, make
from rlpyt.envs.saved_spaces import decode, decode_spec
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.evaluation import Evaluation
from rlpyt.generators import generators_kept
from rlpyt.logging.displays import Mode
from rlpyt.policy import Policy, PolicyState
from rlpyt.resolve import draw_seed
from rlpyt.run import Run
from rlpyt.run_options import whole, with_options
from rlpyt.runner import Hooks
from rlpyt.training import resume, train

Env = str | Callable[..., Any]


class TrainedAgent:
    """An agent, the run that trains it, and what it can do; made as `PPO(...)` and its like.

    Args:
        env: a Gymnasium id, module:Id, module:function, or a callable that makes an environment
            (a class is one).
        preset: whose settings to start from, such as "atari"; None goes by the environment.
        model: makes the network for an `EnvSpec`, in place of the algorithm's
            own (`ActorCritic`, `QNetwork`, `Actor` and `Critics`).
        **given: any option of a run by its flat name, such as seed=1, num_envs=16, lr=1e-3.
    """

    algo: ClassVar[str]
    kinds: ClassVar[dict[str, type[TrainedAgent]]] = {}
    """The first class of each algorithm; those of the library are in `api`."""

    def __init_subclass__(cls) -> None:
        TrainedAgent.kinds.setdefault(cls.algo, cls)

    def __init__(
        self,
        env: Env,
        *,
        preset: str | None = None,
        model: ModelFactory | None = None,
        **given: Any,
    ) -> None:
        run = presets.choose(self.algo, factory(env), preset)
        self._set(with_options(run, given, model is not None), model)

    def __repr__(self) -> str:
        name, env = type(self).__name__, self.run.env_name
        return f"{name}({env!r}, seed={self.seed}, env_steps={self.env_steps:,})"

    def learn(
        self,
        env_steps: int | None = None,
        *,
        reschedule: bool = True,
        hooks: Hooks | None = None,
        mode: Mode = "auto",
    ) -> Self:
        """Train for a number of environment steps, in a run folder of its own (`self.folder`).

        Called again, the same run goes on for as many more: exactly from where it stopped, with
        its schedules stretched over the new length. Ctrl-C and SIGTERM end it saved, and this
        returns; `self.status` is then "interrupted" or "terminated", otherwise "finished".

        Args:
            env_steps: None is the preset's length, or what the run lacks of its own.
            reschedule: False keeps schedules as they began; a linear one has ended at 0.
            hooks: called after windows and evaluations.
            mode: "quiet" shows nothing, "plain" never redraws.
        """
        if self._stays:
            raise UsageError(self._stays)
        env_steps = None if env_steps is None else whole("env_steps", env_steps)
        if self.folder is None:
            if env_steps is not None:
                self.run = with_options(self.run, {"env_steps": env_steps})
            outcome = train(self.run, model=self._model, hooks=hooks, mode=mode)
        else:
            self._refuse_left_behind(self.folder)
            length = None if env_steps is None else self.env_steps + env_steps
            outcome = resume(
                self.folder,
                env_steps=length,
                reschedule=reschedule and length is not None,
                env=self.run.env.env,
                model=self._model,
                hooks=hooks,
                mode=mode,
            )
        seed = outcome.runner.parts.resolved.seed  # of several ranks the first one's
        self.folder, self.run, self.status = outcome.folder, outcome.runner.run, outcome.status
        self.run = dataclasses.replace(self.run, loop=dataclasses.replace(self.run.loop, seed=seed))
        self.env_steps = outcome.runner.episodes.env_steps
        self._policy, self._weights = None, outcome.runner.parts.agent.state_dict()
        return self

    def evaluate(self, episodes: int = 20, *, stochastic: bool = False) -> Evaluation:
        """Play episodes in environments of their own, from the same starts each time.

        Args:
            episodes: how many.
            stochastic: explore as in training, instead of taking the most likely actions.
        """
        loop = {"eval_episodes": whole("episodes", episodes), "eval_stochastic": stochastic}
        with _process_as_it_is():
            opened = open_agent(with_options(self.run, loop), model=self._model)
            load_weights(opened.agent, self._state(), "the agent's weights")
            opened.agent.set_exploration(self.env_steps)
            evaluator = opened.evaluator()
            try:
                return evaluator.evaluate()
            finally:
                evaluator.close()

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        first: Any = None,
        deterministic: bool = True,
        *,
        reward: Any = None,
        mask: Any = None,
    ) -> tuple[Any, PolicyState]:
        """The action for an observation, or for a batch of them, and the state to hand back.

        Args:
            observation: in the environment's form; a batch has one more dimension in front.
            state: what the call before returned; None begins an episode.
            first: bool, or [B]: this observation begins an episode. None: where there is no state.
            deterministic: the most likely action; otherwise one as in training.
            reward: what arrived with the observation, for agents that read it (with memory).
            mask: of valid actions, where the environment gives it in its info.

        Returns:
            The action in the environment's form (a batch of dicts or tuples is a list), the state.
        """
        return self._acting().predict(
            observation, state, first, deterministic, reward=reward, mask=mask
        )

    def save(self, path: str | Path) -> Path:
        """Write weights, normalizers, options and spaces to a folder: JSON and safetensors.

        A folder that holds an earlier saved agent is replaced; any other must be new or empty.
        """
        path, (spec, *spaces) = Path(path), self._spaces()
        saved.write(path, self.run, self.env_steps, dict(self._state()), spec, spaces)
        return path

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        env: Env | None = None,
        model: ModelFactory | None = None,
        **given: Any,
    ) -> Self:
        """The agent of a run's folder, of one of its checkpoints, or of `save`.

        Args:
            path: a folder.
            env: in place of the recorded one; a factory is recorded by its name alone.
            model: makes the network, where the run began with one that does; it is not recorded.
            **given: options to change, such as device="cuda"; then it evaluates and predicts, and
                does not learn on.
        """
        agent = load(path, env=env, model=model, **given)
        if not isinstance(agent, cls):
            raise UsageError(
                f"{path} holds an agent of {agent.algo}; use {type(agent).__name__}.load"
            )
        return agent

    @property
    def seed(self) -> int:
        """The run's seed, drawn if it was not given."""
        assert self.run.loop.seed is not None
        return self.run.loop.seed

    def _set(self, run: Run, model: ModelFactory | None = None) -> None:
        self.run = with_options(run, {"seed": draw_seed(run)})
        self.env_steps = 0
        self.folder: Path | None = None
        self.status = ""  # how `learn` ended
        self._model = model
        self._policy: Policy | None = None
        self._weights: dict[str, Any] | None = None
        self._saved: dict[str, Any] = {}
        self._stays = ""  # why it does not learn on

    def _refuse_left_behind(self, folder: Path) -> None:
        """Raise where the run has gone on since: what would learn on is another agent."""
        newest = checkpoint.steps(folder / "checkpoints")
        if newest > self.env_steps:  # it may be damaged: a run goes on from one that is whole
            newest = checkpoint.load(folder / "checkpoints")[1]["env_steps"]
        if newest > self.env_steps:
            raise UsageError(
                f"this agent is of {self.env_steps:,} env steps, and its run went on from there, "
                f"to {newest:,}; load the run's folder to learn on from its newest checkpoint, or "
                "start a run with init_from=the checkpoint of this agent, or the folder of its save"
            )

    def _state(self) -> dict[str, Any]:
        """The agent's weights and normalizers; new ones where nothing was learned yet."""
        agent: Any = None if self._weights else self._acting().agent
        return self._weights or agent.state_dict()

    def _acting(self) -> Policy:
        if self._policy is None:
            spec, observation_space, action_space = self._spaces()
            with _process_as_it_is():
                agent = make_agent(self.run, spec, self.seed, self._model)
            if self._weights is not None:
                load_weights(agent, self._weights, "the agent's weights")
            agent.set_exploration(self.env_steps)
            self._policy = Policy(agent, spec, observation_space, action_space, self.seed)
        return self._policy

    def _spaces(self) -> tuple[EnvSpec, Any, Any]:
        if self._saved:
            observation, action = map(decode, self._saved["spaces"])
            return decode_spec(self._saved["spec"], observation, action), observation, action
        env = make(self.run.env)
        try:
            return describe(env, self.run.env), env.observation_space, env.action_space
        finally:
            env.close()


@contextmanager
def _process_as_it_is() -> Iterator[None]:
    """Leave the caller's global generators and number of threads as they are."""
    threads = torch.get_num_threads()
    try:
        with generators_kept():
            yield
    finally:
        torch.set_num_threads(threads)


def load(
    path: str | Path,
    *,
    env: Env | None = None,
    model: ModelFactory | None = None,
    best: bool = False,
    **given: Any,
) -> TrainedAgent:
    """The agent of a run's folder, of one of its checkpoints, or of `save`, whatever its algorithm.

    Args:
        path: a folder.
        env: in place of the recorded one.
        model: makes the network, where the run began with one that does; it is not recorded.
        best: the checkpoint with the best evaluation; otherwise the newest.
        **given: options to change; those that are None stay. With any it does not learn on.
    """
    found = saved.read(Path(path), best)
    run = found.run
    if env is not None:
        run = dataclasses.replace(run, env=dataclasses.replace(run.env, env=factory(env)))
    agent = object.__new__(TrainedAgent.kinds[found.algo])
    given = {name: x for name, x in given.items() if x is not None}
    own = model is not None
    agent._set(with_options(run, given, own), model)
    agent.env_steps = found.env_steps
    agent.folder = found.folder and found.folder.absolute()  # environments may go elsewhere
    agent._weights, agent._saved = found.weights, found.spaces
    changed = [name for name, x in given.items() if with_options(run, {name: x}, own) != run]
    agent._stays = found.why_it_stays(changed)
    return agent
