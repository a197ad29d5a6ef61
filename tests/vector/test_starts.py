"""Every episode has its own start, by seed, role and column, the same when run again."""

import gymnasium
import numpy as np
from stepping import in_process, step
from toys import SeedEnv

from rlpyt import noise
from rlpyt.arrays import tree_items


def starts(rows, b=0):
    return rows.observation[rows.first[:, b], b].ravel().tolist()


def test_five_episodes_have_five_starts_the_same_when_run_again():
    """B199."""
    runs = [starts(step(in_process(lambda b: SeedEnv(3), 1), 19)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(runs[0]) == 5


def test_seeds_and_roles_and_columns_start_differently():
    """B202, B203: an evaluation has no start of the training."""
    found = set()
    for seed in (0, 1):
        for role in (noise.TRAINING_RESETS, noise.EVALUATION_RESETS):
            rows = step(in_process(lambda b: SeedEnv(3), 2, seed=seed, role=role), 19)
            found |= {*starts(rows, 0), *starts(rows, 1)}
    assert len(found) == 2 * 2 * 2 * 5


def test_more_environments_change_none_of_the_others():
    few, many = (step(in_process(lambda b: SeedEnv(2 + b), n), 15) for n in (4, 8))
    for (path, x), (_, y) in zip(tree_items(few), tree_items(many), strict=True):
        assert np.array_equal(x, y[:, :4]), path


def test_a_second_reset_of_all_starts_like_the_first():
    envs = in_process(lambda b: SeedEnv(3), 2)
    assert np.array_equal(step(envs, 9).observation, step(envs, 9).observation)


class FromSpaces(SeedEnv):
    """Draws from its spaces, whose generators are not those that reset(seed=...) seeds."""

    def __init__(self):
        super().__init__(3)
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
        self.action_space = gymnasium.spaces.Discrete(1000)

    def _observation(self):
        return np.array([self.observation_space.sample()[0], self.action_space.sample()])


def test_spaces_that_environments_draw_from_begin_by_seed_and_column_and_anew_with_every_reset():
    def observed(n, **given):
        return step(in_process(lambda b: FromSpaces(), n, **given), 9).observation

    envs = in_process(lambda b: FromSpaces(), 2)
    first = step(envs, 9).observation
    assert np.array_equal(step(envs, 9).observation, first)
    assert np.array_equal(observed(4)[:, :2], first)
    others = observed(2, seed=1)[..., 0], observed(2, role=noise.EVALUATION_RESETS)[..., 0]
    drawn = np.concatenate([first[..., 0], *others], None)
    assert len({*drawn.tolist()}) == drawn.size
