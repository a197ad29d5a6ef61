"""What is bootstrapped from, of every kind of values: by hand, and as R2D1 finds it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from slow_r2d1 import log_softmax
from small_q import (
    ACTIONS,
    FEW,
    OneWindow,
    chance_inputs,
    fill_with_chance,
    items,
    learner_of_sequences,
    small_agent,
    spec,
)

from rlpyt.agents.q_learning import QLearningAgent
from rlpyt.algos.dqn import DQN
from rlpyt.algos.options import DQNOptions, R2D1Options
from rlpyt.algos.q_targets import Draws, bonus, draw, next_values
from rlpyt.rows import Inputs, Window, example_row

KINDS: dict[str, dict[str, Any]] = {
    "expected": {},
    "categorical": {"values": "categorical", "v_min": -8.0, "v_max": 8.0},
    "quantile": {"values": "quantile"},
    "implicit": {"values": "implicit"},
}
CHOICES: dict[str, dict[str, Any]] = {
    "single": {"double": False},
    "double": {"double": True},
    "munchausen": {"munchausen": True, "munchausen_temperature": 0.5},
}
CASES = [(k, c) for k in KINDS for c in CHOICES if (k, c) != ("categorical", "munchausen")]
N = 24


def case(kind: str, choice: str, **given: Any) -> dict[str, Any]:
    return {**FEW, **KINDS[kind], **CHOICES[choice], "gamma": 0.9, "batch_size": N, **given}


def fresh(agent: QLearningAgent, *leading: int) -> Draws:
    return draw(agent, torch.Generator().manual_seed(3), *leading)


def allowed_at(inputs: Inputs, i: int) -> list[int]:
    mask = inputs.mask[i].tolist()
    return [a for a in range(ACTIONS) if mask[a]] or list(range(ACTIONS))


@pytest.mark.parametrize(("kind", "choice"), CASES)
def test_each_network_is_asked_with_its_own_noise_and_only_allowed_actions_count(
    kind: str, choice: str
) -> None:
    """B172, B173: row by row, of implicit quantiles too by evenly spaced fractions."""
    options = DQNOptions(**case(kind, choice))
    agent = small_agent(options, mask=True, noisy=True, dueling=True, head_sizes=(6,))
    inputs, draws = chance_inputs(agent, N, mask=True), fresh(agent, N)
    inputs.mask[::4] = False  # as on final rows
    found = next_values(agent, options, inputs, draws)
    z, _ = agent.target_z(inputs, (), draws.target, draws.target_fractions)
    network, noise = agent.target_z, draws.target
    if choice == "double":
        network, noise = agent.z, draws.chooser
    z_compared, _ = network(inputs, (), noise, agent.returns.greedy_fractions())
    q = agent.returns.value(z_compared).detach()
    for i in range(N):
        allowed = allowed_at(inputs, i)
        values = [float(q[i, a]) for a in allowed]
        if choice != "munchausen":
            expected = z[i, allowed[values.index(max(values))]]
        else:
            t = options.munchausen_temperature
            log_p = log_softmax(values, t)
            terms = zip(allowed, log_p, strict=True)
            expected = sum(math.exp(p) * (z[i, a] - t * p) for a, p in terms)
        torch.testing.assert_close(found[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["expected", "quantile", "implicit"])
def test_munchausens_bonus_is_the_log_policy_of_the_target_network(kind: str) -> None:
    options = DQNOptions(**case(kind, "munchausen"))
    agent = small_agent(options, mask=True, noisy=True)
    inputs, draws = chance_inputs(agent, N, mask=True), fresh(agent, N)
    action = inputs.mask.float().multinomial(1)[:, 0]  # one that was allowed
    found = bonus(agent, options, inputs, action, draws)
    z, _ = agent.target_z(inputs, (), draws.target, agent.returns.greedy_fractions())
    q, t = agent.returns.value(z), options.munchausen_temperature
    for i in range(N):
        allowed = allowed_at(inputs, i)
        log_p = log_softmax([float(q[i, a]) for a in allowed], t)[allowed.index(int(action[i]))]
        clipped = min(0.0, max(options.munchausen_floor, t * log_p))
        assert float(found[i]) == pytest.approx(options.munchausen_alpha * clipped, abs=1e-4)
    assert found.min() < found.max() <= 0


@pytest.mark.parametrize(("kind", "choice"), CASES)
def test_transitions_are_learned_from_as_sequences_of_one_trained_row(
    kind: str, choice: str
) -> None:
    """The same loss, errors and gradient, with the same noise and fractions."""
    n = 1 if choice == "munchausen" else 3
    rescaled = 0.0 if kind == "categorical" or choice == "munchausen" else 1e-2
    given = case(kind, choice, n_step=n, value_rescale=rescaled)
    options = DQNOptions(**given)
    same = R2D1Options(**given, burn_in=0, train_rows=1, state_interval=1)
    agent = small_agent(options, mask=True, noisy=True)
    window = Window(example_row(spec(mask=True)), n, N)
    fill_with_chance(window.storage, seed=5, end=0.3)
    window.rows.terminated[0] = window.rows.truncated[0] = False
    window.rows.first[1] = False
    sequences, _ = learner_of_sequences(agent, same, window)
    rows = fresh(agent, n + 1, N)
    rows = rows.replace(chooser=rows.online)  # R2D1 asks the trained network once
    batch = sequences.read(items(window))
    assert len(set(batch.bootstrap[0].tolist())) == n
    of_sequences = sequences.loss(batch, rows)
    gradient = gradient_of(sequences, of_sequences[0])
    replay: Any = OneWindow(window)
    made = DQN(agent, options, replay, 1000, torch.Generator())
    draws = rows
    if rows.fractions is not None:  # each at the row that it belongs to
        at = batch.bootstrap[0], torch.arange(N)
        draws = rows.replace(
            fractions=rows.fractions[0], target_fractions=rows.target_fractions[at]
        )
    of_transitions = made.loss(made.read(items(window)), draws)
    for x, y in zip(of_transitions, of_sequences, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient_of(made, of_transitions[0]), gradient, rtol=1e-3, atol=1e-5)
    assert gradient.abs().sum() > 0


def gradient_of(made: Any, loss: torch.Tensor) -> torch.Tensor:
    made.learner.parameters.zero_grad()
    loss.backward()
    return made.learner.parameters.gradient.clone()


def test_the_noise_of_the_trained_network_is_in_the_loss() -> None:
    """B172: of transitions, too; and that of the one that chooses is another."""
    options = DQNOptions(**case("expected", "double"))
    agent = small_agent(options, noisy=True)
    window = Window(example_row(spec()), 1, N)
    fill_with_chance(window.storage, end=0.0)
    replay: Any = OneWindow(window)
    made = DQN(agent, options, replay, 1000, torch.Generator())
    batch, draws = made.read(items(window)), fresh(agent)
    losses = {made.loss(batch, draws)[0].item()}
    for name in ("online", "chooser", "target"):
        other = draws.replace(**{name: 3 * torch.randn(agent.normals)})
        losses.add(made.loss(batch, other)[0].item())
    assert len(losses) == 4
