"""How well a sweep fills its slots, and what a kill of its queue costs; prints one JSON object.

24 short runs on 2 slots. `occupied` is the share of the slots' time in which a run's process was
in one, from when the first could begin to when the last had ended; `training` the share in which a
run was past its start (its folder is locked from when its loop begins). Both again for runs that
each get an interpreter of their own. Then the same sweep is killed (SIGKILL) when half of it is
done, and given again: how many have finished, and how often each.

usage: sweep.py [--runs 24] [--slots 2] [--env-steps 40k] [--skip-fresh]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rlpyt.launch import journal

RLPYT = [sys.executable, "-m", "rlpyt", "sweep"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--env-steps", default="40k")
    parser.add_argument("--skip-fresh", action="store_true")
    options = parser.parse_args()
    words = ["ppo", "--env", "CartPole-v1", "--seeds", str(options.runs)]
    words += ["--env-steps", options.env_steps, "--slots", str(options.slots), "--name", "s"]
    found: dict[str, Any] = {"load_before": os.getloadavg()}
    with tempfile.TemporaryDirectory() as runs:
        found["preloaded"] = whole([*words, "--runs", runs], Path(runs) / "s")
    if not options.skip_fresh:
        with tempfile.TemporaryDirectory() as runs:
            found["fresh"] = whole([*words, "--no-preload", "--runs", runs], Path(runs) / "s")
    with tempfile.TemporaryDirectory() as runs:
        found["killed"] = killed([*words, "--runs", runs], Path(runs) / "s", options.runs // 2)
    print(json.dumps(found | {"load_after": os.getloadavg()}, indent=1))


def whole(words: list[str], folder: Path) -> dict[str, Any]:
    """A sweep that nothing interrupts."""
    begun = time.monotonic()
    done = subprocess.run([*RLPYT, *words, "--json", "--quiet"], stdout=-1, text=True, check=True)
    outcome = json.loads(done.stdout)
    slots = int(words[words.index("--slots") + 1])
    return {
        "finished": outcome["finished"],
        "seconds": round(time.monotonic() - begun, 1),
        "occupied": outcome["utilization"],
        "training": round(training(folder) / (outcome["seconds"] * slots), 4),
    }


def training(folder: Path) -> float:
    """Seconds from where each run's loop began to its end, all together."""
    ends = {e["run"]: e["time"] for e in journal.read(folder) if e["event"] == "end"}
    return sum(at - (folder / name / ".lock").stat().st_mtime for name, at in ends.items())


def killed(words: list[str], folder: Path, after: int) -> dict[str, Any]:
    """A sweep whose queue is killed once so many runs have ended, and that is given again."""
    queue = subprocess.Popen([*RLPYT, *words, "--quiet"])
    while not (folder / journal.FILE).exists() or len(ends(folder)) < after:
        time.sleep(0.05)
    queue.send_signal(signal.SIGKILL)
    queue.wait(timeout=10)
    at = time.monotonic()
    started = [(e["pid"], e["identity"]) for e in journal.read(folder) if e["event"] == "start"]
    while any(journal.is_alive(*who) for who in started):
        time.sleep(0.01)
    gone = time.monotonic() - at
    before = len(ends(folder))
    subprocess.run([*RLPYT, *words, "--quiet"], check=True)
    finished = Counter(e["run"] for e in ends(folder) if e["state"] == "finished")
    return {
        "ended_before_the_kill": before,
        "seconds_until_its_runs_were_gone": round(gone, 3),
        "finished": len(finished),
        "finished_more_than_once": sum(count > 1 for count in finished.values()),
        "folders": len(list(folder.glob("*/run.json"))),
        "begun_from_nothing": len(list(folder.glob("logs/*.log"))),
        "resumed": sum(
            len(json.loads(path.read_text())["resumed"]) for path in folder.glob("*/run.json")
        ),
        "journals": len(list(folder.glob("*.jsonl"))),
    }


def ends(folder: Path) -> list[dict[str, Any]]:
    return [event for event in journal.read(folder) if event["event"] == "end"]


if __name__ == "__main__":
    main()
