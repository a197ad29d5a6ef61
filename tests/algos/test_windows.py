"""From a window to a sample: bootstraps, states of the critic, dead rows, minibatches."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_parts import (
    MODELS,
    ChanceEnv,
    chunks_of,
    collected,
    decay,
    everything,
    gradient,
    make,
    rows_of,
    sample_of,
)
from toy_tasks import TwoStateMDP
from toys import CountEnv

from rlpyt.algos.windows import Sample, fold, shuffled
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.functional import gae
from rlpyt.rows import Inputs


class ValueIsSteps(torch.nn.Module):
    """Values the observation of a CountEnv, 1000 * episode + steps, by 10 + steps."""

    reads = frozenset({"observation"})

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(2))

    def initial_state(self, batch: int) -> Any:
        return ()

    def policy(self, inputs: Inputs, state: Any) -> tuple[Any, Any]:
        return self.logits.expand(*inputs.observation.shape[:-1], 2), ()

    def forward(self, inputs: Inputs, state: Any) -> tuple[Any, Any, Any]:
        value = 10 + inputs.observation[..., 0] % 1000 + 0 * self.logits.sum()
        return self.policy(inputs, state)[0], value, ()


@pytest.mark.parametrize("algo", ["ppo", "a2c", "appo"])
@pytest.mark.parametrize(
    ("end", "bootstrap"), [("trunc", True), ("term", False), ("both", False), ("never", True)]
)
def test_truncation_bootstraps_from_the_final_observation_and_termination_does_not(
    algo, end, bootstrap
):
    """One-step errors of a window of episodes of 3 steps, against values that are known."""
    options = {**decay(algo, 0.0), "gamma": 0.5, "horizon": 10}
    parts = make(algo, lambda: CountEnv(3, end), network=ValueIsSteps, **options)
    window = collected(parts, 2)
    sample = sample_of(parts, window)
    steps = window.rows.observation[:, 0, 0] % 1000
    for t in range(10):
        now, after = steps[t], steps[t + 1]
        if now == 3 and end != "never":  # the final row: no transition
            assert not sample.live[t, 0] and sample.advantage[t, 0] == 0
            continue
        assert sample.live[t, 0] and after == now + 1
        reached = 0.0 if after == 3 and not bootstrap else 10 + after
        assert sample.advantage[t, 0] == pytest.approx(1 + 0.5 * reached - (10 + now))
        assert sample.target[t, 0] == pytest.approx(1 + 0.5 * reached)


@pytest.mark.parametrize("algo", ["a2c", "appo"])
@pytest.mark.parametrize("end", ["trunc", "term"])
def test_nothing_of_the_next_episode_is_in_an_advantage(end, algo):
    """Rewards after the reset times 100: rows of the episode before keep their advantages."""
    parts = make(algo, lambda: CountEnv(3, end), network=ValueIsSteps, horizon=10)
    window = collected(parts)
    plain = sample_of(parts, window).advantage
    later = window.rows.observation[:, :, 0] >= 1000
    window.rows.reward[later] *= 100
    changed = sample_of(parts, window).advantage
    first_episode = torch.from_numpy(~later[:-1])
    assert torch.equal(plain[first_episode], changed[first_episode])
    assert not torch.equal(plain, changed)


def stepped(parts: Any, windows: int) -> Iterator[Any]:
    """By stepping the whole model at every row: kept states, values and final state of a window."""
    model, interval = parts.agent.model, parts.sampler.window.state_interval
    parts.sampler.reset()
    state = model.initial_state(parts.sampler.window.num_envs)
    for _ in range(windows):
        window = parts.sampler.collect()
        inputs = parts.agent.read(window.inputs())
        kept, values = [], []
        with torch.no_grad():
            for t in range(window.horizon):
                if t % interval == 0:
                    kept.append(state)
                _, value, state = model(inputs[t : t + 1], state)
                values.append(value)
            values.append(model(inputs[-1:], state)[1])
        yield kept, torch.cat(values), state, window


@pytest.mark.parametrize("interval", [12, 3])
@pytest.mark.parametrize("name", ["lstm", "gru", "lstm-shared", "gru-shared"])
def test_states_joined_by_the_learner_are_those_of_stepping_every_row(name, interval):
    """Over several windows with endings in them; the critic's are found by the learner alone."""
    parts = make(model=MODELS[name], horizon=12, state_interval=interval)
    for kept, values, state, window in stepped(parts, 4):
        assert window.rows.last[1:-1].any()
        sample = parts.algorithm.reader.sample(window)
        for c, expected in enumerate(kept):
            for x, y in zip(tree_leaves(window.states), tree_leaves(expected), strict=True):
                torch.testing.assert_close(x[c], y, rtol=1e-4, atol=1e-5)
        for x, y in zip(tree_leaves(window.state), tree_leaves(state), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
        live = sample.live
        torch.testing.assert_close(sample.value[live], values[:-1][live], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_boundary_row_is_valued_by_the_weights_that_acted(name):
    """gae over values of stepping every row, the boundary's included, gives the advantages."""
    parts = make(model=MODELS[name], horizon=12, gae_lambda=0.9)
    for _, values, _, window in stepped(parts, 2):
        sample = parts.algorithm.reader.sample(window)
        rows = window.tensors
        discount = 0.99 * ~rows.terminated
        expected = gae(rows.reward, discount, rows.last, values, 0.9)
        torch.testing.assert_close(sample.advantage, expected, rtol=1e-4, atol=1e-4)


def test_kept_and_assessed_samples_are_the_same():
    """A shared trunk's log-probabilities and values of acting, against the learner's pass."""
    parts = make(model={"share_trunk": True})
    window = collected(parts, 2)
    kept = parts.algorithm.reader.sample(window)
    parts.agent.keeps = False
    assessed = parts.algorithm.reader.sample(window)
    for (name, x), (_, y) in zip(kept.items(), assessed.items(), strict=True):
        if name not in ("inputs", "action"):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5, msg=name)


def test_acting_and_learning_of_a_window_read_the_same_statistics():
    """The ratio is 1 with a normalizer too, in the third window."""
    parts = make(normalize_observation=True, model={"share_trunk": True})
    window = collected(parts, 3)
    assert int(parts.agent.normalizer.count) == 2 * 64
    sample, states = chunks_of(parts, window)
    now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    torch.testing.assert_close(
        now.log_prob[sample.live], sample.log_prob[sample.live], rtol=1e-5, atol=1e-6
    )


def poisoned(sample: Sample, bad: float) -> Sample:
    """Every number on a dead row replaced."""
    dead = ~sample.live

    def poison(x):
        if not x.is_floating_point():
            return x
        x = x.clone()
        x[dead] = bad
        return x

    return tree_map(poison, sample)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
@pytest.mark.parametrize("name", ["feed-forward", "lstm", "gru-shared"])
def test_whatever_the_rows_hold_where_an_episode_is_over_trains_nothing(name, algo, bad):
    """Terminal rows' observations, actions, kept values, the rewards of resets."""
    box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    parts = make(algo, lambda: ChanceEnv(box), model=MODELS[name], normalize_advantage=True)
    window = collected(parts, 2)
    rows = window.rows
    rows.truncated[:] = False  # as if time were never out: a value to bootstrap from is needed
    rows.first[1:] = rows.terminated[:-1]
    over = rows.terminated.copy()
    over[-1] = False
    assert over.sum() > 2
    expected = gradient(parts, *chunks_of(parts, window))
    state = tree_map(torch.clone, window.state)
    rows.observation[over] = bad
    rows.action[over] = bad
    rows.reward[rows.first] = bad
    for kept in tree_leaves(rows.info):
        kept[over] = bad
    found = gradient(parts, *chunks_of(parts, window))
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for x, y in zip(tree_leaves(window.state), tree_leaves(state), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("field", ["advantage", "target", "log_prob", "value"])
@pytest.mark.parametrize("algo", ["ppo", "a2c", "appo"])
def test_nan_on_dead_rows_reaches_no_mean(algo, field):
    parts = make(algo)
    sample, states = chunks_of(parts, collected(parts))
    _, expected = parts.algorithm.loss(sample, states)
    bad = poisoned(sample, float("nan"))
    _, found = parts.algorithm.loss(sample.replace(**{field: getattr(bad, field)}), states)
    torch.testing.assert_close(found, expected)


def test_multiplying_by_the_mask_would_not_do():
    """The control: 0 * NaN in a mean, and in the slope behind a where."""
    live = torch.tensor([True, False])
    x = torch.tensor([1.0, float("nan")], requires_grad=True)
    assert (x * live).sum().isnan()
    torch.where(live, x.square(), 0.0).sum().backward()
    assert x.grad[1].isnan()


@given(
    st.integers(1, 6), st.integers(1, 40), st.integers(1, 9), st.integers(0, 100), st.floats(0, 1)
)
def test_minibatches_take_every_chunk_once_with_equal_shares_of_live_rows(L, N, M, seed, share):
    generator = torch.Generator().manual_seed(seed)
    live = torch.rand(L, N, generator=generator) < share
    order = shuffled(live, generator)
    assert order.sort().values.tolist() == list(range(N))
    minibatches = [order[j::M] for j in range(M)]
    counts = [int(live[:, index].sum()) for index in minibatches]
    sizes = [len(index) for index in minibatches]
    assert max(counts) - min(counts) <= L and max(sizes) - min(sizes) <= 1
    again = shuffled(live, torch.Generator().manual_seed(seed + 1))
    assert N < 12 or not live.all() or not torch.equal(order, again)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_folding_cuts_every_column_into_its_chunks(chunks, length, columns):
    T = chunks * length
    names = torch.arange(T * columns).view(T, columns)  # of row t and column b
    fields = dict.fromkeys(Sample._fields, names)
    folded = fold(Sample(**fields), length)
    for c in range(chunks):
        for b in range(columns):
            expected = names[c * length : (c + 1) * length, b]
            assert torch.equal(folded.live[:, c * columns + b], expected)


def test_an_update_reads_its_window_and_writes_states_alone():
    parts = make("ppo", model=MODELS["lstm"], state_interval=4, normalize_reward=True)
    window = collected(parts, 2)
    before = rows_of(window)
    parts.algorithm.update(window, 64)
    for x, y in zip(tree_leaves(before), tree_leaves(window.rows), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
def test_updates_raise_the_probability_of_what_pays(algo):
    """TwoStateMDP: moving back and forth pays 3 a round, staying nothing or less."""
    epochs = algo in ("ppo", "appo")
    of_algo = {"minibatch_size": 64} if epochs else {"optimizer": "adam", "lr": 0.05}
    of_algo |= {"entropy_coef": 0.0, "value_coef": 0.5}
    options = {"lr": 0.02, "gamma": 0.9, "horizon": 32, "num_envs": 4}
    parts = make(algo, TwoStateMDP, **{**options, **of_algo})
    parts.sampler.reset()
    for w in range(30):
        window = parts.sampler.collect()
        parts.algorithm.update(window, 128 * w)
    states = torch.eye(2)
    logits, value, _ = parts.agent.model(Inputs(states), ())
    p = logits.softmax(-1)
    assert p[0, 1] > 0.9 and p[1, 0] > 0.9
    policy = p.detach().double().numpy()
    exact, _ = TwoStateMDP.policy_values(policy, 0.9)
    assert np.abs(value.detach().numpy() - exact).max() < 0.15 * np.abs(exact).max()


def test_parts_of_another_window_are_another_sample():
    """Options are frozen: a reader's behaviour is what it was made with."""
    parts = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        parts.algorithm.options.gamma = 0.5
    before = everything(parts)
    parts.algorithm.reader.sample(collected(parts))
    assert all(torch.equal(x, y) for x, y in zip(before, everything(parts), strict=True))
