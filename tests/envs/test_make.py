import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toys import CountEnv, LengthReturnEnv

from rlpyt.envs.make import make, require_next_step
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError


def of(env, **options) -> EnvOptions:
    """Options of an environment that is given as a callable."""
    return EnvOptions(env, **options)


def test_an_id_keeps_its_time_limit_and_loses_the_checkers():
    env = make(EnvOptions("CartPole-v1"))
    assert isinstance(env, gymnasium.wrappers.TimeLimit)
    assert type(env.env).__name__ == "CartPoleEnv"
    assert gymnasium.registry["CartPole-v1"].order_enforce


def test_max_episode_steps_replaces_the_registered_limit_or_adds_one():
    for options in (EnvOptions("CartPole-v1"), of(lambda: CountEnv(end="never"))):
        env = make(replace(options, max_episode_steps=3))
        env.reset(seed=0)
        ends = [env.step(0)[3] for _ in range(3)]
        assert ends == [False, False, True]


def test_arguments_are_literals_or_text():
    options = EnvOptions(
        "x", env_kwargs=("a=1", "b=2.5", "c=true", "d=hello", "e=(1, 2)", "f=a=b", "g=None")
    )
    assert options.kwargs == {
        "a": 1,
        "b": 2.5,
        "c": True,
        "d": "hello",
        "e": (1, 2),
        "f": "a=b",
        "g": None,
    }


def test_a_dict_of_arguments_is_recorded_as_text():
    options = EnvOptions("x", env_kwargs={"a": 1, "b": "true", "c": [1.5, None]})
    assert options.env_kwargs == ("a=1", "b='true'", "c=[1.5, None]")
    assert options.kwargs == {"a": 1, "b": "true", "c": [1.5, None]}
    with pytest.raises(UsageError, match="factory"):
        EnvOptions("x", env_kwargs={"a": object()})


@pytest.mark.parametrize("wrong", ["a", "=1", "a b=1"])
def test_malformed_arguments_are_told_of_at_once(wrong):
    with pytest.raises(UsageError, match="key=value"):
        EnvOptions("x", env_kwargs=(wrong,))


@pytest.mark.parametrize("wrong", [{"num_envs": 0}, {"frame_stack": 0}, {"max_episode_steps": -1}])
def test_counts_begin_at_one(wrong):
    with pytest.raises(UsageError, match="at least 1"):
        EnvOptions("x", **wrong)


def test_arguments_reach_ids_and_factories():
    env = make(EnvOptions("CartPole-v1", env_kwargs=("sutton_barto_reward=true",)))
    assert env.unwrapped._sutton_barto_reward
    env = make(EnvOptions("toys:CountEnv", env_kwargs=("n=7", "end=trunc")))
    assert (env.unwrapped.n, env.unwrapped.end) == (7, "trunc")


