"""Native pools give the rows that single environments would give, or are refused by name."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from ale_py import AtariVectorEnv
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from toys import CountEnv

from rlpyt import noise
from rlpyt.envs.atari import AtariEnvironment
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.protocols import machado2018, mnih2015
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import EnvironmentFault, UsageError
from rlpyt.noise import ResetSeeds
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.columns import cut
from rlpyt.vector.grouped import Grouped
from rlpyt.vector.in_process import InProcess
from rlpyt.vector.native import NativeEnvironments
from rlpyt.vector.pools import (
    AtariPool,
    EnvPoolPool,
    GymnasiumPool,
    describe_pool,
    make_pool,
    pool_for,
)

NEXT_STEP = AutoresetMode.NEXT_STEP
SEEDS = ResetSeeds(0, noise.TRAINING_RESETS)


def native(pool, spec=None):
    return NativeEnvironments(pool, spec or describe_pool(pool, "test"), SEEDS)


def collect(envs, steps, act=None, ended=None):
    """Rows [steps + 1, B]; act(t, row) writes actions; infos of episodes' ends go into `ended`."""
    rows = zeros(example_row(envs.spec), (steps + 1, envs.num_envs))
    envs.reset(rows[0])
    for t in range(steps):
        if act:
            act(t, rows[t])
        envs.send(rows[t], rows[t + 1])
        found = envs.recv(rows[t + 1])
        if ended is not None:
            ended += found
    return rows


@pytest.mark.parametrize("groups", [2, 3])
def test_pools_that_take_turns_are_one_pool(groups):
    """Columns keep their seeds, endings and snapshots, whichever pool they are in."""

    def pool(columns):
        made = SyncVectorEnv(
            [partial(CountEnv, 2 + b, gap=1, column=b) for b in columns],
            autoreset_mode=NEXT_STEP,
        )
        return GymnasiumPool(made, "count")

    spec = describe_pool(pool(range(5)), "count")
    one = NativeEnvironments(pool(range(5)), spec, SEEDS)
    parts = [NativeEnvironments(pool(x), spec, SEEDS, x) for x in cut(range(5), groups)]
    many = Grouped(parts)
    rows, other = (zeros(example_row(spec), (21, 5)) for _ in range(2))
    one.reset(rows[0])
    many.reset(other[0])
    for t in range(20):
        one.send(rows[t], rows[t + 1])
        one.recv(rows[t + 1])
        for g, columns in enumerate(many.groups):  # all are under way before one is waited for
            many.send(other[t][columns], other[t + 1][columns], g)
        for g, columns in enumerate(many.groups):
            many.recv(other[t + 1][columns], g)
    assert_same(rows, other)
    assert one.snapshot()["starts"] == many.snapshot()["starts"] == 1
    assert many.restore(one.snapshot(), other[20]) == one.restore(many.snapshot(), rows[20])
    one.close()
    many.close()


def random_actions(n, seed=0):
    rng = np.random.default_rng(seed)

    def act(t, row):
        row.action[:] = rng.integers(n, size=row.action.shape)

    return act


def assert_same(rows, other):
    for name in ("observation", "reward", "terminated", "truncated", "first", "cut"):
        assert np.array_equal(getattr(rows, name), getattr(other, name)), name


def count_envs(vector, n=3):
    makes = [partial(CountEnv, n=2 + b, column=b, end="trunc" if b else "term") for b in range(n)]
    return vector(makes, autoreset_mode=NEXT_STEP)


