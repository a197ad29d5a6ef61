"""An agent answers the environment's own observations, as it does in evaluations."""

import gymnasium
import numpy as np
import pytest
from small_agents import short

from rlpyt import PPO, EnvironmentFault, UsageError
from tests.toys import MaskEnv, SpaceZooEnv


def test_predict_answers_one_or_many_in_the_environments_form():
    agent = PPO("Pendulum-v1", seed=1)
    env = gymnasium.make("Pendulum-v1")
    observation, _ = env.reset(seed=0)
    action, state = agent.predict(observation)
    assert env.action_space.contains(action)
    batch, _ = agent.predict(np.stack([observation, observation]))
    assert batch.shape == (2, 1)
    assert np.allclose(batch[0], action, atol=1e-6)
    sampled = [agent.predict(observation, deterministic=False)[0] for _ in range(3)]
    assert len({float(x[0]) for x in sampled}) == 3
    again, _ = agent.predict(observation, state)
    assert np.array_equal(again, action)  # without memory the state changes nothing
    with pytest.raises(UsageError, match="neither one of shape"):
        agent.predict(np.zeros((2, 2, 3)))
    env.close()


def test_predict_plays_what_evaluation_plays():
    agent = short(PPO, memory="lstm", read_previous=False, horizon=16, minibatch_size=32)
    returns = agent.evaluate(episodes=1).returns
    from rlpyt import noise

    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=noise.ResetSeeds(1, noise.EVALUATION_RESETS)(0, 0))
    state, total, over = None, 0.0, False
    while not over:
        action, state = agent.predict(observation, state)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + reward, terminated or truncated
    assert total == returns[0]
    env.close()


def test_an_agent_that_reads_rewards_asks_for_them():
    agent = PPO("CartPole-v1", seed=1, memory="gru")
    _, state = agent.predict(np.zeros(4, np.float32))
    with pytest.raises(UsageError, match="reward=reward"):
        agent.predict(np.zeros(4, np.float32), state)
    agent.predict(np.zeros(4, np.float32), state, reward=1.0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_predict_refuses_what_is_not_finite(wrong):
    agent = PPO("CartPole-v1", seed=1, memory="gru")
    observation = np.array([0.1, wrong, 0.0, 0.0], np.float32)
    for given in (observation, np.stack([np.zeros(4, np.float32), observation])):
        with pytest.raises(EnvironmentFault, match="observation holds NaN or an infinity"):
            agent.predict(given)
    _, state = agent.predict(np.zeros(4, np.float32), reward=wrong)  # it came with no action
    with pytest.raises(EnvironmentFault, match="reward=.* is not finite"):
        agent.predict(np.zeros(4, np.float32), state, reward=wrong)


def test_predict_refuses_a_state_or_mask_of_another_form():
    agent = PPO(MaskEnv, seed=0)
    _, state = agent.predict(np.zeros((3, 1)))
    with pytest.raises(UsageError, match="one of 3 observations, and 1 are given"):
        agent.predict(np.zeros(1), state)
    for other in (np.zeros(3), (np.zeros(3), np.zeros(3)), ()):
        with pytest.raises(UsageError, match="hand back what predict returned"):
            agent.predict(np.zeros(1), other)
    with pytest.raises(UsageError, match=r"mask has shape \(1,\); give one of shape \(1, 4\)"):
        agent.predict(np.zeros(1), mask=[1])
    with pytest.raises(EnvironmentFault, match=r"action_mask is .*of 4, 1 \(True\) for each"):
        agent.predict(np.zeros(1), mask=[0.0, -np.inf, 0.0, 0.0])


def test_frames_are_stacked_while_predicting():
    class Frames(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (12, 12), np.uint8)
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.full((12, 12), 10, np.uint8), {}

        def step(self, action):
            self.t += 1
            return np.full((12, 12), 10 + self.t, np.uint8), 1.0, self.t > 5, False, {}

    agent = PPO(Frames, seed=1, frame_stack=3)
    frame = np.full((12, 12), 1, np.uint8)
    _, state = agent.predict(frame)
    assert state.frames[0, :, 0, 0].tolist() == [0, 0, 1]
    _, state = agent.predict(frame + 1, state)
    assert state.frames[0, :, 0, 0].tolist() == [0, 1, 2]
    _, state = agent.predict(frame + 2, state, first=True)
    assert state.frames[0, :, 0, 0].tolist() == [0, 0, 3]


def test_what_reset_returns_is_no_observation():
    agent, observation = PPO("CartPole-v1", seed=0), np.zeros(4, np.float32)
    with pytest.raises(UsageError, match="given .observation, info., which is what reset"):
        agent.predict((observation, {}))
    part = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    both = gymnasium.spaces.Tuple((part, gymnasium.spaces.Dict(a=part)))
    agent = PPO(lambda: SpaceZooEnv(both, gymnasium.spaces.Discrete(2)), seed=0)
    assert agent.predict((np.zeros(2), {"a": np.zeros(2)}))[0] in (0, 1)  # control


def test_a_batch_of_none_has_no_answer():
    with pytest.raises(UsageError, match="a batch of no observations"):
        PPO("CartPole-v1", seed=0).predict(np.zeros((0, 4)))
