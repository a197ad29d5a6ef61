"""IMPALA and APPO: what they are where rows are of the present weights, and where they are not."""

from typing import Any

import numpy as np
import pytest
import torch
from small_parts import (
    MODELS,
    chunks_of,
    collected,
    gradient,
    make,
    parameters,
    rows_of,
)
from toy_tasks import TwoStateMDP

from rlpyt.algos.options import ReplayOptions
from rlpyt.algos.trajectories import unroll
from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.rows import Inputs
from rlpyt.run import ALGORITHMS

BOTH = pytest.mark.parametrize("algo", ["impala", "appo"])


def with_chunks(name: str) -> dict[str, Any]:
    return {"state_interval": 4} if "memory" in MODELS[name] else {}


def as_on_policy(algo: str, source: Any, **options: Any) -> Any:
    """Parts of an on-policy algorithm with another's weights, which finds log_probs by itself."""
    parts = make(algo, seed=1, **options)
    parts.agent.load_state_dict(source.agent.state_dict())
    parts.agent.keeps = False
    return parts


def moved(parts: Any, by: float = 0.3) -> Any:
    """The same parts once their weights have moved on from those that acted."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        vector = parts.algorithm.learner.parameters.vector
        vector += by * torch.randn(vector.shape, generator=generator)
    return parts


@pytest.mark.parametrize("lam", [1.0, 0.9])
@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_of_rows_by_the_present_weights_impalas_gradient_is_a2cs(name, windows, lam):
    same = {"model": MODELS[name], "entropy_coef": 0.02, "value_coef": 0.4, **with_chunks(name)}
    parts = make("impala", vtrace_lambda=lam, **same)
    window = collected(parts, windows)
    assert window.rows.last[1:-1].any()
    found = gradient(parts, *chunks_of(parts, window))
    a2c = as_on_policy("a2c", parts, gae_lambda=lam, **same)
    expected = gradient(a2c, *chunks_of(a2c, window))
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_of_rows_by_the_present_weights_appos_first_gradient_is_ppos(name, windows, normalize):
    same = {"model": MODELS[name], "normalize_advantage": normalize, "entropy_coef": 0.02}
    same |= with_chunks(name)
    parts = make("appo", vtrace_lambda=0.9, **same)
    window = collected(parts, windows)
    found = gradient(parts, *chunks_of(parts, window))
    ppo = as_on_policy("ppo", parts, gae_lambda=0.9, **same)
    sample, states = chunks_of(ppo, window)
    assert found.abs().max() > 0.01
    torch.testing.assert_close(found, gradient(ppo, sample, states), rtol=1e-3, atol=1e-5)
    # The targets are λ-returns, and the ratio is 1.
    mine, _ = chunks_of(parts, window)
    for field in ("target", "advantage", "log_prob", "value"):
        live = sample.live
        one, two = getattr(mine, field)[live], getattr(sample, field)[live]
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@BOTH
@pytest.mark.parametrize("name", MODELS)
def test_the_control_rows_of_older_weights_have_another_gradient_than_on_policy(name, algo):
    """V-trace and the ratio are at work: as if on-policy, these rows say something else."""
    same = {"model": MODELS[name], "entropy_coef": 0.02, **with_chunks(name)}
    parts = make(algo, **same)
    window = collected(parts)
    moved(parts)
    found = gradient(parts, *chunks_of(parts, window))
    other = {"impala": "a2c", "appo": "ppo"}[algo]
    on_policy = as_on_policy(other, parts, **same)
    assert (found - gradient(on_policy, *chunks_of(on_policy, window))).abs().max() > 0.01


@BOTH
@pytest.mark.parametrize("name", MODELS)
def test_the_ratio_is_to_the_weights_that_acted_however_old(name, algo):
    parts = make(algo, model=MODELS[name], **with_chunks(name))
    window = collected(parts)
    rows, states = parts.algorithm.reader.read(window)
    with torch.no_grad():
        acted, _ = unroll(parts.agent, rows, states)
        moved(parts)
        now, _ = unroll(parts.agent, *parts.algorithm.reader.read(window))
    assert torch.equal(window.tensors.info.log_prob[:-1][rows.live], rows.log_prob[rows.live])
    _, means = parts.algorithm.loss(*chunks_of(parts, window))
    kl = means[parts.algorithm.metrics.index("loss/kl")]
    log_ratio = (now.log_prob - acted.log_prob)[rows.live]
    assert log_ratio.abs().max() > 0.01
    torch.testing.assert_close(kl, (log_ratio.expm1() - log_ratio).mean(), rtol=1e-3, atol=1e-5)
    if algo == "impala":
        rho = means[parts.algorithm.metrics.index("loss/rho")]
        torch.testing.assert_close(rho, log_ratio.exp().clamp(max=1).mean(), rtol=1e-4, atol=1e-5)


@BOTH
@pytest.mark.parametrize("interval", [12, 3])
@pytest.mark.parametrize("name", ["lstm", "gru", "lstm-shared", "gru-shared"])
def test_the_states_that_acting_kept_are_whole(name, interval, algo):
    """The critic's, too: no learner of newer weights could find them."""
    parts = make(algo, model=MODELS[name], horizon=12, state_interval=interval)
    model = parts.agent.model
    parts.sampler.reset()
    state = model.initial_state(4)
    for w in range(3):
        window = parts.sampler.collect()
        kept, values = [], []
        with torch.no_grad():
            inputs = parts.agent.read(window.inputs())
            for t in range(12):
                if t % interval == 0:
                    kept.append(state)
                _, value, state = model(inputs[t : t + 1], state)
                values.append(value)
            values.append(model(inputs[-1:], state)[1])
        for c, expected in enumerate([*kept, state]):
            found = window.kept_state(c) if c < len(kept) else window.state
            for x, y in zip(tree_leaves(found), tree_leaves(expected), strict=True):
                torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
        rows, states = parts.algorithm.reader.read(window)
        with torch.no_grad():
            now, value = unroll(parts.agent, rows, states)
        read = ~window.tensors.terminated  # nothing is bootstrapped from a terminated row
        torch.testing.assert_close(value[read], torch.cat(values)[read], rtol=1e-4, atol=1e-5)
        assert torch.equal(now.value, value[:-1])
        parts.algorithm.update(window, 48 * w)


