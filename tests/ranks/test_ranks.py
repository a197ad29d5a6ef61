"""Sums and words between ranks, and what each says where another one is no more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from together import addresses, ended, free_port, in_process, in_ranks

from rlpyt.cli import main
from rlpyt.errors import StopAsked
from rlpyt.ranks import Ranks, joined, world
from rlpyt.stopping import StopSignal


def exchanges() -> dict[str, Any]:
    ranks = world()
    mine = ranks.rank + 1.0
    waits = [ranks.begin_sum_(x := torch.full((3,), mine)), ranks.begin_sum_(torch.ones(2))]
    for wait in waits:
        wait()
    made = [ranks.from_first(lambda i=i: (ranks.rank, i)) for i in range(3)]
    return {
        "sum": ranks.sum_(torch.tensor([mine, 1.0])).tolist(),
        "begun": x.tolist(),
        "totals": ranks.totals(mine, 0.5),
        "greatest": ranks.greatest(mine, -mine),
        "gather": ranks.gather({"rank": ranks.rank}),
        "at first": ranks.gather_at_first(ranks.rank),
        "made": made,
    }


def test_what_is_exchanged_is_the_same_everywhere() -> None:
    first, second, third = in_ranks(3, exchanges)
    assert first["sum"] == [6.0, 3.0] and first["begun"] == [6.0] * 3
    assert first["totals"] == [6.0, 1.5] and first["greatest"] == [3.0, -1.0]
    assert first["gather"] == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
    assert first["made"] == [(0, 0), (0, 1), (0, 2)]
    assert (first.pop("at first"), second.pop("at first"), third.pop("at first")) == (
        [0, 1, 2],
        [],
        [],
    )
    assert first == second == third


def sums_of_all_kinds() -> tuple[list[list[float]], int]:
    """As exchanged through memory, then as through the network; and how many places memory has."""
    ranks: Any = world()
    found, near = [], ranks._nearby
    for ranks._nearby in (near, None):
        torch.manual_seed(world().rank)
        tensors = [torch.randn(n) for n in (1, 3, 1000)]
        tensors += [torch.randn(7, 3, dtype=torch.float64), torch.tensor(world().rank + 1)]
        for tensor in tensors:
            ranks.sum_(tensor)
        count, mean, squares = ranks.moments(3, torch.randn(4).double(), torch.ones(4).double())
        numbers = [*ranks.totals(1.5, world().rank), *ranks.greatest(world().rank), count]
        flat = torch.cat([x.double().flatten() for x in (*tensors, mean, squares)])
        found.append([*flat.tolist(), *numbers])
    return found, len(near._places[0])


def test_through_memory_ranks_of_one_machine_have_the_sums_of_the_network() -> None:
    everywhere = in_ranks(3, sums_of_all_kinds)
    (near, far), places = everywhere[0]
    assert places == 3
    np.testing.assert_allclose(near, far, rtol=1e-5, atol=1e-6)
    for (others, _), _ in everywhere:
        assert others == near  # to the bit


def exchange_often() -> list[float]:
    """Each rank is slow at other calls; what a call gives is nobody's of another one."""
    draw, found = np.random.default_rng(world().rank), []
    for i in range(300):
        if draw.random() < 0.05:
            time.sleep(0.002)
        found += world().totals(i * (world().rank + 1), 1.0)
    return found


def test_calls_through_memory_are_never_mixed() -> None:
    for found in in_ranks(2, exchange_often):
        assert found == [x for i in range(300) for x in (3.0 * i, 2.0)]


def exchange_unlike() -> None:
    world().totals(*[1.0] * (1 + world().rank))


def test_numbers_that_are_not_as_many_on_every_rank_are_no_sum() -> None:
    for end in ended(2, exchange_unlike, beat=0.5):
        assert "ranks exchange unlike numbers ([8, 16] bytes, by rank)" in end.error


def test_alone_everything_is_what_was_given() -> None:
    alone = Ranks()
    assert alone.totals(3.0, 4) == [3.0, 4] and alone.greatest(2) == [2]
    assert alone.gather("x") == ["x"] and alone.from_first(lambda: 5) == 5
    assert alone.moments(2, 1.0, 0.5) == (2, 1.0, 0.5)


def moments_of(seed: int) -> Any:
    rows = rows_of(seed, world().rank)
    return world().moments(len(rows), rows.mean(0), ((rows - rows.mean(0)) ** 2).sum(0))


def rows_of(seed: int, rank: int) -> torch.Tensor:
    """As many rows as the rank is; of the first none."""
    torch.manual_seed(seed + rank)
    return torch.randn(5 * rank, 4, dtype=torch.float64) + 3


def test_moments_are_those_of_all_rows() -> None:
    found = in_ranks(3, moments_of, 7)
    rows = torch.cat([rows_of(7, rank) for rank in range(3)]).numpy()
    for count, mean, squares in found:
        assert count == 15
        np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-12)
        np.testing.assert_allclose(squares, ((rows - rows.mean(0)) ** 2).sum(0), rtol=1e-12)


def fail_at_second(where: str) -> None:
    ranks = world()
    ranks.totals(1.0)
    if ranks.rank == 1:
        match where:
            case "raises":
                raise ZeroDivisionError("in the second rank")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        ranks.sum_(torch.ones(1))


@pytest.mark.parametrize("near", [True, False])
def test_who_waits_is_told_what_another_one_failed_of(near: bool) -> None:
    """F30, B250: with the traceback, and long before a wait would be over."""
    begun = time.monotonic()
    first, second = ended(2, fail_at_second, "raises", near=near)
    assert "RankError" in first.error and "rank 1" in first.error
    assert "ZeroDivisionError: in the second rank" in first.error
    assert "ZeroDivisionError" in second.error
    assert time.monotonic() - begun < 45


