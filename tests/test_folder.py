"""run.json: whole or not there, options come back as they were, and what is damaged is named."""

import errno
import json
import os
from pathlib import Path

import pytest
from toys import CountEnv

from rlpyt import checkpoint
from rlpyt.algos.options import A2COptions, PPOOptions
from rlpyt.api import load
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.folder import RunFolder, git_state, versions
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import LoopOptions, Run
from rlpyt.runner import Hooks
from rlpyt.training import resume, train


def run_in(folder, **loop):
    loop = LoopOptions(runs=str(folder), **loop)
    return Run(
        EnvOptions("CartPole-v1", env_kwargs=("sutton_barto_reward=True",)), PPOOptions(), loop=loop
    )


def begun(tmp_path, **loop):
    run = run_in(tmp_path, **loop)
    folder = RunFolder.create(run, 3)
    folder.begin(run, {"seed": 3})
    return folder, run


@pytest.mark.parametrize(
    "run",
    [
        Run(EnvOptions("CartPole-v1"), PPOOptions()),
        Run(
            EnvOptions("CartPole-v1", info=("a", "b"), env_kwargs=("x=1",)),
            A2COptions(),
            ActorCriticOptions(memory="gru", memory_size=8),
            LoopOptions(seed=5, stop_at_return=4.5, eval_interval=10),
            "classic",
        ),
    ],
)
def test_a_runs_options_come_back_as_they_were(run, tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(run, {"seed": 0})
    assert folder.run() == run


def test_what_begins_a_run_is_recorded(tmp_path):
    folder, _ = begun(tmp_path)
    record = folder.read()
    assert (record["algo"], record["env"], record["seed"]) == ("ppo", "CartPole-v1", 3)
    assert record["status"] == "running" and record["versions"] == versions()
    folder.update(status="finished", env_steps=7)
    assert folder.read() == {**record, "status": "finished", "env_steps": 7}


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path):
    made = {RunFolder.create(run_in(tmp_path), 0).path for _ in range(5)}
    assert len(made) == 5


def test_a_name_that_exists_is_refused_and_its_run_is_untouched(tmp_path):
    folder, run = begun(tmp_path, name="mine")
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(UsageError, match=r"name=mine: .* exists; choose another --name"):
        train(run, mode="quiet")
    assert (folder.path / "run.json").read_bytes() == before


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_folder_that_cannot_be_made_is_named(below, tmp_path):
    (tmp_path / "file").write_text("no folder")
    run = run_in(f"{tmp_path}/file{below}")
    with pytest.raises(UsageError, match=r"runs=.*cannot be made \(.*choose a folder"):
        train(run, mode="quiet")


def test_without_a_record_it_is_no_run(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UsageError, match="has no run.json"):
            resume(path)


