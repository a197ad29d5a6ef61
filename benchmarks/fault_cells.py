"""The cells of the fault matrix: what is injected, under which sampler, and what must follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STEP_TIMEOUT, START_TIMEOUT = 2, 4  # seconds; `--env-step-timeout` and `--start-timeout` of cells
NOTICED = 4.0  # seconds from a death to the end of the command: 2 to notice it, the rest to leave
ASKED = 10.0  # from SIGINT or SIGTERM to the end, a checkpoint included
TWICE = 1.5  # from a second signal to the end
METHODS = ("forkserver", "spawn", "fork")
POLICIES = ("raise", "restart", "drop")
WHO = r"(worker|replica) \d+ \(pid \d+, environments? [\d ,to]+\)|sampler \(pid \d+\)"


@dataclass(frozen=True)
class Sampler:
    """A column of the matrix."""

    name: str
    options: str
    helper: str = ""  # the file of the stacks of a process that steps environments
    asynchronous: bool = False
    native: bool = False

    @property
    def has_processes(self) -> bool:
        return bool(self.helper) or self.asynchronous


def _both(name: str, options: str, helper: str = "", native: bool = False) -> list[Sampler]:
    """A sampler, and its asynchronous variant."""
    beside = f"{options} --asynchronous"
    inner = helper or "sampler"
    return [
        Sampler(name, options, helper, native=native),
        Sampler(f"async {name}", beside, inner, asynchronous=True, native=native),
    ]


SAMPLERS = {
    sampler.name: sampler
    for sampler in (
        *_both("serial", "--sampler serial"),
        *_both("workers", "--sampler workers --workers 2 --groups 1", "worker-1"),
        *_both("groups", "--sampler workers --workers 2 --groups 2", "worker-1"),
        *_both("replicated", "--sampler replicated --workers 2", "replica-1"),
        *_both("native", "--sampler serial --vectorization native", native=True),
    )
}


@dataclass(frozen=True)
class Fault:
    """A row of the matrix.

    Args:
        kind: error, death and hang: an environment misbehaves in one of its calls; value: it
            returns what nobody can learn from; harmless: it misbehaves, and the run must go on;
            main, helper and sampler: that process is sent signals at
            a random moment; limit: the command is refused something from its start on.
        how, where, k: as `small_workers.Faulty` takes them.
        says: what the message must hold beside who and where.
        code: of a process that dies by it.
        signals: that are sent, half a second apart.
        basic: whether it is tried with every start method and policy.
        options: of the command.
        nan_policy: of the command.
    """

    kind: str
    how: str = ""
    where: str = "step"
    k: int = 150
    says: str = ""
    code: int = 1
    signals: tuple[str, ...] = ()
    basic: bool = False
    options: str = ""
    nan_policy: str = "raise"


FAULTS = {
    "ValueError in step": Fault("error", "raise", says="a fault of its own", basic=True),
    "ValueError in reset": Fault("error", "raise", "reset", 10, "a fault of its own"),
    "ValueError in the constructor": Fault("error", "raise", "init", says="a fault of its own"),
    "ValueError in close": Fault("harmless", "raise", "close"),
    "an exception that cannot be pickled": Fault("error", "unpicklable", says="Unpicklable"),
    "SystemExit in step": Fault("error", "sys.exit", says="SystemExit", basic=True),
    "os._exit(0)": Fault("death", "exit 0", says="exited with code 0", code=0),
    "os._exit(3)": Fault("death", "exit 3", says="exited with code 3", code=3),
    "null pointer": Fault("death", "null pointer", says="SIGSEGV", code=-11, basic=True),
    "SIGABRT": Fault("death", "SIGABRT", says="SIGABRT", code=-6),
    "SIGBUS": Fault("death", "SIGBUS", says="SIGBUS", code=-7),
    "SIGKILL in step": Fault("death", "SIGKILL", says="SIGKILL", code=-9, basic=True),
    "step sleeps": Fault("hang", "sleep", says="did not (answer|return) for 2 s", basic=True),
    "step loops": Fault("hang", "loop", says="did not (answer|return) for 2 s"),
    "step loops in C": Fault("hang", "loop in C", says=r"did not (answer|return) for|Timeout \("),
    "reset sleeps": Fault("hang", "sleep", "reset", 10, "did not (answer|return) for 2 s"),
    "SIGSTOP in step": Fault("hang", "SIGSTOP", says="did not answer for 2 s"),
    "slow start": Fault("harmless", "slow", "init"),
    "start never ends": Fault("hang", "sleep", "init", says="did not (answer|return) for 4 s"),
    "NaN in an observation": Fault("value", "nan", says="is not finite at row"),
    "NaN in an observation, dropped": Fault(
        "harmless", "nan", says="is not finite at step", nan_policy="drop"
    ),
    "prints, stdout closed": Fault("harmless", "print"),
    "prints, reader of stdout gone": Fault("error", "print", says="BrokenPipe"),
    "worker SIGKILLed while it writes": Fault(
        "helper", signals=("SIGKILL",), says="SIGKILL", basic=True
    ),
    "worker SIGSTOPped": Fault("helper", signals=("SIGSTOP",), says="did not answer for 2 s"),
    "background sampler SIGKILLed": Fault("sampler", signals=("SIGKILL",), says="SIGKILL"),
    "background sampler SIGSTOPped": Fault(
        "sampler", signals=("SIGSTOP",), says="did not answer for 2 s"
    ),
    "Ctrl-C": Fault("main", signals=("SIGINT",), basic=True),
    "Ctrl-C twice": Fault("main", signals=("SIGINT", "SIGINT")),
    "SIGTERM": Fault("main", signals=("SIGTERM",)),
    "SIGKILL of the main process": Fault("main", signals=("SIGKILL",), basic=True),
    "SIGKILL of the main process while a step loops in C": Fault(
        "main", "loop in C", signals=("SIGKILL",)
    ),
    "Ctrl-C while a step sleeps": Fault("main", "sleep", signals=("SIGINT",)),
    "/dev/shm of 64 kB": Fault("limit"),
    "files of at most 16 kB (ulimit -f)": Fault("limit", says="ulimit -f"),
    "30 descriptors (ulimit -n)": Fault("limit", says="ulimit -n|Too many open files"),
    "a replay larger than memory": Fault(
        "limit", says="GiB|MB", options="--replay-size 2000000M --env-steps 2000000M"
    ),
}


@dataclass(frozen=True)
class Cell:
    """One run of its own.

    Args:
        fault, sampler: names of a row and a column.
        number: of a kill among many.
    """

    fault: str
    sampler: str
    method: str = "forkserver"
    policy: str = "raise"
    number: int = 0

    @property
    def id(self) -> str:
        return f"{self.row} | {self.sampler} | {self.number}"

    @property
    def row(self) -> str:
        """Fault, and whatever of policy and start method is not the default."""
        parts = [self.fault]
        parts += [self.policy] if self.policy != "raise" else []
        parts += [self.method] if self.method != "forkserver" else []
        return " · ".join(parts)

    @property
    def injected(self) -> Fault:
        return FAULTS[self.fault]

    @property
    def under(self) -> Sampler:
        return SAMPLERS[self.sampler]


@dataclass(frozen=True)
class Demand:
    """What must follow.

    Args:
        codes: exit codes, of which it must have one.
        says: what must be found in what is printed.
        seconds: from the fault to the end, at most; None: it must finish by itself.
        may_finish: it may as well finish by itself.
    """

    codes: tuple[int, ...] = (0,)
    says: tuple[str, ...] = ()
    seconds: float | None = None
    may_finish: bool = False


def demand(cell: Cell) -> Demand:
    """What must follow in a cell."""
    fault, sampler = cell.injected, cell.under
    if fault.kind == "main":
        return _asked(fault.signals)
    if fault.kind == "limit" and fault.says:
        return Demand((1, 2), (fault.says,), 60.0, may_finish=not fault.options)
    if fault.kind in ("harmless", "limit") or cell.policy != "raise":
        return Demand(says=(fault.says,) if fault.kind == "harmless" else ())
    if fault.kind == "value":
        return Demand((1,), ("environment 2", fault.says), NOTICED)
    if fault.kind == "death" and not sampler.has_processes:
        return Demand((fault.code,), (), NOTICED)
    limit = START_TIMEOUT if _hangs_at_start(fault) else STEP_TIMEOUT
    hangs = fault.kind == "hang" or fault.signals == ("SIGSTOP",)
    seconds = NOTICED + (limit if hangs else 0)
    if fault.kind in ("helper", "sampler"):
        return Demand((1,), (WHO, fault.says), seconds)
    who = (WHO,) if sampler.has_processes else ()
    in_c = fault.how == "loop in C" and not sampler.has_processes  # faulthandler ends it
    where = () if in_c else ("environment 2",)
    return Demand((1,), (*who, *where, fault.says), seconds + 2 * in_c)


def _asked(signals: Sequence[str]) -> Demand:
    """Of a main process that is sent these; early on it has no handlers, and nothing to save."""
    if signals == ("SIGKILL",):
        return Demand((-9,), (), 2.0)
    if len(signals) == 2:
        return Demand((130, -2), (), TWICE)
    return Demand((75, 143, -15) if signals == ("SIGTERM",) else (130, -2), (), ASKED)


def applies(cell: Cell) -> bool:
    """Whether there is such a cell: a sampler that this can happen to, and a choice to try."""
    fault, sampler = cell.injected, cell.under
    in_env = fault.kind in ("error", "death", "hang", "value", "harmless") or bool(fault.how)
    if in_env and sampler.native:
        return False  # its environments are ale-py's own
    if fault.kind == "helper" and sampler.helper in ("", "sampler"):
        return False
    if fault.kind == "sampler" and not sampler.asynchronous:
        return False
    if fault.how == "SIGSTOP" and not sampler.has_processes:
        return False  # nobody is left to notice
    if fault.options and sampler.native:
        return False  # A2C and IMPALA have no replay
    if cell.method != "forkserver" and not (fault.basic and sampler.has_processes):
        return False
    return cell.policy == "raise" or _may_go_on(cell)


def _may_go_on(cell: Cell) -> bool:
    fault, sampler = cell.injected, cell.under
    fails = fault.kind in ("error", "death", "hang", "helper", "sampler") and fault.where != "init"
    if not (fails and sampler.has_processes) or cell.method != "forkserver":
        return False
    if sampler.native and cell.policy == "drop":
        return False
    return cell.policy == "restart" or (fault.basic and not sampler.asynchronous)


def cells(
    faults: Sequence[str], samplers: Sequence[str], methods: Sequence[str], policies: Sequence[str]
) -> Iterator[Cell]:
    """The cells of some rows and columns, row after row."""
    for fault in faults:
        for policy in policies:
            for method in methods:
                for sampler in samplers:
                    cell = Cell(fault, sampler, method, policy)
                    if applies(cell):
                        yield cell


def kills(count: int, samplers: Sequence[str]) -> Iterator[Cell]:
    """So many kills of the main process at random moments, under the samplers in turn."""
    for i in range(count):
        which = samplers[i % len(samplers)]
        yield Cell("SIGKILL of the main process", which, number=1 + i // len(samplers))


def interval(cell: Cell) -> int:
    """Environment steps between its checkpoints."""
    short = not cell.injected.signals or bool(cell.injected.how)
    return 64 if cell.under.native else 200 if short else 2000


def command(cell: Cell, folder: Path) -> list[str]:
    """What the cell's main process is to do, as arguments of `rlpyt`."""
    fault, sampler, every = cell.injected, cell.under, interval(cell)
    if sampler.native:
        algo = "impala" if sampler.asynchronous else "a2c"
        what = f"{algo} --env PongNoFrameskip-v4 --horizon 8"
    else:
        what = "dqn --env small_workers:Faulty --horizon 4 --batch-size 16 --replay-ratio 1"
        what += " --learning-starts 200" + ("" if fault.options else " --replay-size 2000")
    length = "" if fault.options else f" --env-steps {_steps(cell)}"
    argv = f"train {what}{length} --preset none --num-envs 4 --seed 1 --device cpu --threads 1"
    argv += f" --compile off --eval-episodes 0 --checkpoint-interval {every} --log-interval {every}"
    start = START_TIMEOUT if _hangs_at_start(fault) else 60
    argv += f" --name run --quiet {sampler.options} --start-timeout {start}"
    timeout = 60 if fault.kind == "main" else STEP_TIMEOUT
    argv += f" --env-step-timeout {timeout} {fault.options}"
    if fault.nan_policy != "raise":
        argv += f" --nan-policy {fault.nan_policy}"
    if cell.policy != "raise":
        argv += f" --on-worker-failure {cell.policy}"
    given = [*argv.split(), "--runs", str(folder)]
    if fault.how:
        kwargs = {"column": 2, "where": fault.where, "k": fault.k, "how": fault.how}
        kwargs["once"] = folder / "once"
        given += ["--env-kwargs", *(f"{name}={value}" for name, value in kwargs.items())]
    return given


def _steps(cell: Cell) -> str:
    """Length of its run: what is ended from outside goes on until then."""
    signals, native = cell.injected.signals, cell.under.native
    if signals and (cell.injected.kind == "main" or cell.policy == "raise"):
        return "100M"
    if signals:
        return "1000" if native else "40000"
    return "256" if native else "2000"


def _hangs_at_start(fault: Fault) -> bool:
    return fault.kind == "hang" and fault.where == "init"
