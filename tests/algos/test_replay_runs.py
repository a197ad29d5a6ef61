"""Whole runs that learn from a replay: stopped, gone on with, without it, begun from another's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import fingerprint, make, stopped_at

from rlpyt.replays.replay import Replay
from rlpyt.run import Run
from rlpyt.runner import Hooks, Runner
from rlpyt.training import resume, train


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


@pytest.mark.parametrize("unique", [True, False])
def test_no_item_is_twice_in_an_update_if_so_wished(
    unique: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first update on, which waits for as many items; False is the control."""
    seen: list[int] = []
    draw = Replay.draw

    def noted(self: Replay, beta: float = 1.0) -> Any:
        drawn = draw(self, beta)
        items = set(zip(drawn.starts.tolist(), drawn.columns.tolist(), strict=True))
        seen.append(len(items))
        return drawn

    monkeypatch.setattr(Replay, "draw", noted)
    many: dict[str, Any] = {"learning_starts": 0, "replay_size": 160, "batch_size": 64}
    train(quick("rainbow", tmp_path, **many, priority_unique=unique), mode="quiet")
    assert len(seen) > 20
    assert (set(seen) == {64}) is unique


@pytest.mark.parametrize("entry", ["max", "td"])
def test_a_run_that_rarely_draws_is_resumed_to_the_same_priorities(
    entry: str, tmp_path: Path
) -> None:
    """New items are born at a draw, or where a checkpoint looks; here the last draw is long ago."""
    given: dict[str, Any] = {"learning_starts": 0, "replay_ratio": 0.05, "priority_entry": entry}
    values: dict[str, Any] = {"values": "expected"} if entry == "td" else {}
    run = quick("rainbow", tmp_path, **given, **values)
    run = dataclasses.replace(run, loop=dataclasses.replace(run.loop, env_steps=600))
    whole = train(run, mode="quiet")
    part = train(run, hooks=stopped_at(22), mode="quiet")
    assert whole.runner.parts.algorithm.updates == part.runner.parts.algorithm.updates == 1
    resume(part.folder, mode="quiet")
    assert fingerprint(whole.folder) == fingerprint(part.folder)