@BOTH
def test_an_update_writes_nothing_into_its_window(algo):
    """Another process may be writing the next ones from it."""
    parts = make(algo, model=MODELS["lstm"], state_interval=4, normalize_reward=True)
    window = collected(parts, 2)
    before = rows_of(window), tree_map(torch.clone, (window.states, window.state))
    parts.algorithm.update(window, 64)
    after = window.rows, (window.states, window.state)
    for x, y in zip(tree_leaves(before), tree_leaves(after), strict=True):
        assert np.array_equal(np.asarray(x), np.asarray(y))


@BOTH
def test_statistics_of_rewards_are_merged_once_and_before_the_update(algo):
    parts = make(algo, normalize_reward=True, normalize_observation=True)
    window = collected(parts)
    seen = []
    loss = parts.algorithm.loss

    def spy(*args):
        scale = parts.algorithm.reader.outcomes.reward_scale
        seen.append((float(scale.moments[0]), int(parts.agent.normalizer.count)))
        return loss(*args)

    parts.algorithm.loss = spy
    parts.algorithm.update(window, 0)
    assert set(seen) == {(int((~window.rows.first[1:]).sum()), 0)}
    assert int(parts.agent.normalizer.count) == 64


def test_impala_with_adam_or_rmsprop_takes_one_step_a_window():
    for optimizer in ("adam", "rmsprop"):
        parts = make("impala", optimizer=optimizer)
        before = parameters(parts)
        for w in range(3):
            parts.sampler.reset() if w == 0 else None
            parts.algorithm.update(parts.sampler.collect(), 64 * w)
            assert parts.algorithm.learner.updates == w + 1
        assert not any(torch.equal(p, before[name]) for name, p in parameters(parts).items())


def test_appo_recomputes_targets_before_each_epoch_if_told_to():
    """In the second epoch values are present ones; the log-probabilities stay the behaviour's."""
    parts = make("appo", recompute_advantages=True, update_epochs=2, lr=0.05, minibatch_size=64)
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
    for sample, now in samples:
        torch.testing.assert_close(now.value[sample.live], sample.value[sample.live])
    first, second = (sample for sample, _ in samples)
    assert not torch.allclose(first.target.sort().values, second.target.sort().values, atol=1e-3)
    torch.testing.assert_close(first.log_prob.sum(), second.log_prob.sum())


