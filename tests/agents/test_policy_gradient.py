"""The agent: what it keeps, resets, masks; whose network it runs and with which weights."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from small_parts import MODELS, ChanceEnv, chunks_of, collected, make, parameters
from torch import Tensor, nn
from toys import CountEnv, MaskEnv, MemoryEnv

from rlpyt.arrays import tree_leaves, tree_map
from rlpyt.distributions import for_action
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.options import ActorCriticOptions
from rlpyt.rows import Inputs


@pytest.mark.parametrize("name", MODELS)
def test_zero_weights_show_in_the_next_window(name):
    """B085: the policy that samples is the one that learned, in whatever way it was changed."""
    box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    parts = make(env=lambda: ChanceEnv(box), model={**MODELS[name], "log_std_init": -20.0})
    window = collected(parts, 2)
    assert np.abs(window.rows.action[:-1]).max() > 1e-4
    parts.algorithm.learner.parameters.vector.zero_()
    for p in parts.agent.model.parameters():
        assert not p.any()
    with torch.no_grad():
        parts.agent.model.policy_head.log_std.fill_(-20.0)
    window = parts.sampler.collect()
    assert np.abs(window.rows.action[:-1]).max() < 1e-7
    sample, _ = chunks_of(parts, window)
    assert not sample.value.any()


@pytest.mark.parametrize("name", ["feed-forward", "lstm"])
def test_loaded_weights_act_and_are_learned_on_from(name):
    """B227: values and policy take them, and the optimizer steps the same tensors."""
    one, two = make(model=MODELS[name]), make(model=MODELS[name], seed=1)
    two.agent.load_state_dict(one.agent.state_dict())
    two.algorithm.learner.parameters.assert_intact()
    window = collected(one)
    for x, y in zip(chunks_of(one, window), chunks_of(two, window), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tree_leaves(x), tree_leaves(y), strict=True))
    before = parameters(two)
    two.algorithm.update(window, 0)
    assert all(not torch.equal(p, before[k]) for k, p in parameters(two).items())
    vector = two.algorithm.learner.parameters.vector.clone()
    two.agent.load_state_dict({k: torch.zeros_like(v) for k, v in two.agent.state_dict().items()})
    assert vector.any() and not two.algorithm.learner.parameters.vector.any()


def test_acting_keeps_what_costs_nothing_and_nothing_else():
    shared, separate = make(model={"share_trunk": True}), make()
    assert shared.agent.example_kept()._fields == ("log_prob", "value")
    assert separate.agent.example_kept() == ()
    noise = torch.rand(4, 1)
    for parts, keeps in ((shared, True), (separate, False)):
        row = collected(parts).inputs()[3]
        _, kept, _ = parts.agent.act(row, (), noise)
        assert bool(kept) == keeps
        _, kept, _ = parts.agent.act(row, (), None)  # the likeliest action: nobody learns from it
        assert kept == ()


def test_what_acting_kept_is_of_the_action_that_it_took():
    parts = make(model={"share_trunk": True})
    window = collected(parts, 2)
    inputs, action = window.inputs()[:-1], window.tensors.action[:-1]
    assessed, _ = parts.agent.assess(inputs, (), action)
    kept = window.tensors.info[:-1]
    torch.testing.assert_close(kept.log_prob, assessed.log_prob.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(kept.value, assessed.value.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("action", [None, gymnasium.spaces.Box(-1.0, 1.0, (2,))])
@pytest.mark.parametrize("algo", ["impala", "appo"])
@pytest.mark.parametrize("name", MODELS)
def test_where_the_learner_may_be_ahead_acting_keeps_its_log_probabilities(name, algo, action):
    """Of the actions that were taken, whatever trunks and memories; of weights that moved, too."""
    parts = make(algo, lambda: ChanceEnv(action), model=MODELS[name], lr=0.05)
    assert parts.agent.example_kept()._fields == ("log_prob",)
    window = collected(parts, 2)
    inputs = parts.agent.read(window.inputs())[:-1]
    first = tree_map(lambda x: x[0], window.states)
    with torch.no_grad():
        assessed, _ = parts.agent.assess(inputs, first, window.tensors.action[:-1])
    kept = window.tensors.info[:-1].log_prob
    torch.testing.assert_close(kept, assessed.log_prob, rtol=1e-5, atol=1e-5)
    before = kept.clone()
    parts.algorithm.update(window, 64)
    with torch.no_grad():
        now, _ = parts.agent.assess(inputs, first, window.tensors.action[:-1])
    assert torch.equal(kept, before)  # the control: what would be recomputed is another's
    assert (now.log_prob - kept).abs().max() > 1e-3
    _, nothing, _ = parts.agent.act(window.inputs()[3], window.state, None)  # nobody learns from it
    assert nothing == ()


@pytest.mark.parametrize("name", ["lstm", "gru", "lstm-shared", "gru-shared"])
def test_the_state_fed_to_a_first_row_is_the_initial_one(name):
    """B136: an agent whose state was spoilt acts as a new one, exactly where an episode begins."""
    parts = make(model=MODELS[name])
    agent, row = parts.agent, collected(parts, 2).inputs()[5]
    first = torch.tensor([True, False, True, False])
    row = row.replace(first=first)
    noise = torch.rand(4, 1)
    fresh = agent.model.initial_state(4)
    spoilt = tree_map(lambda x: torch.randn_like(x), fresh)
    everywhere = row.replace(first=torch.ones_like(first))
    _, _, expected = agent.act(everywhere, fresh, noise)
    _, _, found = agent.act(row, spoilt, noise)
    acted = (lambda state: state) if "shared" in name else (lambda state: state[0])
    for x, y in zip(tree_leaves(acted(found)), tree_leaves(acted(expected)), strict=True):
        assert torch.equal(x[first], y[first])
        assert not torch.isclose(x[~first], y[~first]).all(1).any()


def test_in_evaluation_the_state_of_the_column_that_ended_is_reset_and_no_other():
    """B137: columns that end at different times, against each column played alone."""
    lengths = (3, 5, 4)

    def factory(rank: int = 0) -> CountEnv:
        return CountEnv(lengths[rank % 3], column=rank % 3)

    parts = make(env=factory, num_envs=3, model=MODELS["lstm"], loop={"eval_episodes": 3})
    sampler = parts.evaluator.sampler
    sampler.reset()
    window = sampler.collect()
    inputs = window.inputs()
    for b in range(3):
        state = parts.agent.model.initial_state(1)
        for t in range(window.horizon):
            one = tree_map(lambda x, t=t, b=b: x[t, b : b + 1], inputs)
            if one.first:
                state = parts.agent.model.initial_state(1)
            _, _, state = parts.agent.act(one, state, None)
        actor, expected = tree_leaves(window.state[0]), tree_leaves(state[0])
        for x, y in zip(actor, expected, strict=True):
            torch.testing.assert_close(x[b : b + 1], y, rtol=1e-5, atol=1e-6)
    found = parts.evaluator.evaluate()
    assert found.lengths.tolist() == list(lengths)
    parts.close()


@pytest.mark.parametrize("algo", ["ppo", "a2c", "appo"])
@pytest.mark.parametrize("name", ["feed-forward", "feed-forward-shared", "gru"])
@pytest.mark.parametrize("where", ["observation", "info"])
def test_masked_actions_are_never_taken_and_never_learned_towards(where, name, algo):
    """MaskEnv raises on an invalid one; their probability is 0 in the loss as it was in acting."""
    parts = make(
        algo,
        lambda: MaskEnv(5, where),
        model=MODELS[name],
        entropy_coef=0.1,
        loop={"eval_episodes": 3},
    )
    window = collected(parts, 4)
    sample, states = chunks_of(parts, window)
    assert not sample.inputs.mask.all() and sample.inputs.mask.any(-1).all()
    now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    p = now.parameters.softmax(-1)
    assert not p[~sample.inputs.mask].any()
    live = sample.live
    torch.testing.assert_close(now.log_prob[live], sample.log_prob[live], rtol=1e-5, atol=1e-5)
    alone = sample.inputs.mask.sum(-1) == 1  # one action: no choice, hence no entropy
    assert alone.any() and not now.entropy[alone].any() and not now.log_prob[alone].any()
    assert now.entropy.max() > 0.1
    metrics = parts.algorithm.update(window, 0)
    assert all(value.isfinite() for value in metrics.values())
    parts.evaluator.evaluate()  # greedy actions are valid, too
    parts.close()


def test_the_entropy_bonus_flattens_the_policy():
    spread = []
    for coefficient in (0.0, 20.0):
        parts = make("a2c", entropy_coef=coefficient, lr=0.05, optimizer="adam", value_coef=0.0)
        collected(parts, 15)
        sample, states = chunks_of(parts, parts.sampler.window)
        now, _ = parts.agent.assess(sample.inputs, states, sample.action)
        spread.append(float(now.entropy.detach().mean()))
    assert spread[1] > 0.99 * np.log(3) > spread[0] + 0.1


@pytest.mark.parametrize("name", MODELS)
def test_bf16_runs_and_stays_close_to_float32(name):
    """Acting, assessing and a window's update; what leaves the network is float32."""
    results = []
    for precision in ("float32", "bf16"):
        parts = make(model=MODELS[name], loop={"precision": precision}, lr=1e-3)
        window = collected(parts)
        sample, states = chunks_of(parts, window)
        assert all(x.dtype == torch.float32 for x in tree_leaves((states, window.state)))
        assert sample.log_prob.dtype == sample.value.dtype == torch.float32
        parts.algorithm.update(window, 0)
        results.append((sample.value, torch.cat([p.flatten() for p in parameters(parts).values()])))
    (value, weights), (rough, nearly) = results
    assert not torch.equal(value, rough)
    assert (weights - nearly).abs().max() < 0.01
    first = value[0, :4] - rough[0, :4]  # before any action could differ
    assert first.abs().max() < 0.02


