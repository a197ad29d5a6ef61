"""Running statistics: exact moments, whatever the pieces and their order."""

import copy

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_parts import ChanceEnv, collected, make
from toys import CountEnv

from rlpyt.agents.normalizers import ObservationNormalizer, RewardScale
from rlpyt.algos.outcomes import observe
from rlpyt.arrays import namedarraytuple

Seen = namedarraytuple("Seen", ["camera", "speed", "goal"])
EXAMPLE = Seen(np.zeros((4, 4), np.uint8), np.zeros(3, np.float32), np.zeros((), np.float64))


def stream(rows: int, seed: int = 0) -> Seen:
    """Rows [rows, 1] with a mean far from 0, which is where sums of squares go wrong."""
    draw = np.random.default_rng(seed)
    return Seen(
        torch.from_numpy(draw.integers(0, 255, (rows, 1, 4, 4)).astype(np.uint8)),
        torch.from_numpy(draw.normal([0, 1e4, -3], [1, 2, 1e-3], (rows, 1, 3)).astype(np.float32)),
        torch.from_numpy(draw.exponential(5.0, (rows, 1))),
    )


def moments(x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of [rows, 1, ...] in one pass over float64."""
    values = x.numpy().astype(np.float64).reshape(len(x), *x.shape[2:])
    return values.mean(0), values.var(0)


def merged(pieces: list[Seen]) -> ObservationNormalizer:
    normalizer = ObservationNormalizer(EXAMPLE)
    for piece in pieces:
        normalizer.update(piece)
    return normalizer


def statistics(normalizer: ObservationNormalizer, i: int) -> tuple[np.ndarray, np.ndarray]:
    mean, squares = normalizer.get_buffer(f"moments{i}").numpy()
    return mean, squares / int(normalizer.count)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_batches_of_any_size_give_the_exact_moments(batch):
    rows = stream(2003)
    normalizer = merged([rows[i : i + batch] for i in range(0, 2003, batch)])
    assert int(normalizer.count) == 2003
    for i, leaf in ((1, rows.speed), (2, rows.goal)):
        for found, exact in zip(statistics(normalizer, i), moments(leaf), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-9)


@given(st.permutations(range(6)), st.lists(st.integers(0, 300), min_size=5, max_size=5))
def test_the_order_of_merging_does_not_matter(order, cuts):
    rows, ends = stream(300), sorted(cuts)
    pieces = [rows[a:b] for a, b in zip([0, *ends], [*ends, 300], strict=True)]
    pieces = [pieces[i] for i in order if len(pieces[i].goal)]
    found, exact = merged(pieces), merged([rows])
    for i in (1, 2):
        for x, y in zip(statistics(found, i), statistics(exact, i), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=0)


def test_rows_of_a_window_count_once_each_in_every_column():
    rows = stream(60)
    window = Seen(*(x.reshape(20, 3, *x.shape[2:]) for x in rows))
    np.testing.assert_allclose(statistics(merged([window]), 1), statistics(merged([rows]), 1))


def test_what_is_read_has_mean_0_and_standard_deviation_1_and_is_clipped():
    rows = stream(5000)
    normalizer = merged([rows])
    read = normalizer(rows)
    assert torch.equal(read.camera, rows.camera) and read.camera.dtype == torch.uint8
    for x in (read.speed, read.goal):
        assert x.mean(0).abs().max() < 0.05 and (x.std(0) - 1).abs().max() < 0.05
    far = rows[:1].replace(goal=torch.full((1, 1), 1e9, dtype=torch.float64))
    assert float(normalizer(far).goal) == normalizer.clip == 10.0
    assert normalizer(rows.replace(speed=rows.speed)[3, 0]).speed.shape == (3,)


class Brightness(ChanceEnv):
    """Observes three numbers from 0 to 255 as float32."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0.0, 255.0, (3,), np.float32)

    def _observation(self) -> np.ndarray:
        return (255 * self.np_random.random(3)).astype(np.float32)


def test_what_is_stored_in_float64_is_told_from_its_mean_where_float32_would_not():
    """Seconds since 1970: float32 has one number for each two minutes."""
    time = torch.from_numpy(np.random.default_rng(0).normal(1.7e9, 1.0, (2000, 1, 3)))
    normalizer = ObservationNormalizer(np.zeros(3, np.float64))
    normalizer.update(time)
    read = normalizer(time).flatten(0, 1)
    torch.testing.assert_close(read.mean(0), read.new_zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(read.std(0), read.new_ones(3), atol=1e-3, rtol=0)


@pytest.mark.parametrize("normalize", [True, False])
def test_what_the_network_scales_itself_is_scaled_once(normalize):
    """B044: 0 .. 255 of another type are divided by 255, by policy and value alike."""
    parts = make(env=Brightness, normalize_observation=normalize)
    raw = collected(parts, 3).inputs()
    read = parts.agent.read(raw).observation
    for trunk in (parts.agent.model.actor, parts.agent.model.critic):
        torch.testing.assert_close(trunk.encoder.part(read), raw.observation / 255)


def test_before_the_first_update_it_is_the_identity():
    rows = stream(5).replace(speed=torch.full((5, 1, 3), 2.5))
    assert torch.equal(ObservationNormalizer(EXAMPLE)(rows).speed, rows.speed)


def test_a_constant_observation_is_read_as_0():
    normalizer = ObservationNormalizer(np.zeros(2, np.float32))
    normalizer.update(torch.full((10, 4, 2), 3.0))
    assert not normalizer(torch.full((2, 2), 3.0)).any()


def test_one_huge_batch_does_not_lose_small_ones():
    """Float32 sums would: statistics are kept in float64."""
    draw = np.random.default_rng(1)
    values = draw.normal(1e6, 1.0, (4000, 1, 1))
    normalizer = ObservationNormalizer(np.zeros(1, np.float64))
    for i in range(0, 4000, 5):
        normalizer.update(torch.from_numpy(values[i : i + 5]))
    np.testing.assert_allclose(statistics(normalizer, 0)[1], values.var(0).ravel(), rtol=1e-9)


def test_statistics_are_saved_with_the_agent_and_restored():
    one, two = (make(normalize_observation=True, seed=s) for s in (0, 1))
    window = collected(one, 3)
    two.agent.load_state_dict(copy.deepcopy(one.agent.state_dict()))
    inputs = window.inputs()
    x, y = (parts.agent.read(inputs).observation for parts in (one, two))
    assert torch.equal(x, y) and not torch.equal(x, inputs.observation)
    for parts in (one, two):
        parts.agent.normalizer.update(inputs.observation)
    x, y = (parts.agent.read(inputs).observation for parts in (one, two))
    assert torch.equal(x, y)


def test_rows_of_windows_are_merged_once_each_after_their_update():
    """Over a stream of windows: the boundary row is the next window's row 0."""
    parts = make(normalize_observation=True)
    parts.sampler.reset()
    seen = []
    for w in range(4):
        window = parts.sampler.collect()
        seen.append(window.rows.observation[:-1].copy())
        before = parts.agent.normalizer.mean0.clone()
        parts.algorithm.update(window, 64 * w)
        assert not torch.equal(before, parts.agent.normalizer.mean0)
    rows = np.concatenate(seen).reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(statistics(parts.agent.normalizer, 0), (rows.mean(0), rows.var(0)))


@pytest.mark.parametrize("given_up", [True, False])
def test_rows_of_environments_that_were_given_up_are_no_part_of_statistics(given_up):
    """R5: they are zeros, first and last at once, for ever; without the latter they would count."""
    parts = make(normalize_observation=True)
    parts.sampler.reset()
    window = parts.sampler.collect()
    rows = window.rows[:, 1:2]
    rows.observation[3:], rows.first[3:] = 0, True
    rows.truncated[3:], rows.terminated[3:] = given_up, False
    seen = window.rows.observation[:-1]
    kept = np.ones(seen.shape[:2], np.bool_)
    kept[3:, 1] = not given_up
    observe(parts.agent, window)
    found = parts.agent.normalizer
    assert int(found.count) == kept.sum()
    np.testing.assert_allclose(statistics(found, 0)[0], seen[kept].astype(float).mean(0))


def test_rows_of_which_none_counts_change_nothing():
    normalizer = ObservationNormalizer(np.zeros(2, np.float32))
    normalizer.update(torch.ones(3, 2, 2), torch.zeros(3, 2, dtype=torch.bool))
    assert int(normalizer.count) == 0
    assert torch.equal(normalizer(torch.ones(2)), torch.ones(2))


def test_evaluation_reads_by_the_training_statistics_and_leaves_them():
    """B191; and the reported return is raw, as CountEnv's lengths show."""
    parts = make(
        env=lambda: CountEnv(7, "trunc"),
        normalize_observation=True,
        normalize_reward=True,
        loop={"eval_episodes": 5},
    )
    collected(parts, 3)
    before = {k: v.clone() for k, v in parts.agent.state_dict().items()}
    scale = parts.algorithm.reader.outcomes.reward_scale
    kept = copy.deepcopy(scale.state_dict())
    read = []
    normalizer = parts.agent.normalizer
    forward = normalizer.forward
    normalizer.forward = lambda x: read.append(forward(x)) or read[-1]
    evaluation = parts.evaluator.evaluate()
    assert evaluation.returns.tolist() == [7.0] * 5
    assert read and all(float(x.abs().max()) < 5 for x in read)
    for name, value in parts.agent.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(torch.equal(v, kept[k]) for k, v in scale.state_dict().items())
    parts.close()


def returns_of(reward: np.ndarray, first: np.ndarray, gamma: float) -> np.ndarray:
    """The running returns of arrivals [T, B] that are not first, each by its sum."""
    found = []
    for b in range(reward.shape[1]):
        for t in range(len(reward)):
            if first[t, b]:
                continue
            begin = max([i for i in range(t + 1) if first[i, b]], default=-1) + 1
            found.append(sum(gamma ** (t - i) * reward[i, b] for i in range(begin, t + 1)))
    return np.array(found)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_reward_scale_is_the_deviation_of_the_discounted_return(batch):
    draw = np.random.default_rng(2)
    first = draw.random((60, 3)) < 0.1
    reward = np.where(first, 0.0, draw.normal(3.0, 2.0, (60, 3))).astype(np.float32)
    scale = RewardScale(3, 0.9)
    for i in range(0, 60, batch):
        scale.update(reward[i : i + batch], first[i : i + batch])
    exact = returns_of(reward.astype(np.float64), first, 0.9)
    count, mean, squares = scale.moments.tolist()
    assert count == len(exact)
    np.testing.assert_allclose((mean, squares / count), (exact.mean(), exact.var()), rtol=1e-9)
    x = torch.tensor([[1.0, -2.0], [1e9, 0.0]])
    expected = (x / (exact.var() + 1e-8) ** 0.5).clamp(-10, 10)
    torch.testing.assert_close(scale(x), expected)


def test_a_reward_scale_goes_on_where_it_was_saved():
    draw = np.random.default_rng(3)
    reward, first = draw.normal(size=(40, 2)).astype(np.float32), draw.random((40, 2)) < 0.1
    whole, part = RewardScale(2, 0.99), RewardScale(2, 0.99)
    whole.update(reward, first)
    part.update(reward[:25], first[:25])
    resumed = RewardScale(2, 0.99)
    resumed.load_state_dict(copy.deepcopy(part.state_dict()))
    resumed.update(reward[25:], first[25:])
    torch.testing.assert_close(resumed.moments, whole.moments, rtol=1e-12, atol=0)
    assert torch.equal(resumed.carry, whole.carry)


def test_without_any_reward_to_go_by_rewards_stay():
    scale = RewardScale(2, 0.99)
    scale.update(np.zeros((3, 2), np.float32), np.ones((3, 2), bool))
    x = torch.tensor([5.0, -7.0])
    assert torch.equal(scale(x), x)


def test_the_scale_of_a_run_is_that_of_its_stream():
    """Through windows: rows 1 .. T of each are the arrivals, and no reward counts twice."""
    parts = make("a2c", ChanceEnv, normalize_reward=True, horizon=7, num_envs=3)
    parts.sampler.reset()
    rewards, firsts = [], []
    for w in range(5):
        rows = parts.sampler.collect().rows
        rewards.append(rows.reward[1:].copy())
        firsts.append(rows.first[1:].copy())
        parts.algorithm.update(parts.sampler.window, 21 * w)
    exact = returns_of(np.concatenate(rewards).astype(np.float64), np.concatenate(firsts), 0.99)
    count, mean, squares = parts.algorithm.reader.outcomes.reward_scale.moments.tolist()
    assert count == len(exact)
    np.testing.assert_allclose((mean, squares / count), (exact.mean(), exact.var()), rtol=1e-9)
