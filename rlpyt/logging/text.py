"""Numbers as people read them, and what a terminal can show."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = str.maketrans(
    {**dict(zip(BLOCKS, "__..--==", strict=True)), "━": "=", "╸": "=", "─": "-", "·": "|"}
    | {"±": "+-", "…": "...", "×": "x", "–": "-"}
)


def format_count(n: float, digits: int = 2) -> str:
    """A number of steps, parameters or steps a second: 850, 8.9k, 41k, 100k, 1.5M, 102M."""
    x, text = float(n), ""
    if not math.isfinite(x):
        return str(x)
    for unit in ("", "k", "M", "B", "T"):
        whole_digits = len(str(int(abs(x))))
        text = f"{round(x, max(0, digits - whole_digits)):.15g}{unit}"
        if abs(round(x)) < 1000:
            break
        x /= 1000
    return text


def format_duration(seconds: float) -> str:
    """h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def format_return(x: float) -> str:
    """About three digits: 0.0213, -7.4, 21.5, 500, -1234, 45.2k."""
    if abs(x) >= 10_000:
        return format_count(x, 3)
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def sparkline(values: Sequence[float]) -> str:
    """One block a value, between the least and the greatest; a gap where one is not finite."""
    finite = [x for x in values if math.isfinite(x)] or [0.0]
    least, greatest = min(finite), max(finite)
    span = (greatest - least) or math.inf

    def block(x: float) -> str:
        return BLOCKS[min(7, int(8 * (x - least) / span))] if math.isfinite(x) else " "

    return "".join(map(block, values))


def printable(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has (a C locale has neither · nor ━)."""
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text


def wrap(text: str, width: int) -> list[str]:
    """An indented line, broken between its items ("a · b c" has two) where it is too long."""
    glue = "\N{NO-BREAK SPACE}"
    items = [x.replace(" ", glue) if len(x) < width - 6 else x for x in text.split(" · ")]
    rows = textwrap.wrap(
        " · ".join(items),
        max(20, width - 1),
        initial_indent=" ",
        subsequent_indent="   ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [row.replace(glue, " ") for row in rows]
