"""The live block fits every width and keeps what matters most."""

from __future__ import annotations

import pytest

from rlpyt.logging.block import Curve, Progress, block, plain_line


def text(progress: Progress, width: int) -> list[str]:
    return ["".join(piece for piece, _ in line) for line in block(progress, width)]


def trained(finished: bool = False) -> Progress:
    p = Progress(100_000, 100_352 if finished else 40_960, 3.2, 4.6, solved_return=475)
    for i in range(1, 20):
        metrics = {"rollout/return_mean": 25.0 * i, "rollout/return_100": 25.0 * i}
        shares = {"time/env": 0.24, "time/act": 0.16, "time/learn": 0.58, "time/wait": 0.0}
        p.take(2048 * i, {**metrics, **shares, "time/steps_per_second": 24_100.0})
    p.evaluate(40_960, 500.0, 0.0, 20)
    p.finished = finished
    return p


def test_the_block_at_120_columns() -> None:
    assert text(trained(), 120) == [
        (
            " ━━━━━━━━━──────────────  41k/100k  0:00:03  0:00:04 left   24k steps/s    "
            "env 24 % · act 16 % · learn 58 % · wait 0 %"
        ),
        " return     25 ▁▁▁▂▂▃▃▄▄▅▅▅▆▆▇▇███ 475     eval 500.0 ± 0.0 (20 episodes)   solved at 39k",
    ]


def test_the_block_at_80_columns() -> None:
    assert text(trained(), 80) == [
        " ━━━━━━━━━━━━╸──────────────────  41k/100k  0:00:03  0:00:04 left   24k steps/s",
        " time     env 24 % · act 16 % · learn 58 % · wait 0 %",
        " return     25 ▁▁▁▂▂▃▃▄▄▅▅▅▆▆▇▇███ 475     eval 500.0 ± 0.0   solved at 39k",
    ]


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("width", range(40, 200))
def test_every_width_is_kept_with_the_count_and_the_return(width: int, finished: bool) -> None:
    lines = text(trained(finished), width)
    assert all(len(line) <= width for line in lines if not line.startswith(" time"))
    assert "/100k" in lines[0] and ("100k/" in lines[0]) == finished
    assert " 475" in lines[-1]


@pytest.mark.parametrize("width", [0, 1, 10, 20])
def test_absurd_widths_are_survived(width: int) -> None:
    assert text(trained(), width)
    assert text(Progress(0, 0), width)


def test_a_run_without_an_episode_says_so() -> None:
    assert text(Progress(1000, 0), 80)[-1] == " return   no episode has ended yet"


def test_a_run_in_one_short_line() -> None:
    assert plain_line(trained(True)) == (
        " 100k/100k  100 %  0:00:03   24k steps/s  return   475"
        "  eval 500.0 ± 0.0 (20 episodes)  solved at 39k"
    )


def test_a_curve_of_any_length_takes_the_same_memory_and_keeps_its_shape() -> None:
    curve = Curve(capacity=64)
    for i in range(100_000):
        curve.add(i, float(i))
    assert len(curve._points) < 64
    assert curve.first == 0 and curve.latest == 99_999
    cells = curve.cells(10)
    assert cells == sorted(cells) and len(cells) == 10
    assert cells[4] == pytest.approx(45_000, abs=2_000)


def test_stretches_without_an_episode_repeat_the_return_before() -> None:
    curve = Curve()
    for x, y in [(0, 1.0), (10, 2.0), (100, 3.0)]:
        curve.add(x, y)
    assert curve.cells(3) == [1.5, 1.5, 3.0]
