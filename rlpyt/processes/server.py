"""How a process comes about: what it inherits, and what it must not."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from rlpyt.descriptors import spawning
from rlpyt.errors import UsageError, WaitedTooLong
from rlpyt.processes import first as beginning
from rlpyt.processes.parcel import Parcel

StartMethod = Literal["forkserver", "spawn", "fork"]
METHODS = tuple(multiprocessing.get_all_start_methods())
DEFAULT: StartMethod = "forkserver" if "forkserver" in METHODS else "spawn"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_server: Any = forkserver._forkserver
START_SECONDS = 120.0  # in which a fork server has loaded its modules and forked
_starting = threading.Lock()
_FEWER = (
    "if that is for a limit of processes (ulimit -u, a container's pids.max) or of memory, choose "
    "fewer --workers, or raise it"
)


def start(
    method: StartMethod, name: str, first: Parcel, rest: Parcel, preload: Sequence[str]
) -> BaseProcess:
    """Start a process that runs `first.run`; see there.

    Args:
        preload: modules that a fork server imports once for all; without effect when it runs.
    """
    if multiprocessing.current_process().daemon:
        raise UsageError(
            f"{name} cannot be started: this process is daemonic (one of a multiprocessing.Pool, "
            "say), and such a one may start none; choose sampler=serial, or make it with "
            "daemon=False"
        )
    context: Any = multiprocessing.get_context(method)
    if method == "fork":
        first, rest = first.pack_for_fork(), rest.pack_for_fork()
    process: BaseProcess = context.Process(target=beginning.run, args=(first, rest), name=name)
    with _starting, _hidden_main(), _one_thread():
        if method == "fork":
            with _signals_held_back():
                process.start()
        else:
            _start_in_thread(process, preload if method == "forkserver" else None)
    return process


@contextmanager
def limits_told(name: str) -> Iterator[None]:
    """Name the remedy where no more descriptors or processes are to be had."""
    try:
        yield
    except (EOFError, BrokenPipeError, ConnectionResetError) as error:
        # A fork server that cannot fork ends, which is all that there is to see here.
        raise UsageError(
            f"{name} cannot be started: the fork server, or it, ended meanwhile; {_FEWER}"
        ) from error
    except (OSError, RuntimeError) as error:
        if "start new thread" in str(error) or getattr(error, "errno", 0) == errno.EAGAIN:
            raise UsageError(f"{name} cannot be started: {error}; {_FEWER}") from error
        if "AF_UNIX path too long" in str(error):
            raise UsageError(
                f"{name} cannot be started: the path of the folder for temporary files is too long "
                f"for a socket in it ({tempfile.gettempdir()}); set TMPDIR to a shorter one"
            ) from error
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise UsageError(
            f"{name} cannot be started: {error.strerror}; choose fewer --workers, or raise the "
            "limit (ulimit -n)"
        ) from error
    except ValueError as error:
        if "too many fds" not in str(error):
            raise
        raise UsageError(
            f"{name} would be handed more than 250 descriptors, which a fork server does not do; "
            "choose fewer --workers"
        ) from error


def environ() -> dict[str, str]:
    """The environment of a child: this process's, with one thread for each library."""
    return {**os.environ, **dict.fromkeys(THREADS, "1")}


def server_lives() -> bool:
    """Whether the fork server runs; its end takes its children along, and how they ended."""
    pid = _server._forkserver_pid
    try:
        return pid is None or not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False


def _start_in_thread(process: BaseProcess, preload: Sequence[str] | None) -> None:
    """Start within a limit: a fork server, or a child that does not read, would have none."""
    outcome: list[BaseException | None] = []

    def start() -> None:
        try:
            resource_tracker.ensure_running()  # it unblocks signals: before they are held back
            with _signals_held_back(), spawning() if preload is None else nullcontext():
                if preload is not None:
                    _prepare_server(preload)
                    _need_descriptors()
                process.start()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=start, daemon=True, name=f"start {process.name}")
    thread.start()
    try:
        thread.join(START_SECONDS)
    except BaseException:  # Ctrl-C: what has been started must be known, to be ended
        thread.join(5.0)
        if process.pid is not None:
            process.kill()
        raise
    if not outcome:
        server = f"the fork server (pid {_server._forkserver_pid})" if preload else "it"
        raise WaitedTooLong(
            f"{process.name} did not start in {START_SECONDS:g} s: {server} does not answer; "
            "is it stopped?"
        )
    if outcome[0] is not None:
        raise outcome[0]


def _prepare_server(preload: Sequence[str]) -> None:
    before = _server._preload_modules
    _server.set_forkserver_preload(list(preload))  # by default it would import the user's script
    try:
        _server.ensure_running()
    finally:
        _server._preload_modules = before


def _need_descriptors() -> None:
    """Raise OSError unless a socket and two pipes can be opened.

    A fork server to which a process connects, and then has no descriptors left to send, ends, and
    its children with it.
    """
    held: list[int] = []
    try:
        for _ in range(3):
            held += os.pipe()
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """What is started begins with these signals blocked; here they arrive a moment later.

    Ignoring them for that moment would lose a Ctrl-C.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, beginning.HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _hidden_main() -> Iterator[None]:
    """Let children not import the user's script: it needs no guard, and may be a notebook."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _one_thread() -> Iterator[None]:
    """Libraries read these when they are imported, in a fork server or first thing in a child."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
