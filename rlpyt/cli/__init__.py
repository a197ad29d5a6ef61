"""The command `rlpyt`. Each command is one module, imported when it is called for."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from rlpyt import torchrun
from rlpyt.errors import EnvironmentFault, RankError, UsageError, WorkerError

_FORMAT = warnings.formatwarning
_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}  # no fault of the code
_COMMANDS = {
    "train": "train",
    "eval": "evaluate",
    "enjoy": "evaluate",
    "resume": "resume",
    "sweep": "sweep",
    "tune": "tune",
    "plot": "plot",
    "envs": "lists",
    "algos": "lists",
    "presets": "lists",
    "check-env": "check_env",
    "bench": "bench",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code (0 done, 1 error, 2 usage, 75, 130)."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command = argv[0] if argv else "--help"
    warnings.formatwarning = _warning
    code = 0
    try:
        try:
            code = _run(command, argv[1:])
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
        return code
    except RankError as error:  # whose own process has said it, where it could
        _complain(f"rlpyt {command}: {error}")
        return 1
    except UsageError as error:
        name = f"rlpyt {command}" if command in _COMMANDS else "rlpyt"
        if torchrun.speaks() or torchrun.met or torchrun.fails_alone():
            _complain(f"{name}: {error}{_help_for(error, argv)}")
        return 2
    except EnvironmentFault as error:
        if error.__cause__ not in (None, error):
            raise
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        _complain(f"rlpyt {command}: {error}{notes}")
        return 1
    except WorkerError as error:  # its own traceback tells where; this process's does not
        _complain(f"rlpyt {command}: {error}")
        return 1
    except BrokenPipeError as error:
        if getattr(error, "__notes__", ()):  # an environment's, which names it: of its simulator
            raise
        # Who read the output has gone (| head): nothing is left to say, and that is not wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return code
    except OSError as error:
        if error.errno not in _OF_DISKS or getattr(error, "__notes__", ()):
            raise
        _complain(f"rlpyt {command}: {error}")
        return 1
    except KeyboardInterrupt:
        _complain("interrupted before there was anything to save")
        return 130
    finally:
        warnings.formatwarning = _FORMAT


def _run(command: str, argv: list[str]) -> int:
    if command in ("-h", "--help", "help"):
        from rlpyt.cli.screens import MAIN

        print(MAIN)
        return 0
    if command in ("-V", "--version"):
        from rlpyt import __version__

        print(f"rlpyt {__version__}")
        return 0
    if command not in _COMMANDS:
        from rlpyt.suggest import did_you_mean

        raise UsageError(
            f"{command!r} is no command{did_you_mean(command, _COMMANDS)}; there are "
            f"{', '.join(_COMMANDS)}"
        )
    module = importlib.import_module(f"rlpyt.cli.{_COMMANDS[command]}")
    if module.__name__.endswith("lists"):
        return module.main(command, argv)
    return module.main(argv)


def _help_for(error: UsageError, argv: list[str]) -> str:
    from rlpyt.cli.parsing import OptionError
    from rlpyt.run import ALGORITHMS

    if not isinstance(error, OptionError):
        return ""
    words = [argv[0], *(word for word in argv[1:] if argv[0] == "train" and word in ALGORITHMS)]
    return f"\nevery option: rlpyt {' '.join(words[:2])} --help"


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """A line for the user; the place in the code stays where the warning is for its author."""
    if category is not UserWarning:
        return _FORMAT(message, category, filename, lineno, line)
    text = str(message)
    return f"{text}\n" if "WARN" in text else f"warning: {text}\n"  # Gymnasium's begin with it


def _complain(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return
