"""How long help and the first line of a training run take; prints one JSON object.

Wall and processor seconds of a process of its own, the best of five: other work on the machine only
adds. What help loads, which decides it, is tested in tests/cli/test_help.py.

usage: startup.py [--rounds 5]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

RLPYT = [sys.executable, "-m", "rlpyt"]
HELP = {  # what is asked for, and its budget in seconds
    "--help": 0.25,
    "train ppo --env CartPole-v1 --help": 0.4,
    "train r2d1 --env CartPole-v1 --help": 0.4,
}
RUN, RUN_BUDGET = "train ppo --env CartPole-v1 --env-steps 1k --eval-episodes 0", 3.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found = {words: best(rounds, help_of, words) | {"budget": HELP[words]} for words in HELP}
    found[f"first line of: {RUN}"] = best(rounds, first_line, RUN) | {"budget": RUN_BUDGET}
    print(json.dumps(found, indent=1))


def best(
    rounds: int, measure: Callable[[str], tuple[float, float]], words: str
) -> dict[str, float]:
    """The least of each figure over so many processes."""
    wall, processor = zip(*(measure(words) for _ in range(rounds)), strict=True)
    return {"seconds": round(min(wall), 3), "processor_seconds": round(min(processor), 3)}


def help_of(words: str) -> tuple[float, float]:
    """Wall and processor seconds of a command, from start to exit."""
    begun = time.perf_counter()
    process = subprocess.Popen([*RLPYT, *words.split()], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"rlpyt {words} failed")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime


def first_line(words: str) -> tuple[float, float]:
    """Wall seconds until a run has printed its first line, and processor seconds of all of it."""
    with tempfile.TemporaryDirectory() as runs:
        command = [*RLPYT, *words.split(), "--runs", runs]
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - begun
            process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if status or not line:
        raise SystemExit(f"rlpyt {words} failed")
    return seconds, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