@pytest.mark.parametrize(
    ("env", "name", "nearest"),
    [
        ("CartPole-v1", "sutton_barto_rewrd", "sutton_barto_reward"),
        ("toys:CountEnv", "gapp", "gap"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest(env, name, nearest):
    with pytest.raises(UsageError, match=f"no argument '{name}'; did you mean {nearest}"):
        make(EnvOptions(env, env_kwargs=(f"{name}=1",)))


def test_a_missing_argument_is_named():
    with pytest.raises(UsageError, match="'observation'.*--env-kwargs"):
        make(EnvOptions("toys:SpaceZooEnv"))


def test_an_error_inside_an_environment_is_left_as_it_is():
    with pytest.raises(RuntimeError, match="crash in init"):
        make(EnvOptions("toys:CrashEnv", env_kwargs=("where=init",)))


def test_rank_role_and_render_mode_reach_a_factory_that_names_them():
    given = []

    def factory(rank, role, render_mode="none"):
        given.append((rank, role, render_mode))
        return LengthReturnEnv(rank)

    make(of(factory), 3)
    make(of(factory), 4, role="evaluation", render_mode="rgb_array")
    assert given == [(3, "train", "none"), (4, "evaluation", "rgb_array")]
    assert make(EnvOptions("toys:LengthReturnEnv"), 2).unwrapped.n == 8


def test_rank_reaches_a_registered_environment_that_names_it():
    gymnasium.register("toys/Ranked-v0", "toys:LengthReturnEnv", max_episode_steps=5)
    try:
        env = make(EnvOptions("toys/Ranked-v0"), 3)
        assert env.unwrapped.n == 16
        assert env.spec.max_episode_steps == 5
        assert isinstance(make(EnvOptions("toys:toys/Ranked-v0")), gymnasium.wrappers.TimeLimit)
    finally:
        del gymnasium.registry["toys/Ranked-v0"]


def test_modules_in_the_working_directory_are_found(tmp_path: Path):
    (tmp_path / "my_envs_here.py").write_text("from toys import CountEnv\nmake = CountEnv\n")
    before = list(sys.path)
    try:
        assert isinstance(make(EnvOptions("my_envs_here:make")), CountEnv)
    finally:
        sys.path[:] = before


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPol-v1", "did you mean CartPole-v1"),
        ("cartpole-v1", "did you mean CartPole-v1"),
        ("HalfCheetah-v3", "did you mean.*HalfCheetah-v5"),
        ("qqqqqqqqqqqqqqq", "module:function"),
        ("no_such_module:make", "no module 'no_such_module'"),
        ("toys:CuontEnv", "did you mean CountEnv"),
        ("<lambda>", r"callable that was given in Python.*PPO\.load\(folder, env=callable\)"),
        ("make.<locals>.Env", "callable that was given in Python"),
    ],
)
def test_a_misspelt_environment_is_refused_with_the_nearest(env, message):
    with pytest.raises(UsageError, match=message):
        make(EnvOptions(env))


def test_an_import_error_inside_a_user_module_is_left_as_it_is(tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_envs.py").write_text("import no_such_package_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        make(EnvOptions("broken_envs:make"))


def first_value_only(env):
    return gymnasium.wrappers.TransformReward(env, lambda r: 10 * r)


def one_more(env):
    return gymnasium.wrappers.TransformReward(env, lambda r: r + 1)


def test_wrappers_are_applied_in_order():
    here = __name__
    sys.modules.setdefault(here, sys.modules[first_value_only.__module__])
    env = make(of(CountEnv, wrapper=(f"{here}:first_value_only", f"{here}:one_more")))
    env.reset()
    assert env.step(0)[1] == 11
    with pytest.raises(UsageError, match="wrapper='toy_tasks:TwoStateMDP.*REWARD'"):
        make(of(CountEnv, wrapper=("toy_tasks:TwoStateMDP.REWARD",)))


def test_a_wrapper_that_returns_nothing_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "forgetful.py").write_text("def wrap(env):\n    env.x = 1\n")
    with pytest.raises(UsageError, match="wrapper='forgetful:wrap' returned builtins.NoneType"):
        make(of(CountEnv, wrapper=("forgetful:wrap",)))


class LegacyEnv:
    """An environment of the package gym."""

    __module__ = "gym.core"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: None, ("NoneType", "gymnasium.Env")),
        (LegacyEnv, ("legacy", "shimmy")),
        (lambda: SyncVectorEnv([CountEnv] * 2), ("vector", "single", "--num-envs")),
        (
            lambda: SyncVectorEnv([CountEnv] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
            ("SameStep", "NEXT_STEP"),
        ),
    ],
    ids=["nothing", "legacy gym", "vector", "vector, same step"],
)
def test_what_is_no_single_environment_is_refused_by_name_with_a_remedy(made, words):
    with pytest.raises(UsageError) as error:
        make(of(made))
    assert all(word in str(error.value) for word in words)


def test_only_vector_environments_that_reset_on_the_next_step_are_taken():
    require_next_step(SyncVectorEnv([CountEnv]), "it")
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        with pytest.raises(UsageError, match=f"resets in mode {mode.value}.*NEXT_STEP"):
            require_next_step(SyncVectorEnv([CountEnv], autoreset_mode=mode), "it")
    silent = SyncVectorEnv([CountEnv])
    silent.metadata = {}
    with pytest.raises(UsageError, match="does not declare"):
        require_next_step(silent, "it")


def test_a_protocol_is_for_atari_alone():
    with pytest.raises(UsageError, match="protocol=mnih2015 is for Atari"):
        make(EnvOptions("CartPole-v1", protocol="mnih2015"))


def test_in_evaluation_a_lost_life_ends_nothing():
    pytest.importorskip("ale_py")
    options = EnvOptions("BreakoutNoFrameskip-v4")
    assert make(options).unwrapped.protocol.life_loss
    assert not make(options, role="evaluation").unwrapped.protocol.life_loss
