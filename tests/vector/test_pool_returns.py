"""What a pool may return is stored column by column; what it may not is named."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import SyncVectorEnv
from small_pools import NEXT_STEP, SEEDS, assert_same, collect, count_envs, native
from toys import CountEnv

from rlpyt.errors import EnvironmentFault
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.pools import GymnasiumPool, describe_pool


class Careless(gymnasium.vector.VectorWrapper):
    """Gives rewards and flags as its author found them."""

    form = staticmethod(lambda x: x)

    def step(self, actions):
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        return observation, *map(self.form, (reward, terminated, truncated)), infos


@pytest.mark.parametrize(
    "form", [np.ndarray.tolist, lambda x: x[:, None].astype(np.float64), lambda x: x.astype(int)]
)
def test_rewards_and_flags_of_a_pool_may_be_lists_columns_or_of_other_dtypes(form):
    careless = Careless(count_envs(SyncVectorEnv))
    careless.form = form
    rows = collect(native(GymnasiumPool(careless, "count")), 12)
    assert_same(rows, collect(native(GymnasiumPool(count_envs(SyncVectorEnv), "count")), 12))


@pytest.mark.parametrize(
    ("form", "says"), [(lambda x: x[:-1], r"shape \(2,\)"), (lambda x: x.astype(str), "dtype <U")]
)
def test_rewards_that_are_not_one_number_of_each_column_are_named(form, says):
    careless = Careless(count_envs(SyncVectorEnv))
    careless.form = form
    with pytest.raises(EnvironmentFault, match=f"rewards of .*{says}.* one number of each"):
        collect(native(GymnasiumPool(careless, "count")), 1)


def test_a_pool_that_ends_an_episode_while_it_resets_is_an_error():
    class Ends(CountEnv):
        def reset(self, **kwargs):
            self.n = 1
            return super().reset(**kwargs)

    envs = SyncVectorEnv([Ends], autoreset_mode=NEXT_STEP)
    step = envs.step
    envs.step = lambda actions: (*step(actions)[:2], np.array([True]), np.array([False]), {})
    with pytest.raises(EnvironmentFault, match="ended an episode in the step that resets it"):
        collect(native(GymnasiumPool(envs, "ends")), 3)


class InfoEnv(CountEnv):
    """Says `level` in column 1 only, and allows only action `steps % 2`."""

    def _info(self):
        info = {"action_mask": np.array([self.steps % 2 == 0, self.steps % 2 == 1])}
        return info | ({"level": 10.0 * self.steps, "name": "x"} if self.column else {})

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self._info()

    def step(self, action):
        return (*super().step(action)[:4], self._info())


def test_infos_and_masks_are_the_columns_own():
    vector = SyncVectorEnv([partial(InfoEnv, 3, column=b) for b in range(2)])
    pool = GymnasiumPool(vector, "info")
    spec = describe_pool(pool, "info", ("level",))
    spec = replace(spec, mask="info", mask_size=2)
    envs, ended = native(pool, spec), []
    rows = collect(envs, 4, ended=ended)
    single = InProcess([InfoEnv(3, column=b) for b in range(2)], spec, SEEDS)
    other = collect(single, 4)
    assert np.array_equal(rows.mask, other.mask)
    assert np.array_equal(rows.env_info["level"], other.env_info["level"], equal_nan=True)
    assert rows.env_info["level"][:, 1].tolist() == [0, 10, 20, 30, 0]
    assert ended == [(0, {}), (1, {"level": 30.0})]


class DictEnv(gymnasium.Env):
    """Observes a Dict and takes a Dict; the observation repeats the action."""

    observation_space = Dict(image=Box(0, 255, (4, 4), np.uint8), choice=Discrete(3, start=5))
    action_space = Dict(move=Box(-2.0, 2.0, (2,)), choice=Discrete(3, start=1))

    def _observation(self, choice):
        return {"image": np.full((4, 4), choice, np.uint8), "choice": np.int64(choice + 4)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(1), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self._observation(action["choice"]), float(action["move"][0]), False, False, {}


def test_composite_observations_and_actions_pass_through_a_pool():
    envs = native(GymnasiumPool(SyncVectorEnv([DictEnv] * 2, autoreset_mode=NEXT_STEP), "dict"))

    def act(t, row):
        row.action.move[:] = [[0.5, 0], [-1, 1]]
        row.action.choice[:] = [t % 3, 2]

    rows = collect(envs, 4, act)
    assert rows.reward[1:].tolist() == [[1, -2]] * 4
    assert rows.observation.choice.T.tolist() == [[0, 0, 1, 2, 0], [0, 2, 2, 2, 2]]
    assert rows.observation.image[2, 0, 0, 0] == 2
