"""A queue whose runs are pretended: they write what a run writes, and end when they are told."""

import io
import json
from collections import Counter, deque
from pathlib import Path
from typing import Any

from rlpyt.launch import journal
from rlpyt.launch.children import StarterDied
from rlpyt.launch.jobs import Job
from rlpyt.launch.journal import Journal
from rlpyt.launch.queue import Queue
from rlpyt.launch.slots import Slot
from rlpyt.launch.table import Screen
from rlpyt.logging.displays import Plain

SLOTS = [Slot(0, (0,)), Slot(1, (1,))]


def jobs(n: int) -> list[Job]:
    return [Job(f"run-{i}", ("ppo", "--seed", str(i)), 100, "ppo") for i in range(n)]


def write_run(folder: Path, status: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    record = dict.fromkeys(("algo", "env", "env_steps", "options", "resolved", "resumed"))
    (folder / "run.json").write_text(json.dumps({**record, "format": 1, "status": status}))
    steps = 100 if status == "finished" else 50
    (folder / "progress.csv").write_text(f"env_steps,eval/return_mean\n{steps},7\n")


class PretendedRuns:
    """What `Children` is to a queue.

    Args:
        codes: what each run ends with, in turn; 0 once there are no more. An exception is raised
            in the place of an answer; a pair is the code and what the folder says then.
    """

    def __init__(self, codes: dict[str, list[Any]] | None = None) -> None:
        self.codes = {name: deque(given) for name, given in (codes or {}).items()}
        self.trained: Counter[str] = Counter()
        self.started: list[tuple[str, list[str], Slot]] = []
        self.signals: list[tuple[str, int]] = []
        self.most = 0
        self.closed = False
        self._runs: dict[str, Path] = {}
        self._slots: dict[str, Slot] = {}
        self._answers: list[dict[str, Any]] = []

    def start(self, name: str, argv: list[str], slot: Slot, log: Path) -> None:
        assert slot not in self._slots.values(), "two runs in one slot"
        assert name not in self._runs, "a run is doubled"
        folder = log.parent.parent / name
        if argv[0] == "train":
            assert not (folder / "run.json").exists(), "a run is begun twice"
            self.trained[name] += 1
        write_run(folder, "running")
        with log.open("a") as file:
            file.write(f"{' '.join(argv)}\nits last words\n")
        self.started.append((name, argv, slot))
        self._runs[name], self._slots[name] = folder, slot
        self.most = max(self.most, len(self._runs))
        self._answers.append({"started": name, "pid": 2**22 + len(self.started)})

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        answers, self._answers = self._answers, []
        if not answers and self._runs:
            name = next(iter(self._runs))
            codes = self.codes.get(name)
            code = codes.popleft() if codes else 0
            if isinstance(code, StarterDied):
                self._runs, self._slots = {}, {}
                raise code
            if callable(code):
                code = code()
            folder, _ = self._runs.pop(name), self._slots.pop(name)
            known = {0: "finished", 75: "terminated", 130: "interrupted"}
            pair = code if isinstance(code, tuple) else (code, known.get(code, "failed"))
            code, status = pair
            write_run(folder, status)
            return [{"ended": name, "code": code}]
        return answers

    def signal(self, name: str, number: int) -> None:
        self.signals.append((name, number))

    def close(self) -> None:
        self.closed = True
        self._runs = {}


class Sweeping:
    """A queue with its parts, made anew as a command would."""

    def __init__(
        self,
        folder: Path,
        runs: PretendedRuns | None = None,
        retries: int = 1,
        total: int | None = None,
        **more: Any,
    ) -> None:
        folder.mkdir(exist_ok=True)
        there = (folder / journal.FILE).exists()
        self.records = journal.records(journal.read(folder)) if there else {}
        self.folder, self.book, self.text = folder, Journal(folder), io.StringIO()
        self.runs = runs or PretendedRuns()
        screen = Screen(Plain(self.text), total)
        opened = more.pop("opened", lambda: self.runs)
        self.queue = Queue(folder, self.book, self.records, SLOTS, opened, screen, retries, **more)

    def run(self, todo: list[Job]) -> str:
        try:
            return self.queue.run(todo, self.runs)
        finally:
            self.book.close()

    def states(self) -> list[str]:
        return [record.state for record in journal.records(journal.read(self.folder)).values()]