def test_every_transition_of_a_known_stream_arrives_once():
    """Episodes of 2 and of 3 steps: their rows written out."""
    rows = collect(native(GymnasiumPool(count_envs(SyncVectorEnv, 2), "count")), 7)
    assert rows.observation[:, 0, 1:].tolist() == [  # [episode, steps]
        [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1],
    ]  # fmt: skip
    assert rows.observation[:, 1, 1:].tolist() == [
        [0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3],
    ]  # fmt: skip
    assert rows.first.T.astype(int).tolist() == [[1, 0, 0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0, 0, 0]]
    assert rows.reward.T.tolist() == [[0, 1, 1, 0, 1, 1, 0, 1], [0, 1, 1, 1, 0, 1, 1, 1]]
    assert np.flatnonzero(rows.terminated[:, 0]).tolist() == [2, 5]
    assert np.flatnonzero(rows.truncated[:, 1]).tolist() == [3, 7]
    assert not rows.truncated[:, 0].any()
    assert not rows.terminated[:, 1].any()


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_rows_equal_those_of_the_same_environments_in_process(vector):
    envs = native(GymnasiumPool(count_envs(vector), "count"))
    single = [CountEnv(n=2 + b, column=b, end="trunc" if b else "term") for b in range(3)]
    assert_same(collect(envs, 20), collect(InProcess(single, envs.spec, SEEDS), 20))
    envs.close()


def test_columns_of_gymnasiums_own_vectors_start_from_their_seeds():
    makes = [partial(gymnasium.make, "CartPole-v1")] * 3
    envs = native(GymnasiumPool(SyncVectorEnv(makes, autoreset_mode=NEXT_STEP), "CartPole-v1"))
    single = InProcess([make() for make in makes], envs.spec, SEEDS)
    rows, other = (collect(x, 8, random_actions(2)) for x in (envs, single))
    assert_same(rows, other)  # no pole falls in 8 steps
    assert len(np.unique(rows.observation[0], axis=0)) == 3


def test_a_vectorised_program_steps_as_single_environments_do():
    envs = native(
        pool_for(gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point"), "v")
    )
    rows = collect(envs, 60, random_actions(2))
    single = gymnasium.make("CartPole-v1").unwrapped
    single.reset()
    checked = 0
    for t, b in np.argwhere(~rows.last[:-1]):
        single.state, single.steps_beyond_terminated = rows.observation[t, b], None
        after, reward, terminated, *_ = single.step(rows.action[t, b])
        np.testing.assert_allclose(rows.observation[t + 1, b], after, rtol=1e-4, atol=1e-6)
        assert (rows.reward[t + 1, b], rows.terminated[t + 1, b]) == (reward, terminated)
        checked += 1
    assert checked > 150
    assert rows.last.sum() >= 4
    assert np.array_equal(rows.first[1:], rows.last[:-1])
    assert not rows.reward[rows.first].any()


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (AutoresetMode.SAME_STEP, "resets in mode SameStep.*autoreset_mode=AutoresetMode.NEXT"),
        (AutoresetMode.DISABLED, "resets in mode Disabled.*autoreset_mode=AutoresetMode.NEXT"),
        (None, "does not declare its autoreset mode.*autoreset_mode=AutoresetMode.NEXT"),
    ],
)
def test_a_vector_that_does_not_reset_in_the_next_step_is_refused(mode, says):
    envs = SyncVectorEnv([CountEnv], autoreset_mode=mode or NEXT_STEP)
    if mode is None:
        envs.metadata = {}
    with pytest.raises(UsageError, match=f"CountEnv-v0.*{says}"):
        pool_for(envs, "CountEnv-v0")


def test_what_is_no_vector_environment_is_refused():
    with pytest.raises(UsageError, match="count: toys.CountEnv is no vector environment"):
        pool_for(CountEnv(), "count")


class Careless(gymnasium.vector.VectorWrapper):
    """Gives rewards and flags as its author found them."""

    form = staticmethod(lambda x: x)

    def step(self, actions):
        observation, reward, terminated, truncated, infos = self.env.step(actions)
        return observation, *map(self.form, (reward, terminated, truncated)), infos


@pytest.mark.parametrize(
    "form", [np.ndarray.tolist, lambda x: x[:, None].astype(np.float64), lambda x: x.astype(int)]
)
def test_rewards_and_flags_of_a_pool_may_be_lists_columns_or_of_other_dtypes(form):
    careless = Careless(count_envs(SyncVectorEnv))
    careless.form = form
    rows = collect(native(GymnasiumPool(careless, "count")), 12)
    assert_same(rows, collect(native(GymnasiumPool(count_envs(SyncVectorEnv), "count")), 12))


