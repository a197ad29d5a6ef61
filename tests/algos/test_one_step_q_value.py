"""Updates of DDPG, TD3, D4PG and SAC equal a reference in NumPy and float64 (RELIABILITY 8.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from slow_q_value import Adam, Reference, Weights, moved
from small_q_value import SIZE, chance_window, learner, small_agent

from rlpyt.algos.options import (
    D4PGOptions,
    DDPGOptions,
    QValueOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.algos.q_value import Draws
from rlpyt.arrays import tree_map

N, UPDATES = 12, 4

COMMON: dict[str, Any] = {
    "gamma": 0.9,
    "lr": 3e-3,
    "actor_lr": 2e-3,
    "optimizer_eps": 1e-2,
    "huber_delta": 0.7,
    "batch_size": N,
    "learning_starts": 0,
    "replay_ratio": 1.0,
    "target_tau": 0.3,
    "prioritized": True,
}
ATOMS: dict[str, Any] = {"values": "categorical", "num_atoms": 11, "v_min": -6.0, "v_max": 4.0}
QUANTILES: dict[str, Any] = {"values": "quantile", "num_quantiles": 5}
SEQUENCES: dict[str, Any] = {"burn_in": 2, "train_rows": 4, "n_step": 2}
CASES: dict[str, QValueOptions] = {
    "ddpg": DDPGOptions(**COMMON),
    "ddpg, Huber, three steps, clipped": DDPGOptions(
        **COMMON, critic_loss="huber", n_step=3, max_grad_norm=0.05, reward_scale=0.5
    ),
    "ddpg, sequences": DDPGOptions(**COMMON, **SEQUENCES),
    "td3": TD3Options(**COMMON),
    "td3, five critics, delay of 3": TD3Options(**COMMON, critics=5, policy_delay=3),
    "td3, sequences": TD3Options(**COMMON, **SEQUENCES, target_noise_clip=0.1),
    "td3, quantiles": TD3Options(**COMMON, **QUANTILES),
    "d4pg": D4PGOptions(**COMMON, **ATOMS),
    "d4pg, two critics, sequences": D4PGOptions(**COMMON, **ATOMS, **SEQUENCES, critics=2),
    "d4pg, quantiles": D4PGOptions(**COMMON, **QUANTILES, n_step=3),
    "sac": SACOptions(**COMMON),
    "sac, fixed temperature": SACOptions(**COMMON, temperature=0.3, n_step=2),
    "sac, sequences": SACOptions(**COMMON, **SEQUENCES, temperature_lr=1e-2, policy_delay=2),
    "sac, wanted entropy": SACOptions(**COMMON, target_entropy=1.3, initial_temperature=0.1),
    "sac, atoms": SACOptions(**COMMON, **ATOMS),
    "redq": SACOptions(**COMMON, critics=5, target_critics=2, policy_delay=2),
    "tqc": SACOptions(**COMMON, **QUANTILES, critics=3, drop_quantiles=2),
    "ddpg, dropout": DDPGOptions(**COMMON),
    "td3, three critics, dropout": TD3Options(**COMMON, critics=3),
    "droq": SACOptions(**COMMON, policy_delay=2, actor_judge="mean", target_entropy=-9.0),
    "droq of drawn critics, sequences": SACOptions(**COMMON, **SEQUENCES, critics=3),
}
DROPOUT = 0.25
NETWORKS: dict[str, dict[str, Any]] = {
    "ddpg, dropout": {"critic_dropout": DROPOUT},
    "td3, three critics, dropout": {"critic_dropout": DROPOUT},
    "droq": {"critic_dropout": DROPOUT, "critic_layer_norm": True},
    "droq of drawn critics, sequences": {"critic_dropout": DROPOUT},
}


class Rows:
    """A window's rows, of which so many are live."""

    def __init__(self, live: int) -> None:
        self.rows = self
        self.last = np.zeros((live + 1, 1), np.bool_)


def weights(network: Any) -> Weights:
    return {name: p.detach().double().numpy().copy() for name, p in network.named_parameters()}


