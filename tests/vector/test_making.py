"""What another process is to make is refused where it cannot be sent, before any is started."""

import threading
from typing import Any

import pytest
from toys import CountEnv

from rlpyt import noise
from rlpyt.envs.make import describe
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.noise import ResetSeeds
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
