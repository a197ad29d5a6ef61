"""Evaluations: episodes are assigned beforehand, and training is left as it is, bit for bit."""

import random

import gymnasium
import numpy as np
import pytest
import torch
from careless import draw_from_numpy
from gymnasium.wrappers import TimeLimit
from stepping import coin, in_process, sampler_of, zeros_of
from toys import CountEnv, CrashEnv, LengthReturnEnv, SeedEnv

from rlpyt import noise
from rlpyt.algos.options import PPOOptions
from rlpyt.envs.options import EnvOptions
from rlpyt.evaluation import Evaluator, Stopped
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks
from rlpyt.training import train

ROLE = noise.EVALUATION_RESETS


def evaluator(factory, num_envs, episodes, max_steps=10_000, horizon=4, answer=zeros_of):
    def make():
        envs = in_process(factory, num_envs, role=ROLE)
        return sampler_of(envs, answer, horizon, reset=False)

    return Evaluator(make, episodes, max_steps)


def test_long_episodes_count_as_often_as_short_ones():
    """B188: lengths 2, 4, ..., 256 in eight columns, the return is the length."""
    evaluation = evaluator(LengthReturnEnv, 8, 16, horizon=16).evaluate()
    lengths = [2 ** (b + 1) for b in range(8)]
    assert evaluation.returns.tolist() == [x for x in lengths for _ in range(2)]
    assert evaluation.mean == np.mean(lengths)
    first_to_end = np.sort([k * x for x in lengths for k in range(1, 17)])  # the control
    assert first_to_end[:16].mean() < evaluation.mean / 4


