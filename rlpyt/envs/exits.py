"""Environments that ask this process to end: the run would end as if all were well."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from rlpyt.errors import EnvironmentFault


@contextmanager
def no_exit(call: str) -> Iterator[None]:
    """Have what an environment ends the process with be a fault of it.

    Args:
        call: whose it is, for the message: "environment 1 of 4 (Foo-v0), close()".
    """
    try:
        yield
    except BaseException as error:
        refuse_exit(error, call)
        raise


def refuse_exit(error: BaseException, call: str) -> None:
    """Raise EnvironmentFault in place of an error that came out of an environment and would exit.

    A KeyboardInterrupt counts where Ctrl-C is handled in another way, so that nobody pressed it.
    """
    pressed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if isinstance(error, SystemExit) or (isinstance(error, KeyboardInterrupt) and not pressed):
        raise EnvironmentFault(
            f"{call} raised {error!r}, which would end the whole run; have the environment raise "
            "another exception"
        ) from error
