"""The nearest names to a misspelt one, said the same way everywhere."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean A or B?` for the names most like this one, whatever their case, or nothing.

    Dashes in front do not count, and a name that begins or ends with the misspelt one is like it.
    """
    from difflib import SequenceMatcher  # needed once something is wrong

    asked = name.lower().lstrip("-")
    ranked: list[tuple[float, str]] = []
    for known in dict.fromkeys(names):
        lower = known.lower().lstrip("-")
        likeness = SequenceMatcher(None, asked, lower).ratio()
        if len(asked) > 2 and (lower.startswith(asked) or lower.endswith(asked)):
            likeness = max(likeness, 0.75)
        ranked.append((likeness, known))
    ranked.sort(key=lambda pair: -pair[0])
    best = [(likeness, known) for likeness, known in ranked if likeness >= 0.6][:3]
    # One that is far better than the rest stands alone.
    close = [known for likeness, known in best if likeness >= best[0][0] - 0.12]
    return f"; did you mean {' or '.join(close)}?" if close else ""
