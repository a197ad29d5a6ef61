"""An agent that was saved answers as before when it is loaded, and saving deletes nothing else."""

from pathlib import Path

import numpy as np
import pytest
from small_agents import REPLAY, SEQUENCES, short

from rlpyt import A2C, D4PG, DDPG, DQN, PPO, R2D1, SAC, TD3, UsageError, memory_budget
from rlpyt.api import load
from rlpyt.build import build


def test_the_best_of_a_run_that_was_never_evaluated_is_not_the_newest():
    agent = short(eval_episodes=0)
    with pytest.raises(UsageError, match="no best checkpoint: no evaluation chose one"):
        load(agent.folder, best=True)
    with pytest.raises(UsageError, match="saved alone; leave out best"):
        load(agent.save("saved"), best=True)
    evaluated = short(eval_episodes=1)
    assert load(evaluated.folder, best=True).env_steps == evaluated.env_steps
    assert load(evaluated.folder / "checkpoints" / "best").env_steps == evaluated.env_steps


def test_an_agent_may_be_saved_into_a_folder_of_checkpoints():
    agent = A2C("CartPole-v1", seed=1)
    observation = np.array([0.1, -0.2, 0.03, 0.4], np.float32)
    for path in ("checkpoints/mine", "checkpoints/000000000600"):
        saved = load(agent.save(path))
        assert (
            saved.folder is None and saved.predict(observation)[0] == agent.predict(observation)[0]
        )


def test_a_saved_agent_answers_alike_and_holds_no_pickle():
    agent = short(PPO, minibatch_size=32, normalize_observation=True)
    observation = np.array([0.1, -0.2, 0.03, 0.4], np.float32)
    agent.save("saved")
    assert {path.suffix for path in Path("saved").iterdir()} == {".json", ".safetensors"}
    other = PPO.load("saved")
    assert other.run == agent.run
    assert other.env_steps == agent.env_steps
    many = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert np.array_equal(other.predict(many)[0], agent.predict(many)[0])
    assert np.array_equal(other.evaluate(2).returns, agent.evaluate(2).returns)
    assert other.predict(observation)[0] == agent.predict(observation)[0]
    with pytest.raises(UsageError, match="neither optimizer nor schedules"):
        other.learn(100)
    with pytest.raises(UsageError, match="use PPO.load"):
        A2C.load("saved")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DQN, {"values": "implicit", "dueling": True, "noisy": True, "num_fractions": 4}),
        (R2D1, SEQUENCES),
        (DDPG, {"exploration": "ou"}),
        (TD3, {"normalize_observation": True}),
        (SAC, {"critics": 4}),
        (SAC, {**SEQUENCES, "read_previous": False}),
        (D4PG, {"n_step": 3}),
    ],
)
def test_what_learns_from_a_replay_learns_on_answers_and_is_saved(kind, options):
    continuous = kind not in (DQN, R2D1)
    env = "Pendulum-v1" if continuous else "CartPole-v1"
    small = {"replay_ratio": 4.0} if continuous else {}
    agent = short(kind, env, **REPLAY, **{**small, **options})
    assert agent.learn(200, mode="quiet").env_steps >= 800
    other = load(agent.save("saved"))
    assert type(other) is kind
    assert other.run == agent.run
    many = np.random.default_rng(0).normal(size=(50, 3 if continuous else 4)).astype(np.float32)
    assert np.array_equal(other.predict(many)[0], agent.predict(many)[0])
    assert np.array_equal(other.evaluate(2).returns, agent.evaluate(2).returns)
    again = kind.load(agent.folder)
    assert np.array_equal(again.evaluate(2).returns, agent.evaluate(2).returns)


@pytest.mark.parametrize("kind", [DQN, R2D1])
def test_a_saved_agent_needs_no_memory_for_the_replay_that_it_learned_from(kind, monkeypatch):
    """An array of its size could not even be asked for, and this machine refuses any replay."""
    agent = short(kind, **REPLAY, **(SEQUENCES if kind is R2D1 else {}))
    expected = agent.evaluate(2).returns
    monkeypatch.setattr(memory_budget, "available_bytes", lambda root: 1000)
    for folder in (agent.folder, agent.save("saved")):
        other = load(folder, replay_size=10**15, env_steps=10**15)
        assert np.array_equal(other.evaluate(2).returns, expected)
        other.predict(np.zeros(4, np.float32))
        other.save("again")
        with pytest.raises(UsageError, match="1,000 .* are available"):  # the control
            build(other.run)


def test_saving_deletes_nothing_but_an_agent_that_was_saved(tmp_path):
    agent = short()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for taken in (tmp_path / "mine", agent.folder, agent.folder / "run.json"):
        with pytest.raises(UsageError, match="is no saved agent"):
            agent.save(taken)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert load(agent.folder).env_steps == agent.env_steps
    agent.save(tmp_path / "new")
    assert load(agent.save(tmp_path / "new")).env_steps == agent.env_steps


def test_a_run_starts_from_a_saved_agent_or_a_checkpoint(tmp_path):
    agent = short()
    saved = agent.save(tmp_path / "saved")
    for source in (saved, agent.folder, next((agent.folder / "checkpoints").glob("0*"))):
        A2C("CartPole-v1", init_from=source, seed=np.int64(1)).learn(100, mode="quiet")
    with pytest.raises(UsageError, match="does not fit"):
        A2C("CartPole-v1", init_from=saved, hidden_sizes=[8]).learn(100, mode="quiet")
    with pytest.raises(UsageError, match="does not fit"):
        A2C.load(saved, hidden_sizes=[8]).predict(np.zeros(4))


def test_what_is_no_agent_is_refused():
    with pytest.raises(UsageError, match="is no run"):
        load("nowhere")


def test_all_spaces_survive_saving():
    from gymnasium import spaces

    from rlpyt.envs.saved_spaces import decode, encode
    from rlpyt.tree_format import decode as read
    from rlpyt.tree_format import encode as write

    every = spaces.Dict(
        {
            "box": spaces.Box(np.array([-1.0, -np.inf]), np.array([np.inf, 2.0]), dtype=np.float64),
            "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "choice": spaces.Discrete(3, start=-1),
            "choices": spaces.MultiDiscrete([[2, 3], [4, 5]]),
            "bits": spaces.MultiBinary((2, 3)),
            "pair": spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(4)]),
        }
    )
    assert decode(read(*write(encode(every)))) == every
