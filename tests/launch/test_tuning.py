"""Tuning with pretended runs: trials are drawn, pruned, told once, and taken up where they were."""

import json
import sys
from collections import deque
from pathlib import Path

import pytest
from small_queue import PretendedRuns, Sweeping, write_run

import rlpyt
from rlpyt import presets
from rlpyt.cli import main
from rlpyt.cli.sweep import run_flags, run_of
from rlpyt.cli.tune import TuneOptions, asked_of
from rlpyt.cli.values import count, number
from rlpyt.errors import UsageError
from rlpyt.launch.space import Space, read_space

optuna = pytest.importorskip("optuna")
from optuna.trial import TrialState  # noqa: E402

from rlpyt.launch.tuning import STUDY, Tuning  # noqa: E402

FLAGS = run_flags(TuneOptions())
OVER = ("gamma=0.5..0.9", "horizon=16,32")
STEPS = 1000


def asked(**more):
    options = TuneOptions("ppo", "CartPole-v1", over=OVER, **more)
    return asked_of(
        options, ["--env-steps", str(STEPS), "--num-envs", "2", "--minibatch-size", "32"]
    )


class Curves(PretendedRuns):
    """Runs whose evaluations are gamma after 100 steps, and twice that at their end.

    Args:
        die_at: the run at whose start all comes to an end.
    """

    def __init__(self, die_at: int | None = None, codes=None) -> None:
        super().__init__(codes)
        self.die_at, self.looked = die_at, set()

    def start(self, name, argv, slot, log):
        if len(self.started) == self.die_at:
            raise KeyboardInterrupt
        super().start(name, argv, slot, log)
        folder = log.parent.parent / name
        if "--gamma" in argv:
            folder.joinpath("gamma").write_text(argv[argv.index("--gamma") + 1])
        self._write(folder, [100])

    def hear(self, seconds):
        name = next(iter(self._runs), None)
        if not self._answers and name is not None and name not in self.looked:
            self.looked.add(name)  # the queue looks at it before it ends
            return []
        folder = self._runs.get(name) if name else None
        found = super().hear(seconds)
        if folder and any("ended" in answer for answer in found) and found[0]["code"] == 0:
            self._write(folder, [100, STEPS])
        return found

    def signal(self, name, number):
        super().signal(name, number)
        self.codes[name] = deque([75])

    def _write(self, folder: Path, steps) -> None:
        gamma = float(folder.joinpath("gamma").read_text())
        lines = [f"{x},{gamma * (1 + (x == STEPS))}" for x in steps]
        folder.joinpath("progress.csv").write_text(
            "\n".join(["env_steps,eval/return_mean", *lines, ""])
        )


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch):
    monkeypatch.setattr("rlpyt.launch.queue.LOOK_SECONDS", 0.0)


def tune(folder: Path, what, runs=None) -> tuple[Tuning, Sweeping]:
    tuning = Tuning(what, folder, FLAGS, run_of)
    sweeping = Sweeping(folder, runs or Curves(), source=tuning, retries=0)
    sweeping.run([])
    return tuning, sweeping


def states(tuning) -> list[str]:
    return [trial.state.name for trial in tuning.study.trials]


def test_as_many_trials_are_drawn_as_were_asked_for_and_the_best_is_found(tmp_path):
    tuning, sweeping = tune(tmp_path, asked(trials=7, prune=False))
    assert states(tuning) == ["COMPLETE"] * 7
    assert len(sweeping.runs.trained) == 7
    trial, job = tuning.best()
    gammas = [trial.params["gamma"] for trial in tuning.study.trials]
    assert trial.params["gamma"] == max(gammas) and trial.value == pytest.approx(
        2 * max(gammas), 1e-4
    )
    assert job.run.algo.gamma == pytest.approx(max(gammas), 1e-5)
    least, _ = tune(tmp_path / "least", asked(trials=5, prune=False, minimize=True))
    assert least.best()[0].value == min(trial.value for trial in least.study.trials)


