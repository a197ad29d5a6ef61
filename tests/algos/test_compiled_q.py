"""A compiled update is the eager one, in one graph, whatever the variant (B253)."""

from typing import Any

import pytest
import torch
from small_q import OneWindow, fill_with_chance, items, small_agent, spec

from rlpyt.algos.dqn import DQN
from rlpyt.algos.options import DQNOptions, R2D1Options
from rlpyt.algos.r2d1 import R2D1
from rlpyt.rows import Window, example_row

VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({"double": False, "optimizer": "rmsprop"}, {}),
    "double, 3 steps, clipped": ({"n_step": 3, "max_grad_norm": 0.1}, {}),
    "dueling, noisy, rescaled": ({"value_rescale": 1e-3}, {"dueling": True, "noisy": True}),
    "categorical, masked": ({"values": "categorical", "num_atoms": 11}, {"mask": True}),
    "quantile, munchausen": ({"values": "quantile", "munchausen": True, "num_quantiles": 7}, {}),
    "implicit": ({"values": "implicit", "num_fractions": 5, "greedy_fractions": 3}, {}),
    "normalized": ({"normalize_observation": True}, {"normalize": True}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_compiled_update_is_the_eager_one_in_one_graph(name: str, graphs: list[Any]) -> None:
    given, model = VARIANTS[name]
    found = []
    for compile in (False, True):
        options = DQNOptions(**given, lr=1e-2, target_update_updates=2)
        agent = small_agent(options, **model)
        window = Window(example_row(spec(mask=model.get("mask", False))), options.n_step, 16)
        fill_with_chance(window.storage)
        window.rows.terminated[0] = window.rows.truncated[0] = False
        replay: Any = OneWindow(window)
        generator = torch.Generator().manual_seed(0)
        algorithm = DQN(agent, options, replay, 1000, generator, compile)
        metrics = [algorithm.learn(items(window), 0) for _ in range(3)]
        found.append((torch.stack(metrics), algorithm.learner.parameters.vector.clone()))
    assert len(graphs) == len(algorithm.learner._gradient._directs) == 1
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compile", [False, True])
def test_frozen_parameters_stay_and_the_others_learn(compile: bool, graphs: list[Any]) -> None:
    """An encoder of the user's that is trained already."""
    options = DQNOptions(lr=1e-2)
    agent = small_agent(options)
    frozen = next(agent.model.parameters())
    frozen.requires_grad_(False)
    window = Window(example_row(spec()), 1, 16)
    fill_with_chance(window.storage)
    replay: Any = OneWindow(window)
    algorithm = DQN(agent, options, replay, 1000, torch.Generator(), compile)
    before = [x.clone() for x in agent.model.parameters()]
    for _ in range(3):
        algorithm.learn(items(window), 0)
    same = [torch.equal(x, y) for x, y in zip(before, agent.model.parameters(), strict=True)]
    assert same == [True] + [False] * (len(same) - 1)
    assert len(graphs) == int(compile)


def test_a_learning_rate_that_falls_is_followed_without_another_trace(graphs: list[Any]) -> None:
    options = DQNOptions(lr=1e-2, lr_schedule="linear")
    moved = []
    window = Window(example_row(spec()), 1, 16)
    fill_with_chance(window.storage)
    replay: Any = OneWindow(window)
    algorithm = DQN(small_agent(options), options, replay, 1000, torch.Generator(), True)
    for env_steps in (0, 500, 999, 1000):
        before = algorithm.learner.parameters.vector.clone()
        algorithm.learn(items(window), env_steps)
        moved.append(float((algorithm.learner.parameters.vector - before).norm()))
    assert len(graphs) == 1
    assert moved[0] > moved[1] > moved[2] > moved[3] == 0.0


def test_a_gradient_that_is_not_finite_changes_nothing(graphs: list[Any]) -> None:
    window = Window(example_row(spec()), 1, 16)
    fill_with_chance(window.storage)
    replay: Any = OneWindow(window)
    algorithm = DQN(small_agent(), DQNOptions(), replay, 1000, torch.Generator(), True)
    algorithm.learn(items(window), 0)
    learner = algorithm.learner
    kept = [x.clone() for x in (learner.parameters.vector, *learner.optimizer.state().values())]
    window.rows.observation[0, 3] = float("nan")
    with pytest.raises(FloatingPointError, match="gradient of .* is not finite at update 1 "):
        algorithm.learn(items(window), 0)
    now = (learner.parameters.vector, *learner.optimizer.state().values())
    assert all(torch.equal(x, y) for x, y in zip(kept, now, strict=True))
    assert len(graphs) == 1


# Dynamo looks at what goes on behind a memory, which is no leaf, and warns of its own looking.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_sequences_learn_the_same_compiled_and_memories_are_not_traced_anew(
    graphs: list[Any],
) -> None:
    """Memories themselves stay eager, the target's too, wherever episodes end."""
    options, found = R2D1Options(burn_in=3, train_rows=6, n_step=2, batch_size=8, lr=1e-2), []
    for compile in (False, True):
        agent = small_agent(options, memory="lstm")
        windows = [sequences(agent, options, seed) for seed in range(4)]
        replay: Any = OneWindow(windows[0])
        generator = torch.Generator().manual_seed(0)
        algorithm = R2D1(agent, options, replay, 1000, generator, compile)
        metrics, traced = [], []
        for window in windows:
            metrics.append(algorithm.learn(items(window), 0))
            traced.append(len(graphs))
        found.append((torch.stack(metrics), algorithm.learner.parameters.vector.clone()))
    assert traced[0] == traced[-1] > 0
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)


def sequences(agent: Any, options: R2D1Options, seed: int) -> Window:
    """Sequences of chance that begin with states of zeros."""
    row = example_row(spec(), agent.example_kept())
    state = agent.model.initial_state(8)
    window = Window(row, options.item_length - 1, 8, reads=agent.model.reads, state=state)
    fill_with_chance(window.storage, seed)
    return window
