"""What a sweep expands to, and that each of its commands stands alone."""

import json
import shlex
from pathlib import Path

import pytest
import toys

import rlpyt
from rlpyt.cli import main, train
from rlpyt.cli.sweep import parse
from rlpyt.errors import UsageError
from rlpyt.launch.jobs import LONGEST, read_axis, split

PPO = ["ppo", "--env", "CartPole-v1"]


def jobs_of(*argv: str):
    return parse(argv)[1]


def test_every_algorithm_meets_every_environment_setting_and_seed_once():
    words = "ppo dqn --env CartPole-v1 Acrobot-v1 --seeds 3 --grid lr=1e-4,3e-4 horizon=16,32,64"
    found = jobs_of(*words.split())
    assert len(found) == 2 * 2 * 3 * 2 * 3
    assert len({job.name for job in found}) == len({job.run for job in found}) == len(found)
    seeds = [job.run.loop.seed for job in found]
    assert seeds == sorted(seeds)  # each setting runs once before any runs again
    for job in found:
        assert train.parse(job.train(Path("x"))[1:])[0].loop.name == job.name
        assert job.run == train.parse(job.options)[0]


@pytest.mark.parametrize("words", [[], ["--seed", "0"], ["--seeds", "1"], ["--grid", "seed=0"]])
def test_one_setting_and_one_seed_are_exactly_one_run(words):
    """B241."""
    (job,) = jobs_of(*PPO, *words)
    assert job.run.loop.seed == 0
    assert job.name == "CartPole-v1__ppo__0"


def test_seeds_are_a_number_of_them_or_the_seeds_themselves():
    assert [job.run.loop.seed for job in jobs_of(*PPO, "--seeds", "3")] == [0, 1, 2]
    assert [job.run.loop.seed for job in jobs_of(*PPO, "--seeds", "7", "3")] == [7, 3]
    assert [job.run.loop.seed for job in jobs_of(*PPO, "--seed", "5")] == [5]


def test_values_of_a_grid_are_of_any_kind():
    words = ["dqn", *PPO[1:], "--grid", "dueling=true,false", "env-kwargs='x=(1,2)',y=3"]
    words += ["hidden-sizes=64 64,256", "target-tau/target-update-updates=0.01/1,1/500"]
    found = [job.run for job in jobs_of(*words, "huber-delta=0.5,1")]
    assert {run.model.dueling for run in found} == {True, False}
    assert {run.model.hidden_sizes for run in found} == {(64, 64), (256,)}
    assert {run.env.env_kwargs for run in found} == {("x=(1,2)",), ("y=3",)}
    pairs = {(run.algo.target_tau, run.algo.target_update_updates) for run in found}
    assert pairs == {(0.01, 1), (1.0, 500)}
    assert len(found) == 2 * 2 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--learning-rat 1e-3", "--learning-rat; did you mean --learning-rate?"),
        ("--grid learning-rat=1e-3,1e-4", "--learning-rat; did you mean --learning-rate?"),
        ("--grid gamma=0.9,1.5", "gamma=1.5 must lie between 0 and 1"),
        ("--grid learning-rate=1e-3,fast", "--learning-rate=fast must be a number"),
        ("--grid memory-size=32,64", "--memory-size has no effect beside the rest; add --memory"),
        ("--grid batch-size=32,64", "use --minibatch-size"),
        (
            "--lr 1e-3 --grid learning-rate=1e-4",
            "--learning-rate is given twice|--lr is given twice",
        ),
        ("--grid lr=1e-4,0.0001", "the same run twice"),
        ("--grid lr=1e-4,1e-4", "1e-4 stands there twice"),
        ("--grid lr=1e-4 lr=1e-3", "lr stands there twice; give its values together"),
        ("--grid lr/lr=1e-4/1e-3", "lr stands there twice"),
        ("--grid lr=1e-4 learning-rate=1e-3", "is given twice"),
        ("--grid lr", "write name=value,value"),
        ("--grid lr=", "write name=value,value"),
        ("--grid lr/gamma=1e-3/0.9,1e-4", "1e-4 has 1 values for 2 options"),
        ("--grid env=A,B", "it is the sweep's own; give --env"),
        ("--grid normalize-observation=yes,no", "must be true or false"),
        ("--seeds 2 --seed 1", "--seeds and --seed both"),
        ("--seeds 0", "for seed 0 alone give --seed 0"),
        ("--seeds=-1", "--seeds -1 must not be negative"),
        ("--seeds 3 3", "the same run twice"),
        ("--profile", "there is no option --profile"),
        ("--slots 0", "slots=0 must be at least 1"),
    ],
)
def test_mistakes_are_named_before_anything_starts(words, says, capsys):
    """B232, B233: with code 2."""
    assert main(["sweep", *PPO, *words.split()]) == 2
    message = capsys.readouterr().err
    assert any(part in message for part in says.split("|")), message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--env CartPole-v1", "which algorithm?"),
        ("ppo", "--env is missing"),
        ("pqo --env CartPole-v1", "'pqo' is no algorithm; did you mean ppo?"),
        ("statsu runs/s", "'statsu' is no algorithm; did you mean status?"),
        ("dqn --env Pendulum-v1", "dqn needs a discrete action space"),
    ],
)
def test_what_is_missing_is_named(words, says, capsys):
    assert main(["sweep", *words.split()]) == 2
    assert says in capsys.readouterr().err


