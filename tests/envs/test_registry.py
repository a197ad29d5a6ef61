"""What is registered, and what installs the package that an environment lacks."""

import sys

import pytest

from rlpyt.envs import registry
from rlpyt.envs.make import make
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError


def test_what_an_environment_lacks_is_known_without_making_it(monkeypatch):
    there = registry.importlib.util.find_spec
    for package, env in (
        ("Box2D", "LunarLander-v3"),
        ("mujoco", "Ant-v5"),
        ("jax", "phys2d/CartPole-v1"),
    ):
        monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: object())
        assert registry.lacks(env) == registry.lacks("CartPole-v1") == ""
        monkeypatch.setattr(
            registry.importlib.util,
            "find_spec",
            lambda name, package=package: None if name == package else there(name),
        )
        assert registry.lacks(env).startswith(
            f"needs {package}, which is not installed: pip install"
        )
        assert registry.lacks("CartPole-v1") == ""


@pytest.mark.parametrize(
    ("package", "env", "line"),
    [
        ("mujoco", "HalfCheetah-v5", r"pip install 'rlpyt\[mujoco\]'"),
        ("Box2D", "LunarLander-v3", r"pip install 'rlpyt\[box2d\]'"),
        ("ale_py", "ALE/Pong-v5", r"pip install 'rlpyt\[atari\]'"),
        ("ale_py", "PongNoFrameskip-v4", r"pip install 'rlpyt\[atari\]'"),
    ],
)
def test_a_missing_package_is_answered_with_what_installs_it(package, env, line, monkeypatch):
    ours = ("gymnasium.envs.mujoco", "gymnasium.envs.box2d", "rlpyt.envs.atari")
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name.startswith(ours):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # importing it raises ImportError
    with pytest.raises(UsageError, match=line):
        make(EnvOptions(env))


def test_the_registered_ids_leave_out_what_gymnasium_only_remembers():
    ids = registry.registered()
    assert "CartPole-v1" in ids
    assert "HalfCheetah-v3" not in ids


def test_older_ids_of_atari_are_answered_with_those_that_have_a_protocol():
    pytest.importorskip("ale_py")
    ids = registry.registered()
    assert "ALE/Pong-v5" in ids
    assert "PongNoFrameskip-v4" in ids
    assert "Pong-v4" not in ids
    with pytest.raises(UsageError, match=r"'Pong-v4' is not registered; did you mean ALE/Pong-v5"):
        registry.find("Pong-v4")


def test_a_game_of_atari_is_the_same_with_and_without_the_module_before_its_id():
    assert EnvOptions("ale_py:ALE/Pong-v5") == EnvOptions("ALE/Pong-v5")