def small_encoder() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU())


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
@pytest.mark.parametrize("options", [{}, {"share_trunk": False}, {"memory": "lstm"}])
def test_a_module_of_the_users_is_the_encoder(algo, options):
    encoder = small_encoder()

    def network(spec: Any) -> nn.Module:
        model = ActorCriticOptions(memory_size=8, **options)
        return ActorCritic(spec, for_action(spec.action), model, encoder=encoder)

    parts = make(algo, network=network, lr=0.01, loop={"eval_episodes": 2, "eval_max_steps": 50})
    before = [p.detach().clone() for p in encoder.parameters()]
    window = collected(parts, 3)
    assert all(x.isfinite() for x in parts.algorithm.update(window, 0).values())
    assert not any(torch.equal(p, q) for p, q in zip(encoder.parameters(), before, strict=True))
    parts.evaluator.evaluate()
    parts.close()


class Plain(nn.Module):
    """A whole model of the user's: no memory, nothing beyond what the agent asks for."""

    reads = frozenset({"observation"})

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.logits, self.worth = nn.Linear(16, 3), nn.Linear(16, 1)

    def initial_state(self, batch: int) -> Any:
        return ()

    def policy(self, inputs: Inputs, state: Any) -> tuple[Any, Any]:
        return self.logits(self.body(inputs.observation)), state

    def forward(self, inputs: Inputs, state: Any) -> tuple[Any, Tensor, Any]:
        h = self.body(inputs.observation)
        return self.logits(h), self.worth(h).squeeze(-1), state


