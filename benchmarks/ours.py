"""One measurement of rlpyt, in a process of its own; prints one JSON object.

usage: ours.py train|sample cartpole|pong|recurrent [--seconds 15] [--precision bf16] [--compile on]
"""

import argparse
import json
import time

from meter import peak_memory_mb

from rlpyt.algos.options import PPOOptions
from rlpyt.build import Parts, build
from rlpyt.envs.options import EnvOptions
from rlpyt.logging.episodes import Episodes
from rlpyt.models.options import ModelOptions
from rlpyt.run import LoopOptions, Run

ENVS = {
    "cartpole": "CartPole-v1",
    "pong": "PongNoFrameskip-v4",
    "recurrent": "rlpyt/CartPolePositions-v0",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "sample"])
    parser.add_argument("task", choices=list(ENVS))
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", default="off")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--sequence", type=int, default=16, help="rows; the preset's for memory")
    a = parser.parse_args()
    recurrent = a.task == "recurrent"
    interval = a.sequence if recurrent else None
    run = Run(
        EnvOptions(ENVS[a.task], num_envs=8),
        PPOOptions(horizon=128, minibatch_size=256, update_epochs=4, state_interval=interval),
        ModelOptions(memory="lstm" if recurrent else "none"),
        LoopOptions(seed=0, precision=a.precision, compile=a.compile, threads=a.threads),
    )
    parts = build(run)
    steps, seconds = measure(parts, a.what == "train", a.seconds)
    print(
        json.dumps(
            {
                "steps_per_second": round(steps / seconds, 1),
                "memory_mb": peak_memory_mb(),
                "threads": parts.resolved.threads,
            }
        )
    )


def measure(parts: Parts, learn: bool, seconds: float) -> tuple[int, float]:
    """Environment steps and seconds after a warm-up of two windows."""
    episodes = Episodes(8)
    parts.sampler.reset()

    def window() -> None:
        before = episodes.env_steps
        rows = parts.sampler.collect()
        episodes.count(rows.rows, infos=parts.sampler.infos)
        if learn:
            parts.algorithm.update(rows, before)

    for _ in range(2):
        window()
    begun, first = time.perf_counter(), episodes.env_steps
    while time.perf_counter() - begun < seconds:
        window()
    return episodes.env_steps - first, time.perf_counter() - begun


if __name__ == "__main__":
    main()
