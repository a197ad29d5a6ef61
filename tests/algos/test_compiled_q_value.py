"""Compiled updates of critics and actor are the eager ones, in one graph each (B253)."""

from typing import Any

import pytest
import torch
from small_q import items
from small_q_value import FEW, chance_window, learner, small_agent

from rlpyt.algos.options import D4PGOptions, DDPGOptions, SACOptions, TD3Options

SEQUENCES: dict[str, Any] = {"burn_in": 2, "train_rows": 4, "n_step": 2}
VARIANTS: dict[str, Any] = {
    "ddpg, three steps": DDPGOptions(n_step=3, max_grad_norm=0.1),
    "ddpg, sequences": DDPGOptions(**SEQUENCES),
    "td3": TD3Options(policy_delay=1),
    "sac": SACOptions(),
    "sac, fixed temperature": SACOptions(temperature=0.2),
    "redq, dropout": SACOptions(critics=4, policy_delay=2),
    "crossq": SACOptions(policy_delay=2, n_step=2),
    "sac, state values": SACOptions(n_step=2),
    "tqc": SACOptions(values="quantile", drop_quantiles=1, **FEW),
    "d4pg": D4PGOptions(**FEW),
    "discrete sac, two steps": SACOptions(n_step=2, max_grad_norm=0.1),
    "discrete sac, redq, dropout": SACOptions(critics=4, policy_delay=2),
}
NETWORKS: dict[str, dict[str, Any]] = {
    "redq, dropout": {"critic_dropout": 0.2, "critic_layer_norm": True},
    "crossq": {"batch_norm": True, "batch_norm_warm_up": 2},
    "sac, state values": {"value_network": True},
    "discrete sac, two steps": {"discrete": True},
    "discrete sac, redq, dropout": {"discrete": True, "critic_dropout": 0.2},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_compiled_update_is_the_eager_one_in_a_graph_for_each_network(
    name: str, graphs: list[Any]
) -> None:
    options, found = VARIANTS[name], []
    for compile in (False, True):
        agent = small_agent(options, **NETWORKS.get(name, {}))
        window = chance_window(agent, options)
        algorithm, _ = learner(options, window, agent, compile=compile)
        metrics = [algorithm.learn(items(window), 0) for _ in range(4)]
        vectors = [algorithm.learner.parameters.vector, algorithm.actor_learner.parameters.vector]
        targets = [target.vector for target in algorithm.targets]
        targets += [x for x in agent.buffers() if x.is_floating_point()]
        found.append([torch.stack(metrics), *(x.clone() for x in (*vectors, *targets))])
    assert len(graphs) == 2
    for part in (algorithm.learner, algorithm.actor_learner):
        assert len(part._gradient._directs) == 1
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)


# Dynamo looks at what goes on behind a memory, which is no leaf, and warns of its own looking.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(
    ("kind", "discrete"), [(DDPGOptions, False), (SACOptions, False), (SACOptions, True)]
)
def test_with_a_memory_compiled_is_eager_too(kind: Any, discrete: bool, graphs: list[Any]) -> None:
    """Memories themselves stay eager, the targets' too, wherever episodes end."""
    options, found = kind(**SEQUENCES), []
    for compile in (False, True):
        agent = small_agent(options, discrete=discrete, memory="lstm")
        windows = [chance_window(agent, options, seed=seed, end=0.2) for seed in range(4)]
        algorithm, _ = learner(options, windows[0], agent, compile=compile)
        metrics, traced = [], []
        for window in windows:
            metrics.append(algorithm.learn(items(window), 0))
            traced.append(len(graphs))
        found.append([torch.stack(metrics), algorithm.actor_learner.parameters.vector.clone()])
    assert traced[0] == traced[-1] > 0
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)
