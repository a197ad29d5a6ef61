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


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (DDPGOptions(critics=3), [3, 3, 1]),
        (TD3Options(policy_delay=1), [2, 2, 1]),
        (SACOptions(), [2, 2, 2]),
        (SACOptions(critics=4), [4, 2, 4]),
        (SACOptions(critics=4, values="quantile", num_quantiles=5), [4, 4, 4]),
    ],
    ids=["ddpg", "td3", "sac", "redq", "tqc"],
)
def test_dropout_is_drawn_for_the_critics_that_are_asked(
    options: QValueOptions, asked: list[int]
) -> None:
    """Of those that learn, that make targets, and by which the actor learns."""
    algorithm, replay = learner(options, critic_dropout=0.3)
    counts: list[int] = []
    draw = algorithm._masks
    algorithm._masks = lambda count, *rest: (counts.append(count), draw(count, *rest))[1]
    algorithm.learn(items(replay.window), 0)
    assert sorted(counts) == sorted(asked) and counts[-1] == asked[-1]
