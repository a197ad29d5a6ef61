"""What child processes of the tests do: a target lies in a module, never in a test."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rlpyt.errors import StopAsked
from rlpyt.processes.bell import Bell
from rlpyt.processes.child import Context
from rlpyt.processes.handle import Child
from rlpyt.processes.heart import RESET, STEP
from rlpyt.storage import Memory


def serve(context: Context, memory: Memory, answer: Callable[[int], int]) -> None:
    """Answer to each number that is asked for; messages over the pipe come back."""
    asked, given = numbers(memory)
    waiting = context.waiting("a number")
    while True:
        waiting.until(lambda: asked[0] != given[0] or context.control.has_message(), math.inf)
        if context.control.has_message():
            context.control.send(("echo", context.control.receive(5)), 5)
            continue
        context.heart.beat(3, STEP)
        given[1] = answer(int(asked[0]))
        context.heart.rest()
        given[0] = asked[0]
        context.main_bell.ring()


def numbers(memory: Memory) -> tuple[np.ndarray, np.ndarray]:
    """What is asked for; that it is done, and the answer."""
    return memory.zeros((np.zeros(1, np.int64), np.zeros(2, np.int64)))


class Unpicklable(Exception):
    """Holds what cannot be pickled, and cannot be made from its text."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"number {number}\nis {reason}")
        self.held = lambda: number


class Wordless(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


def fail(context: Context, how: str) -> None:
    """Fail during the reset of environment 5, the first call."""
    context.heart.beat(5, RESET)
    if how == "unpicklable":
        raise Unpicklable(7, "odd")
    if how == "wordless":
        raise Wordless
    if how == "sys.exit":
        sys.exit(0)
    if how == "exit":
        os._exit(0)
    if how == "exit 3":
        os._exit(3)
    if how == "SIGSEGV":
        ctypes.string_at(0)
    if how == "long":
        raise ValueError("x" * 10 + "y" * 200_000 + "z" * 10)
    os.kill(os.getpid(), signal.Signals[how])


def hang(context: Context, how: str) -> None:
    """Do not come back from the second step of environment 2."""
    context.heart.beat(2, STEP)
    context.heart.beat(2, STEP)
    if how == "beating":
        while True:
            context.heart.beat(2, STEP)
            time.sleep(0.01)
    if how == "sleep":
        time.sleep(1000)
    if how == "loop":
        while True:
            pass
    if how == "C":
        hold_the_lock()
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)


def hold_the_lock() -> None:
    """Stay in C for ever, whatever signals come, and let no other Python thread run."""
    mutex, library = ctypes.create_string_buffer(128), ctypes.PyDLL(None)
    for _ in range(2):
        library.pthread_mutex_lock(mutex)


def unguarded(context: Context) -> None:
    """Give up what would end this process with the main one, and stay in C."""
    import fcntl

    parent = multiprocessing.parent_process()
    assert parent is not None
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, 0)
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    context.control.send("begun", 5)
    hold_the_lock()


def tell(context: Context, what: Callable[[], Any]) -> None:
    """Send what a function returns."""
    context.control.send(what(), 10)
    context.waiting("the end").until(lambda: False, math.inf)


def start_another(context: Context) -> None:
    """Start a program that would stay, tell its number and wait for the end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    context.control.send(child.pid, 10)
    context.waiting("the end").until(lambda: False, math.inf)


def end_another(context: Context) -> None:
    """End a program and a forked process by SIGTERM, as simulators are ended."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    process.start()
    time.sleep(0.3)  # the program has begun to sleep
    program.terminate()
    process.terminate()
    process.join(5)
    context.control.send((program.wait(5), process.exitcode), 10)


def drive(context: Context, worker: Child, bell: Bell, how: str) -> None:
    """Watch another child: wait for it, try to end it, or say that it hangs."""
    if how == "kill":
        try:
            worker.kill()
        except RuntimeError as error:
            context.control.send((str(error), worker.alive()), 10)
    if how == "blame":
        while worker.heart.age() < 0.3:
            time.sleep(0.05)
        raise worker.blame(f"hung in {worker.heart}")
    waiting = context.waiting("the worker", bell=bell, children=[worker])
    try:
        waiting.until(lambda: False, math.inf)
    except StopAsked:
        raise
    except Exception as error:
        raise RuntimeError("the loop ended") from error


def refuse_to_end(context: Context) -> None:
    """Do not answer when asked to stop."""
    context.control.send("begun", 5)
    hold_the_lock()


def finish(context: Context) -> None:
    """Have nothing to do."""


def look_for() -> str:
    """What is told where nothing else matters."""
    return "found"


def silent(context: Context, message: bytes) -> None:
    """Send two messages, the second of which does not fit, and read none."""
    context.control.send("begun", 5)
    context.control.send(message, 60)
    time.sleep(1000)


def start_session(context: Context, then: str) -> None:
    """Start what leads a session of its own, as some simulators do, say its number, and go on."""
    simulator = subprocess.Popen(["sleep", "600"], start_new_session=True)
    context.control.send(simulator.pid, 5)
    if then == "exit":
        os._exit(3)
    context.waiting("an end").until(lambda: then == "return", math.inf)
