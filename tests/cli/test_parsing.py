"""Command lines become options, strictly: nothing is taken in silence, nothing guessed."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tyro.conf import Positional, arg

from rlpyt.cli.parsing import parse
from rlpyt.cli.train import parse as parse_train
from rlpyt.cli.values import count, show
from rlpyt.errors import UsageError
from rlpyt.suggest import did_you_mean


@dataclass(frozen=True)
class Inner:
    rate: Annotated[float, arg(name="learning-rate", aliases=["--rate"])] = 0.5
    sizes: tuple[int, ...] = (64, 64)


@dataclass(frozen=True)
class Outer:
    path: Annotated[str, Positional] = ""
    inner: Inner = dataclasses.field(default_factory=Inner)
    steps: int = 1
    limit: int | None = None
    share: bool | None = None
    kind: Literal["linear", "constant"] = "constant"
    fast: bool = False


def of(*arguments: str) -> Outer:
    return parse(Outer(), ["x", *arguments])


def run_of(line: str):
    return parse_train(line.split())[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("100k", 100_000), ("1e6", 1_000_000), ("2M", 2_000_000), ("100_000", 100_000)),
        *(("2.5k", 2500), ("0", 0), ("-3", -3), ("1e-0", 1), ("7", 7), ("1.0", 1), ("1B", 10**9)),
    ],
)
def test_whole_numbers_are_written_in_many_ways(text, value):
    assert count(text) == value


@pytest.mark.parametrize(("text", "sizes"), [("8 4", (8, 4)), ("8", (8,)), ("none", None)])
def test_several_values_may_be_unset_too(text, sizes):
    assert run_of(f"sac --env Pendulum-v1 --critic-sizes {text}").model.critic_sizes == sizes


@pytest.mark.parametrize(
    "text", ["", "k", "1.5", "1e-3", "abc", "nan", "inf", "1kk", "1 k", "1e999999"]
)
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="whole number"):
        count(text)


@given(st.integers(-(10**12), 10**12))
def test_a_shown_number_reads_as_itself(value):
    assert count(show(value)) == value


def test_all_forms_of_a_value():
    assert of("--steps", "1k").steps == 1000
    assert of("--steps=1k").steps == 1000
    assert of("--sizes", "3", "4", "--steps", "2").inner.sizes == (3, 4)
    assert of("--sizes").inner.sizes == ()
    assert of("--rate", "1e-3").inner.rate == of("--learning_rate", "1e-3").inner.rate == 1e-3
    assert of("--limit", "5").limit == 5
    assert of("--limit", "none").limit is None
    assert of("--steps", "-5").steps == -5
    assert of("--fast").fast
    assert not of("--no-fast").fast
    assert of("--share", "true").share is True
    assert of("--kind", "linear").kind == "linear"
    assert of().path == "x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stps", "3"], r"no option --stps; did you mean --steps\?"),
        (["--learning-rat", "3"], r"did you mean --learning-rate\?"),
        (["-s", "3"], "no option -s"),
        (["--steps"], "--steps needs a value: INT"),
        (["--steps", "--fast"], "--steps needs a value"),
        (["--steps", "1.5"], "--steps=1.5 must be a whole number"),
        (["--rate", "fast"], "--rate=fast must be a number"),
        (["--rate", "nan"], "must be a number"),
        (["--kind", "liner"], r"must be one of linear, constant; did you mean linear\?"),
        (["--share", "yes"], "must be true or false"),
        (["--fast=1"], "--fast takes no value; write --fast or --no-fast"),
        (["y"], "'y' is one too many"),
        (["--steps", "1", "--steps", "2"], r"--steps is given twice \(--steps 1, --steps 2\)"),
        (["--rate", "1", "--learning-rate=2"], r"given twice \(--rate 1, --learning-rate 2\)"),
        (["--fast", "--no-fast"], "--fast is given twice"),
    ],
)
def test_what_cannot_be_read_is_said(arguments, message):
    with pytest.raises(UsageError, match=message):
        of(*arguments)


def test_a_missing_positional_is_said():
    with pytest.raises(UsageError, match="PATH is missing"):
        parse(Outer(), [])


def test_options_stand_before_or_after_the_algorithm():
    lines = ["ppo --env CartPole-v1 --gamma 0.9", "--env CartPole-v1 ppo --gamma 0.9"]
    lines += ["--gamma 0.9 --env CartPole-v1 ppo", "--info success ppo --env CartPole-v1"]
    first, second, third, last = map(run_of, lines)
    assert first == second == third
    assert last.env.info == ("success",)


def test_aliases_mean_the_same():
    ours = run_of(
        "ppo --env X-v0 --env-steps 1e6 --horizon 64 --num-envs 4 --update-epochs 2 --lr 1e-3 "
        "--clip-coef 0.3"
    )
    theirs = run_of(
        "ppo --env-id X-v0 --total-timesteps 1M --num-steps 64 --n-envs 4 --n-epochs 2 "
        "--learning-rate 0.001 --clip-range 0.3"
    )
    assert ours == theirs


def test_aliases_of_replay_mean_the_same():
    assert run_of("dqn --env X-v0 --replay-size 50k") == run_of("dqn --env X-v0 --buffer-size 50k")


def test_the_variants_of_dqn_are_options_of_their_own():
    run = run_of(
        "dqn --env CartPole-v1 --double --dueling --noisy --prioritized --n-step 3 "
        "--values categorical --v-max 50 --epsilon-start 0 --epsilon-end 0"
    )
    assert run.algo.double and run.model.dueling and run.model.noisy and run.algo.prioritized
    assert (run.algo.n_step, run.algo.values, run.algo.v_max) == (3, "categorical", 50.0)
    assert not run_of("dqn --env CartPole-v1 --no-double").algo.double


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "which algorithm"),
        ("--env CartPole-v1", "which algorithm"),
        ("pppo --env CartPole-v1", r"'pppo' is no algorithm; did you mean ppo or appo\?"),
        ("ppo", "--env is missing"),
        ("ppo a2c --env X", "'a2c' is one too many"),
        ("ppo --env X --n-steps 5", "--horizon"),
        ("ppo --env X --n_steps 5", "--env-steps"),
        ("a2c --env X --n-step 5", "--horizon"),
        ("ppo --env X --batch-size 64", "--minibatch-size"),
        ("a2c --env X --clip-coef 0.1", "--clip-coef has no effect on a2c; it is of ppo"),
        ("ppo --env X --optimizer adam", "--optimizer has no effect on ppo; it is of a2c"),
        ("ppo --env X --memory-size 32", "no effect beside the rest; add --memory lstm or gru"),
        ("ppo --env X --state-interval 32", "no effect beside the rest; add --memory lstm or gru"),
        ("ppo --env X --replay-ratio 8", "--replay-ratio has no effect on ppo; it is of dqn, r2d1"),
        ("ppo --env X --dueling", "--dueling has no effect on ppo; it is of dqn, r2d1"),
        ("r2d1 --env X --share-trunk true", "--share-trunk has no effect on r2d1; it is of ppo"),
        ("dqn --env X --burn-in 8", "--burn-in has no effect on dqn; it is of r2d1"),
        ("dqn --env X --priority-alpha 1", "no effect beside the rest; add --prioritized"),
        ("dqn --env X --v-max 5", "no effect beside the rest; add --values categorical"),
        ("dqn --env X --noisy-sigma 1", "no effect beside the rest; add --noisy"),
        ("dqn --env X --memory lstm", "choose r2d1"),
        ("dqn --env X --replay-size 3", "an item takes 2"),
        ("dqn --env X --env-steps 500", "nothing would be learned"),
        ("dqn --env X --buffer-size 9k --replay-size 9k", "given twice"),
        ("dqn --env X --values quantil", r"did you mean quantile\?"),
        ("dqn --env X --munchausen --n-step 3", "choose --n-step 1"),
        ("dqn --env Pendulum-v1", "dqn needs a discrete action space"),
        ("ppo --env X --lerning-rate 1", r"did you mean --learning-rate\?"),
        ("ppo --env X --preset clasic", r"preset=clasic is unknown; did you mean classic\?"),
        ("ppo --env X --preset a2c/atari", "is of a2c"),
        ("ppo --env X --memory lstn", r"did you mean lstm\?"),
        ("ppo --env X --num-envs 0", "num_envs=0 must be at least 1"),
        ("ppo --env X --gamma 99", "gamma=99.0 must lie between 0 and 1"),
        ("a2c --env X --gae-lambda -1", "gae_lambda=-1.0 must lie between 0 and 1"),
        ("ppo --env X --lr -1", "lr=-1.0 must not be negative"),
        ("ppo --env X --max-grad-norm -1", "max_grad_norm=-1.0 must not be negative"),
        ("ppo --env X --clip-coef -1", "clip_coef=-1.0 must not be negative"),
        ("ppo --env X --hidden-sizes 8 0", "must be at least 1"),
        ("ppo --env X --memory lstm --memory-size 0", "must be at least 1"),
        (
            "ppo --env X --stop-at-return 1 --eval-interval 9 --eval-episodes 0",
            "--eval-episodes above 0",
        ),
        ("ppo --env X --env-kwargs gravity", "must be key=value"),
        ("ppo --env X --stop-at-return 1", "--eval-interval"),
        ("ppo --env CartPole-v1 --env-steps 1 --total-frames 4", "choose one"),
        ("ppo --env CartPole-v1 --total-frames 4", "has none; use --env-steps"),
    ],
)
def test_a_run_that_cannot_be_is_refused(line, message):
    with pytest.raises(UsageError, match=message):
        run_of(line)


def test_options_go_on_top_of_the_preset():
    run = run_of("ppo --env CartPole-v1 --gamma 0.9")
    assert (run.preset, run.algo.gamma, run.algo.lr) == ("ppo/classic", 0.9, 2.5e-3)
    assert run_of("ppo --env CartPole-v1 --preset none").algo.lr == 3e-4


def test_suggestions_are_few_and_near():
    assert (
        did_you_mean("cartpole-v1", ["CartPole-v1", "Acrobot-v1"]) == "; did you mean CartPole-v1?"
    )
    assert did_you_mean("xyzzy", ["CartPole-v1", "Acrobot-v1"]) == ""
    assert did_you_mean("--ent-coef", ["--entropy-coef", "--value-coef"]).endswith(
        "--entropy-coef?"
    )
