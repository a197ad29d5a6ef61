"""Seeds and noise are functions of where they are used, and of nothing else."""

import numpy as np
import pytest

from rlpyt import noise
from rlpyt.noise import Noise, ResetSeeds


def make(columns: range = range(4), root: int = 7, stream: int = noise.ACTION_NOISE) -> Noise:
    return Noise(root, stream, columns, uniforms=2, normals=3)


@pytest.mark.parametrize("start", [0, 200, 255, 256, 1000])
def test_rows_do_not_depend_on_how_they_are_asked_for(start):
    whole = make().rows(start, 300)
    pieces = make()
    parts = [pieces.rows(start + i, 60) for i in range(0, 300, 60)]
    assert whole.tobytes() == np.concatenate(parts).tobytes()
    assert make().rows(start + 17, 1).tobytes() == whole[17:18].tobytes()


def test_a_column_is_the_same_among_few_and_many():
    few, many = make(range(2, 4)).rows(3, 50), make(range(8)).rows(3, 50)
    assert few.tobytes() == np.ascontiguousarray(many[:, 2:4]).tobytes()


def test_columns_rows_streams_and_roots_differ():
    base = make().rows(0, 600)
    assert len(np.unique(base[..., 0])) > 0.99 * base[..., 0].size
    for other in (make(root=8), make(stream=noise.EVALUATION_NOISE)):
        assert not np.any(other.rows(0, 600)[..., 2] == base[..., 2])


def test_uniforms_come_first_and_normals_are_normal():
    drawn = make(range(64)).rows(0, 2048)
    uniforms, normals = drawn[..., :2], drawn[..., 2:]
    assert drawn.dtype == np.float32 and drawn.shape == (2048, 64, 5)
    assert uniforms.min() >= 0 and uniforms.max() < 1
    assert abs(uniforms.mean() - 0.5) < 0.005
    assert abs(normals.mean()) < 0.01 and abs(normals.std() - 1) < 0.01


def test_seeds_of_columns_counts_and_roles_differ():
    training = ResetSeeds(0, noise.TRAINING_RESETS)
    evaluation = ResetSeeds(0, noise.EVALUATION_RESETS)
    drawn = [seeds(b, k) for seeds in (training, evaluation) for b in range(8) for k in range(600)]
    assert len(set(drawn)) == len(drawn)


def test_a_reset_seed_does_not_depend_on_those_asked_before():
    seeds = ResetSeeds(5, noise.TRAINING_RESETS)
    asked = [seeds(3, k) for k in (0, 700, 255, 256, 0)]
    assert asked == [ResetSeeds(5, noise.TRAINING_RESETS)(3, k) for k in (0, 700, 255, 256, 0)]


def test_no_two_streams_share_a_seed_by_zero_padding():
    codes = range(1, 9)
    words = [noise.seed(5, code) for code in codes]
    words += [int(np.random.SeedSequence([5]).generate_state(1, np.uint64)[0])]
    assert len(set(words)) == len(words)
