"""What DDPG, TD3, D4PG and SAC share: what they read, whom gradients reach, who is updated when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_q import items
from small_q_value import (
    FEW,
    chance_window,
    drawn,
    everything,
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


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize("n", [1, 2, 4])
def test_transitions_are_what_the_episodes_say(n: int) -> None:
    """B104: n steps, fewer where an episode ends; of a time limit the final row is bootstrapped."""
    options = options_of("ddpg", n_step=n, reward_scale=0.5)
    agent = small_agent(options)
    window = chance_window(agent, options, columns=200)
    algorithm, _ = learner(options, window, agent)
    batch, rows = algorithm.read(items(window)), window.rows
    short = 0
    for i in range(window.num_envs):
        summed, m = 0.0, 0
        while m < n and not rows.last[m, i]:
            summed += GAMMA**m * 0.5 * rows.reward[m + 1, i]
            m += 1
        short += m < n and not rows.terminated[m, i]
        assert float(batch.returns[0, i]) == pytest.approx(summed, abs=1e-5)
        ended = bool(rows.terminated[m, i])
        assert float(batch.discount[0, i]) == pytest.approx(0.0 if ended else GAMMA**m)
        np.testing.assert_array_equal(batch.inputs.observation[0, i], rows.observation[0, i])
        np.testing.assert_array_equal(batch.following.observation[0, i], rows.observation[m, i])
        np.testing.assert_array_equal(batch.action[0, i], rows.action[0, i])
    assert batch.live.all() and (short > 10) == (n > 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_what_lies_behind_a_termination_is_never_read(kind: str, memory: str) -> None:
    options = options_of(kind, **({} if memory == "none" else SEQUENCES))
    agent = small_agent(options, **MEMORIES[memory])
    window = chance_window(agent, options, end=0.0)
    window.rows.first[:] = False
    window.rows.terminated[options.trained.start + 1] = True
    losses = []
    for value in (0.0, 7.0):
        window.rows.observation[options.trained.start + 1] = value
        algorithm, replay = learner(options, window, agent)
        batch, draws = drawn(algorithm, replay)
        only = batch.replace(live=batch.live & (torch.arange(len(batch.live))[:, None] == 0))
        losses.append(algorithm.critic_loss(only, draws)[0])
    assert torch.equal(*losses)
    window.rows.terminated[options.trained.start + 1] = False  # the control
    algorithm, replay = learner(options, window, agent)
    batch, draws = drawn(algorithm, replay)
    only = batch.replace(live=batch.live & (torch.arange(len(batch.live))[:, None] == 0))
    assert not torch.allclose(algorithm.critic_loss(only, draws)[0], losses[0])


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_dead_row_nothing_is_learned_whatever_it_holds(kind: str) -> None:
    options = options_of(kind, **SEQUENCES)
    agent = small_agent(options)
    window = chance_window(agent, options, end=0.0)
    window.rows.truncated[5] = True
    window.rows.first[6] = True
    found = []
    for action, reward in ((0.3, 1.0), (-0.9, np.nan)):
        window.rows.action[5], window.rows.reward[6] = action, reward
        algorithm, replay = learner(options, window, agent)
        batch, draws = drawn(algorithm, replay)
        loss, metrics = algorithm.critic_loss(batch, draws)
        found.append([loss, metrics, gradients(algorithm, loss)["critics"]])
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


# ---------------------------------------------------------------- whom gradients reach


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_loss_reaches_what_is_not_its_own(kind: str, memory: str) -> None:
    """B184: of the actor's loss nothing in the critics or a trunk that is shared, and of theirs
    nothing in the actor; in targets nothing of either."""
    options = options_of(kind, **({} if memory == "none" else SEQUENCES))
    algorithm, replay = learner(options, **MEMORIES[memory])
    batch, draws = drawn(algorithm, replay)
    for own, loss in (("critics", algorithm.critic_loss), ("actor", algorithm.actor_loss)):
        value, _ = loss(batch, draws)
        for name, gradient in gradients(algorithm, value).items():
            assert bool(gradient.any()) == (name == own), (own, name)
    everywhere = {id(p) for p in algorithm.agent.parameters() if p.requires_grad}
    trained = [
        {id(p) for p in learner.parameters.parameters}
        for learner in (algorithm.learner, algorithm.actor_learner)
    ]
    assert trained[0] | trained[1] == everywhere and not trained[0] & trained[1]


@pytest.mark.parametrize("kind", KINDS)
def test_targets_begin_as_copies(kind: str) -> None:
    """ANCESTOR W28."""
    from rlpyt.build import build
    from rlpyt.presets import choose

    parts = build(choose(kind, "Pendulum-v1"))
    agent: Any = parts.agent
    pairs = [(agent.target_critics, agent.critics)]
    pairs += [(agent.target_actor, agent.actor)] if agent.target_actor is not None else []
    for target, own in pairs:
        for x, y in zip(target.parameters(), own.parameters(), strict=True):
            assert torch.equal(x, y) and x.data_ptr() != y.data_ptr() and not x.requires_grad
    assert (len(pairs) == 1) == (kind == "sac")
    parts.close()


# ---------------------------------------------------------------- who is updated when


@pytest.mark.parametrize(("delay", "interval"), [(1, 1), (2, 2), (3, 1), (1, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_actor_and_targets_wait_for_their_turn(kind: str, delay: int, interval: int) -> None:
    """B185: counted in updates of the critics, over a stop, too."""
    options = options_of(
        kind, policy_delay=delay, target_update_updates=interval, target_tau=0.25, lr=1e-2
    )
    algorithm, replay = learner(options)
    other, _ = learner(options, replay.window)
    for update in range(1, 9):
        before = [x.clone() for x in vectors(algorithm)]
        algorithm.learn(items(replay.window), 0)
        critics, actor, *targets = (
            not torch.equal(x, y) for x, y in zip(before, vectors(algorithm), strict=True)
        )
        assert critics and actor == (update % delay == 0)
        assert all(moves == (update % interval == 0) for moves in targets)
        for target, old in zip(algorithm.targets, before[2:], strict=True):
            if update % interval == 0:
                wanted = 0.75 * old + 0.25 * target.trained.vector
                torch.testing.assert_close(target.vector, wanted)
        if update == 5:  # stop, and go on as another
            for made in (algorithm, other):
                made.replay.state, made.replay.load = dict, lambda state: None
            other.agent.load_state_dict(algorithm.agent.state_dict())
            other.load(algorithm.state())
            algorithm, other = other, algorithm


def vectors(algorithm: Any) -> list[torch.Tensor]:
    own = [algorithm.learner.parameters.vector, algorithm.actor_learner.parameters.vector]
    return [*own, *(target.vector for target in algorithm.targets)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_moves_all_the_way_is_a_copy(kind: str) -> None:
    """8.4: tau = 1 copies."""
    options = options_of(kind, target_tau=1.0, policy_delay=1, target_update_updates=1)
    algorithm, replay = learner(options)
    algorithm.learn(items(replay.window), 0)
    for target in algorithm.targets:
        assert torch.equal(target.vector, target.trained.vector)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_an_algorithm_goes_on_from_its_state(kind: str, memory: str) -> None:
    """B179: networks, targets, optimizers, the temperature and what is drawn, bit for bit."""
    given = {} if memory == "none" else SEQUENCES
    options = options_of(kind, lr=1e-2, policy_delay=2, **given)
    one, replay = learner(options, **MEMORIES[memory])
    two, _ = learner(options, replay.window, **MEMORIES[memory], seed=1)
    for made in (one, two):
        made.replay.load = lambda state: None
        made.replay.state = dict
    for _ in range(3):
        one.learn(items(replay.window), 0)
    two.agent.load_state_dict(one.agent.state_dict())
    two.load(one.state())
    before = everything(one)
    for made in (one, two):
        for _ in range(3):
            made.learn(items(replay.window), 0)
    assert all(torch.equal(x, y) for x, y in zip(everything(one), everything(two), strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(everything(one), before, strict=True))


def test_importance_weights_scale_the_critics_loss_and_not_the_priorities() -> None:
    options = options_of("sac", prioritized=True)
    algorithm, replay = learner(options)
    batch, draws = drawn(algorithm, replay)
    loss, metrics = algorithm.critic_loss(batch, draws)
    halves = batch.replace(weight=torch.full((replay.window.num_envs,), 0.5))
    half, same = algorithm.critic_loss(halves, draws)
    torch.testing.assert_close(half, loss / 2)
    assert torch.equal(metrics[3:], same[3:]) and (metrics[3:] > 0).all()


def test_rates_follow_their_schedule() -> None:
    options = options_of("sac", lr=1e-2, actor_lr=2e-2, temperature_lr=3e-2, lr_schedule="linear")
    algorithm, replay = learner(options)
    rates: dict[str, float] = {}
    for name in ("learner", "actor_learner", "temperature"):
        made = getattr(algorithm, name).optimizer
        made.step = lambda lr, name=name, step=made.step: (rates.__setitem__(name, lr), step(lr))
    algorithm.learn(items(replay.window), 750)  # of 1000
    assert rates == pytest.approx({"learner": 2.5e-3, "actor_learner": 5e-3, "temperature": 7.5e-3})


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_clipped_by_norm_which_is_logged_before(kind: str) -> None:
    """B175: of critics and of the actor, each by itself."""
    limit = 1e-3
    free, replay = learner(options_of(kind, policy_delay=1))
    algorithm, _ = learner(options_of(kind, policy_delay=1, max_grad_norm=limit), replay.window)
    norm = free.learn(items(replay.window), 0)[0]
    clipped = algorithm.learn(items(replay.window), 0)[0]
    torch.testing.assert_close(norm, clipped)
    assert norm > limit
    for made in (algorithm.learner, algorithm.actor_learner):
        assert float(made.parameters.gradient.norm()) == pytest.approx(limit, rel=1e-2)


# ---------------------------------------------------------------- what is not finite


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["critics", "actor"])
def test_a_gradient_that_is_not_finite_stops_by_name_and_changes_nothing(kind, where) -> None:
    options = options_of(kind, policy_delay=1)
    algorithm, replay = learner(options)
    algorithm.learn(items(replay.window), 0)
    if where == "critics":
        replay.window.rows.reward[1, 3] = np.nan
    else:  # the bias alone: a forward pass of the critics is not touched by it
        algorithm.actor_loss = lambda batch, draws: (
            algorithm.agent.actor.linear.bias.sum() * float("nan"),
            torch.zeros(len(algorithm.actor_names) - 1),
        )
    kept = algorithm.actor_learner.parameters.vector.clone()
    critics = algorithm.learner.parameters.vector.clone()
    with pytest.raises(FloatingPointError, match=rf"gradient of {where}\.\S+ is not finite"):
        algorithm.learn(items(replay.window), 0)
    assert torch.equal(kept, algorithm.actor_learner.parameters.vector)
    if where == "critics":
        assert torch.equal(critics, algorithm.learner.parameters.vector)


@pytest.mark.parametrize("where", ["actor", "critics"])
def test_a_weight_that_is_not_finite_is_named_before_it_acts(where: str) -> None:
    algorithm, _ = learner(options_of("td3"))
    algorithm.assert_finite()
    with torch.no_grad():
        next(getattr(algorithm.agent, where).parameters())[(0, 0)] = np.nan
    with pytest.raises(FloatingPointError, match=rf"the parameter {where}\.\S+ is not finite"):
        algorithm.assert_finite()


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