@pytest.mark.parametrize("near", [True, False])
def test_who_waits_is_told_of_one_that_was_killed(near: bool) -> None:
    first, second = ended(2, fail_at_second, "killed", near=near, beat=0.5)
    assert "RankError: rank 1 is gone without a word" in first.error
    assert second.code == -signal.SIGKILL


def fail_at_first_by_a_signal() -> None:
    world().totals(1.0)
    if world().rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    world().totals(1.0)


@pytest.mark.parametrize("near", [True, False])
def test_who_waits_is_told_of_the_first_s_end_though_the_store_goes_with_it(near: bool) -> None:
    first, second = ended(2, fail_at_first_by_a_signal, near=near)
    assert first.code == -signal.SIGKILL
    assert "RankError: the first rank, or the torchrun of its machine, is gone" in second.error


def given_up_at_second() -> str:
    """The second rank alone is asked to stop, and leaves something unfinished."""
    ranks = world()
    if ranks.rank == 1:
        with StopSignal():
            os.kill(os.getpid(), signal.SIGTERM)
            ranks.failed(StopAsked("compiling was given up"))
        return ""
    try:
        while True:
            ranks.totals(1.0)
    except StopAsked as error:
        return f"{error.asked}: {error}"


def test_what_one_rank_was_asked_to_leave_is_no_failure_of_the_others() -> None:
    (said, _) = in_ranks(2, given_up_at_second)
    assert said.startswith("terminated: rank 1") and "compiling was given up" in said


def test_nobody_waits_for_a_rank_that_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    """F30: it is stopped, not ended: its connections stay open, and no sum fails."""
    stopped = ended(3, stop_second, silent_seconds=2.0, beat=0.5)
    assert [x.code for x in stopped] == [1, -signal.SIGKILL, 1]
    said = capfd.readouterr().err
    assert "rank 0 ends: rank 1 has not answered for 2 s" in said


def stop_second() -> None:
    """Another process kills the stopped one when the others are gone, so that it has an end."""
    first, own, third = world().gather(os.getpid())
    if world().rank == 1:
        alive = f"kill -0 {first} 2>/dev/null || kill -0 {third} 2>/dev/null"
        subprocess.Popen(["sh", "-c", f"while {alive}; do sleep 0.1; done; kill -9 {own}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    world().sum_(torch.ones(1))
    time.sleep(60)


def made_late() -> float:
    begun = time.monotonic()
    world().from_first(lambda: time.sleep(3))
    return time.monotonic() - begun


def test_what_the_first_makes_may_take_longer_than_a_silence() -> None:
    """An evaluation, say: its heart beats meanwhile."""
    assert min(in_ranks(2, made_late, silent_seconds=2.0, beat=0.5)) > 2.9


def fail_at_first() -> None:
    def make() -> None:
        raise OSError(28, "No space left on device")

    world().from_first(make)


def test_what_the_first_fails_to_make_ends_all() -> None:
    first, second = ended(2, fail_at_first, beat=0.5)
    assert "No space left" in first.error
    assert "RankError: rank 0" in second.error and "No space left" in second.error


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"RANK": None}, ["WORLD_SIZE=2 without RANK", "torchrun"]),
        ({"WORLD_SIZE": "two"}, ["WORLD_SIZE=two", "whole number"]),
        ({"RANK": "2"}, ["RANK=2 is not less than WORLD_SIZE=2", "0 to 1"]),
        ({"RANK": "-1"}, ["RANK=-1", "whole number"]),
        ({"MASTER_PORT": "99999"}, ["MASTER_PORT=99999", "at most 65535"]),
    ],
)
def test_a_half_made_world_is_refused(
    changes: dict[str, str | None],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = {**addresses(2, free_port()), "RANK": "0", **changes}
    for name, text in given.items():
        if text is not None:
            monkeypatch.setenv(name, text)
    assert main(["train", "ppo", "--env", "CartPole-v1"]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in words), said


def test_a_mistake_of_one_rank_alone_is_told_by_it() -> None:
    """The first one speaks for all; torchrun ends who waits whether it has failed, too."""
    given = {**addresses(2, free_port()), "RANK": "1", "TORCHELASTIC_RUN_ID": "none"}
    command = [sys.executable, "-m", "rlpyt", "train", "ppo", "--no-such-option"]
    done = subprocess.run(
        command, env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "no-such-option" in done.stderr


def come_twice() -> None:
    """A process that runs beside training has its rank's variables."""
    if world().rank == 1:
        code = "from rlpyt.ranks.joined import Joined; Joined()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "two processes have come as RANK=1" in done.stderr, done.stderr
    world().totals(1.0)


def test_a_second_process_of_a_rank_is_refused_and_the_first_goes_on() -> None:
    in_ranks(2, come_twice)


def test_a_port_of_something_else_is_told_of() -> None:
    """A server takes connections there and says nothing: PyTorch would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        env = {**addresses(2, other.getsockname()[1]), "RANK": "1"}
        error = in_process(env, come_soon).error
    assert "UsageError" in error and "2 ranks did not meet there" in error


def come_soon() -> None:
    module: Any = joined
    module.BEAT_SECONDS = 0.5
    joined.Joined(silent_seconds=1.0)


def test_ranks_that_do_not_come_are_named() -> None:
    error = in_process({**addresses(3, free_port()), "RANK": "0"}, joined.Joined, 60.0, 1.0).error
    assert "UsageError" in error
    assert "rank 1, rank 2 did not come in 1 s" in error
