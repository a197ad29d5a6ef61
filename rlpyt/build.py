"""From options to parts: the script that builds a run, as a user would by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from rlpyt import noise
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.a2c import A2C
from rlpyt.algos.ppo import PPO
from rlpyt.arrays import tree_leaves
from rlpyt.distributions import for_action
from rlpyt.envs.make import probe
from rlpyt.envs.spec import Box, EnvSpec, example, leaves
from rlpyt.errors import UsageError
from rlpyt.evaluation import Evaluator
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.images import scale
from rlpyt.noise import Noise, ResetSeeds
from rlpyt.resolve import Resolved, apply, draw_seed, resolve
from rlpyt.rows import Window, example_row, is_image
from rlpyt.run import Run
from rlpyt.samplers.sampler import Sampler
from rlpyt.vector.choose import environments

LEARNERS = {"ppo": PPO, "a2c": A2C}
EVALUATION_ENVS = 8  # at most; an evaluation of fewer episodes has fewer
EVALUATION_HORIZON = 16  # rows between looks at who is done

ModelFactory = Callable[[EnvSpec], Any]  # a module that is an agents.policy_gradient.Model


@dataclass
class Parts:
    """What a run is made of."""

    spec: EnvSpec
    agent: PolicyGradientAgent
    algorithm: PPO | A2C
    sampler: Sampler
    evaluator: Evaluator
    resolved: Resolved
    solved_return: float | None = None  # what the environment's registration calls solved

    def close(self) -> None:
        self.sampler.envs.close()
        self.evaluator.close()


def build(
    run: Run,
    resolved: Resolved | None = None,
    *,
    model: ModelFactory | None = None,
) -> Parts:
    """Make every part of a run.

    Args:
        run: the options.
        resolved: the choices of a run that is resumed; None makes them.
        model: makes the network for a specification, in place of `ActorCritic`.
    """
    seed = resolved.seed if resolved else draw_seed(run)
    spec = probe(run.env)
    agent = make_agent(run, spec, seed, model)
    parameters = sum(parameter.numel() for parameter in agent.parameters())
    images = any(is_image(x, leading=0) for x in tree_leaves(example(spec.observation)))
    resolved = resolved or resolve(run, seed, parameters, images)
    apply(resolved)
    agent.to_device(torch.device(resolved.device))
    distribution = agent.distribution
    algorithm = LEARNERS[run.algo_name](
        agent,
        run.algo,
        run.env.num_envs,
        run.schedule_steps,
        torch.Generator().manual_seed(noise.seed(seed, noise.LEARNER) >> 1),
        resolved.compile,
    )

    def sampler(num_envs: int, horizon: int, role: int, stream: int | None) -> Sampler:
        seeds = ResetSeeds(seed, role)
        how = resolved.vectorization
        envs = environments(run.env, spec, num_envs, seeds, how)
        window = Window(
            example_row(spec, agent.example_kept() if stream == noise.ACTION_NOISE else ()),
            horizon,
            num_envs,
            reads=agent.model.reads,
            frame_stack=spec.frame_stack,
            state=agent.model.initial_state(num_envs),
            state_interval=run.algo.state_interval if role == noise.TRAINING_RESETS else None,
        )
        sizes = distribution.uniforms, distribution.normals
        drawn = None if stream is None else Noise(seed, stream, range(num_envs), *sizes)
        check = algorithm.learner.parameters.assert_finite
        return Sampler(envs, agent, window, drawn, strict_bounds=run.env.strict_bounds, check=check)

    evaluation_envs = max(1, min(EVALUATION_ENVS, run.loop.eval_episodes))
    evaluation_stream = noise.EVALUATION_NOISE if run.loop.eval_stochastic else None
    return Parts(
        spec,
        agent,
        algorithm,
        sampler(run.env.num_envs, run.algo.horizon, noise.TRAINING_RESETS, noise.ACTION_NOISE),
        Evaluator(
            lambda: sampler(
                evaluation_envs, EVALUATION_HORIZON, noise.EVALUATION_RESETS, evaluation_stream
            ),
            run.loop.eval_episodes,
            run.loop.eval_max_steps,
        ),
        resolved,
    )


def make_agent(
    run: Run, spec: EnvSpec, seed: int, model: ModelFactory | None = None
) -> PolicyGradientAgent:
    """The agent as a run begins with it, on the CPU.

    The weights come from the seed alone: not from how many cores draw them.
    """
    torch.set_num_threads(1)
    torch.manual_seed(noise.seed(seed, noise.INITIAL_WEIGHTS) >> 1)
    distribution = for_action(spec.action)
    network = model(spec) if model else ActorCritic(spec, distribution, run.model)
    normalizer = None
    if run.algo.normalize_observation:
        boxes = [leaf for _, leaf in leaves(spec.observation)]
        scaled = [isinstance(box, Box) and scale(box) != 1 for box in boxes]
        normalizer = ObservationNormalizer(example(spec.observation), scaled)
    return PolicyGradientAgent(network, distribution, normalizer, run.loop.precision)


def load_weights(agent: PolicyGradientAgent, state: dict[str, Any], source: str) -> None:
    """Take up an agent's weights and normalizers.

    Args:
        source: where they come from, for the message if they do not fit.
    """
    try:
        agent.load_state_dict(state)
    except RuntimeError as error:
        raise UsageError(
            f"{source}: its network does not fit this run's; choose the same environment and model "
            f"options ({str(error).splitlines()[-1].strip()})"
        ) from None
