"""What a run acts with: a specification, an agent, environments to evaluate it in.

A saved agent is opened with these alone; `build` adds what trains it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt import noise, ranks
from rlpyt.agent_making import Agent, ModelFactory, make_agent, make_window, share_exploration
from rlpyt.arrays import tree_leaves
from rlpyt.cores import allowed_cores
from rlpyt.envs.make import probe
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spec import EnvSpec, example
from rlpyt.evaluation import Evaluator
from rlpyt.models.flat import FlatParameters
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.processes.heart import Heart
from rlpyt.processes.start import Processes
from rlpyt.resolve import Resolved, apply, draw_seed, resolve
from rlpyt.rows import is_image
from rlpyt.run import Run
from rlpyt.samplers.sampler import Sampler
from rlpyt.storage import Memory
from rlpyt.vector.choose import environments
from rlpyt.vector.making import Making, registered_here
from rlpyt.vector.staff import PRELOADED, Hired
from rlpyt.vector.watchdog import Watchdog
from rlpyt.vector.workers import WorkerEnvironments

TRAINING = (noise.TRAINING_RESETS, noise.ACTION_NOISE)
EVALUATION = (noise.EVALUATION_RESETS, noise.EVALUATION_NOISE)
EVALUATION_ENVS = 8  # at most; an evaluation of fewer episodes has fewer
EVALUATION_HORIZON = 16  # rows between looks at who is done

Check = Callable[[], None]  # raises where the agent's weights are not finite


@dataclass
class Home:
    """What a run's processes need to know of it once it has begun.

    Attributes:
        folder: of the run, once there is one: stacks are written there.
        tell: shows a line to the user.
        watchdog: of environments that this process steps; None: nobody watches them.
        start_timeout: seconds that making one here may take, before this process is ended; 0: any.
    """

    folder: Path | None = None
    tell: Callable[[str], object] = warnings.warn
    watchdog: Watchdog | None = None
    start_timeout: float = 0.0

    def making(self) -> AbstractContextManager[object]:
        """To be entered where this process makes environments of the run."""
        if not self.start_timeout:
            return nullcontext()
        heart = self.watchdog.heart if self.watchdog else Heart(np.zeros(8, np.int64))
        return Watchdog(self.start_timeout, heart)


@dataclass(frozen=True)
class Opened:
    """A run's agent and what it acts in; nothing that trains it."""

    run: Run
    spec: EnvSpec
    agent: Agent  # on its device
    resolved: Resolved
    home: Home = field(default_factory=Home)

    def sampler(
        self, actor: Any, window: Any, roles: tuple[int, int], check: Check, noisy: bool = True
    ) -> Sampler:
        """What collects into a window, in environments of its own.

        Args:
            actor: answers the rows.
            window: in shared memory where processes step the environments.
            roles: streams of `noise`, of resets and of actions.
            noisy: False has the actor answer greedily.
        """
        resets, actions = roles
        resolved, count = self.resolved, window.num_envs
        envs = self._environments(window, resolved.resets(resets, self.run.env.num_envs))
        columns = resolved.columns(count) if actions == noise.ACTION_NOISE else range(count)
        drawn = None
        if noisy:
            drawn = Noise(resolved.seed, actions, columns, actor.uniforms, actor.normals)
        return Sampler(
            envs,
            actor,
            window,
            drawn,
            strict=self.run.sampler.strict,
            strict_bounds=self.run.env.strict_bounds,
            finite=self.run.sampler.nan_policy != "ignore",
            check=check,
            threads=self._acting_threads(),
        )

    def _acting_threads(self) -> int | None:
        """Where groups take turns, workers are at work meanwhile: the cores are shared."""
        resolved = self.resolved
        if resolved.sampler != "workers" or resolved.groups == 1:
            return None
        return max(1, min(resolved.threads, allowed_cores() - resolved.workers))

    def _environments(self, window: Any, seeds: ResetSeeds) -> Any:
        """Environments for the columns of a window: here, or in processes of their own."""
        resolved, env = self.resolved, self.run.env
        groups = resolved.groups if seeds.role == noise.TRAINING_RESETS else 1
        count, training = window.num_envs, seeds.role == noise.TRAINING_RESETS
        drop = training and self.run.sampler.nan_policy == "drop"
        if window.memory is None:
            how, watchdog = resolved.vectorization, self.home.watchdog
            with self.home.making() if training else nullcontext():
                return environments(env, self.spec, count, seeds, how, groups, watchdog, drop)
        limits = self.run.sampler
        if not training:  # it fails as a whole, and is made anew
            limits = replace(limits, on_worker_failure="raise")
        staff = Hired(
            lambda: Processes(self.home.folder, preload=PRELOADED),
            Making(env, self.spec, seeds, count, drop, registered_here()),
            window.places,
            window.memory,
            min(resolved.workers, count),
            groups,
            name="worker" if training else "evaluation worker",
        )
        return WorkerEnvironments(staff, window, limits, self.home.tell)

    def evaluator(self, check: Check | None = None) -> Evaluator:
        """What plays the run's evaluations; its environments are made when they are needed.

        Args:
            check: the learner's; None makes one of the model's parameters.
        """
        loop, looks = self.run.loop, check or FlatParameters(self.agent.model).assert_finite
        return Evaluator(
            lambda: self._evaluation_sampler(looks), loop.eval_episodes, loop.eval_max_steps
        )

    def _evaluation_sampler(self, check: Check) -> Sampler:
        loop, algo = self.run.loop, self.run.algo
        count = max(1, min(EVALUATION_ENVS, loop.eval_episodes))
        noisy = loop.eval_stochastic or getattr(algo, "eval_epsilon", 0.0) > 0
        memory = None if self.resolved.sampler in ("serial", "ray") else Memory()
        window = make_window(
            self.spec, self.agent, EVALUATION_HORIZON, count, None, keeps=False, memory=memory
        )
        actor = self.agent.evaluation(loop.eval_stochastic)
        return self.sampler(actor, window, EVALUATION, check, noisy)


def open_agent(
    run: Run,
    resolved: Resolved | None = None,
    *,
    model: ModelFactory | None = None,
    home: Home | None = None,
) -> Opened:
    """The agent of a run as it begins, on its device, and the choices that the run left open.

    Args:
        run: the options.
        resolved: the choices of a run that is resumed; None makes them.
        model: makes the network for a specification, in place of the algorithm's own.
        home: of the run; None makes one.
    """
    world, home = ranks.world(), home or Home()
    seed = resolved.seed if resolved else world.from_first(lambda: draw_seed(run))
    with home.making():
        spec = probe(run.env)
    agent = make_agent(run, spec, seed, model)
    parameters = sum(parameter.numel() for parameter in agent.model.parameters())
    if resolved is None:
        images = _has_images(spec)
        resolved = world.from_first(lambda: resolve(run, seed, parameters, images))
    resolved = resolved.of_rank(world)
    if world.size > 1 and resolved.device.startswith("cuda"):
        torch.cuda.set_device(resolved.device)  # before anything of the GPU is touched
    apply(resolved)
    agent.to_device(torch.device(resolved.device))
    share_exploration(agent, resolved, run.env.num_envs)
    return Opened(run, spec, agent, resolved, home)


def observes_images(options: EnvOptions, home: Home) -> bool:
    """Whether an environment observes any image."""
    with home.making():
        return _has_images(probe(options))


def _has_images(spec: EnvSpec) -> bool:
    return any(is_image(x, leading=0) for x in tree_leaves(example(spec.observation)))
