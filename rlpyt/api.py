"""The library in a few words: `PPO("CartPole-v1", seed=1).learn(100_000).evaluate()`."""

from __future__ import annotations

from typing import final

from rlpyt.trained_agent import TrainedAgent
from rlpyt.trained_agent import load as load


@final
class PPO(TrainedAgent):
    """Proximal policy optimization; the algorithm itself is in `algos/ppo.py`."""

    algo = "ppo"


@final
class A2C(TrainedAgent):
    """Advantage actor-critic; the algorithm itself is in `algos/a2c.py`."""

    algo = "a2c"


@final
class IMPALA(TrainedAgent):
    """Actor-critic with V-trace; the algorithm itself is in `algos/impala.py`."""

    algo = "impala"


@final
class APPO(TrainedAgent):
    """Asynchronous PPO with V-trace; the algorithm itself is in `algos/appo.py`."""

    algo = "appo"


@final
class DQN(TrainedAgent):
    """Deep Q-learning and its variants up to Rainbow and IQN; in `algos/dqn.py`."""

    algo = "dqn"


@final
class R2D1(TrainedAgent):
    """Recurrent Q-learning from sequences; the algorithm itself is in `algos/r2d1.py`."""

    algo = "r2d1"


@final
class DDPG(TrainedAgent):
    """Deep deterministic policy gradient; the algorithm itself is in `algos/ddpg.py`."""

    algo = "ddpg"


@final
class TD3(TrainedAgent):
    """Twin delayed DDPG; the algorithm itself is in `algos/td3.py`."""

    algo = "td3"


@final
class SAC(TrainedAgent):
    """Soft actor-critic, also as REDQ, TQC, DroQ and CrossQ, and of one Discrete choice; in
    `algos/sac.py` and `algos/discrete_sac.py`."""

    algo = "sac"


@final
class D4PG(TrainedAgent):
    """Distributional DDPG; the algorithm itself is in `algos/d4pg.py`."""

    algo = "d4pg"
