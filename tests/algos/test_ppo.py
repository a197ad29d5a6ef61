"""PPO: identities of the first minibatch, limits of its options, what its epochs may change."""

import copy
import dataclasses
from itertools import pairwise

import pytest
import torch
from small_parts import (
    MODELS,
    chunks_of,
    collected,
    everything,
    gradient,
    make,
    parameters,
)

from rlpyt.arrays import tree_leaves, tree_map

FLOAT = 3e-6  # what float32 leaves of a log-probability computed in two ways


def with_chunks(name: str) -> dict:
    return {"state_interval": 4} if "memory" in MODELS[name] else {}


def decided(parts):
    """The same parts with a policy that is far from uniform, so that what it reads shows."""
    head = parts.agent.model.policy_head.linear
    with torch.no_grad():
        head.weight.mul_(200.0)
    return parts


@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("interval", [16, 4])
@pytest.mark.parametrize("name", MODELS)
def test_at_the_first_minibatch_the_ratio_is_1(name, interval, windows):
    """With endings inside the window, chunks shorter than it, and states carried into it."""
    chunked = {"state_interval": interval} if "memory" in MODELS[name] else {}
    parts = decided(make(model=MODELS[name], **chunked))
    window = collected(parts, windows)
    assert parts.agent.keeps == ("shared" in name)
    parts.algorithm._clip.fill_(0.2)
    assert window.rows.last[1:-1].any()
    sample, states = chunks_of(parts, window)
    with torch.no_grad():
        now, _ = parts.agent.assess(sample.inputs, states, sample.action)
        _, means = parts.algorithm.loss(sample, states)
    live = sample.live
    assert (now.log_prob - sample.log_prob)[live].abs().max() < FLOAT
    torch.testing.assert_close(now.value[live], sample.value[live], rtol=1e-5, atol=1e-5)
    found = dict(zip(parts.algorithm.metrics, means.tolist(), strict=True))
    assert found["loss/clip_fraction"] == 0 and abs(found["loss/kl"]) < 1e-9


def test_a_state_that_is_not_reset_shows_in_the_ratio():
    """The control: without `first` inside a window the ratio is not 1."""
    parts = decided(make(model=MODELS["lstm"]))
    sample, states = chunks_of(parts, collected(parts, 2))
    blind = sample.inputs.replace(first=torch.zeros_like(sample.inputs.first))
    now, _ = parts.agent.assess(blind, states, sample.action)
    assert (now.log_prob - sample.log_prob)[sample.live].abs().max() > 1000 * FLOAT


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_first_gradient_is_that_of_a2c(name, normalize):
    same = {"gae_lambda": 0.9, "normalize_advantage": normalize, "entropy_coef": 0.02}
    gradients = []
    for algo in ("ppo", "a2c"):
        parts = make(algo, model=MODELS[name], **same, **with_chunks(name))
        gradients.append(gradient(parts, *chunks_of(parts, collected(parts))))
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


def off_policy(parts):
    """A sample under a policy that is not the present one."""
    sample, states = chunks_of(parts, collected(parts))
    noise = torch.randn(sample.log_prob.shape, generator=torch.Generator().manual_seed(1))
    return sample.replace(log_prob=sample.log_prob + noise), states


def test_an_infinite_clip_is_none():
    parts = make(clip_coef=float("inf"))
    sample, states = off_policy(parts)
    parts.algorithm._clip.fill_(float("inf"))
    now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    live = sample.live
    a = sample.advantage[live]
    a = (a - a.mean()) / a.std(correction=0)
    plain = -((now.log_prob - sample.log_prob)[live].exp() * a).mean()
    _, means = parts.algorithm.loss(sample, states)
    torch.testing.assert_close(means[0], plain.detach())
    assert means[4] == 0
    parts.algorithm._clip.fill_(0.2)
    _, clipped = parts.algorithm.loss(sample, states)
    assert clipped[0] > means[0] and clipped[4] > 0.3


def test_a_clip_of_nothing_stops_rows_that_have_moved_far_enough():
    """With clip 0 a row whose ratio left 1 in its advantage's direction has no gradient."""
    parts = make(normalize_advantage=False, value_coef=0.0)
    sample, states = off_policy(parts)
    parts.algorithm._clip.fill_(0.0)
    now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    ahead = (now.log_prob.detach() - sample.log_prob).sign()
    gone = sample.replace(advantage=ahead * sample.advantage.abs())
    assert gradient(parts, gone, states).abs().max() == 0
    back = sample.replace(advantage=-ahead * sample.advantage.abs())
    assert gradient(parts, back, states).abs().max() > 0


def test_the_value_of_a_clipped_value_loss_gains_nothing_by_moving_further():
    parts = make(clip_value=0.01, value_coef=1.0)
    sample, states = chunks_of(parts, collected(parts))
    far = sample.replace(value=sample.value - 1.0, target=sample.value + 1.0)
    _, means = parts.algorithm.loss(far, states)
    live = sample.live
    clipped = (far.value + 0.01 - far.target)[live].square().mean()
    torch.testing.assert_close(means[1], clipped)


