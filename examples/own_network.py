"""A network of your own: any nn.Module from an observation to features."""

from torch import nn

from rlpyt import PPO
from rlpyt.distributions import for_action
from rlpyt.envs.spec import EnvSpec
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.options import ActorCriticOptions


def network(spec: EnvSpec) -> ActorCritic:
    """Policy and value on an encoder each, with layer normalization."""
    encoder = nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.SiLU(), nn.Linear(64, 64))
    options = ActorCriticOptions(share_trunk=False)
    return ActorCritic(spec, for_action(spec.action), options, encoder)


if __name__ == "__main__":
    agent = PPO("CartPole-v1", seed=1, model=network).learn(50_000)
    print(agent.evaluate(episodes=10).mean)
