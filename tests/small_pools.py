"""Pools of counting environments, and their rows from a reset on."""

from functools import partial

import numpy as np
from gymnasium.vector import AutoresetMode
from stepping import go_on
from toys import CountEnv

from rlpyt import noise
from rlpyt.noise import ResetSeeds
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.native import NativeEnvironments
from rlpyt.vector.pools import describe_pool

NEXT_STEP = AutoresetMode.NEXT_STEP
SEEDS = ResetSeeds(0, noise.TRAINING_RESETS)


def native(pool, spec=None):
    return NativeEnvironments(pool, spec or describe_pool(pool, "test"), SEEDS)


def collect(envs, steps, act=None, ended=None):
    """Rows [steps + 1, B]; act(t, row) writes actions; infos of episodes' ends go into `ended`."""
    rows = zeros(example_row(envs.spec), (steps + 1, envs.num_envs))
    envs.reset(rows[0])
    found = go_on(envs, rows, 0, act)
    if ended is not None:
        ended += [(b, numbers) for _, b, numbers in found]
    return rows


def random_actions(n, seed=0):
    rng = np.random.default_rng(seed)

    def act(t, row):
        row.action[:] = rng.integers(n, size=row.action.shape)

    return act


def assert_same(rows, other):
    for name in ("observation", "reward", "terminated", "truncated", "first", "cut"):
        assert np.array_equal(getattr(rows, name), getattr(other, name)), name


def count_envs(vector, n=3):
    makes = [partial(CountEnv, n=2 + b, column=b, end="trunc" if b else "term") for b in range(n)]
    return vector(makes, autoreset_mode=NEXT_STEP)
