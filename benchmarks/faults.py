"""The fault matrix: what becomes of a run when something fails, under every sampler.

    python benchmarks/faults.py                all cells, and 200 kills at random moments
    python benchmarks/faults.py --faults "Ctrl-C" "step sleeps" --samplers workers replicated
    python benchmarks/faults.py --only-kills --kills 50 --minutes 10
    python benchmarks/faults.py --list         names of rows and columns

Each cell is a run in a process of its own, looked at from outside; what must follow is in
`fault_cells.py`. One JSON line a cell is printed, and a summary at the end. matrix.json and
README.md in results/faults hold the newest of each cell: a part that is run again takes the place
of what was there. Exits with 1 where a cell failed. On a machine with other work raise --patience.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fault_run
import fault_table
from fault_cells import FAULTS, METHODS, POLICIES, SAMPLERS, STEP_TIMEOUT, Cell, cells, kills

RESULTS = Path(__file__).parents[1] / "results" / "faults"


def main() -> int:
    args = arguments()
    # A shell starts what runs in its background with SIGINT ignored, and all would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.list:
        print(*FAULTS, "", *SAMPLERS, sep="\n")
        return 0
    todo: list[Cell] = []
    if not args.only_kills:
        todo += cells(args.faults, args.samplers, args.methods, args.policies)
    todo += kills(args.kills, args.samplers)
    if args.missing:
        lines = fault_table.kept(args.out / "matrix.json")
        known = {(line["row"], line["sampler"], line["number"]) for line in lines}
        todo = [cell for cell in todo if (cell.row, cell.sampler, cell.number) not in known]
    begun, found = time.monotonic(), []
    try:
        for cell in todo:
            if time.monotonic() - begun > 60 * args.minutes:
                print(
                    f"{len(todo) - len(found)} cells are left: --missing goes on", file=sys.stderr
                )
                break
            if why := fault_run.cannot(cell):
                print(json.dumps({"row": cell.row, "sampler": cell.sampler, "left_out": why}))
                continue
            found.append(fault_run.run(cell, args.patience))
            print(json.dumps(found[-1]), flush=True)
    finally:
        report(args.out, found)
    return any(line["failed"] for line in found)


def report(out: Path, found: Sequence[dict[str, Any]]) -> None:
    """Put the cells among those that are kept, and say what there is."""
    import torch

    lines = fault_table.merged(fault_table.kept(out / "matrix.json"), found)
    about = {
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "cores": len(os.sched_getaffinity(0)),
        "date": time.strftime("%F"),
        "step_timeout": STEP_TIMEOUT,
    }
    fault_table.write(out, lines, list(FAULTS), list(SAMPLERS), about)
    print(json.dumps({"here": fault_table.summary(found), "all": fault_table.summary(lines)}))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--faults", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="ROW")
    add("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS), metavar="COLUMN")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="of starting")
    add("--policies", nargs="+", choices=POLICIES, default=list(POLICIES), help="after a failure")
    add("--kills", type=int, help="SIGKILLs at random moments, over the samplers; 200 of all rows")
    add("--only-kills", action="store_true")
    add("--missing", action="store_true", help="only cells that are not in the matrix yet")
    add("--minutes", type=float, default=float("inf"), help="after which no other cell is begun")
    add("--patience", type=float, default=1.0, help="by which all times are multiplied")
    add("--out", type=Path, default=RESULTS)
    add("--list", action="store_true")
    args = parser.parse_args()
    if args.kills is None:
        args.kills = 200 if args.only_kills or args.faults == list(FAULTS) else 0
    return args


if __name__ == "__main__":
    sys.exit(main())