def test_an_appo_row_that_has_gone_far_enough_has_no_gradient_before_the_first_step():
    """The trust region is around whoever acted: of old rows some are outside when they arrive."""
    parts = make("appo", normalize_advantage=False, value_coef=0.0)
    window = collected(parts)
    moved(parts)
    sample, states = chunks_of(parts, window)
    with torch.no_grad():
        now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    ahead = (now.log_prob - sample.log_prob).sign()
    parts.algorithm._clip.fill_(0.0)
    gone = sample.replace(advantage=ahead * sample.advantage.abs())
    assert gradient(parts, gone, states).abs().max() == 0
    back = sample.replace(advantage=-ahead * sample.advantage.abs())
    assert gradient(parts, back, states).abs().max() > 0


@BOTH
def test_rows_of_weights_three_windows_old_teach_what_pays(algo):
    """TwoStateMDP: moving back and forth pays 3 a round, staying nothing or less."""
    options = {"minibatch_size": 64} if algo == "appo" else {"optimizer": "adam"}
    options |= {"entropy_coef": 0.0, "value_coef": 0.5, "lr": 0.02, "gamma": 0.9, "horizon": 32}
    parts, actor = (make(algo, TwoStateMDP, **options) for _ in range(2))
    learner = parts.algorithm
    actor.sampler.reset()
    old = [weights_of(parts)] * 4
    for w in range(60):
        actor.agent.load_state_dict(old.pop(0))
        metrics = learner.update(actor.sampler.collect(), 128 * w)
        old.append(weights_of(parts))
    assert metrics["loss/kl"].isfinite()
    p = parts.agent.model(Inputs(torch.eye(2)), ())[0].softmax(-1)
    assert p[0, 1] > 0.9 and p[1, 0] > 0.9


def weights_of(parts: Any) -> dict[str, Any]:
    return {name: x.clone() for name, x in parts.agent.state_dict().items()}


@pytest.mark.parametrize("corrected", [True, False])
def test_values_learned_from_another_policys_rows_are_the_present_ones(corrected):
    """V-trace's fixed point with a rho-bar that truncates nothing; without ratios it is another."""
    options = {"rho_clip": 10.0, "gamma": 0.8, "horizon": 32, "lr": 0.02, "lr_schedule": "linear"}
    parts = make("impala", TwoStateMDP, optimizer="adam", value_coef=1.0, **options)
    agent, head, whole = parts.agent, parts.agent.model.policy_head.linear, parts.algorithm.loss
    behaviour, present = torch.tensor([0.5, 0.5]), torch.tensor([0.15, 0.85])

    def of_the_present_policy(rows: Any, states: Any) -> Any:
        """As if `present` were what the network says, and `behaviour` what it had said."""
        with torch.no_grad():
            now, _ = unroll(agent, rows, states)
        log_ratio = torch.log(present / behaviour)[rows.action] if corrected else 0.0
        return whole(rows.replace(log_prob=now.log_prob - log_ratio), states)

    parts.algorithm.loss = of_the_present_policy
    parts.sampler.reset()
    for w in range(120):
        with torch.no_grad():  # both actions are acted alike
            head.weight.zero_()
            head.bias.zero_()
        parts.algorithm.update(parts.sampler.collect(), 80 * w)
    with torch.no_grad():
        value = agent.model(Inputs(torch.eye(2)), ())[1].numpy()
    policy = present.double().numpy()
    exact, _ = TwoStateMDP.policy_values(np.stack([policy, policy]), 0.8)
    assert (np.abs(value - exact).max() < 0.15) == corrected


def test_who_can_learn_from_rows_of_older_weights_says_so():
    """The class's own word, not an option of the user's."""
    found = {name: kind.asynchronous_rows for name, kind in ALGORITHMS.items()}
    assert {name for name, rows in found.items() if rows == "window"} == {"impala", "appo"}
    assert {name for name, rows in found.items() if rows is None} == {"ppo", "a2c"}
    replaying = {name for name, kind in ALGORITHMS.items() if issubclass(kind, ReplayOptions)}
    assert {name for name, rows in found.items() if rows == "replay"} == replaying
    assert not any("asynchronous_rows" in vars(kind()) for kind in ALGORITHMS.values())
