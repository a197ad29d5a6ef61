"""A figure shows every group in every panel, and says what a reader would not see."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

from matplotlib.figure import Figure

from rlpyt.errors import UsageError
from rlpyt.view import plot as module
from rlpyt.view.plot import plot

MakeRun = Callable[..., Path]
MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture
def runs(tmp_path: Path, make_run: MakeRun) -> Path:
    for algo, lr in (("ppo", 1e-3), ("a2c", 3e-4)):
        for env in ("CartPole-v1", "Acrobot-v1"):
            for seed in range(3):
                make_run(
                    tmp_path / "runs" / f"{env}__{algo}__{seed}",
                    {
                        "env_steps": [100, 200, 300],
                        "rollout/return_100": [seed, 5 + seed, 9],
                        "eval/return_mean": [None, seed, 5 + seed],
                    },
                    algo=algo,
                    env=env,
                    seed=seed,
                    options={"algo": {"lr": lr}},
                )
    return tmp_path / "runs"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that `plot` makes."""
    figures: list[Figure] = []
    draw = module.draw

    def keep(*arguments: Any) -> Figure:
        figures.append(draw(*arguments))
        return figures[-1]

    monkeypatch.setattr(module, "draw", keep)
    return figures


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


@pytest.mark.parametrize("ending", MAGIC)
def test_each_format_is_written_and_the_same_runs_make_the_same_file(
    runs: Path, ending: str
) -> None:
    out = plot([runs], out=Path("figures") / f"a{ending}")
    assert out.read_bytes().startswith(MAGIC[ending])
    assert plot([runs], out=f"b{ending}").read_bytes() == out.read_bytes()


def test_panels_are_environments_and_lines_are_algorithms(runs: Path, drawn: list[Figure]) -> None:
    plot([runs])
    assert titles(drawn[0]) == ["Acrobot-v1", "CartPole-v1"]
    assert legend(drawn[0]) == ["a2c  (3 runs)", "ppo  (3 runs)"]
    for axes in drawn[0].axes:
        assert [len(line.get_xdata()) for line in axes.get_lines()] == [2, 2]
        assert len(axes.collections) == 2  # the intervals


def test_lines_and_panels_are_told_apart_by_any_options(runs: Path, drawn: list[Figure]) -> None:
    plot([runs], by=["algo", "seed"], panel=["env", "lr"])
    assert titles(drawn[0])[0] == "Acrobot-v1, lr = 0.0003"
    assert legend(drawn[0])[:2] == ["a2c, seed = 0", "a2c, seed = 1"]


def test_the_evaluation_return_is_shown_where_all_runs_have_a_curve_of_it(
    runs: Path, drawn: list[Figure], make_run: MakeRun
) -> None:
    plot([runs])
    assert drawn[0].get_supylabel() == "evaluation return\nmean, 95 % interval"
    make_run(
        runs / "evaluated_once",
        {"env_steps": [100, 300], "rollout/return_100": [1, 2], "eval/return_mean": [None, 3]},
    )
    plot([runs], stat="iqm")
    assert drawn[1].get_supylabel() == "training return, last 100 episodes\nIQM, 95 % interval"


def test_evaluations_at_no_common_steps_give_way_to_training_returns_and_it_is_said(
    tmp_path: Path, drawn: list[Figure], make_run: MakeRun
) -> None:
    for i, evaluated in enumerate(([1, 2, None, None], [None, None, 3, 4])):
        columns = {"env_steps": [100, 200, 300, 400], "rollout/return_100": [1, 2, 3, 4]}
        make_run(tmp_path / str(i), {**columns, "eval/return_mean": evaluated}, seed=i)
    says = "no env_steps in common for eval/return_mean, so that rollout/return_100 is shown"
    with pytest.warns(UserWarning, match=says):
        plot([tmp_path])
    assert drawn[0].get_supylabel() == "training return, last 100 episodes\nmean, 95 % interval"
    plot([tmp_path], by="run")  # every line is one run's own: nothing needs to be in common
    assert drawn[1].get_supylabel() == "evaluation return"
    with pytest.raises(UsageError, match="the runs 0, 1 have no env_steps in common"):
        plot([tmp_path], y="eval/return_mean")


def test_without_any_return_at_common_steps_the_runs_are_named(
    tmp_path: Path, make_run: MakeRun
) -> None:
    for i in range(2):
        make_run(tmp_path / str(i), {"env_steps": [1 + i], "rollout/return_100": [0]}, seed=i)
    with pytest.raises(UsageError, match="the runs 0, 1 have no env_steps in common"):
        plot([tmp_path])


def test_a_run_that_cannot_be_read_is_told_of_and_the_others_are_drawn(
    runs: Path, drawn: list[Figure]
) -> None:
    next(runs.iterdir()).joinpath("run.json").write_text("{")
    with pytest.warns(UserWarning, match=r"left out: .*run.json cannot be read"):
        plot([runs], by="run")
    assert len(legend(drawn[0])) == 11


def test_runs_of_callables_that_only_their_name_tells_are_pointed_out(
    tmp_path: Path, make_run: MakeRun
) -> None:
    for i in range(2):
        columns = {"env_steps": [1, 2], "rollout/return_100": [0, 1]}
        make_run(tmp_path / str(i), columns, env="<lambda>", seed=i)
    with pytest.warns(UserWarning, match="<lambda> is all that is recorded of the callable"):
        plot([tmp_path])


def test_any_columns_can_be_the_axes(runs: Path, drawn: list[Figure]) -> None:
    plot([runs], x="rollout/return_100", y="eval/return_mean", by="run")
    assert drawn[0].get_supxlabel() == "training return, last 100 episodes"
    assert drawn[0].get_supylabel() == "evaluation return"


def test_a_run_without_values_is_left_out_and_named(
    runs: Path, drawn: list[Figure], make_run: MakeRun
) -> None:
    make_run(runs / "just_begun", {"env_steps": [10]})
    with pytest.warns(UserWarning, match="just_begun has no eval/return_mean yet"):
        plot([runs], y="eval/return_mean")
    assert legend(drawn[0]) == ["a2c  (3 runs)", "ppo  (3 runs)"]


def test_a_run_that_cuts_its_group_short_is_named(runs: Path, make_run: MakeRun) -> None:
    make_run(runs / "short", {"env_steps": [100, 200], "rollout/return_100": [0, 1]})
    with pytest.warns(UserWarning, match="ends at env_steps = 200 of 300: .*short has got no"):
        plot([runs], y="rollout/return_100")


def test_mixing_environments_in_one_curve_is_said(runs: Path) -> None:
    with pytest.warns(UserWarning, match="one curve mixes the scales of Acrobot-v1, CartPole-v1"):
        plot([runs], panel="algo")


def test_mistakes_are_usage_errors_with_a_remedy(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for options, says in (
        ({"paths": [tmp_path / "empty"]}, "no run in .*empty"),
        ({"out": "curves.jpg"}, r"out=curves.jpg has no known ending; choose one of .png"),
        ({"y": "eval/return_men"}, r"did you mean eval/return_mean\?"),
        ({"x": "env_step"}, r"did you mean env_steps\?"),
        ({"by": "algoo"}, r"no run has an option algoo; did you mean algo\?"),
        ({"stat": "median"}, "choose mean or iqm"),
    ):
        with pytest.raises(UsageError, match=says):
            plot(**{"paths": [runs]} | options)


def test_without_matplotlib_the_extra_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'rlpyt\[plot\]'"):
        plot([runs])


def test_plotting_imports_no_torch() -> None:
    script = (
        "import sys, rlpyt.view.plot; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["False", "False"], ran.stderr
