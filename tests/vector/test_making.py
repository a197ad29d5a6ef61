"""What cannot be sent to another process, or is not like the rest, is refused when it is made."""

import threading
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from toys import CountEnv

from rlpyt import noise
from rlpyt.envs.make import describe, probe
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.noise import ResetSeeds
from rlpyt.vector.choose import in_process
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.making import Making


def making(held: Any) -> Making:
    def factory() -> CountEnv:
        return CountEnv(column=bool(held))

    spec = describe(factory(), EnvOptions(factory))
    return Making(EnvOptions(factory), spec, ResetSeeds(0, noise.TRAINING_RESETS), 2)


def test_a_factory_that_cannot_be_sent_is_named_with_a_remedy():
    with pytest.raises(UsageError, match=r"env=.*factory cannot be sent.*lock.*module:function"):
        making(threading.Lock())


def test_control_a_function_of_a_script_can():
    making([1])


class Own(CountEnv):
    """Spaces of its own: actions twice as wide at rank 1, or what else is said."""

    def __init__(self, rank: int = 0, **spaces_: Any) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (1,))
        if rank:
            vars(self).update(spaces_)


def made(**spaces_: Any) -> InProcess:
    def factory(rank: int = 0) -> Own:
        return Own(rank, **spaces_)

    options, seeds = EnvOptions(factory), ResetSeeds(0, noise.TRAINING_RESETS)
    return in_process(options, probe(options), seeds, range(2), 2)


@pytest.mark.parametrize(
    ("which", "space"),
    [
        ("action", spaces.Box(-2.0, 2.0, (1,))),
        ("action", spaces.Box(-1.0, 1.0, (2,))),
        ("action", spaces.Discrete(2)),
        ("observation", spaces.Box(-np.inf, np.inf, (5,))),
        ("observation", spaces.Discrete(4)),
    ],
)
def test_environments_whose_spaces_differ_are_refused_by_number(which, space):
    """Each would be given actions, or be read, as the first one of its process is."""
    with pytest.raises(UsageError, match=rf"environment 1 of 2, train: its {which} space"):
        made(**{f"{which}_space": space})


def test_control_bounds_of_what_is_observed_may_be_an_environments_own():
    there = CountEnv().observation_space
    assert isinstance(there, spaces.Box)
    made(observation_space=spaces.Box(-5.0, 5.0, there.shape, there.dtype.type)).close()


def of_one(num_envs: int, role: int = noise.TRAINING_RESETS, env: Any = None) -> InProcess:
    env = env or CountEnv()
    options, seeds = EnvOptions(lambda: TimeLimit(env, 9)), ResetSeeds(0, role)
    return in_process(options, describe(env, options), seeds, range(num_envs), num_envs)


def test_one_environment_in_several_columns_is_refused():
    with pytest.raises(UsageError, match=r"returned before and that is still used; have it make"):
        of_one(2)


def test_control_environments_may_hold_what_they_share():
    simulator = CountEnv()

    class Seat(CountEnv):
        shared = simulator

    options, seeds = EnvOptions(Seat), ResetSeeds(0, noise.TRAINING_RESETS)
    in_process(options, describe(Seat(), options), seeds, range(2), 2).close()


def test_an_environment_that_trains_is_refused_for_evaluation_until_it_is_closed():
    env = CountEnv()
    training = of_one(1, env=env)
    with pytest.raises(UsageError, match="still used"):
        of_one(1, noise.EVALUATION_RESETS, env)
    assert training.steps(env)
    training.close()
    of_one(1, noise.EVALUATION_RESETS, env).close()  # the control
