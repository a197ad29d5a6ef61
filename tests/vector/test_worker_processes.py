"""Workers make what the run names, draw from generators of their own, and leave nothing."""

import gc
import os
import signal
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_sampling import descendants, parts_of, rows_of, same
from small_workers import WORKERS, stream

from rlpyt import noise
from rlpyt.generators import generators, restore_generators
from rlpyt.noise import ResetSeeds
from rlpyt.vector import worker_loop

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def test_workers_draw_from_generators_of_their_own_and_the_same_in_every_run():
    """Forked from one server they would all begin alike, and otherwise in every run."""

    def found() -> Any:
        parts = parts_of("ppo", "small_workers:Drawing", workers=4, **WORKERS)
        try:
            training = stream(parts.sampler, 1)
            saved = parts.sampler.snapshot()
            evaluation = parts.evaluator.sampler
            drawn = []
            for _ in range(2):
                evaluation.reset()
                drawn.append(evaluation.collect().rows.observation[:3].copy())
            parts.sampler.restore(saved)  # not what was drawn at the run's beginning
            again = rows_of(parts.sampler.collect(None, 0))[0][1:4]
            return [training.observation[:3], *drawn, again]
        finally:
            parts.close()

    once, twice = found(), found()
    for a, b in zip(once, twice, strict=True):
        assert np.array_equal(a, b)
    training, first, second, again = once
    assert np.array_equal(first, second)  # an evaluation begins as the one before did
    drawn = [*training[..., 1:].ravel(), *first[..., 1:].ravel(), *again[..., 1:].ravel()]
    assert len({float(x) for x in drawn}) == len(drawn)
    assert len({*training[0, :, 0].tolist()}) == 4  # constructors draw, too


def test_pytorchs_generator_is_a_workers_own_too_where_environments_have_imported_it():
    """It begins with one number in every process; it is seeded as the other generators are."""

    def drawn(first: int, root: int, calls: int) -> list[float]:
        making = SimpleNamespace(seeds=ResetSeeds(root, noise.TRAINING_RESETS))
        post = SimpleNamespace(columns=(range(first, first + 2),), making=making)
        handover = SimpleNamespace(resets=np.zeros(8, np.int64))
        worker: Any = SimpleNamespace(post=post, handover=handover)
        worker_loop._Worker._seed_generators(worker, calls)
        return torch.rand(3).tolist()

    kept = generators()
    try:
        ways = [(0, 1, 0), (2, 1, 0), (0, 2, 0), (0, 1, 1)]
        found = [drawn(*way) for way in ways]
        assert found == [drawn(*way) for way in ways]
        assert len({x for numbers in found for x in numbers}) == 12
    finally:
        restore_generators(kept)


SCRIPT = """
import gymnasium, sys
from gymnasium import spaces
import numpy as np

class Own(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)
    def __init__(self, scale=1.0):
        self.scale = scale
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}
    def observe(self):
        return np.array([self.steps / 10 * self.scale], np.float32)
    def step(self, action):
        self.steps += 1
        return self.observe(), 1.0, self.steps == 5, False, {}

gymnasium.register("Own-v0", Own)
import rlpyt
given = dict(num_envs=2, sampler="workers", workers=2, env_steps=200, num_steps=10, seed=0,
             minibatch_size=10, runs=sys.argv[1])
for env in ("Own-v0", Own, lambda: Own(0.5)):  # no guard of __main__: it is a script
    agent = rlpyt.PPO(env, **given).learn(mode="quiet")
    print(agent.evaluate(2).mean)
"""


def test_what_a_script_registers_or_defines_is_made_in_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.stdout.split() == ["5.0"] * 3, ran.stderr


def test_closing_twice_after_a_death_and_before_a_beginning_says_nothing():
    """B062."""
    parts_of("ppo", workers=2, **WORKERS).close()
    parts = parts_of("ppo", workers=2, **WORKERS)
    parts.sampler.reset()
    child = min(descendants())
    os.kill(child, signal.SIGKILL)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # who was killed is told of
        parts.close()
        parts.close()


def test_starting_and_stopping_leaves_no_descriptor():
    """B064."""
    counts = []
    for _ in range(5):
        parts = parts_of("ppo", workers=2, **WORKERS)
        parts.sampler.reset()
        parts.close()
        del parts
        gc.collect()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[2:] == counts[2:3] * 3


def test_an_evaluation_has_workers_of_its_own_and_leaves_training_alone():
    def rows(evaluates: bool) -> Any:
        parts = parts_of("ppo", workers=2, **WORKERS)
        try:
            parts.sampler.reset()
            first = rows_of(parts.sampler.collect(None, 0))
            if evaluates:
                evaluation = parts.evaluator.evaluate()
                assert np.array_equal(evaluation.returns, parts.evaluator.evaluate().returns)
            return [first, rows_of(parts.sampler.collect(None, 0))]
        finally:
            parts.close()

    assert all(map(same, rows(True), rows(False)))
