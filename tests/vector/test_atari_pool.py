"""ale-py's pool plays each protocol event by event as single Atari environments do."""

from dataclasses import replace

import numpy as np
import pytest
from small_pools import SEEDS, collect, native, random_actions

from rlpyt.envs.atari import AtariEnvironment
from rlpyt.envs.protocols import machado2018, mnih2015
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.pools import AtariPool, describe_pool

INFOS = ("lives", "game_over", "game_return")


@pytest.mark.parametrize(
    ("game", "protocol"),
    [
        ("breakout", mnih2015),  # lives, FIRE, no-ops
        ("seaquest", machado2018),  # sticky actions
        ("pong", replace(machado2018, max_frames=320)),  # truncation
    ],
)
def test_a_protocol_gives_the_same_rows_in_process_and_in_ale_pys_pool(game, protocol):
    """Event by event until a column's first game is over, whose picture may be an older one."""
    pool = AtariPool(game, protocol, 2)
    envs = native(pool, describe_pool(pool, game, INFOS))
    single = InProcess([AtariEnvironment(game, protocol) for _ in range(2)], envs.spec, SEEDS)
    rows, other = (collect(x, 240, random_actions(envs.spec.action.n)) for x in (envs, single))
    envs.close()
    compared = 0
    for b in range(2):
        over = np.flatnonzero(other.env_info["game_over"][:, b])
        end = int(over[0]) if len(over) else 240
        for name in ("reward", "terminated", "truncated", "first"):
            x, y = getattr(rows, name)[: end + 1, b], getattr(other, name)[: end + 1, b]
            assert np.array_equal(x, y), name
        assert np.array_equal(rows.observation[:end, b], other.observation[:end, b])
        for name in INFOS:
            x, y = rows.env_info[name][: end + 1, b], other.env_info[name][: end + 1, b]
            assert np.array_equal(x, y), name
        if len(over) and end < 240:  # the next game begins on the row after
            after = {name: rows.env_info[name][end + 1, b] for name in INFOS}
            assert rows.first[end + 1, b]
            assert (after["game_over"], after["game_return"]) == (0, 0)
            compared += 1
    assert compared == 2 or game == "seaquest"
    assert np.array_equal(rows.first[1:], rows.last[:-1])
    assert not rows.reward[rows.first].any()
    if protocol.life_loss:
        lives = other.env_info["lives"]
        assert ((rows.env_info["game_over"] == 0) & rows.last).sum() >= 4
        assert lives[0].tolist() == [5, 5]


class FakeAtariVector:
    """Scripted columns, to end a game on the NOOP after a lost life."""

    lives = ((3, 3), (2, 3), (0, 3), (2, 3))
    terminated = ((0, 0), (1, 0), (1, 0), (0, 0))
    reward = ((0, 0), (5, 1), (7, 1), (1, 1))

    def __init__(self):
        self.t, self.resets = 0, []

    def _infos(self, lives):
        return {"lives": np.array(lives, np.int32)}

    def reset(self, *, seed=None, options=None):
        if options:
            self.resets.append(options["reset_mask"].tolist())
        return np.full((2, 1, 84, 84), 200, np.uint8), self._infos((3, self.lives[self.t][1]))

    def send(self, actions):
        self.actions, self.t = actions.tolist(), self.t + 1

    def recv(self):
        observation = np.full((2, 1, 84, 84), self.t, np.uint8)
        ended = np.array(self.terminated[self.t], bool)
        reward = np.array(self.reward[self.t], np.int32)
        return observation, reward, ended, np.zeros(2, bool), self._infos(self.lives[self.t])

    def close(self):
        pass


def test_a_game_that_ends_on_the_noop_after_a_lost_life_gives_way_to_the_next():
    pool = AtariPool("breakout", mnih2015, 2)
    pool.close()
    pool._envs = FakeAtariVector()
    envs = native(pool, describe_pool(pool, "breakout", INFOS))
    sent = []

    def act(t, row):
        row.action[:] = 3
        sent.append(getattr(pool._envs, "actions", None))

    rows = collect(envs, 3, act)
    assert pool._envs.resets == [[True, False]]
    assert sent[2] == [0, 3]  # NOOP after the lost life
    assert rows.terminated.T.astype(int).tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    assert rows.first.T.astype(int).tolist() == [[1, 0, 1, 0], [1, 0, 0, 0]]
    assert rows.reward.T.tolist() == [[0, 5, 0, 1], [0, 1, 1, 1]]
    assert rows.env_info["game_over"].T.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    assert rows.env_info["game_return"][:, 0].tolist() == [0, 5, 0, 1]
    assert rows.observation[2, :, 0, 0].tolist() == [200, 2]
