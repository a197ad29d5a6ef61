"""The main process of a cell of the fault matrix: `rlpyt`, with a start method and limits.

usage: fault_child.py METHOD LIMITS ARGUMENT...        LIMITS: FSIZE=16384,NOFILE=30 or -
"""

import functools
import resource
import sys

from rlpyt.cli import main


def prepare(method: str, limits: str) -> None:
    for limit in [] if limits == "-" else limits.split(","):
        name, _, value = limit.partition("=")
        which = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(which, (int(value), int(value)))
    if method == "forkserver":  # what a user has: nothing is changed, nor loaded beforehand
        return
    from rlpyt import acting, remote
    from rlpyt.processes.start import Processes

    for module in (acting, remote):
        vars(module)["Processes"] = functools.partial(Processes, start_method=method)


if __name__ == "__main__":
    how, least, *argv = sys.argv[1:]
    prepare(how, least)
    sys.exit(main(argv))
