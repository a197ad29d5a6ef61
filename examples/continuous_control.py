"""Continuous actions: SAC swings a pendulum up, seeing its velocity or remembering what it saw."""

import gymnasium

from rlpyt import SAC


def main(env_steps: int = 8_000) -> float:
    """Train, watch one episode by hand, and return the mean of twenty."""
    agent = SAC("Pendulum-v1", seed=0).learn(env_steps)
    env = gymnasium.make("Pendulum-v1")
    observation, _ = env.reset(seed=0)
    state, over, total = None, False, 0.0
    while not over:
        action, state = agent.predict(observation, state)  # torques from -2 to 2
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    print(f"one episode: {total:.0f}")
    return agent.evaluate(episodes=20).mean


if __name__ == "__main__":
    print(f"twenty: {main():.0f}")
    # The same task without the velocity: the preset for memory tasks has an LSTM.
    blind = SAC("rlpyt/PendulumPositions-v0", seed=0).learn(15_000)
    print(f"twenty without the velocity: {blind.evaluate(20).mean:.0f}")
