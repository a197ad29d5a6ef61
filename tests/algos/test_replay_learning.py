"""When algorithms learn from a replay, how much, how the target follows, what a resume keeps."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_q import OneWindow, fill_with_chance, small_agent, spec
from small_runs import make, stopped_at

from rlpyt.algos.dqn import DQN
from rlpyt.algos.options import DQNOptions
from rlpyt.algos.target_network import TargetNetwork
from rlpyt.build import build
from rlpyt.replays.replay import Replay
from rlpyt.rows import Window, example_row
from rlpyt.run import Run
from rlpyt.runner import Hooks, Runner
from rlpyt.training import resume, train

ITEMS = 8


class Rows:
    """A window's rows, of which so many are live."""

    def __init__(self, live: int) -> None:
        self.rows = self
        self.first = self.last = np.zeros((live + 1, 1), np.bool_)
        self.observation = np.zeros((live + 1, 1, 3), np.float32)


def learner(total: int = 1000, **given: Any) -> tuple[DQN, OneWindow]:
    """DQN with a window of chance for a replay, and an update for every ITEMS rows trained."""
    options = DQNOptions(**{"batch_size": ITEMS, "learning_starts": 0, "lr": 1e-2, **given})
    agent = small_agent(options)
    window = Window(example_row(spec()), 1, ITEMS)
    fill_with_chance(window.storage)
    weights = np.linspace(0.5, 1.0, ITEMS, dtype=np.float32) if options.prioritized else None
    replay: Any = OneWindow(window, weights)
    return DQN(agent, options, replay, total, torch.Generator().manual_seed(0)), replay


def counting(algorithm: DQN) -> list[int]:
    """Replaces the updates by their number after each window."""
    made: list[int] = []
    algorithm.learn = lambda *_: torch.zeros(4 + ITEMS)
    due = algorithm.due

    def counted(window: Any, env_steps: int) -> int:
        made.append(due(window, env_steps))
        return made[-1]

    algorithm.due = counted
    return made


# ---------------------------------------------------------------- how much is trained


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.sampled_from([0.25, 1.0, 3.0, 8.0, 12.5]),
    st.integers(0, 40),
)
def test_rows_are_trained_at_the_replay_ratio_from_the_step_where_learning_starts(
    lives: list[int], ratio: float, starts: int
) -> None:
    """However windows cut the steps; what is no whole update is carried to the next window."""
    algorithm, _ = learner(replay_ratio=ratio, learning_starts=starts)
    made, steps = counting(algorithm), 0
    for live in lives:
        found = algorithm.update(Rows(live), steps)
        steps += live
        counted = max(0, steps - starts)
        assert sum(made) == Fraction(ratio) * counted // ITEMS
        assert found["replay/ratio"] == pytest.approx(sum(made) * ITEMS / max(1, counted))
        assert 0 <= algorithm.credit < ITEMS


def test_what_passes_before_the_replay_is_ready_is_not_made_up_for() -> None:
    algorithm, replay = learner(replay_ratio=4.0)
    made = counting(algorithm)
    replay.ready = False
    for steps in range(0, 400, 4):
        algorithm.update(Rows(4), steps)
    replay.ready = True
    algorithm.update(Rows(4), 400)
    assert made == [0] * 100 + [2]


def test_credit_goes_on_where_it_was_saved() -> None:
    lives = [3, 4, 1, 4, 2, 4, 4]
    whole, _ = learner(replay_ratio=2.5)
    expected = counting(whole)
    for i, live in enumerate(lives):
        whole.update(Rows(live), 10 * i)
    for cut in range(len(lives)):
        made = []
        state: Any = None
        for part in (range(cut), range(cut, len(lives))):
            algorithm, replay = learner(replay_ratio=2.5)
            replay.state, replay.load = dict, lambda state: None
            if state is not None:
                algorithm.load(state)
            counts = counting(algorithm)
            for i in part:
                algorithm.update(Rows(lives[i]), 10 * i)
            state, made = algorithm.state(), made + counts
        assert made == expected


# ---------------------------------------------------------------- the target network


