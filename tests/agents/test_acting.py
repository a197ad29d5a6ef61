"""Who answers rows for an agent elsewhere is given all that answers follow from, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch

from rlpyt.agent_making import make_agent, make_window
from rlpyt.arrays import tree_leaves
from rlpyt.envs.make import probe
from rlpyt.samplers.published import acting_tensors, copy_tensors

ROWS = 20
VALUE = {"model.critic", "model.value_head"}
CRITICS = {"model.critics", "target_critics"}
TARGETS = {"target_actor", "target_critics"}
KEPT_BACK: dict[str, set[str]] = {
    "ppo": VALUE,
    "lstm": VALUE,
    "gru-chunks": set(),  # rows keep values, which a shared trunk gives
    "a2c": VALUE,
    "impala": VALUE,
    "appo-lstm": set(),  # states of both memories are found while acting
    "dqn": {"target"},
    "r2d1": {"target"},
    "ddpg": CRITICS | TARGETS,
    "td3": CRITICS | TARGETS,
    "sac": CRITICS,
    "redq-dropout": CRITICS,
    "crossq": {"model.critics"},
    "sac-discrete": CRITICS,
    "sac-values": CRITICS,
    "d4pg": CRITICS | TARGETS,
    "sac-lstm": {"model.critics.ensemble", "target_critics"},
    "ddpg-lstm": {"model.critics.ensemble", *TARGETS},
}


def answers(agent: Any, spec: Any, seed: int = 0) -> list[np.ndarray]:
    """Actions, what is kept beside them, and states, over rows of chance."""
    generator = np.random.default_rng(seed)
    window = make_window(spec, agent, ROWS, 4, None)
    observation = window.rows.observation
    observation[:] = generator.normal(size=observation.shape)
    agent.set_exploration(10**6)
    noise = generator.random((ROWS, 4, agent.uniforms + agent.normals), np.float32)
    state, found = agent.model.initial_state(4), []
    with torch.inference_mode():
        for t, draw in enumerate(agent.draws(noise)):
            action, kept, state = agent.act(window.acting_inputs(t), state, draw)
            found += [x.numpy().copy() for x in tree_leaves((action, kept, state))]
    return found


@pytest.mark.parametrize("kind", KEPT_BACK)
def test_answers_follow_from_what_is_published_and_critics_that_nobody_asks_stay(
    kind: str, tmp_path: Path
) -> None:
    run = small_runs.make(kind, tmp_path)
    spec = probe(run.env)
    learner, actor = (make_agent(run, spec, seed) for seed in (0, 1))
    with torch.no_grad():
        for parameter in learner.parameters():  # the actor's last layer begins near 0
            parameter.add_(0.3 * torch.randn_like(parameter))
    if learner.normalizer is not None:
        learner.normalizer.update(3 + 2 * torch.randn(1, 50, *spec.observation.shape))

    def same() -> bool:
        pairs = zip(answers(learner, spec), answers(actor, spec), strict=True)
        return all(np.array_equal(x, y) for x, y in pairs)

    assert not same()
    copy_tensors(acting_tensors(actor), acting_tensors(learner))
    assert same()
    given = {x.data_ptr() for x in acting_tensors(learner)}
    tensors = (*learner.named_parameters(), *learner.named_buffers())
    left = {name for name, x in tensors if x.numel() and x.data_ptr() not in given}
    assert all(name.startswith(tuple(KEPT_BACK[kind])) for name in left), left
    for part in KEPT_BACK[kind]:
        inside = {name for name, _ in tensors if name.startswith(f"{part}.")}
        assert inside and inside <= left | {name for name, x in tensors if not x.numel()}


def test_of_a_network_that_says_nothing_all_is_published(tmp_path: Path) -> None:
    """A user's own: which of its weights answer is not known."""
    run = small_runs.make("sac-lstm", tmp_path)
    agent: Any = make_agent(run, probe(run.env), 0)
    fewer = len(acting_tensors(agent))
    vars(agent.critics)["acting"] = None
    assert len(acting_tensors(agent)) == fewer + len([*agent.critics.ensemble.parameters()])
