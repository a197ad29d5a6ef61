"""Where a replay is read changes nothing of what is learned, bit for bit on a CPU."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_runs import fingerprint, make, stopped_at

import rlpyt.build
from rlpyt.algos.options import DQNOptions
from rlpyt.build import build, ring_of
from rlpyt.envs.options import EnvOptions
from rlpyt.errors import UsageError
from rlpyt.models.options import QNetworkOptions
from rlpyt.replays.mirrored import MirroredRing
from rlpyt.replays.pinned import PinnedRing
from rlpyt.run import LoopOptions, Run
from rlpyt.training import resume, train

MEMORY = pytest.mark.parametrize("memory", ["pinned", "device"])


class CameraAndMask(gymnasium.Env):
    """A picture, numbers and the actions that are allowed; all of it is drawn."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "camera": spaces.Box(0, 255, (6, 6), np.uint8),
                "speed": spaces.Box(-np.inf, np.inf, (2,)),
                "action_mask": spaces.MultiBinary(3),
            }
        )
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        reward, chance = float(self.np_random.normal() + action), self.np_random.random()
        return self._observe(), reward, chance < 0.1, 0.1 <= chance < 0.2, {}

    def _observe(self) -> dict[str, np.ndarray]:
        camera = self.np_random.integers(0, 256, (6, 6), np.uint8)
        mask = self.np_random.integers(0, 2, 3).astype(np.int8)
        mask[self.np_random.integers(3)] = 1
        speed = self.np_random.normal(size=2).astype(np.float32)
        return {"camera": camera, "speed": speed, "action_mask": mask}


def run_of(kind: str, memory: str, runs: Path, **loop: Any) -> Run:
    run = make(kind, runs, **{"env_steps": 800, "eval_interval": 0, **loop})
    return dataclasses.replace(run, algo=dataclasses.replace(run.algo, replay_memory=memory))


@pytest.fixture
def pins_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the way by page-locked memory be taken without a GPU, memory not being page-locked."""

    def without_a_gpu(memory: str, device: torch.device) -> Any:
        return partial(PinnedRing, device=device) if memory == "pinned" else ring_of(memory, device)

    monkeypatch.setattr(rlpyt.build, "ring_of", without_a_gpu)


@MEMORY
@pytest.mark.parametrize("kind", ["dqn", "dqn-frames", "rainbow", "r2d1"])
@pytest.mark.usefixtures("pins_on_a_cpu")
def test_runs_are_equal_wherever_the_replay_is_read(kind: str, memory: str, tmp_path: Path):
    found = [
        fingerprint(train(run_of(kind, x, tmp_path / x), mode="quiet").folder)
        for x in ("host", memory)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["dqn-frames", "r2d1"])
def test_a_resumed_run_equals_one_that_never_stopped(kind: str, tmp_path: Path):
    whole = train(run_of(kind, "device", tmp_path / "whole"), mode="quiet")
    part = train(run_of(kind, "device", tmp_path / "part"), hooks=stopped_at(30), mode="quiet")
    assert part.status == "interrupted"
    part = resume(part.folder, mode="quiet")
    assert (whole.status, part.status) == ("finished", "finished")
    assert fingerprint(whole.folder) == fingerprint(part.folder)


@MEMORY
@pytest.mark.usefixtures("pins_on_a_cpu")
def test_dicts_with_masks_and_frames_are_learned_from_alike(memory: str):
    parameters = []
    for x in ("host", memory):
        algo = DQNOptions(
            replay_memory=x, learning_starts=60, replay_size=200, n_step=3, prioritized=True
        )
        env = EnvOptions(CameraAndMask, num_envs=3, frame_stack=3)
        network = QNetworkOptions(hidden_sizes=(16,))
        parts = build(Run(env, algo, network, LoopOptions(seed=0, env_steps=2000, device="cpu")))
        assert parts.spec.mask and parts.spec.frame_stack == 3
        parts.sampler.reset()
        for steps in range(0, 600, 12):
            parts.algorithm.update(parts.sampler.collect(), steps)
        assert parts.algorithm.learner.updates > 50
        parameters.append(parts.algorithm.learner.parameters.vector.detach().clone())
        parts.close()
    assert torch.equal(*parameters)


def test_rings_are_where_they_were_asked_for():
    cpu = torch.device("cpu")
    made: Any = ring_of("device", cpu)
    assert made.func is MirroredRing and made.keywords == {"device": cpu}
    made = ring_of("pinned", torch.device("cuda", 1))
    assert made.func is PinnedRing and made.keywords["device"].index == 1


def test_page_locked_memory_without_a_gpu_is_refused_with_its_remedy(tmp_path: Path):
    with pytest.raises(UsageError, match="replay_memory=pinned and device=cpu.*--replay-memory h"):
        build(run_of("dqn", "pinned", tmp_path))