def test_a_dry_run_shows_commands_that_stand_alone_and_makes_nothing(capsys):
    words = [*PPO, "--seeds", "2", "--grid", "env-kwargs=a b,c", "--name", "mine"]
    assert main(["sweep", *words, "--env-steps", "1k", "--dry-run"]) == 2  # a=b is missing
    capsys.readouterr()
    words = [*PPO, "--seeds", "2", "--grid", "wrapper=m:f m:g,m:h", "--name", "mine"]
    assert main(["sweep", *words, "--env-steps", "1k", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and not Path("runs").exists()
    run, _ = train.parse(shlex.split(lines[0])[2:])
    assert run.env.wrapper == ("m:f", "m:g") and run.loop.env_steps == 1000
    assert run.loop.runs == "runs/mine"
    assert main(["sweep", *words, "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [x["state"] for x in shown["runs"]] == ["queued"] * 4


def test_the_folder_is_the_same_for_the_same_runs_alone():
    folder = parse([*PPO, "--seeds", "2"])[0]
    assert parse([*PPO, "--seeds", "2", "--slots", "1", "--retries", "3"])[0] == folder
    for other in (["--seeds", "3"], ["--seeds", "2", "--lr", "1e-3"]):
        assert parse([*PPO, *other])[0] != folder
    assert parse([*PPO, "--name", "mine", "--runs", "here"])[0] == Path("here/mine")


def test_names_of_runs_are_folders_of_their_own():
    words = ["ppo", "--env", "ALE/Pong-v5", "m:make", "--grid", "env-kwargs=a='x/y',a='x:y'"]
    names = [job.name for job in jobs_of(*words)]
    assert len(set(names)) == 4 and all("/" not in name for name in names)
    long = [f"{'a' * 200}={x}" for x in "xy"]
    names = [job.name for job in jobs_of(*PPO, "--grid", f"env-kwargs={','.join(long)}")]
    assert len(set(names)) == 2 and max(map(len, names)) < LONGEST + 10
    wide = [f"{'é' * 200}={x}" for x in "xy"]
    names = [job.name for job in jobs_of(*PPO, "--grid", f"env-kwargs={','.join(wide)}")]
    assert len(set(names)) == 2
    assert max(len(name.encode()) for name in names) < LONGEST + 10  # file systems count bytes
    folder, *_ = parse(["ppo", "--env", f"m:{'é' * 200}"])
    assert len(folder.name.encode()) < LONGEST + 20


def test_a_name_that_no_folder_can_have_is_refused(capsys):
    assert main(["sweep", *PPO, "--name", "x" * 300]) == 2
    assert "File name too long); choose a shorter --name" in capsys.readouterr().err


def test_python_writes_the_commands_that_would_be_typed(capsys):
    made = rlpyt.sweep(
        "ppo",
        "CartPole-v1",
        seeds=(3, 4),
        grid={"learning_rate": [1e-4, 3e-4], ("horizon", "num_envs"): [(16, 8), (32, 4)]},
        hidden_sizes=(32, 32),
        normalize_observation=True,
        threads=None,
        dry_run=True,
    )
    words = "--seeds 3 4 --grid learning-rate=0.0001,0.0003 horizon/num-envs=16/8,32/4"
    fixed = "--hidden-sizes 32 32 --normalize-observation --threads none --dry-run"
    assert main(["sweep", *PPO, *words.split(), *fixed.split()]) == 0
    runs = [train.parse(shlex.split(run.command)[2:])[0] for run in made.runs]
    typed = capsys.readouterr().out.splitlines()
    assert [r.loop.seed for r in runs] == [3] * 4 + [4] * 4
    assert [r.algo for r in runs] == [train.parse(shlex.split(x)[2:])[0].algo for x in typed]
    assert runs[0].loop.threads is None and runs[0].model.hidden_sizes == (32, 32)


def test_python_names_an_environment_of_a_module_and_refuses_what_has_no_name():
    made = rlpyt.sweep("ppo", toys.CountEnv, env_kwargs={"n": 5}, dry_run=True)
    assert "toys:CountEnv" in made.runs[0].command
    with pytest.raises(UsageError, match="put it at the top of a module"):
        rlpyt.sweep("ppo", lambda: toys.CountEnv(5), dry_run=True)
    with pytest.raises(UsageError, match="--lerning-rate; did you mean"):
        rlpyt.sweep("ppo", "CartPole-v1", lerning_rate=1, dry_run=True)
    with pytest.raises(UsageError, match="slots=0 must be"):
        rlpyt.sweep("ppo", "CartPole-v1", slots=0, dry_run=True)
    with pytest.raises(UsageError, match="learning_rate has no values"):
        rlpyt.sweep("ppo", "CartPole-v1", grid={"learning_rate": []}, dry_run=True)
    with pytest.raises(UsageError, match=r"seeds=\[\] are no runs"):
        rlpyt.sweep("ppo", "CartPole-v1", seeds=[], dry_run=True)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,2", ["1", "2"]),
        ("(1,2),[3,4]", ["(1,2)", "[3,4]"]),
        ("'a,b',\"c,d\"", ["'a,b'", '"c,d"']),
        ("x={'a':(1,2)},y", ["x={'a':(1,2)}", "y"]),
        ("", [""]),
    ],
)
def test_commas_in_brackets_and_quotes_part_nothing(text, parts):
    assert split(text, ",") == parts


def test_names_may_be_written_with_dashes_in_front():
    assert read_axis("--lr=1,2").names == ("lr",)