@pytest.mark.parametrize(
    ("form", "says"), [(lambda x: x[:-1], r"shape \(2,\)"), (lambda x: x.astype(str), "dtype <U")]
)
def test_rewards_that_are_not_one_number_of_each_column_are_named(form, says):
    careless = Careless(count_envs(SyncVectorEnv))
    careless.form = form
    with pytest.raises(EnvironmentFault, match=f"rewards of .*{says}.* one number of each"):
        collect(native(GymnasiumPool(careless, "count")), 1)


def test_a_pool_that_ends_an_episode_while_it_resets_is_an_error():
    class Ends(CountEnv):
        def reset(self, **kwargs):
            self.n = 1
            return super().reset(**kwargs)

    envs = SyncVectorEnv([Ends], autoreset_mode=NEXT_STEP)
    step = envs.step
    envs.step = lambda actions: (*step(actions)[:2], np.array([True]), np.array([False]), {})
    with pytest.raises(EnvironmentFault, match="ended an episode in the step that resets it"):
        collect(native(GymnasiumPool(envs, "ends")), 3)


class InfoEnv(CountEnv):
    """Says `level` in column 1 only, and allows only action `steps % 2`."""

    def _info(self):
        info = {"action_mask": np.array([self.steps % 2 == 0, self.steps % 2 == 1])}
        return info | ({"level": 10.0 * self.steps, "name": "x"} if self.column else {})

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self._info()

    def step(self, action):
        return (*super().step(action)[:4], self._info())


def test_infos_and_masks_are_the_columns_own():
    vector = SyncVectorEnv([partial(InfoEnv, 3, column=b) for b in range(2)])
    pool = GymnasiumPool(vector, "info")
    spec = describe_pool(pool, "info", ("level",))
    spec = replace(spec, mask="info", mask_size=2)
    envs, ended = native(pool, spec), []
    rows = collect(envs, 4, ended=ended)
    single = InProcess([InfoEnv(3, column=b) for b in range(2)], spec, SEEDS)
    other = collect(single, 4)
    assert np.array_equal(rows.mask, other.mask)
    assert np.array_equal(rows.env_info["level"], other.env_info["level"], equal_nan=True)
    assert rows.env_info["level"][:, 1].tolist() == [0, 10, 20, 30, 0]
    assert ended == [(0, {}), (1, {"level": 30.0})]