def test_a_trial_below_the_median_is_ended(tmp_path):
    tuning, sweeping = tune(tmp_path, asked(trials=16))
    pruned = [trial for trial in tuning.study.trials if trial.state is TrialState.PRUNED]
    whole = [trial for trial in tuning.study.trials if trial.state is TrialState.COMPLETE]
    assert pruned and len(whole) >= 5 and len(pruned) + len(whole) == 16
    assert max(x.params["gamma"] for x in pruned) < max(x.params["gamma"] for x in whole)
    named = {name for name, _ in sweeping.runs.signals}
    assert named == {f"{trial.number:04}__0" for trial in pruned}
    assert sweeping.states().count("pruned") == len(pruned)
    all_, _ = tune(tmp_path / "all", asked(trials=16, prune=False))
    assert states(all_) == ["COMPLETE"] * 16  # control


def test_a_trial_of_several_seeds_counts_by_their_mean_and_needs_all(tmp_path):
    runs = Curves(codes={"0001__1": [1]})
    tuning, sweeping = tune(tmp_path, asked(trials=3, seeds=2, prune=False), runs)
    assert states(tuning) == ["COMPLETE", "FAIL", "COMPLETE"]
    assert len(sweeping.runs.trained) == 6
    assert list(tuning.study.trials[0].intermediate_values) == [1, 10]


@pytest.mark.parametrize("die_at", range(6))
def test_killed_anywhere_tuning_goes_on_and_tells_each_trial_once(tmp_path, die_at):
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, asked(trials=4, seeds=2, prune=False), Curves(die_at))
    with (tmp_path / STUDY).open("a") as file:
        file.write('{"op_code":6,"work')  # killed while Optuna wrote
    tuning, sweeping = tune(tmp_path, asked(trials=4, seeds=2, prune=False))
    assert states(tuning) == ["COMPLETE"] * 4
    assert sweeping.states() == ["finished"] * 8
    more, _ = tune(tmp_path, asked(trials=5, seeds=2, prune=False))
    assert states(more) == ["COMPLETE"] * 5


def test_a_trial_that_was_killed_while_it_was_drawn_is_drawn_again(tmp_path, monkeypatch):
    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(optuna.trial.Trial, "_suggest", cut)
        with pytest.raises(KeyboardInterrupt):
            tune(tmp_path, asked(trials=2))
    tuning, _ = tune(tmp_path, asked(trials=2))
    assert states(tuning) == ["FAIL", "COMPLETE", "COMPLETE"]


def test_what_was_finished_while_no_queue_listened_is_told(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, asked(trials=2, prune=False), Curves(die_at=1))
    write_run(tmp_path / "0000__0", "finished")  # rlpyt resume, by hand
    (tmp_path / "0000__0" / "progress.csv").write_text("env_steps,eval/return_mean\n1000,3\n")
    tuning, sweeping = tune(tmp_path, asked(trials=2, prune=False))
    assert tuning.study.trials[0].value == 3
    assert [name for name, _, _ in sweeping.runs.started] == ["0001__0"]


def test_trials_of_other_options_are_not_compared(tmp_path):
    tune(tmp_path, asked(trials=1))
    with pytest.raises(UsageError, match="cannot be compared; choose another --name"):
        tune(tmp_path, asked(trials=1, seeds=2))


