"""Runs are found once, named as users name them, and wrong names get the nearest right one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpyt.errors import UsageError
from rlpyt.view.runs import LoggedRun, column_name, fact_name, find_runs

MakeRun = Callable[..., Path]


def test_runs_at_and_below_the_paths_are_found_once_and_in_order(
    tmp_path: Path, make_run: MakeRun
) -> None:
    for name in ("b", "a/2", "a/1"):
        make_run(tmp_path / name, {"env_steps": [1]})
    (tmp_path / "b" / "checkpoints" / "other").mkdir(parents=True)
    (tmp_path / "b" / "checkpoints" / "other" / "run.json").write_text("{}")
    found = find_runs([tmp_path / "b", tmp_path, tmp_path / "a" / ".." / "a"])
    assert [run.path.name for run in found] == ["1", "2", "b"]


def test_places_without_runs_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run in .*; a run is a folder with a run.json"):
        find_runs([tmp_path])
    with pytest.raises(UsageError, match="absent does not exist; give run folders"):
        find_runs([tmp_path / "absent"])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.json", "{"),
        ("run.json", "[]"),
        ("run.json", '{"format": 99}'),
        ("progress.csv", "env_steps,loss\n1,low\n"),
    ],
)
def test_a_run_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, make_run: MakeRun, file: str, text: str
) -> None:
    for name in "ab":
        make_run(tmp_path / name, {"env_steps": [1], "loss": [2]})
    (tmp_path / "a" / file).write_text(text)
    with pytest.warns(UserWarning, match=f"left out: .*a/{file}"):
        found = find_runs([tmp_path])
    assert [run.path.name for run in found] == ["b"]
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(UsageError, match="no run can be read"),
    ):
        find_runs([tmp_path / "a"])


def test_options_that_are_no_options_do_not_stop_the_others(
    tmp_path: Path, make_run: MakeRun
) -> None:
    make_run(tmp_path / "a", {"env_steps": [1]}, options=["lr"])
    make_run(tmp_path / "b", {"env_steps": [1]})
    with pytest.warns(UserWarning, match=r"left out: .*run.json has no options by name"):
        assert [run.path.name for run in find_runs([tmp_path])] == ["b"]


def test_points_leave_out_empty_cells(tmp_path: Path, make_run: MakeRun) -> None:
    folder = make_run(
        tmp_path / "run",
        {"env_steps": [1, 2, 3], "eval/return_mean": [5, None, 7], "empty": [None] * 3},
    )
    (run,) = find_runs([folder])
    x, y = run.points("env_steps", "eval/return_mean")
    assert x.tolist() == [1, 3]
    assert y.tolist() == [5, 7]
    assert len(run.points("env_steps", "empty")[0]) == 0
    assert len(run.points("env_steps", "absent")[0]) == 0


def test_a_line_still_being_written_is_left_out(tmp_path: Path, make_run: MakeRun) -> None:
    folder = make_run(tmp_path / "run", {"env_steps": [1, 2], "loss": [5, 6]})
    with open(folder / "progress.csv", "a") as file:
        file.write("3,0.")
    assert find_runs([folder])[0].points("env_steps", "loss")[0].tolist() == [1, 2]


def test_a_run_that_has_only_begun_has_no_points(tmp_path: Path, make_run: MakeRun) -> None:
    folder = make_run(tmp_path / "run", {"env_steps": [1]})
    (folder / "progress.csv").unlink()
    assert len(find_runs([folder])[0].points("env_steps", "loss")[0]) == 0


FACTS: dict[str, Any] = {
    "algo": "ppo",
    "seed": 0,
    "algo.lr": 3e-4,
    "env.num_envs": 8,
    "model.memory": "none",
    "env.memory": 1,
    "loop.device": "auto",
    "resolved.device": "cpu",
    "resolved.threads": 1,
}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("algo", "algo"),
        ("algo.lr", "algo.lr"),
        ("lr", "algo.lr"),
        ("--num-envs", "env.num_envs"),
        ("device", "loop.device"),
        ("threads", "resolved.threads"),
    ],
)
def test_options_are_named_dotted_or_flat(name: str, meant: str) -> None:
    assert fact_name(name, [LoggedRun(Path(), FACTS)]) == meant


def test_unknown_and_ambiguous_names_say_what_could_be_meant() -> None:
    runs = [LoggedRun(Path(), FACTS)]
    with pytest.raises(UsageError, match=r"an option num_env; did you mean num_envs\?"):
        fact_name("num_env", runs)
    with pytest.raises(UsageError, match="memory could be model.memory or env.memory"):
        fact_name("memory", runs)
    run = LoggedRun(Path(), {})
    run.__dict__["columns"] = {"eval/return_mean": np.zeros(1), "loss/policy": np.zeros(1)}
    with pytest.raises(UsageError, match=r"column eval/return; did you mean eval/return_mean\?"):
        column_name("eval/return", [run])
