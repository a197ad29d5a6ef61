"""Numbers as people read them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpyt.logging.text import (
    BLOCKS,
    format_count,
    format_duration,
    format_return,
    printable,
    sparkline,
    wrap,
)


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0"),
        (7, "7"),
        (850, "850"),
        (999.7, "1k"),
        (1024, "1k"),
        (8934, "8.9k"),
        (40_960, "41k"),
        (99_700, "100k"),
        (100_000, "100k"),
        (102_400, "102k"),
        (999_700, "1M"),
        (1_500_000, "1.5M"),
        (200_000_000, "200M"),
        (2_050_000_000, "2B"),
        (5e15, "5000T"),
        (0.25, "0.2"),
        (-1234, "-1.2k"),
    ],
)
def test_counts_are_short(n: float, text: str) -> None:
    assert format_count(n) == text


def test_a_total_keeps_a_third_digit() -> None:
    assert format_count(1_250_000, 3) == "1.25M"


@given(st.floats(-1e14, 1e14))
def test_a_count_is_near_its_number(n: float) -> None:
    text = format_count(n)
    scale = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1], 1)
    assert float(text.rstrip("kMBT")) * scale == pytest.approx(n, rel=0.06, abs=0.06)
    assert len(text) <= 6


def test_durations_and_returns() -> None:
    assert [format_duration(x) for x in (0.9, 61, 100_000)] == ["0:00:00", "0:01:01", "27:46:40"]
    returns = [0.02134, -7.4, 21.54, 500.0, -1234.5, 45_230.0, 1e7]
    shown = ["0.0213", "-7.4", "21.5", "500", "-1234", "45.2k", "10M"]
    assert [format_return(x) for x in returns] == shown


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_a_sparkline_rises_where_the_values_rise(values: list[float]) -> None:
    heights = [BLOCKS.index(x) for x in sparkline(values)]
    assert len(heights) == len(values)
    for (a, i), (b, j) in itertools.pairwise(zip(values, heights, strict=True)):
        assert (i <= j) if a <= b else (i >= j)


def test_an_encoding_without_our_signs_gets_others() -> None:
    assert printable("━━╸─ ▁█ ± · é", "ascii") == "===- _= +- | ?"
    assert printable("━ ±", "utf-8") == printable("━ ±", None) == "━ ±"


def test_header_lines_break_between_their_items() -> None:
    text = "rlpyt 1.0 · ppo · CartPole-v1 · cpu, 1 thread (5k-parameter policy)"
    assert wrap(text, 200) == [" " + text]
    assert wrap(text, 50) == [
        " rlpyt 1.0 · ppo · CartPole-v1 ·",
        "   cpu, 1 thread (5k-parameter policy)",
    ]
    assert wrap("x" * 90, 40) == [" " + "x" * 90]
    assert all(len(row) < 30 for row in wrap("word " * 50, 30))


def test_what_is_not_finite_is_shown_as_such_and_does_not_hide_the_rest() -> None:
    """Returns may be, with --nan-policy ignore."""
    shown = [format_return(x) for x in (math.nan, math.inf, -math.inf)]
    assert shown == ["nan", "inf", "-inf"]
    assert sparkline([1.0, math.nan, 2.0, math.inf]) == "▁ █ "
    assert sparkline([math.nan]) == " "