def networks(agent: Any) -> dict[str, Weights]:
    found = {"actor": agent.actor, "critics": agent.critics, "target_critics": agent.target_critics}
    if agent.target_actor is not None:
        found["target_actor"] = agent.target_actor
    return {name: weights(network) for name, network in found.items()}


def arrays_of(draws: Draws) -> dict[str, Any]:
    return dict(tree_map(lambda x: x.numpy(), draws).items())


@pytest.mark.parametrize("name", CASES)
def test_every_algorithm_takes_the_steps_of_the_reference(name: str) -> None:
    options: Any = CASES[name]
    network = NETWORKS.get(name, {})
    agent = small_agent(options, activation="tanh", **network)
    window = chance_window(agent, options, columns=N, seed=2)
    weight = np.linspace(0.4, 1.0, N, dtype=np.float32)
    algorithm, replay = learner(options, window, agent, weights=weight)
    draws: list[dict[str, Any]] = []
    draw = algorithm.draw

    def recorded(batch: Any) -> Any:
        found = draw(batch)
        draws.append(arrays_of(found))
        return found

    def judged(given: Any, found: Any, *more: Any) -> Any:
        draws[-1]["judges"] = arrays_of(found)["judges"]
        return learn_actor(given, found, *more)

    algorithm.draw, learn_actor, algorithm.learn_actor = recorded, algorithm.learn_actor, judged
    nets = networks(agent)
    before = networks(agent)
    for online, target in (("actor", "target_actor"), ("critics", "target_critics")):
        if target in nets:
            assert all(
                np.abs(nets[online][k] - nets[target][k]).max() > 0.1
                for k in nets[online]
                if "weight" in k
            )
    learned = isinstance(options, SACOptions) and options.temperature is None
    algorithm.update(Rows(UPDATES * options.rows_per_update), 0)
    assert len(draws) == algorithm.updates == UPDATES

    reference = Reference(window.rows, options, weight, network.get("critic_dropout", 0.0))
    critics_step = Adam(options.lr, options.optimizer_eps, options.max_grad_norm)
    actor_step = Adam(options.actor_lr, options.optimizer_eps, options.max_grad_norm)
    temperature_lr = getattr(options, "temperature_lr", None) or options.lr
    temperature_step = Adam(temperature_lr, options.optimizer_eps, 0.0)
    log_alpha = {"": np.array(np.log(getattr(options, "initial_temperature", 1.0)))}
    alpha = getattr(options, "temperature", None)
    wanted = getattr(options, "target_entropy", None)
    wanted = -float(SIZE) if wanted is None else wanted
    for k in range(UPDATES):
        price = float(np.exp(log_alpha[""])) if alpha is None else alpha
        gradient, priority = reference.critics(nets, draws[k], price)
        np.testing.assert_allclose(replay.updated[k], priority, rtol=2e-4, atol=2e-5)
        nets["critics"] = critics_step.step(nets["critics"], gradient)
        if (k + 1) % options.policy_delay == 0:
            gradient, entropy = reference.actor(nets, draws[k], price)
            nets["actor"] = actor_step.step(nets["actor"], gradient)
            if learned:
                log_alpha = temperature_step.step(log_alpha, {"": np.array(entropy - wanted)})
        if (k + 1) % options.target_update_updates == 0:
            for target in ("target_actor", "target_critics"):
                if target in nets:
                    nets[target] = moved(nets[target], nets[target[7:]], options)
    for network, found in networks(agent).items():
        for tensor, w in found.items():
            expected = nets[network][tensor]
            np.testing.assert_allclose(
                w, expected, rtol=0, atol=2e-6, err_msg=f"{network} {tensor}"
            )
            assert np.abs(expected - before[network][tensor]).max() > 1e-4
    if learned:
        assert float(algorithm.temperature()) == pytest.approx(np.exp(log_alpha[""]), rel=1e-5)
        assert abs(log_alpha[""] - np.log(options.initial_temperature)) > 1e-3
