"""Time of an indexed read and write against a hand-written loop over the same fields.

Prints JSON: nanoseconds of both and their ratio (at most 1.5 is asked of three fields or more).
"""

import json
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.arrays import namedarraytuple
from rlpyt.storage import as_tensors

CALLS, REPEATS = 100, 400  # turns of about 0.1 ms, short enough to fall between other work
LOCATIONS = {"index": 3, "slice": slice(2, 10)}


def nanoseconds(*functions: Callable[[], Any]) -> list[float]:
    """Best of REPEATS for each function, taken in turns so that both meet the same noise."""
    rounds = [[timeit.timeit(f, number=CALLS) for f in functions] for _ in range(REPEATS)]
    return [min(times) / CALLS * 1e9 for times in zip(*rounds, strict=True)]


def measure(fields: int, library: str, place: str, operation: str) -> dict[str, Any]:
    """One line of the result: rows of [32, 8, 4] float32 in every field."""
    make = namedarraytuple("Fields", [f"field{i}" for i in range(fields)])
    rows = make(*(np.zeros((32, 8, 4), np.float32) for _ in range(fields)))
    rows = as_tensors(rows) if library == "torch" else rows
    loc = LOCATIONS[place]
    step, arrays = rows[loc], list(rows)
    values = list(step)

    def read_by_hand() -> list[Any]:
        return [array[loc] for array in arrays]

    def write_by_hand() -> None:
        for array, value in zip(arrays, values, strict=True):
            array[loc] = value

    def read() -> Any:
        return rows[loc]

    def write() -> None:
        rows[loc] = step

    pair = (read_by_hand, read) if operation == "read" else (write_by_hand, write)
    by_hand, ours = nanoseconds(*pair)
    return {
        "operation": operation,
        "library": library,
        "fields": fields,
        "place": place,
        "by_hand_ns": round(by_hand),
        "ours_ns": round(ours),
        "ratio": round(ours / by_hand, 2),
    }


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        measure(fields, library, place, operation)
        for operation in ("read", "write")
        for library in ("numpy", "torch")
        for fields in (3, 5, 8)
        for place in LOCATIONS
    ]
    print(json.dumps({"largest_ratio": max(x["ratio"] for x in lines), "lines": lines}, indent=1))


if __name__ == "__main__":
    main()