class DictEnv(gymnasium.Env):
    """Observes a Dict and takes a Dict; the observation repeats the action."""

    observation_space = Dict(image=Box(0, 255, (4, 4), np.uint8), choice=Discrete(3, start=5))
    action_space = Dict(move=Box(-2.0, 2.0, (2,)), choice=Discrete(3, start=1))

    def _observation(self, choice):
        return {"image": np.full((4, 4), choice, np.uint8), "choice": np.int64(choice + 4)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(1), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self._observation(action["choice"]), float(action["move"][0]), False, False, {}


def test_composite_observations_and_actions_pass_through_a_pool():
    envs = native(GymnasiumPool(SyncVectorEnv([DictEnv] * 2, autoreset_mode=NEXT_STEP), "dict"))

    def act(t, row):
        row.action.move[:] = [[0.5, 0], [-1, 1]]
        row.action.choice[:] = [t % 3, 2]

    rows = collect(envs, 4, act)
    assert rows.reward[1:].tolist() == [[1, -2]] * 4
    assert rows.observation.choice.T.tolist() == [[0, 0, 1, 2, 0], [0, 2, 2, 2, 2]]
    assert rows.observation.image[2, 0, 0, 0] == 2


def test_a_resumed_pool_cuts_what_was_open_and_begins_other_episodes():
    envs = native(GymnasiumPool(count_envs(SyncVectorEnv), "count"))
    rows = collect(envs, 3)  # column 1 (3 steps) ends on this row
    state = envs.snapshot()
    assert not envs.exact
    fresh = native(GymnasiumPool(count_envs(SyncVectorEnv), "count"))
    row, after, later = (zeros(example_row(fresh.spec), (3,)) for _ in range(3))
    row[:] = rows[3]
    assert fresh.restore(state, row) == [0, 2]
    fresh.send(row, after)
    fresh.recv(after)
    assert row.last.all()
    assert row.terminated.tolist() == rows.terminated[3].tolist()
    assert after.first.all()
    assert after.cut.tolist() == [True, False, True]
    assert not after.last.any()
    assert after.observation[:, 2].tolist() == [0, 0, 0]
    fresh.send(after, later)
    fresh.recv(later)
    assert later.reward.tolist() == [1, 1, 1]
    assert not later.cut.any()
    assert fresh.snapshot()["starts"] == 2


class FakeEnvPool:
    """EnvPool's gymnasium interface over CountEnvs: unbatched spaces, reset in the next step."""

    def __init__(self, num_envs=2, batch_size=2, order=(0, 1)):
        self.envs = [CountEnv(n=2 + b, column=b) for b in range(num_envs)]
        self.observation_space = self.envs[0].observation_space
        self.action_space = Discrete(2)
        self.config = {"num_envs": num_envs, "batch_size": batch_size}
        self.order, self.done = np.array(order), np.zeros(num_envs, bool)

    def reset(self):
        return np.stack([env.reset()[0] for env in self.envs]), {"env_id": self.order}

    def send(self, actions):
        assert actions.shape == (2,)
        self.arrival = []
        for b, env in enumerate(self.envs):
            if self.done[b]:
                self.arrival.append((env.reset()[0], 0.0, False, False))
            else:
                self.arrival.append(env.step(actions[b])[:4])
            self.done[b] = self.arrival[b][2]

    def recv(self):
        observation, *rest = map(np.stack, zip(*self.arrival, strict=True))
        return (observation, *rest, {"env_id": self.order, "elapsed_step": np.zeros(2, np.int32)})

    def close(self):
        pass


def test_envpools_rows_equal_those_in_process():
    pool = pool_for(FakeEnvPool(), "Count-v0")
    assert isinstance(pool, EnvPoolPool)
    envs = native(pool)
    single = InProcess([CountEnv(n=2 + b, column=b) for b in range(2)], envs.spec, SEEDS)
    assert_same(collect(envs, 12), collect(single, 12))


def test_envpools_columns_must_all_arrive_in_order():
    with pytest.raises(UsageError, match="batch_size=1 of EnvPool must be num_envs=2"):
        pool_for(FakeEnvPool(batch_size=1), "Count-v0")
    with pytest.raises(EnvironmentFault, match=r"environments \[1, 0\] where 0 .. 1"):
        native(pool_for(FakeEnvPool(order=(1, 0)), "Count-v0")).reset(None)


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


def test_an_atari_vector_made_elsewhere_is_refused():
    envs = AtariVectorEnv("pong", 1)
    with pytest.raises(UsageError, match=r"cannot be seen from outside.*AtariPool\(game"):
        pool_for(envs, "pong")
    envs.close()


def test_pools_are_made_from_the_options_of_a_run():
    games = make_pool(EnvOptions("ALE/Pong-v5", env_kwargs=("frame_skip=3",)), 2)
    assert isinstance(games, AtariPool)
    games.close()
    poles = make_pool(EnvOptions("CartPole-v1", max_episode_steps=5), 3)
    rows = collect(native(poles), 12)
    assert np.array_equal(np.flatnonzero(rows.truncated[:, 0]), [5, 11])
    whole = make_pool(EnvOptions("BreakoutNoFrameskip-v4"), 1, role="evaluation")
    assert not whole._protocol.life_loss
    whole.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (EnvOptions("Pendulum-v1"), "Pendulum-v1 has no vector environment of its own"),
        (EnvOptions("ALE/Pong-v5", env_kwargs=("mode=1",)), "cannot set mode of ALE/Pong-v5"),
        (EnvOptions("CartPole-v1", wrapper=("m:f",)), "wrapper=m:f wraps single environments"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_the_remedy(options, says):
    with pytest.raises(UsageError, match=f"{says}.*--vectorization in-process"):
        make_pool(options, 2)


def test_a_specification_needs_no_single_environment():
    pool = AtariPool("pong", machado2018, 1)
    spec = describe_pool(pool, "ALE/Pong-v5")
    pool.close()
    assert isinstance(spec, EnvSpec)
    assert spec.observation.shape == (84, 84)
    assert spec.observation.image
    assert spec.action.n == 6
