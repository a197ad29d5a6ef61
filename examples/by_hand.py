"""Every part of a run, made by hand: PPO on CartPole without the runner."""

import torch

from rlpyt import noise
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.options import PPOOptions
from rlpyt.algos.ppo import PPO
from rlpyt.distributions import for_action
from rlpyt.envs.make import make, probe
from rlpyt.envs.options import EnvOptions
from rlpyt.logging.episodes import Episodes
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.options import ActorCriticOptions
from rlpyt.rows import Window, example_row
from rlpyt.samplers.sampler import Sampler
from rlpyt.vector.in_process import InProcess


def main(env_steps: int = 50_000, seed: int = 0) -> float:
    """Train, and return the mean return of the last 100 episodes."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    env, options = EnvOptions("CartPole-v1", num_envs=8), PPOOptions(lr=2.5e-3)
    spec = probe(env)
    distribution = for_action(spec.action)
    agent = PolicyGradientAgent(ActorCritic(spec, distribution, ActorCriticOptions()), distribution)
    envs = [make(env, rank=b) for b in range(8)]
    envs = InProcess(envs, spec, noise.ResetSeeds(seed, noise.TRAINING_RESETS))
    window = Window(example_row(spec), options.horizon, num_envs=8)
    drawn = noise.Noise(seed, noise.ACTION_NOISE, range(8), distribution.uniforms, 0)
    sampler = Sampler(envs, agent, window, drawn)
    ppo = PPO(agent, options, 8, env_steps, torch.Generator().manual_seed(seed))

    episodes = Episodes(num_envs=8)
    sampler.reset()
    while episodes.env_steps < env_steps:
        before = episodes.env_steps
        window = sampler.collect()
        episodes.count(window.rows)
        ppo.update(window, before)
    envs.close()
    return episodes.line()["rollout/return_100"]


if __name__ == "__main__":
    print(f"mean return of the last 100 episodes: {main():.0f}")