def test_an_impossible_combination_is_a_failed_trial(tmp_path):
    over = ("horizon=16,32", "state-interval=16,32")
    options = TuneOptions("ppo", "CartPole-v1", over=over, trials=12)
    fixed = "--env-steps 1000 --memory lstm --num-envs 4 --minibatch-size 64 --gamma 0.9"
    tuning, sweeping = tune(tmp_path, asked_of(options, fixed.split()))
    assert set(states(tuning)) >= {"FAIL", "COMPLETE"} and len(states(tuning)) == 12
    assert "cannot be: state_interval=32 must divide horizon=16" in " ".join(
        sweeping.text.getvalue().split()
    )


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("gamma=0.9..0.999", Space("gamma", 0.9, 0.999)),
        ("--lr=log:1e-5..1e-2", Space("lr", 1e-5, 1e-2, log=True)),
        ("horizon=8..1k", Space("horizon", 8, 1000, whole=True)),
        ("num_envs=4,8", Space("num_envs", choices=("4", "8"))),
        ("huber-delta=0.5,1", Space("huber-delta", choices=("0.5", "1"))),
    ],
)
def test_ranges_are_read(text, space):
    assert read_space(text, FLAGS, count, number) == space


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gama=0.9..1", "there is no option --gama; did you mean --gamma?"),
        ("gamma", "write name=low..high"),
        ("gamma=0.9", "of choices there are at least two"),
        ("gamma=1..0.9", "from 1 to 0.9 is no range"),
        ("lr=log:0..1", "above 0"),
        ("lr=fast..slow", "each end must be a number"),
        ("memory=1..2", "--memory is no number"),
        ("horizon=1.5..4", "must be a whole number"),
    ],
)
def test_ranges_that_cannot_be_are_named(text, says):
    with pytest.raises(UsageError, match=says):
        read_space(text, FLAGS, count, number)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("ppo --env CartPole-v1", "--over is missing"),
        ("--env CartPole-v1 --over gamma=0.9..1", "ALGO is missing"),
        ("ppo --over gamma=0.9..1", "--env is missing"),
        ("ppo --env CartPole-v1 --over gamma=0.9..1.5", "gamma=1.5 must lie between 0 and 1"),
        ("ppo --env CartPole-v1 --over gamma=0.9..1 --gamma 0.9", "--gamma is given twice"),
        ("ppo --env CartPole-v1 --over gamma=0.9..1 --seed 3", "say how many with --seeds"),
        ("ppo --env CartPole-v1 --over gamma=0.9..1 --eval-episodes 0", "nothing is evaluated"),
        ("ppo --env CartPole-v1 --over gamma=0.9..1 --out best.yaml", "must end in .json"),
        ("ppo --env CartPole-v1 --over gamma=0.9..1 --trials 0", "trials=0 must be at least 1"),
    ],
)
def test_mistakes_are_named_before_anything_starts(words, says, capsys):
    assert main(["tune", *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert not Path("runs").exists()


def test_without_optuna_it_is_said_how_to_install_it(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "rlpyt.launch.tuning")
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", "ppo", "--env", "CartPole-v1", "--over", "gamma=0.9..1"]) == 2
    assert "pip install 'rlpyt[tune]'" in capsys.readouterr().err


def test_the_winner_is_a_preset_that_trains(capsys):
    few = {"env_steps": 400, "num_envs": 4, "horizon": 25, "minibatch_size": 50, "eval_episodes": 1}
    over = {"lr": "log:1e-4..1e-2", "normalize_observation": [True, False]}
    first = rlpyt.tune("ppo", "CartPole-v1", over=over, trials=1, mode="quiet", **few)
    assert (first.status, first.code, first.trials, first.trial) == ("finished", 0, 1, 0)
    words = "ppo --env CartPole-v1 --env-steps 400 --num-envs 4 --horizon 25 --minibatch-size 50"
    words += " --eval-episodes 1 --trials 2 --over lr=log:1e-4..1e-2"
    words += " normalize_observation=true,false --quiet --json"
    assert main(["tune", *words.split()]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(first.folder)  # it went on
    assert found["trials"] == 2 and found["status"] == "finished"
    run = presets.choose("ppo", "CartPole-v1", found["preset"])
    assert run.algo.lr == float(found["options"]["lr"])
    normalized = found["options"]["normalize_observation"]
    assert run.algo.normalize_observation == (normalized == "true")
    assert (run.loop.env_steps, run.env.num_envs, run.algo.horizon) == (400, 4, 25)
    assert run.loop.seed is None and run.loop.eval_interval == 0  # of where and when, nothing
    train = ["train", "ppo", "--env", "Acrobot-v1", "--preset", found["preset"], "--horizon", "50"]
    assert main([*train, "--quiet", "--name", "trained"]) == 0
    record = json.loads(Path("runs/trained/run.json").read_text())
    assert record["preset"] == found["preset"] and record["options"]["algo"]["lr"] == run.algo.lr