class Counting(Plain):
    """With a memory of its own: the number of rows of this episode, [B, 1]."""

    reads = frozenset({"observation", "first"})

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())

    def initial_state(self, batch: int) -> Any:
        return {"rows": torch.zeros(batch, 1)}

    def step(self, inputs: Inputs, state: Any) -> tuple[Tensor, Any]:
        rows = torch.where(inputs.first.unsqueeze(-1), 0.0, state["rows"])
        h = self.body(torch.cat([inputs.observation, 0.1 * rows], -1))
        return h, {"rows": rows + 1}

    def policy(self, inputs: Inputs, state: Any) -> tuple[Any, Any]:
        h, state = self.step(inputs, state)
        return self.logits(h), state

    def forward(self, inputs: Inputs, state: Any) -> tuple[Any, Tensor, Any]:
        if inputs.first.dim() == 1:
            h, state = self.step(inputs, state)
        else:
            hs = []
            for t in range(len(inputs.first)):
                h, state = self.step(inputs[t], state)
                hs.append(h)
            h = torch.stack(hs)
        return self.logits(h), self.worth(h).squeeze(-1), state


class Sharing(Counting):
    """The same, said to share its trunk: acting keeps log-probabilities and values."""

    shares_trunk = True


@pytest.mark.parametrize("algo", ["ppo", "a2c", "appo"])
@pytest.mark.parametrize("network", [Plain, Counting, Sharing])
def test_a_module_of_the_users_is_the_whole_model(network: Callable[..., Any], algo):
    """From acting through training and evaluation, with its own kind of state."""
    chunks = {} if network is Plain else {"model": {"memory": "lstm"}, "state_interval": 4}
    parts = make(algo, network=network, loop={"eval_episodes": 2, "eval_max_steps": 50}, **chunks)
    window = collected(parts, 3)
    sample, states = chunks_of(parts, window)
    assert sample.live.shape == ((1, 64) if network is Plain else (4, 16))
    now, _ = parts.agent.assess(sample.inputs, states, sample.action)
    live = sample.live
    torch.testing.assert_close(now.log_prob[live], sample.log_prob[live], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(now.value[live], sample.value[live], rtol=1e-5, atol=1e-6)
    before = parameters(parts)
    assert all(x.isfinite() for x in parts.algorithm.update(window, 0).values())
    assert not any(torch.equal(p, before[k]) for k, p in parameters(parts).items())
    parts.evaluator.evaluate()
    parts.close()


def test_a_cue_is_kept_by_a_memory_and_lost_without():
    """A minimal proof of recurrence: the value of the last row after two different beginnings."""
    for memory, remembers in (("none", False), ("lstm", True), ("gru", True)):
        torch.manual_seed(0)
        parts = make(env=lambda: MemoryEnv(2, 3), model={"memory": memory, "read_previous": False})
        inputs = collected(parts).inputs()[:4]
        inputs = inputs.replace(
            first=torch.tensor([True, False, False, False])[:, None].expand(4, 4)
        )
        inputs = tree_map(torch.clone, inputs)
        inputs.observation[1:] = torch.tensor([0.0, 0.0, 0.0])
        inputs.observation[0, :2] = torch.tensor([1.0, 0.0, 0.0])
        inputs.observation[0, 2:] = torch.tensor([0.0, 1.0, 0.0])
        value = parts.agent.value(inputs, parts.agent.model.initial_state(4))
        assert (abs(value[-1, 0] - value[-1, 2]) > 1e-4) == remembers


SCRIPT = """
import hashlib
from small_parts import make, parameters
parts = make(model={"memory": "gru"}, seed=0, horizon=8, lr=0.01, update_epochs=1)
def add(*arrays):
    print(hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest())
add(*[p.numpy() for p in parameters(parts).values()])
parts.sampler.reset()
window = parts.sampler.collect()
add(window.rows.observation, window.rows.action, window.rows.reward)
for w in range(10):
    parts.algorithm.update(window, 32 * w)
    window = parts.sampler.collect()
add(*[p.numpy() for p in parameters(parts).values()])
"""


def test_two_processes_with_one_seed_have_the_same_weights_window_and_ten_updates():
    """B196, whatever the hash seed and whatever was drawn before."""
    tests = Path(__file__).parents[1]
    before = {0: "", 1: "import torch, numpy; torch.rand(7); numpy.random.rand(3)\n"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", before[i] + SCRIPT],
            env={"PYTHONPATH": str(tests), "PYTHONHASHSEED": str(i + 1), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in (0, 1)
    ]
    one, two = (process.communicate()[0].split() for process in processes)
    assert len(set(one)) == 3 and one == two