@pytest.mark.parametrize(("ratio", "rows"), [(2.0, 4), (6.0, 4), (1.0, 2)])
@pytest.mark.parametrize("interval", [1, 7])
def test_the_target_is_updated_after_every_so_many_updates_wherever_windows_end(
    ratio: float, rows: int, interval: int
) -> None:
    """B166: 1 update in a window, 3, or one in 4 windows; 7 is a multiple of neither."""
    algorithm, _ = learner(replay_ratio=ratio, target_update_updates=interval)
    learning, online = algorithm, algorithm.learner.parameters.vector
    learn, copies = learning.learn, []

    def watched(*inputs: Any) -> Any:
        before = learning.target.vector.clone()
        metrics = learn(*inputs)
        follows = algorithm.learner.updates % interval == 0
        assert torch.equal(learning.target.vector, online if follows else before)
        assert follows or not torch.equal(learning.target.vector, online)
        copies.append(follows)
        return metrics

    learning.learn = watched
    for w in range(60):
        algorithm.update(Rows(rows), w * rows)
    assert len(copies) == algorithm.learner.updates == int(ratio * rows * 60 / ITEMS) > 2 * interval
    assert sum(copies) == len(copies) // interval


def test_a_soft_target_moves_by_its_share_of_the_way() -> None:
    algorithm, _ = learner(target_update_updates=1, target_tau=0.25, replay_ratio=2.0)
    for w in range(5):
        before = algorithm.target.vector.double()
        algorithm.update(Rows(4), 4 * w)
        expected = 0.75 * before + 0.25 * algorithm.learner.parameters.vector.double()
        torch.testing.assert_close(algorithm.target.vector.double(), expected)


def test_where_the_target_is_in_its_turn_is_saved() -> None:
    """B166, B217: 5 of 7 updates before the stop, the copy after 2 more."""
    one, two = (learner(target_update_updates=7, replay_ratio=2.0)[0] for _ in range(2))
    for made in (one, two):
        made.replay.state, made.replay.load = dict, lambda state: None
    for w in range(5):
        one.update(Rows(4), 4 * w)
    two.agent.load_state_dict(one.agent.state_dict())
    two.load(one.state())
    for w in range(5, 7):
        assert not torch.equal(two.target.vector, two.learner.parameters.vector)
        two.update(Rows(4), 4 * w)
    assert torch.equal(two.target.vector, two.learner.parameters.vector)


def test_the_target_takes_over_what_the_trained_network_counts_itself() -> None:
    """A buffer of a user's network is no parameter; it is copied whole, whatever the share."""
    algorithm, _ = learner(target_update_updates=2, target_tau=0.25, replay_ratio=2.0)
    agent = algorithm.agent
    for network in (agent.model, agent.target):
        network.register_buffer("counted", torch.zeros(3))
    algorithm.target = TargetNetwork(agent.target, algorithm.learner)
    agent.model.get_buffer("counted").fill_(5.0)
    algorithm.update(Rows(4), 0)
    assert not agent.target.get_buffer("counted").any()
    algorithm.update(Rows(4), 4)
    assert torch.equal(agent.target.get_buffer("counted"), torch.full((3,), 5.0))


def test_the_learning_rate_is_that_of_the_windows_first_step() -> None:
    for schedule in ("constant", "linear"):
        algorithm, _ = learner(lr_schedule=schedule, replay_ratio=2.0)
        step, rates = algorithm.learner.optimizer.step, []

        def noted(lr: float, step: Any = step, rates: list[float] = rates) -> None:
            rates.append(lr)
            step(lr)

        algorithm.learner.optimizer.step = noted
        for env_steps in (0, 500, 996, 1000, 1500):
            algorithm.update(Rows(4), env_steps)
        falls = [1.0, 0.5, 0.004, 0.0, 0.0] if schedule == "linear" else [1.0] * 5
        assert rates == pytest.approx([1e-2 * share for share in falls])


# ---------------------------------------------------------------- importance weights


def test_beta_is_linear_and_stays_at_its_end() -> None:
    """B131."""
    algorithm, _ = learner(prioritized=True, priority_beta=0.4, priority_beta_end=0.9)
    expected = {0: 0.4, 250: 0.525, 500: 0.65, 1000: 0.9, 1001: 0.9, 10**9: 0.9}
    for env_steps, beta in [*expected.items(), *reversed(expected.items())]:
        assert algorithm.beta(env_steps) == pytest.approx(beta)


