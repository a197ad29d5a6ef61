"""Losses of sequences of Q-value policy gradients against a loop over rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_q_value import (
    FEW,
    chance_window,
    drawn,
    gradients,
    learner,
    small_agent,
)

from rlpyt.algos.options import (
    D4PGOptions,
    DDPGOptions,
    QValueOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.arrays import tree_leaves, tree_map

GAMMA = 0.9
KINDS: dict[str, type[QValueOptions]] = {
    "ddpg": DDPGOptions,
    "td3": TD3Options,
    "sac": SACOptions,
    "d4pg": D4PGOptions,
}
SEQUENCES: dict[str, Any] = {"burn_in": 3, "train_rows": 6, "n_step": 2}
MEMORIES: dict[str, dict[str, Any]] = {
    "none": {},
    "lstm": {"memory": "lstm"},
    "shared lstm": {"memory": "lstm", "share_trunk": True},
}


def options_of(kind: str, **given: Any) -> Any:
    small: dict[str, Any] = {"gamma": GAMMA, "n_step": 1, **FEW, **given}
    return KINDS[kind](**small)


# ---------------------------------------------------------------- sequences


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_memory_a_sequence_is_its_transitions(kind: str) -> None:
    """Loss, priorities' errors and gradients of T rows are those of T items of one row each."""
    options = options_of(kind, **SEQUENCES, priority_eta=1.0)
    agent = small_agent(options)
    window = chance_window(agent, options, end=0.3)
    algorithm, replay = learner(options, window, agent)
    batch, draws = drawn(algorithm, replay)

    def parts(loss: Any) -> tuple[torch.Tensor, torch.Tensor]:
        value, _ = loss(batch, draws)
        name = "critics" if loss == algorithm.critic_loss else "actor"
        return value.detach(), gradients(algorithm, value)[name]

    for loss in (algorithm.critic_loss, algorithm.actor_loss):
        value, gradient = parts(loss)
        total, summed = torch.zeros(()), torch.zeros_like(gradient)
        name = "critics" if loss == algorithm.critic_loss else "actor"
        for t in range(len(batch.live)):
            row = tree_map(lambda x, t=t: x[t : t + 1], batch.replace(weight=None, states=()))
            row = row.replace(states=batch.states)
            part = tree_map(lambda x, t=t: x[t : t + 1], draws.replace(subset=None))
            each, _ = loss(row, part)
            count = int(row.live.sum())
            total += count * each.detach()
            summed += count * gradients(algorithm, each)[name]
        live = int(batch.live.sum())
        assert 0 < live < batch.live.numel()
        torch.testing.assert_close(total / live, value, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(summed / live, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("memory", ["lstm", "gru", "shared lstm"])
@pytest.mark.parametrize("burn_in", [0, 5])
@pytest.mark.parametrize("kind", ["ddpg", "td3", "sac"])
def test_losses_of_sequences_are_those_of_a_loop_over_rows(kind, burn_in, memory) -> None:
    """Each network from the state that was kept, one row and one sequence at a time, reset wherever
    an episode begins; n-step targets from the row that the episode leads to (B140, B142, B143)."""
    model = MEMORIES.get(memory, {"memory": memory})
    options = options_of(kind, **{**SEQUENCES, "burn_in": burn_in})
    agent = small_agent(options, **model)
    for seed, end in ((0, 0.0), (1, 0.25)):
        window = chance_window(agent, options, columns=4, seed=seed, end=end)
        algorithm, replay = learner(options, window, agent)
        batch, draws = drawn(algorithm, replay)
        critics, actor = slow_losses(agent, options, window, draws, algorithm)
        for loss, wanted, name in (
            (algorithm.critic_loss, critics, "critics"),
            (algorithm.actor_loss, actor, "actor"),
        ):
            found, _ = loss(batch, draws)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
            mine = gradients(algorithm, found)[name]
            torch.testing.assert_close(
                mine, gradients(algorithm, wanted)[name], rtol=1e-3, atol=1e-5
            )
            assert mine.any()


def slow_losses(agent: Any, options: Any, window: Any, draws: Any, algorithm: Any) -> Any:
    """The losses of critics and actor, one sequence and one row at a time."""
    rows, inputs, burn_in = window.rows, agent.read(window.inputs()), options.burn_in
    critic_terms, actor_terms = [], []
    squashed = isinstance(options, SACOptions)
    for i in range(window.num_envs):
        kept = tree_map(lambda x, i=i: x[0, i : i + 1], window.states)
        names = ("actor", "critics", "target_actor", "target_critics")
        fed_actor, fed_critics = agent.states(kept)
        state = dict(zip(names, (fed_actor, fed_critics) * 2, strict=True))
        if agent.shares_trunk:
            state["actor"], state["target_actor"] = state["critics"], state["target_critics"]
        found: list[dict[str, Any]] = []
        for t in range(options.item_length):
            row = tree_map(lambda x, t=t, i=i: x[t, i : i + 1], inputs)
            k = t - burn_in  # of the trained rows and those behind
            with torch.set_grad_enabled(k >= 0):
                fed = dict(state)
                one: dict[str, Any] = {"row": row, "fed": fed}
                target = agent.target_actor
                for name, network in (("actor", agent.actor), ("target_actor", target)):
                    if network is not None:
                        one[name], state[name] = network(row, fed[name])
                for name in ("critics", "target_critics"):
                    _, state[name] = getattr(agent, name).features(row, fed[name])
            found.append(one)
        for t in options.trained:
            if rows.last[t, i]:
                continue
            k, m, total = t - burn_in, t, 0.0
            while m - t < options.n_step and not rows.last[m, i]:
                total += options.gamma ** (m - t) * float(rows.reward[m + 1, i])
                m += 1
            discount = 0.0 if rows.terminated[m, i] else options.gamma ** (m - t)
            with torch.no_grad():
                after, noise = found[m], None
                if draws.following is not None:
                    noise = draws.following[m - burn_in, i : i + 1]
                entropy = 0.0
                if squashed:
                    distribution = agent.distribution
                    parameters = distribution.parameters(after["actor"])
                    action, log_prob = distribution.sample_log_prob(parameters, noise)
                    entropy = -float(algorithm.temperature()) * float(log_prob)
                else:
                    action = after["target_actor"].tanh()
                if isinstance(options, TD3Options):
                    clip = options.target_noise_clip
                    moved = (options.target_noise * noise).clamp(-clip, clip)
                    action = (action + moved).clamp(-1, 1)
                z, _ = agent.target_critics(after["row"], after["fed"]["target_critics"], action)
                target = total + discount * (float(z.min()) + entropy)
            now = found[t]
            taken = torch.from_numpy(rows.action[t, i : i + 1])
            z, _ = critic_at(agent, inputs, window, i, t, options, taken)
            critic_terms.append((0.5 * (z - target).square()).sum())
            if squashed:
                parameters = agent.distribution.parameters(now["actor"])
                sample = agent.distribution.sample_log_prob
                action, log_prob = sample(parameters, draws.action[k, i : i + 1])
            else:
                action, log_prob = now["actor"].tanh(), None
            z, _ = agent.critics(now["row"], now["fed"]["critics"], action, True)
            if log_prob is None:
                actor_terms.append(-z[0].sum())
            else:
                actor_terms.append((algorithm.temperature() * log_prob - z.amin(0)).sum())
    critics = torch.stack(critic_terms).sum() / len(critic_terms)
    return critics, torch.stack(actor_terms).sum() / len(actor_terms)


def critic_at(
    agent: Any, inputs: Any, window: Any, i: int, t: int, options: Any, action: Any
) -> Any:
    """z [C, 1, K] at one row, through a memory that is unrolled to it from the burn-in's end."""
    _, state = agent.states(tree_map(lambda x: x[0, i : i + 1], window.states))
    for s in range(t):
        row = tree_map(lambda x, s=s: x[s, i : i + 1], inputs)
        with torch.set_grad_enabled(s >= options.burn_in):
            _, state = agent.critics.features(row, state)
    return agent.critics(tree_map(lambda x: x[t, i : i + 1], inputs), state, action)


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_can_begin_with_a_state_of_zeros(kind: str) -> None:
    options = options_of(kind, **SEQUENCES)
    zeros = options_of(kind, **SEQUENCES, zero_state=True)
    agent = small_agent(options, memory="lstm")
    window = chance_window(agent, options, end=0.0)
    window.rows.first[:] = False

    def loss(given: Any) -> torch.Tensor:
        algorithm, replay = learner(given, window, agent)
        return algorithm.critic_loss(*drawn(algorithm, replay))[0].detach()

    kept, started = loss(options), loss(zeros)
    tree_map(lambda x: x.zero_(), window.states)
    assert torch.equal(started, loss(options)) and not torch.allclose(started, kept)
    assert len(tree_leaves(window.states)) == 4  # of the actor's memory and of the critics'