@pytest.mark.parametrize("horizon", [1, 3, 16, 200])
@pytest.mark.parametrize("episodes", [1, 2, 3, 4, 7, 20])
def test_exactly_as_many_episodes_are_played_as_were_asked_for(episodes, horizon):
    evaluation = evaluator(lambda b: CountEnv(3 + b), 3, episodes, horizon=horizon).evaluate()
    assert len(evaluation.returns) == len(evaluation.lengths) == episodes
    wanted = [episodes // 3 + (b < episodes % 3) for b in range(3)]
    assert [list(evaluation.lengths).count(3 + b) for b in range(3)] == wanted
    assert evaluation.unfinished == 0


@pytest.mark.parametrize("end", ["term", "trunc", "both"])
def test_either_flag_ends_an_episode(end):
    """B013."""
    assert evaluator(lambda b: CountEnv(5, end), 2, 4).evaluate().lengths.tolist() == [5] * 4


def test_a_time_limit_of_a_wrapper_ends_it_too():
    """B016."""
    found = evaluator(lambda b: TimeLimit(CountEnv(end="never"), 6), 2, 4).evaluate()
    assert found.returns.tolist() == [6] * 4 and found.unfinished == 0


@pytest.mark.parametrize("limit", [8, 10, 12])
def test_the_step_limit_ends_what_never_ends_and_the_next_episode_begins_anew(limit):
    """B014: by the end of the window of 4 rows in which it is reached."""
    seen = []

    def look(inputs, drawn):
        seen.append(inputs.observation[:, 1:].clone())
        return zeros_of(inputs, drawn)

    make = evaluator(lambda b: CountEnv(end="never", column=b), 2, 5, limit, answer=look)
    evaluation = make.evaluate()
    assert len(evaluation.lengths) == evaluation.unfinished == 5
    # A reset takes a row, so that the windows fall otherwise on every episode.
    assert all(limit <= length < limit + 4 for length in evaluation.lengths)
    assert (evaluation.returns == evaluation.lengths).all()
    assert torch.stack(seen)[:, 0, 0].unique().tolist() == [0, 1, 2]


def test_episodes_that_end_by_themselves_stay_beside_those_that_the_limit_ends():
    make = evaluator(lambda b: CountEnv(3 if b else 9, "term" if b else "never"), 2, 4, 20)
    evaluation = make.evaluate()
    assert evaluation.lengths.tolist()[2:] == [3, 3] and evaluation.unfinished == 2


def test_every_evaluation_has_the_same_starts_and_so_the_same_result():
    class Start(SeedEnv):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return (observation, float(observation[0]), *rest)

    make = evaluator(lambda b: Start(3), 3, 7, answer=coin)
    first, second = make.evaluate(), make.evaluate()
    assert np.array_equal(first.returns, second.returns)
    assert len(set(first.returns.tolist())) == 7


def test_an_evaluation_stops_when_it_is_asked_to():
    make = evaluator(lambda b: CountEnv(end="never"), 2, 4)
    asked = iter([False, False, True])
    with pytest.raises(Stopped):
        make.evaluate(stop=lambda: next(asked))


def test_statistics_of_an_evaluation():
    metrics = evaluator(lambda b: CountEnv(2 + 4 * b), 2, 4).evaluate().metrics()
    assert metrics == {
        "eval/return_mean": 4, "eval/return_std": 2, "eval/return_min": 2, "eval/return_max": 6,
        "eval/length_mean": 4, "eval/episodes": 4,
    }  # fmt: skip


# In a run -----------------------------------------------------------------------------------------


class Careless(gymnasium.Wrapper):
    """Draws from every global generator, as an environment should not."""

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        noisy = float(draw_from_numpy() + random.random() + torch.rand(()))
        return (observation + np.float32(noisy * 1e-3), reward, *rest)


def careless(rank: int = 0):
    return Careless(gymnasium.make("CartPole-v1"))


def run(tmp_path, factory, *, memory="none", normalize=False, **loop):
    algo = PPOOptions(
        horizon=16, minibatch_size=32, update_epochs=1, normalize_observation=normalize
    )
    given = {"env_steps": 400, "seed": 1, "runs": str(tmp_path), "eval_episodes": 3} | loop
    options = EnvOptions(factory, num_envs=2)
    return Run(
        options, algo, ActorCriticOptions(memory=memory, memory_size=8), LoopOptions(**given)
    )


def trained(outcome):
    """Everything of a run that an evaluation could have touched."""
    parts, runner = outcome.runner.parts, outcome.runner
    rows = parts.sampler.window.rows
    return [
        rows.observation.tobytes(),
        rows.action.tobytes(),
        *(x.numpy().tobytes() for x in parts.agent.state_dict().values()),
        parts.algorithm.generator.get_state().numpy().tobytes(),
        [(e.column, e.raw_return, e.env_steps) for e in runner.episodes.recent],
    ]


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_training_is_the_same_with_and_without_evaluations(memory, tmp_path):
    """B190, B191, B202: rows, weights, normalizer, generators, even global ones."""
    found = []
    for interval, episodes in ((0, 0), (0, 3), (50, 3)):
        options = run(
            tmp_path, careless, memory=memory, normalize=True, eval_interval=interval,
            eval_episodes=episodes, eval_stochastic=True,
        )  # fmt: skip
        found.append(trained(train(options, mode="quiet")))
    assert found[0] == found[1] == found[2]


class Overflows(CrashEnv):
    """Fails by what means, elsewhere, that the weights are not finite."""

    def _crash_when_due(self, place):
        try:
            super()._crash_when_due(place)
        except RuntimeError as error:
            raise FloatingPointError(str(error)) from None


def overflowing_evaluation(role: str = "train"):
    return Overflows("step" if role == "evaluation" else "nowhere", k=7)


def test_a_floating_point_error_of_an_evaluations_environment_is_no_matter_of_weights(
    tmp_path, capsys
):
    """F38."""
    outcome = train(run(tmp_path, overflowing_evaluation), mode="plain")
    assert outcome.status == "finished" and outcome.runner.evaluations.newest is None
    assert "training goes on: FloatingPointError('crash in step')" in capsys.readouterr().out


def test_control_weights_that_are_not_finite_end_the_run_in_its_evaluation(tmp_path):
    """F10."""

    def poison(runner):
        if runner.episodes.env_steps >= runner.run.loop.env_steps:
            next(runner.parts.agent.model.parameters()).data[...] = float("nan")

    options = run(tmp_path, lambda: CrashEnv("nowhere"))
    with pytest.raises(FloatingPointError, match="finite"):
        train(options, hooks=Hooks(on_window=poison), mode="quiet")


def crashing_evaluation(role: str = "train"):
    return CrashEnv("step" if role == "evaluation" else "nowhere", k=7)


@pytest.mark.parametrize("interval", [0, 100])
def test_an_evaluation_that_fails_is_told_of_and_training_goes_on(interval, tmp_path, capsys):
    """F38."""
    options = run(tmp_path, crashing_evaluation, eval_interval=interval)
    outcome = train(options, mode="plain")
    assert outcome.status == "finished" and outcome.runner.evaluations.newest is None
    said = capsys.readouterr().out
    assert said.count("evaluation failed, training goes on: RuntimeError('crash in step')") == (
        4 if interval else 1
    )
    assert "eval/failed" in (outcome.folder / "progress.csv").read_text()
    assert (outcome.folder / "checkpoints").exists()
    plain = train(run(tmp_path, lambda: CrashEnv("nowhere"), eval_episodes=0), mode="quiet")
    assert trained(plain) == trained(outcome)