def test_updates_are_weighted_with_the_beta_of_their_windows_first_step() -> None:
    algorithm, replay = learner(prioritized=True, replay_ratio=2.0)
    for steps in range(0, 1004, 4):
        algorithm.update(Rows(4), steps)
    assert replay.betas == pytest.approx([0.4 + 0.6 * s / 1000 for s in range(0, 1004, 4)])
    assert replay.betas[-1] == 1.0 and len(replay.updated) == 251


def betas_of(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What beta every draw of any replay is made with."""
    seen: list[float] = []
    draw = Replay.draw

    def noted(self: Replay, beta: float = 1.0) -> Any:
        seen.append(beta)
        return draw(self, beta)

    monkeypatch.setattr(Replay, "draw", noted)
    return seen


def test_beta_goes_on_over_a_resume_and_a_longer_run_keeps_it_at_its_end(tmp_path, monkeypatch):
    """B131: in the resumed run as in one that never stopped; 1 from the set step on."""
    seen = betas_of(monkeypatch)
    short: dict[str, Any] = {"env_steps": 600, "eval_episodes": 0, "eval_interval": 0}
    train(make("rainbow", tmp_path / "whole", **short), mode="quiet")
    whole, seen[:] = [*seen], []
    part = train(make("rainbow", tmp_path / "part", **short), hooks=stopped_at(22), mode="quiet")
    stopped = len(seen)
    resume(part.folder, mode="quiet")
    assert seen == whole and 0 < stopped < len(whole)
    assert whole[0] == pytest.approx(0.4 + 0.6 * 200 / 600, abs=0.02)
    assert whole == sorted(whole) and whole[-1] == pytest.approx(1.0, abs=0.03)
    seen.clear()
    resume(part.folder, env_steps=700, mode="quiet")
    assert seen and set(seen) == {1.0}


# ---------------------------------------------------------------- a run that goes on


def watched(log: list[dict[str, float]], stop: Hooks | None = None) -> Hooks:
    """Notes what every window left; ends the run where `stop` does."""

    def on_window(runner: Runner) -> bool:
        learning = runner.parts.algorithm
        log.append(
            {
                "steps": runner.episodes.env_steps,
                "updates": learning.learner.updates,
                "rows": learning.replay.rows,
                "epsilon": float(runner.parts.agent.epsilon.mean()),
                "ratio": learning.trained / max(1, learning.generated),
            }
        )
        return bool(stop.on_window(runner)) if stop and stop.on_window else False

    return Hooks(on_window=on_window)


def quick(kind: str, runs: Path, **algo: Any) -> Run:
    run = make(kind, runs, eval_episodes=0, eval_interval=0)
    return dataclasses.replace(run, algo=dataclasses.replace(run.algo, **algo))


def test_a_resumed_run_repeats_neither_warm_up_nor_exploration(tmp_path: Path) -> None:
    """B217."""
    before, after = [], []
    part = train(quick("dqn", tmp_path), hooks=watched(before, stopped_at(60)), mode="quiet")
    resume(part.folder, hooks=watched(after), mode="quiet")
    assert before[0]["epsilon"] == 1.0 and before[-1]["epsilon"] == pytest.approx(0.3, abs=0.1)
    assert after[0]["epsilon"] <= before[-1]["epsilon"]
    assert after[-1]["epsilon"] == pytest.approx(0.05)
    assert before[-1]["updates"] < after[0]["updates"] < before[-1]["updates"] + 20
    assert after[0]["rows"] >= before[-1]["rows"]


def test_loading_again_and_again_changes_no_setting(tmp_path: Path) -> None:
    """B218: an interval that is divided by the number of environments on loading, say."""
    part = train(quick("rainbow", tmp_path), hooks=stopped_at(60), mode="quiet")
    runner, settings = part.runner, []
    for _ in range(3):
        parts = runner.parts
        settings.append((runner.run.env, runner.run.algo, runner.run.model))
        settings.append(
            (parts.algorithm.options, parts.agent.options, parts.sampler.window.horizon)
        )
        settings.append((parts.replay.ring.capacity, parts.replay.selector.alpha))
        runner = resume(part.folder, hooks=stopped_at(1), mode="quiet").runner
    assert settings[:3] == settings[3:6] == settings[6:9]


@pytest.mark.parametrize("kind", ["dqn", "rainbow", "r2d1"])
def test_without_its_replay_a_run_fills_a_new_one_before_it_learns_on(kind, tmp_path: Path) -> None:
    """Nothing that passes meanwhile is made up for, and exploring goes on where it was."""
    before, after = [], []
    part = train(quick(kind, tmp_path), hooks=watched(before, stopped_at(100)), mode="quiet")
    resume(part.folder, drop_replay=True, hooks=watched(after), mode="quiet")
    filling = [x for x in after if x["updates"] == before[-1]["updates"]]
    learning = after[len(filling) :]
    assert before[-1]["rows"] == 600 and filling[0]["rows"] == 16 + 4  # and the rows in flight
    assert all(x["rows"] < 200 + 16 for x in filling) and learning[0]["rows"] >= 200
    assert len(learning) > 10
    counts = [x["updates"] for x in (filling[-1], *learning)]
    assert max(np.diff(counts)) <= max(np.diff([x["updates"] for x in before]))
    assert after[0]["epsilon"] <= before[-1]["epsilon"] < 1
    assert after[-1]["ratio"] == pytest.approx(4.0, rel=0.05)


def test_a_run_that_stops_while_it_fills_a_new_replay_goes_on_filling_it(tmp_path: Path) -> None:
    filling, after = [], []
    part = train(quick("dqn", tmp_path), hooks=stopped_at(100), mode="quiet")
    updates = part.runner.parts.algorithm.learner.updates
    hooks = watched(filling, stopped_at(5))
    resume(part.folder, drop_replay=True, hooks=hooks, mode="quiet")
    resume(part.folder, hooks=watched(after), mode="quiet")
    assert [x["updates"] for x in filling] == [updates] * 5
    assert after[0]["rows"] == filling[-1]["rows"] + 16  # it was saved with what it held
    assert all((x["updates"] == updates) == (x["rows"] < 200) for x in after)


def test_a_replay_that_is_not_saved_is_filled_anew_as_if_it_had_been_dropped(
    tmp_path: Path,
) -> None:
    after: list[dict[str, float]] = []
    run = quick("dqn", tmp_path, save_replay=False)
    part = train(run, hooks=stopped_at(100), mode="quiet")
    assert not (part.folder / "replay").exists()
    resume(part.folder, hooks=watched(after), mode="quiet")
    updates = part.runner.parts.algorithm.learner.updates
    assert all((x["updates"] == updates) == (x["rows"] < 200) for x in after)
    assert after[-1]["updates"] > updates


@pytest.mark.parametrize("ratio", [1.0, 40.0])
def test_exploration_counts_steps_whatever_the_number_of_updates(ratio, tmp_path: Path) -> None:
    """B167: one update a window or 40, epsilon is the same at the same step."""
    log: list[dict[str, float]] = []
    run = quick("dqn", tmp_path, replay_ratio=ratio, epsilon_steps=200)
    run = dataclasses.replace(run, loop=dataclasses.replace(run.loop, env_steps=500))
    train(run, hooks=watched(log), mode="quiet")
    begun = 0
    for x in log:  # of the window that began at the step where the one before it ended
        expected = 1.0 - 0.95 * min(1.0, max(0.0, (begun - 200) / 200))
        assert x["epsilon"] == pytest.approx(expected, abs=1e-6)
        begun = x["steps"]
    assert log[-1]["updates"] == int(ratio * (log[-1]["steps"] - 200) / 16)
    assert log[-1]["epsilon"] == pytest.approx(0.05)


def test_a_run_starts_from_anothers_networks_both_of_them(tmp_path: Path) -> None:
    """B227: its target network is not left at its own random weights."""
    source = train(quick("dqn", tmp_path / "a"), hooks=stopped_at(60), mode="quiet")
    given = source.runner.parts.agent.state_dict()
    assert {name.split(".")[0] for name in given} == {"model", "target"}
    run = quick("dqn", tmp_path / "b")
    loop = dataclasses.replace(run.loop, init_from=str(source.folder), seed=8)
    begun: list[Any] = []

    def look(runner: Runner) -> bool:
        begun.append({k: x.clone() for k, x in runner.parts.agent.state_dict().items()})
        return True

    train(dataclasses.replace(run, loop=loop), hooks=Hooks(on_window=look), mode="quiet")
    assert begun[0].keys() == given.keys()
    assert all(torch.equal(begun[0][name], given[name]) for name in given)


# ---------------------------------------------------------------- steps and statistics


@pytest.mark.parametrize("limit", [1e-3, 1e9, 0.0])
def test_gradients_are_clipped_by_norm_which_is_logged_before(limit: float) -> None:
    """B175."""
    free, _ = learner(max_grad_norm=0.0, replay_ratio=2.0)
    norm = float(free.update(Rows(4), 0)["loss/gradient_norm"])
    algorithm, _ = learner(max_grad_norm=limit, replay_ratio=2.0)
    assert float(algorithm.update(Rows(4), 0)["loss/gradient_norm"]) == norm > 0.01
    moved = float(algorithm.learner.parameters.gradient.norm())
    assert moved == pytest.approx(limit if limit == 1e-3 else norm, rel=1e-3)


def test_every_row_is_counted_once_by_the_normalizer_also_before_learning_starts() -> None:
    options = DQNOptions(normalize_observation=True, learning_starts=100, batch_size=ITEMS)
    agent = small_agent(options, normalize=True)
    replay: Any = OneWindow(Window(example_row(spec()), 1, ITEMS))
    algorithm = DQN(agent, options, replay, 1000, torch.Generator())
    rows, draw = [], np.random.default_rng(0)
    for w in range(12):
        window = Rows(5)
        window.observation[:] = draw.normal(2.0, 3.0, window.observation.shape)
        algorithm.update(window, 5 * w)
        rows.append(window.observation[:-1].reshape(-1, 3).astype(np.float64))
    seen, normalizer = np.concatenate(rows), agent.normalizer
    assert normalizer is not None and int(normalizer.count) == len(seen) == 60
    np.testing.assert_allclose(normalizer.get_buffer("mean0"), seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.get_buffer("scale0"), 1 / seen.std(0), rtol=1e-5)


@pytest.mark.parametrize("kind", ["dqn", "rainbow", "iqn"])
def test_compiled_updates_are_those_of_eager_ones_and_traced_once(kind, graphs) -> None:
    """D5, B253: over windows and copies of the target."""
    found = []
    for mode in ("off", "on"):
        parts = build(make(kind, Path("runs"), compile=mode))
        parts.sampler.reset()
        learning: Any = parts.algorithm
        steps, traced = 0, []
        while learning.learner.updates < 45:  # two copies
            parts.agent.set_exploration(steps)
            window = parts.sampler.collect()
            parts.algorithm.update(window, steps)
            steps += int((~window.rows.last[:-1]).sum())
            traced += [len(graphs)] if learning.learner.updates else []
        assert len(set(traced)) == 1 and (traced[0] > 0) == (mode == "on")
        found.append((learning.learner.parameters.vector, learning.target.vector))
        parts.close()
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


def test_what_is_kept_of_the_agents_answers_has_no_graph() -> None:
    """B112: an agent that answers with gradients leaves none in the rows, states or metrics."""
    run = make("r2d1", Path("runs"), eval_episodes=0, eval_interval=0)
    log: list[int] = []

    def look(runner: Runner) -> bool:
        parts = runner.parts
        block = parts.replay.ring.blocks[0]
        # (rows are NumPy's memory)
        assert all(not x.requires_grad and x.grad_fn is None for x in block.states)
        log.append(runner.parts.algorithm.learner.updates)
        return len(log) > 30

    def attentive(self: Any, *inputs: Any) -> Any:
        with torch.inference_mode(False), torch.enable_grad():
            cloned = [torch.utils._pytree.tree_map(_fresh, x) for x in inputs]
            return answer(self, *cloned)

    from rlpyt.agents.q_learning import QLearningAgent

    answer = QLearningAgent.act
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QLearningAgent, "act", attentive)
        train(run, hooks=Hooks(on_window=look), mode="quiet")
    assert log[-1] > 5


def _fresh(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x