@pytest.mark.parametrize("epochs", [1, 3])
def test_target_kl_ends_the_epochs_of_a_window(epochs):
    parts = make(lr=0.05, update_epochs=8, target_kl=1e-9 if epochs == 1 else 0.0)
    window = collected(parts)
    if epochs == 3:  # just below what the third epoch reaches
        trial = make(lr=0.05, update_epochs=8)
        kl = epoch_kl(trial, collected(trial))
        assert kl[0] < kl[1] < kl[2]
        options = dataclasses.replace(parts.algorithm.options, target_kl=(kl[1] + kl[2]) / 2)
        parts.algorithm.options = options
    parts.algorithm.update(window, 0)
    assert parts.algorithm.learner.updates == 2 * epochs  # of 2 minibatches


def epoch_kl(parts, window) -> list[float]:
    """Mean loss/kl of every epoch of 2 minibatches."""
    seen = []
    step = parts.algorithm.learner.step

    def record(*args, **given):
        seen.append(step(*args, **given))
        return seen[-1]

    parts.algorithm.learner.step = record
    parts.algorithm.update(window, 0)
    kl = [float(metrics[4]) for metrics in seen]
    return [(a + b) / 2 for a, b in zip(kl[::2], kl[1::2], strict=True)]


@pytest.mark.parametrize("name", MODELS)
def test_recomputing_changes_values_and_advantages_alone(name):
    parts = make(model=MODELS[name], **with_chunks(name))
    window = collected(parts, 2)
    reader = parts.algorithm.reader
    sample = reader.sample(window)
    kept = tree_map(torch.clone, (window.states, window.state))
    same = reader.renew(sample, window)
    for field in sample._fields:
        for x, y in zip(*(tree_leaves(getattr(s, field)) for s in (sample, same)), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        for p in parts.agent.model.parameters():
            p.add_(0.1)
    renewed = reader.renew(sample, window)
    changed = {f for f in sample._fields if getattr(sample, f) is not getattr(renewed, f)}
    assert changed <= {"value", "advantage", "target", "inputs", "action", "log_prob"}
    for field in ("inputs", "action", "log_prob", "live"):
        pairs = zip(*(tree_leaves(getattr(s, field)) for s in (sample, renewed)), strict=True)
        assert all(torch.equal(x, y) for x, y in pairs), field
    assert not torch.allclose(sample.value, renewed.value, atol=1e-3)
    assert not torch.allclose(sample.advantage, renewed.advantage, atol=1e-3)
    # The states are those that were fed under the weights that acted, whatever is recomputed.
    pairs = zip(tree_leaves(kept), tree_leaves((window.states, window.state)), strict=True)
    assert all(torch.equal(x, y) for x, y in pairs)


def test_recomputed_advantages_are_those_of_the_present_weights():
    """The second epoch reads what a new look at the window under new weights would."""
    parts = make(recompute_advantages=True, update_epochs=2, lr=0.05, minibatch_size=64)
    window = collected(parts)
    samples = []
    loss = parts.algorithm.loss

    def spy(sample, state):
        with torch.no_grad():
            now, _ = parts.agent.assess(sample.inputs, state, sample.action)
        samples.append((sample, now))
        return loss(sample, state)

    parts.algorithm.loss = spy
    parts.algorithm.update(window, 0)
    for sample, now in samples:  # at both the value is the present one
        torch.testing.assert_close(now.value[sample.live], sample.value[sample.live])
    first, second = (sample for sample, _ in samples)
    assert not torch.allclose(first.value.sort().values, second.value.sort().values, atol=1e-3)
    old = [(s.log_prob.sum(), s.live.sum()) for s in (first, second)]
    torch.testing.assert_close(old[0], old[1])


@pytest.mark.parametrize("name", MODELS)
def test_each_epoch_trains_every_row_once(name):
    parts = make(model=MODELS[name], horizon=12, minibatch_size=11, **with_chunks(name))
    window = collected(parts)
    seen = []
    parts.algorithm.learner.step = lambda loss, lr, part, state, **_: (
        seen.append((part, state)) or torch.zeros(6)
    )
    named = parts.algorithm.reader.sample(window)
    named = named.replace(value=torch.arange(48.0).view(12, 4))  # a name for every row
    parts.algorithm.reader.sample = lambda _: named
    parts.algorithm.update(window, 0)
    sample, states = chunks_of(parts, window)
    length = 4 if "memory" in MODELS[name] else 1
    assert sample.live.shape == (length, 48 // length)
    minibatches = 4  # 48 rows // 11
    assert len(seen) == 4 * minibatches
    keys = sample.value[0].tolist()  # of the chunks' first rows, [N]
    for epoch in range(4):
        parts_of = [part for part, _ in seen[epoch * minibatches :][:minibatches]]
        found = torch.cat([part.value.flatten() for part in parts_of])
        assert found.sort().values.tolist() == list(range(48))
        sizes = [part.live.shape[1] for part in parts_of]
        live = [int(part.live.sum()) for part in parts_of]
        assert max(sizes) - min(sizes) <= 1 and max(live) - min(live) <= length
    for part, state in seen:  # each chunk comes with its own state
        for i, key in enumerate(part.value[0].tolist()):
            pairs = zip(tree_leaves(state), tree_leaves(states), strict=True)
            assert all(torch.equal(x[i], y[keys.index(key)]) for x, y in pairs)
    orders = [[p.value[0].tolist() for p, _ in seen[e * 4 :][:4]] for e in (0, 1)]
    assert orders[0] != orders[1]


def test_the_clip_coefficient_falls_to_0_at_the_end_of_the_run():
    parts = make(clip_schedule="linear", lr_schedule="linear", clip_coef=0.3, lr=1e-3)
    window = collected(parts)
    rates = []
    step = parts.algorithm.learner.step
    parts.algorithm.learner.step = lambda loss, lr, *rest, **_: (
        rates.append(lr) or step(loss, lr, *rest)
    )
    for env_steps, share in ((0, 1.0), (2500, 0.75), (9999, 1e-4), (10_000, 0.0), (12_000, 0.0)):
        metrics = parts.algorithm.update(window, env_steps)
        assert float(parts.algorithm._clip) == pytest.approx(0.3 * share)
        assert float(metrics["loss/lr"]) == pytest.approx(1e-3 * share)
        assert rates[-1] == pytest.approx(1e-3 * share)
    assert rates[-1] == 0


def test_at_a_learning_rate_of_0_nothing_moves():
    parts = make(lr_schedule="linear")
    window = collected(parts)
    before = parameters(parts)
    parts.algorithm.update(window, 10_000)
    assert all(torch.equal(p, before[name]) for name, p in parameters(parts).items())


def test_the_same_generator_gives_the_same_update_and_another_another():
    results = []
    for shift in (0, 0, 1):
        parts = make(update_epochs=2)
        window = collected(parts)
        if shift:
            parts.algorithm.generator.manual_seed(7)
        parts.algorithm.update(window, 0)
        results.append(torch.cat([x.flatten().double() for x in everything(parts)]))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_a_saved_algorithm_goes_on_as_if_it_had_not_been():
    options = {"normalize_reward": True, "normalize_observation": True, "lr": 0.01}
    one, two = make(**options), make(seed=5, **options)
    window = collected(one, 2)
    state = copy.deepcopy(one.algorithm.state())
    two.agent.load_state_dict(one.agent.state_dict())
    two.algorithm.load(state)
    for parts in (one, two):
        parts.algorithm.update(window, 64)
    for x, y in zip(everything(one), everything(two), strict=True):
        assert torch.equal(x, y)


def test_metrics_are_those_of_the_page_and_of_the_window():
    parts = make(update_epochs=1, minibatch_size=64, entropy_coef=0.1)
    window = collected(parts)
    sample, states = chunks_of(parts, window)
    now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    metrics = parts.algorithm.update(window, 0)
    live = sample.live
    assert set(metrics) == {
        *("loss/policy", "loss/value", "loss/entropy", "loss/kl", "loss/clip_fraction"),
        *("loss/gradient_norm", "loss/explained_variance", "loss/lr"),
    }
    assert all(value.shape == () and value.isfinite() for value in metrics.values())
    error = (sample.target - sample.value)[live]
    torch.testing.assert_close(metrics["loss/value"], error.square().mean(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(metrics["loss/entropy"], now.entropy.detach()[live].mean())
    explained = 1 - error.var(correction=0) / sample.target[live].var(correction=0)
    torch.testing.assert_close(metrics["loss/explained_variance"], explained)


def test_the_gradient_norm_is_logged_before_clipping_and_clipped_by_norm():
    norms, moved = [], []
    for limit in (1e-3, 1e9, 0.0):
        parts = make("a2c", max_grad_norm=limit)
        window = collected(parts)
        norms.append(float(parts.algorithm.update(window, 0)["loss/gradient_norm"]))
        moved.append(float(parts.algorithm.learner.parameters.gradient.norm()))
    assert norms[0] == norms[1] == norms[2] > 0.01
    assert moved[0] == pytest.approx(1e-3, rel=1e-3) and moved[1] == moved[2] == norms[0]


def test_compiled_gives_what_eager_gives_and_is_traced_once(graphs):
    """A graph that differs, or a second one, would show."""
    options = {"lr": 0.01, "clip_schedule": "linear", "lr_schedule": "linear"}
    results = {}
    for mode in ("off", "on"):
        parts = make(loop={"compile": mode}, **options)
        window = collected(parts, 2)
        traced = len(graphs)
        parts.algorithm.update(window, 64)
        parts.algorithm.update(parts.sampler.collect(), 128)
        results[mode] = parameters(parts)
    assert traced > 0 and len(graphs) == traced
    for name, p in results["off"].items():
        torch.testing.assert_close(results["on"][name], p, rtol=1e-5, atol=1e-6, msg=name)


def test_steps_follow_one_another():
    """Updates are counted over windows."""
    parts = make()
    counts = []
    parts.sampler.reset()
    for w in range(3):
        parts.algorithm.update(parts.sampler.collect(), 64 * w)
        counts.append(parts.algorithm.learner.updates)
    assert [b - a for a, b in pairwise([0, *counts])] == [8, 8, 8]
