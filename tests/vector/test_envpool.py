"""EnvPool's rows are those of single environments, its columns all there and in order."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from small_pools import SEEDS, assert_same, collect, native
from toys import CountEnv

from rlpyt.errors import EnvironmentFault, UsageError
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.pools import EnvPoolPool, pool_for


class FakeEnvPool:
    """EnvPool's gymnasium interface over CountEnvs: unbatched spaces, reset in the next step."""

    def __init__(self, num_envs=2, batch_size=2, order=(0, 1)):
        self.envs = [CountEnv(n=2 + b, column=b) for b in range(num_envs)]
        self.observation_space = self.envs[0].observation_space
        self.action_space = Discrete(2)
        self.config = {"num_envs": num_envs, "batch_size": batch_size}
        self.order, self.done = np.array(order), np.zeros(num_envs, bool)

    def reset(self):
        return np.stack([env.reset()[0] for env in self.envs]), {"env_id": self.order}

    def send(self, actions):
        assert actions.shape == (2,)
        self.arrival = []
        for b, env in enumerate(self.envs):
            if self.done[b]:
                self.arrival.append((env.reset()[0], 0.0, False, False))
            else:
                self.arrival.append(env.step(actions[b])[:4])
            self.done[b] = self.arrival[b][2]

    def recv(self):
        observation, *rest = map(np.stack, zip(*self.arrival, strict=True))
        return (observation, *rest, {"env_id": self.order, "elapsed_step": np.zeros(2, np.int32)})

    def close(self):
        pass


def test_envpools_rows_equal_those_in_process():
    pool = pool_for(FakeEnvPool(), "Count-v0")
    assert isinstance(pool, EnvPoolPool)
    envs = native(pool)
    single = InProcess([CountEnv(n=2 + b, column=b) for b in range(2)], envs.spec, SEEDS)
    assert_same(collect(envs, 12), collect(single, 12))


def test_envpools_columns_must_all_arrive_in_order():
    with pytest.raises(UsageError, match="batch_size=1 of EnvPool must be num_envs=2"):
        pool_for(FakeEnvPool(batch_size=1), "Count-v0")
    with pytest.raises(EnvironmentFault, match=r"environments \[1, 0\] where 0 .. 1"):
        native(pool_for(FakeEnvPool(order=(1, 0)), "Count-v0")).reset(None)
