"""A pool is made of a run's options or a vector environment, or is refused by name."""

import numpy as np
import pytest
from ale_py import AtariVectorEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from small_pools import NEXT_STEP, collect, native
from toys import CountEnv

from rlpyt.envs.options import EnvOptions
from rlpyt.envs.protocols import machado2018
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError
from rlpyt.vector.pools import AtariPool, describe_pool, make_pool, pool_for


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (AutoresetMode.SAME_STEP, "resets in mode SameStep.*autoreset_mode=AutoresetMode.NEXT"),
        (AutoresetMode.DISABLED, "resets in mode Disabled.*autoreset_mode=AutoresetMode.NEXT"),
        (None, "does not declare its autoreset mode.*autoreset_mode=AutoresetMode.NEXT"),
    ],
)
def test_a_vector_that_does_not_reset_in_the_next_step_is_refused(mode, says):
    envs = SyncVectorEnv([CountEnv], autoreset_mode=mode or NEXT_STEP)
    if mode is None:
        envs.metadata = {}
    with pytest.raises(UsageError, match=f"CountEnv-v0.*{says}"):
        pool_for(envs, "CountEnv-v0")


def test_what_is_no_vector_environment_is_refused():
    with pytest.raises(UsageError, match="count: toys.CountEnv is no vector environment"):
        pool_for(CountEnv(), "count")


def test_an_atari_vector_made_elsewhere_is_refused():
    envs = AtariVectorEnv("pong", 1)
    with pytest.raises(UsageError, match=r"cannot be seen from outside.*AtariPool\(game"):
        pool_for(envs, "pong")
    envs.close()


def test_pools_are_made_from_the_options_of_a_run():
    games = make_pool(EnvOptions("ALE/Pong-v5", env_kwargs=("frame_skip=3",)), 2)
    assert isinstance(games, AtariPool)
    games.close()
    poles = make_pool(EnvOptions("CartPole-v1", max_episode_steps=5), 3)
    rows = collect(native(poles), 12)
    assert np.array_equal(np.flatnonzero(rows.truncated[:, 0]), [5, 11])
    whole = make_pool(EnvOptions("BreakoutNoFrameskip-v4"), 1, role="evaluation")
    assert not whole._protocol.life_loss
    whole.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (EnvOptions("Pendulum-v1"), "Pendulum-v1 has no vector environment of its own"),
        (EnvOptions("ALE/Pong-v5", env_kwargs=("mode=1",)), "cannot set mode of ALE/Pong-v5"),
        (EnvOptions("CartPole-v1", wrapper=("m:f",)), "wrapper=m:f wraps single environments"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_the_remedy(options, says):
    with pytest.raises(UsageError, match=f"{says}.*--vectorization in-process"):
        make_pool(options, 2)


def test_a_specification_needs_no_single_environment():
    pool = AtariPool("pong", machado2018, 1)
    spec = describe_pool(pool, "ALE/Pong-v5")
    pool.close()
    assert isinstance(spec, EnvSpec)
    assert spec.observation.shape == (84, 84)
    assert spec.observation.image
    assert spec.action.n == 6
