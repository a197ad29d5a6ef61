"""Environments that step out of sight: what is waited for shows in the heart."""

from typing import Any

import numpy as np

from rlpyt.processes.heart import Heart
from rlpyt.vector.beating import Beating


class Silent:
    """Notes what the heart shows while it is called."""

    spec, num_envs, groups = "spec", 2, (slice(0, 2),)

    def __init__(self, heart: Heart) -> None:
        self.heart, self.seen = heart, []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.seen.append((name, args, str(self.heart)))
            return [name]

        return call


def test_every_call_that_may_not_return_beats_and_is_passed_on():
    heart = Heart(np.zeros(8, np.int64))
    silent = Silent(heart)
    envs: Any = Beating(silent, heart)
    assert (envs.spec, envs.num_envs, envs.groups) == ("spec", 2, (slice(0, 2),))
    envs.reset("row")
    envs.send("row", "next", 1)
    assert envs.recv("row", 1) == ["recv"]
    assert envs.restore("state", "row") == ["restore"]
    assert envs.snapshot() == ["snapshot"]
    assert envs.metrics() == ["metrics"]
    envs.close()
    calls = [(name, args) for name, args, _ in silent.seen]
    assert calls[:3] == [("reset", ("row",)), ("send", ("row", "next", 1)), ("recv", ("row", 1))]
    shown = {name: shows for name, _, shows in silent.seen}
    assert shown["reset"].startswith("reset") and shown["recv"].startswith("step")
    assert shown["restore"].startswith("restore") and shown["close"].startswith("close")