DAMAGED = ["", "{", "null", "[]", "{}", '{"format": 1}', '{"format": "1"}', "\x00\xff"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_record_is_refused_by_name(text, tmp_path):
    (tmp_path / "run.json").write_text(text, encoding="latin-1")
    for read in (RunFolder(tmp_path).read, RunFolder(tmp_path).run, lambda: resume(tmp_path)):
        with pytest.raises(UsageError, match=r"run\.json"):
            read()


@pytest.mark.parametrize("field", ["options", "algo", "resolved", "resumed", "env_steps"])
def test_a_record_without_one_of_its_fields_is_refused_by_name(field, tmp_path):
    folder, _ = begun(tmp_path)
    record = folder.read()
    del record[field]
    (folder.path / "run.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=r"run\.json does not describe a run"):
        folder.run()


@pytest.mark.parametrize("part", ["env", "algo", "model", "loop"])
def test_a_record_with_a_part_of_its_options_missing_is_refused_by_name(part, tmp_path):
    folder, _ = begun(tmp_path)
    options = folder.read()["options"]
    del options[part]
    folder.update(options=options)
    with pytest.raises(UsageError, match=r"run\.json does not hold the options of a run"):
        folder.run()


def test_a_record_of_a_newer_format_says_so(tmp_path):
    folder, _ = begun(tmp_path)
    folder.update(format=99)
    with pytest.raises(UsageError, match="format 99, this rlpyt reads up to 1; install a newer"):
        folder.read()


def test_an_option_that_a_later_version_added_takes_its_default(tmp_path):
    folder, run = begun(tmp_path)
    options = folder.read()["options"]
    del options["loop"]["keep_checkpoints"]
    options["loop"]["of_tomorrow"] = 1
    folder.update(options=options)
    assert folder.run() == run


def test_a_write_that_fails_leaves_the_record_before(tmp_path, monkeypatch):
    folder, _ = begun(tmp_path)
    before = folder.read()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.update(status="finished")
    assert folder.read() == before


def test_outside_of_a_repository_there_is_no_git_state(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state() == {}
    monkeypatch.setenv("PATH", "")
    assert git_state() == {}


@pytest.mark.parametrize("env", [CountEnv, lambda: CountEnv()])
def test_a_run_of_a_callable_says_how_it_can_be_gone_on_with(env, tmp_path):
    loop = LoopOptions(seed=0, env_steps=20, eval_episodes=0, runs=str(tmp_path))
    algo = A2COptions(horizon=5)
    folder = train(Run(EnvOptions(env, num_envs=2), algo, loop=loop), mode="quiet").folder
    says = r"callable that was given in Python.*PPO\.load\(folder, env=callable\)"
    for go_on in (
        lambda: resume(folder, env_steps=40, mode="quiet"),
        lambda: load(folder).evaluate(1),
    ):
        with pytest.raises(UsageError, match=says):
            go_on()
    assert load(folder, env=env).evaluate(1).returns.tolist() == [5.0]
    assert resume(folder, env=env, env_steps=40, mode="quiet").status == "finished"


def test_a_run_that_is_being_trained_is_not_gone_on_with(tmp_path):
    folder = RunFolder(tmp_path)
    refused = pytest.raises(UsageError, match="is being trained by another process")
    with folder.held(), refused, RunFolder(tmp_path).held():
        pass
    with folder.held():
        pass


class Wanderer(CountEnv):
    """Goes to another folder, as simulators do to find their files."""

    def __init__(self, where, when="step"):
        super().__init__()
        self.where, self.when = where, when
        self._go("make")

    def reset(self, **given):
        self._go("reset")
        return super().reset(**given)

    def step(self, action):
        self._go("step")
        return super().step(action)

    def _go(self, now):
        if now == self.when:
            os.chdir(self.where)


@pytest.mark.parametrize("when", ["make", "reset", "step"])
def test_an_environment_that_changes_the_directory_takes_no_file_along(when, tmp_path):
    """Everything is where the run began, and it can be gone on with from there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    env = EnvOptions(lambda: Wanderer(elsewhere, when), num_envs=2)
    loop = LoopOptions(env_steps=64, checkpoint_interval=16, eval_episodes=0, name="run", seed=1)
    outcome = train(Run(env, A2COptions(horizon=8), loop=loop), mode="quiet")
    assert Path.cwd() == elsewhere and not any(elsewhere.iterdir())
    assert outcome.folder == tmp_path / "runs" / "run"
    assert RunFolder(outcome.folder).read()["status"] == "finished"
    assert checkpoint.steps(outcome.folder / "checkpoints") >= 64
    os.chdir(tmp_path)
    assert load("runs/run", env=env.env).folder == outcome.folder
    on = resume(Path("runs/run"), env_steps=128, env=env.env, mode="quiet")
    assert checkpoint.steps(tmp_path / "runs/run/checkpoints") >= 128 and on.status == "finished"
    assert not any(elsewhere.iterdir())


def test_a_disk_that_is_full_is_what_a_run_fails_of(tmp_path, monkeypatch):
    """Where `run.json` cannot say so either."""

    def full(*given, **fields):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail(runner):
        monkeypatch.setattr(RunFolder, "update", full)
        raise RuntimeError("the first error")

    with pytest.raises(RuntimeError, match="the first error"):
        train(run_in(tmp_path, env_steps=5000), hooks=Hooks(on_window=fail), mode="quiet")
