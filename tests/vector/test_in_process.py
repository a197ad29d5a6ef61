"""Every row arrives once, aligned and in order; what an environment does wrong is named."""

import json
import signal
import traceback

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformReward
from stepping import go_on, in_process, saved, step
from toys import (
    AliasEnv,
    CountEnv,
    CrashEnv,
    InfoEnv,
    MaskEnv,
    MutateActionEnv,
    SeedEnv,
    SpaceZooEnv,
    Unpicklable,
)

from rlpyt import noise
from rlpyt.arrays import tree_items, tree_map
from rlpyt.envs.own_snapshots import has_snapshots
from rlpyt.errors import EnvironmentFault
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector import action_log
from rlpyt.vector.in_process import numbers

STEPS = 12
FLAGS = {"term": (True, False), "trunc": (False, True), "both": (True, True)}


def written_out(n, end, gap, rows):
    """(episode, steps, reward, terminated, truncated, first) of each row of a CountEnv's column."""
    found, episode, steps = [], 0, 0
    while len(found) < rows:
        last = end != "never" and steps > 0 and steps >= n + gap * episode
        flags = FLAGS[end] if last else (False, False)
        found.append((episode, steps, float(steps > 0), *flags, steps == 0))
        episode, steps = (episode + 1, 0) if last else (episode, steps + 1)
    return found


def read_back(rows, b):
    columns = (rows.reward, rows.terminated, rows.truncated, rows.first)
    numbers = [column[:, b].tolist() for column in columns]
    return list(zip(*rows.observation[:, b, 1:].T.astype(int).tolist(), *numbers, strict=True))


@pytest.mark.parametrize("end", ["term", "trunc", "both", "never"])
@pytest.mark.parametrize("n", range(1, STEPS + 2))
def test_every_row_arrives_once_with_every_ending_on_every_row(n, end):
    """B001, B076, B083; F13: an episode of one step, both flags at once."""
    envs = in_process(lambda b: CountEnv(n + b, end, gap=b, column=b), 3)
    rows = step(envs, STEPS)
    for b in range(3):
        assert rows.observation[:, b, 0].tolist() == [b] * (STEPS + 1)
        assert read_back(rows, b) == written_out(n + b, end, b, STEPS + 1)
    assert not rows.cut.any()


def test_control_a_reset_in_the_same_step_would_lose_the_final_row():
    rows = step(in_process(lambda b: CountEnv(3, column=b), 1), 8)
    kept = rows.observation[:, 0, 1:].tolist()
    assert [0, 3] in kept
    assert [x for x in kept if x[1] != 3] != kept


def test_only_the_environment_that_ended_is_reset():
    """B004, B076."""
    envs = in_process(lambda b: CountEnv(2 if b == 1 else 50, column=b), 3)
    rows = step(envs, 9)
    assert rows.observation[-1, :, 1].tolist() == [0, 3, 0]
    assert rows.observation[-1, [0, 2], 2].tolist() == [9, 9]


def test_an_action_is_kept_as_it_was_answered():
    """B049: reward and ending belong to that action."""
    envs = in_process(lambda b: MutateActionEnv(), 2)
    rng = np.random.default_rng(0)
    given = rng.uniform(-1, 1, (STEPS, 2, 1)).astype(np.float32)
    rows = step(envs, STEPS, lambda t, row: row.action.__setitem__(..., given[t]))
    assert np.array_equal(rows.action[:-1], given)
    executed = ~rows.last[:-1]
    assert np.array_equal(rows.reward[1:][executed], given[..., 0][executed])


def test_an_array_that_the_environment_goes_on_writing_is_copied():
    """B047."""
    rows = step(in_process(lambda b: AliasEnv(), 1), 8)
    assert rows.observation[:, 0, 0].tolist() == [*range(1, 10)]


@pytest.mark.parametrize(
    "kind",
    [int, np.float64, np.float16, lambda x: np.array([x]), lambda x: np.array(x, object), bool],
)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_rewards_of_every_kind_are_stored_as_numbers(kind, num_envs):
    """B038; one column of its own kind beside plain ones."""

    def make(b):
        env = CountEnv(4, column=b)
        return TransformReward(env, kind) if b == num_envs - 1 else env

    rows = step(in_process(make, num_envs), 6)
    assert rows.reward.T.tolist() == [[0, 1, 1, 1, 1, 0, 1]] * num_envs
    assert rows.reward.dtype == np.float32


@pytest.mark.parametrize("wrong", [None, "1.0", np.zeros(2), 1j, [1.0, 2.0]])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_reward_that_is_no_number_is_named_with_its_environment(wrong, num_envs):
    """F13: reward None."""

    def make(b):
        env = CountEnv(4, column=b)
        return TransformReward(env, lambda _: wrong) if b == num_envs - 1 else env

    with pytest.raises(EnvironmentFault, match=rf"environment {num_envs - 1} .*must return"):
        step(in_process(make, num_envs), 2)


class Flags(gymnasium.Wrapper):
    """Gives both flags of every step in another form."""

    def __init__(self, env, form):
        super().__init__(env)
        self.form = form

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, self.form(terminated), self.form(truncated), info


@pytest.mark.parametrize(
    "kind", [bool, np.bool_, int, np.float32, np.array, lambda x: np.array([x])]
)
@pytest.mark.parametrize("end", ["term", "trunc", "both"])
def test_flags_of_every_kind_end_an_episode_as_pythons_own_do(kind, end):
    def make(b):
        env = CountEnv(2 + b, end, column=b)
        return Flags(env, kind) if b else env

    rows = step(in_process(make, 3), 8)
    for b in range(3):
        assert read_back(rows, b) == written_out(2 + b, end, 0, 9)
    assert rows.terminated.any() == (end != "trunc") and rows.truncated.any() == (end != "term")


@pytest.mark.parametrize("wrong", [None, "done", np.zeros(2, bool), []])
def test_a_flag_that_is_no_number_is_named_with_its_environment(wrong):
    envs = in_process(lambda b: Flags(CountEnv(4), lambda x: wrong if b else x), 2)
    with pytest.raises(EnvironmentFault, match="environment 1 .*as a reward or flag.*must return"):
        step(envs, 2)


def test_flags_of_an_older_row_do_not_stay_in_storage():
    """Rows are written into memory that held other ones."""
    envs = in_process(lambda b: CountEnv(3, "both", column=b), 2)
    rows = step(envs, 3)
    rows.terminated[:], rows.truncated[:], rows.first[:], rows.cut[:] = True, True, True, True
    rows.reward[:] = 7
    last, after = rows[0], rows[1]
    envs.send(last, after)  # resets
    assert after.first.all() and not (after.last | after.cut).any() and not after.reward.any()
    last.terminated[:] = last.truncated[:] = False
    envs.send(last, after)
    assert not (after.first | after.last | after.cut).any() and (after.reward == 1).all()


def test_numbers_of_an_info_are_recorded_whatever_else_it_holds():
    """B041."""
    envs = in_process(lambda b: InfoEnv(4), 2, info=("late", "speed.x", "scalar", "none"))
    rows = zeros(example_row(envs.spec), (5, 2))
    envs.reset(rows[0])
    ended = go_on(envs, rows, 0)
    assert np.isnan(rows.env_info["late"][:3]).all()
    assert rows.env_info["late"][3:, 0].tolist() == [3, 4]
    assert rows.env_info["speed.x"][1:, 1].tolist() == [0.5, 1, 1.5, 2]
    assert rows.env_info["scalar"][1:, 0].tolist() == [3] * 4
    assert np.isnan(rows.env_info["none"]).all()
    assert [(t, b) for t, b, _ in ended] == [(4, 0), (4, 1)]
    assert ended[0][2] == {"steps": 4, "speed.x": 2, "flag": 0, "late": 4}


def test_an_integer_beyond_all_floats_is_left_out():
    assert numbers({"huge": 10**400, "one": np.int8(1), "complex": 1j}) == {"one": 1.0}


def test_text_that_should_be_recorded_is_refused_by_name():
    with pytest.raises(EnvironmentFault, match=r"environment 0 of 2.*info\['text'\] is 'hello'"):
        step(in_process(lambda b: InfoEnv(4), 2, info=("text",)), 2)


@pytest.mark.parametrize("where", ["info", "observation"])
def test_masks_arrive_with_the_observation_that_they_belong_to(where):
    """B161: the environment raises where an action is not allowed by its own mask."""
    rng = np.random.default_rng(0)

    def allowed(t, row):
        row.action[:] = [rng.choice(np.flatnonzero(mask)) for mask in row.mask]

    rows = step(in_process(lambda b: MaskEnv(where=where), 3), 30, allowed)
    assert rows.mask.any(-1).all() and not rows.mask.all()


def test_an_info_without_a_mask_allows_every_action():
    class Sometimes(MaskEnv):
        def step(self, action):
            *rest, info = super().step(0 if self.mask[0] else int(self.mask.argmax()))
            return (*rest, {} if self.steps == 2 else info)

    rows = step(in_process(lambda b: Sometimes(), 1), 3)
    assert rows.mask[2].all()


# Faults of environments ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize("how", ["raise", "unpicklable"])
def test_an_exception_keeps_its_type_and_traceback_and_says_where(where, how):
    """F1."""
    envs = in_process(
        lambda b: CrashEnv(where if b == 2 else "nowhere", 1 if where == "reset" else 3, how), 3
    )
    with pytest.raises(RuntimeError, match=f"crash in {where}") as caught:
        step(envs, 30)
    assert type(caught.value) is (Unpicklable if how == "unpicklable" else RuntimeError)
    assert caught.value.__cause__ is None
    text = "".join(traceback.format_exception(caught.value))
    assert "toys.py" in text and "in environment 2 of 3 (" in text and f"{where}(" in text


@pytest.mark.parametrize("where", ["reset", "step", "close"])
@pytest.mark.parametrize(
    ("how", "kind"), [("system exit", SystemExit), ("ctrl-c", KeyboardInterrupt)]
)
def test_an_environment_that_would_end_the_process_is_at_fault(where, how, kind, monkeypatch):
    """The run would end with code 0, and without a word."""
    monkeypatch.setattr(signal, "getsignal", lambda _: None)  # Ctrl-C raises nothing in a run
    envs = in_process(lambda b: CrashEnv(where if b == 1 else "nowhere", 1, how), 3)
    if where == "close":
        with pytest.warns(RuntimeWarning, match=rf"close\(\) raised {kind.__name__}"):
            envs.close()
        return
    with pytest.raises(EnvironmentFault, match=rf"environment 1 of 3 .*{where}.* raised") as caught:
        step(envs, 30)
    assert type(caught.value.__cause__) is kind


def test_control_ctrl_c_in_a_call_of_an_environment_stays_what_it_is():
    with pytest.raises(KeyboardInterrupt):
        step(in_process(lambda b: CrashEnv("step", 3, "ctrl-c"), 1), 30)


def test_control_nothing_is_raised_where_nothing_fails():
    step(in_process(lambda b: CrashEnv("nowhere"), 3), 30)


def test_a_wrong_observation_names_its_environment_and_leaf():
    class Grows(CountEnv):
        def step(self, action):
            observation, *rest = super().step(action)
            return (np.zeros(2, np.float32) if self.steps == 2 else observation, *rest)

    envs = in_process(lambda b: Grows() if b else CountEnv(), 2)
    with pytest.raises(EnvironmentFault, match=r"environment 1 of 2.*step.*observation.*shape"):
        step(envs, 4)


def test_one_that_cannot_be_closed_is_told_of_and_the_others_are_closed():
    """F1: an error of close() masks no other."""
    closed = []

    class Closes(CountEnv):
        def close(self):
            closed.append(self.column)

    envs = in_process(lambda b: CrashEnv("close") if b == 1 else Closes(column=b), 3)
    with pytest.warns(RuntimeWarning, match="environment 1 .*crash in close"):
        envs.close()
    assert closed == [0, 2]
    envs.close()  # twice is once


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_a_failed_close_hides_no_error_before_it():
    envs = in_process(lambda b: CrashEnv("close"), 2)

    def fail():
        try:
            raise ValueError("the first")
        finally:
            envs.close()

    with pytest.raises(ValueError, match="the first") as caught:
        fail()
    notes = caught.value.__notes__
    assert len(notes) == 2 and "environment 1" in notes[1] and "crash in close" in notes[1]
    with pytest.raises(RuntimeWarning, match="crash in close"):  # the control: it is the first
        in_process(lambda b: CrashEnv("close"), 1).close()


# Seeds --------------------------------------------------------------------------------------------


def starts(rows, b=0):
    return rows.observation[rows.first[:, b], b].ravel().tolist()


def test_five_episodes_have_five_starts_the_same_when_run_again():
    """B199."""
    runs = [starts(step(in_process(lambda b: SeedEnv(3), 1), 19)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(runs[0]) == 5


def test_seeds_and_roles_and_columns_start_differently():
    """B202, B203: an evaluation has no start of the training."""
    found = set()
    for seed in (0, 1):
        for role in (noise.TRAINING_RESETS, noise.EVALUATION_RESETS):
            rows = step(in_process(lambda b: SeedEnv(3), 2, seed=seed, role=role), 19)
            found |= {*starts(rows, 0), *starts(rows, 1)}
    assert len(found) == 2 * 2 * 2 * 5


def test_more_environments_change_none_of_the_others():
    few, many = (step(in_process(lambda b: SeedEnv(2 + b), n), 15) for n in (4, 8))
    for (path, x), (_, y) in zip(tree_items(few), tree_items(many), strict=True):
        assert np.array_equal(x, y[:, :4]), path


def test_a_second_reset_of_all_starts_like_the_first():
    envs = in_process(lambda b: SeedEnv(3), 2)
    assert np.array_equal(step(envs, 9).observation, step(envs, 9).observation)


# Snapshots ----------------------------------------------------------------------------------------


class OwnSnapshot(SeedEnv):
    """Cannot be stepped again: it observes how many of its kind were made before it."""

    made = 0

    def __init__(self, n=3):
        super().__init__(n)
        OwnSnapshot.made += 1
        self.serial = OwnSnapshot.made
        self.observation_space = spaces.Box(0.0, np.inf, (1,))

    def _observation(self):
        return super()._observation() + np.float32(self.serial)

    def snapshot(self):
        generator = json.dumps(self.np_random.bit_generator.state).encode()
        counts = np.array([self.steps, self.serial])
        return {"counts": counts, "generator": np.frombuffer(generator, np.uint8)}

    def restore(self, state):
        self.steps, self.serial = state["counts"].tolist()
        self.np_random.bit_generator.state = json.loads(state["generator"].tobytes())


def act_by_row(t, row):
    """Actions that depend on the row's number alone."""
    rng = np.random.default_rng(t)

    def draw(x):
        x[...] = rng.integers(2, size=x.shape) if x.dtype.kind == "i" else rng.normal(size=x.shape)

    tree_map(draw, row.action)


def dict_actions(b):
    actions = spaces.Dict(go=spaces.Discrete(2), at=spaces.Box(-1, 1, (2,)))
    return SpaceZooEnv(spaces.Box(-1, 1, (3,)), actions, n=4 + b)


FACTORIES = {
    "seed and actions": lambda b: gymnasium.make("CartPole-v1"),
    "time limit": lambda b: gymnasium.make("Pendulum-v1", max_episode_steps=7 + b),
    "composite actions": dict_actions,
    "masks": lambda b: MaskEnv(actions=1, n=5 + b),
}


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("at", range(5, 14))
def test_an_environment_stepped_again_goes_on_as_if_it_had_not_stopped(kind, at):
    act = None if kind == "masks" else act_by_row
    envs = in_process(FACTORIES[kind], 3)
    whole = step(envs, 25, act)
    stopped = in_process(FACTORIES[kind], 3)
    rows = step(stopped, at, act)
    state = saved(stopped.snapshot())
    resumed = in_process(FACTORIES[kind], 3)
    longer = tree_map(np.zeros_like, whole)
    longer[: at + 1] = rows
    assert resumed.restore(state, longer[at]) == []
    go_on(resumed, longer, at, act)
    for (path, x), (_, y) in zip(tree_items(whole), tree_items(longer), strict=True):
        assert x.tobytes() == y.tobytes(), path
    again = saved(resumed.snapshot())
    assert again["resets"].tolist() == saved(envs.snapshot())["resets"].tolist()


@pytest.mark.parametrize("limit", [None, 6])
@pytest.mark.parametrize("at", [5, 6, 7, 9])
def test_an_environments_own_snapshot_is_used_and_its_time_limit_goes_on(limit, at):
    def make(b):
        return OwnSnapshot(5 + b) if limit is None else TimeLimit(OwnSnapshot(50), limit + b)

    stopped = in_process(make, 2)
    rows = step(stopped, at)
    state = saved(stopped.snapshot())
    assert set(state["own"]) == {"0", "1"}
    after = tree_map(lambda x: np.concatenate([x, np.zeros((8, *x.shape[1:]), x.dtype)]), rows)
    go_on(stopped, after, at)

    resumed = in_process(make, 2)
    other = tree_map(np.zeros_like, after)
    other[: at + 1] = rows
    assert resumed.restore(state, other[at]) == []
    go_on(resumed, other, at)
    for (path, x), (_, y) in zip(tree_items(after), tree_items(other), strict=True):
        assert x.tobytes() == y.tobytes(), path


def test_a_wrapper_with_a_state_of_its_own_is_stepped_again_instead():
    envs = in_process(lambda b: TransformReward(OwnSnapshot(5), float), 1)
    step(envs, 3)
    assert envs.snapshot()["own"] == {}


class Lost(SeedEnv):
    """Column 1 observes something else each time that it is made."""

    count = 0

    def __init__(self, column, n=6):
        super().__init__(n)
        Lost.count += 1
        self.column, self.shift = column, np.float32(Lost.count if column == 1 else 0)
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,))

    def _observation(self):
        return super()._observation() + self.shift


@pytest.mark.parametrize("how", ["differs", "raises"])
def test_a_column_that_cannot_be_brought_back_is_cut_and_the_others_go_on(how, recwarn):
    def make(b):
        return Lost(b)

    stopped = in_process(make, 3)
    rows = step(stopped, 4)
    state = saved(stopped.snapshot())
    resumed = in_process(make, 3)
    if how == "raises":
        env = resumed._singles.envs[1]
        env.reset = _raise_once(type(env).reset, env)
    longer = tree_map(lambda x: np.concatenate([x, np.zeros((6, *x.shape[1:]), x.dtype)]), rows)
    seen = rows.observation[4].copy()
    assert resumed.restore(state, longer[4]) == [1]
    assert np.array_equal(longer.observation[4], seen)  # what had arrived stays
    go_on(resumed, longer, 4)
    assert longer.truncated[4].tolist() == [False, True, False]
    assert longer.cut[5].tolist() == longer.first[5].tolist() == [False, True, False]
    assert not longer.cut[:5].any() and not longer.cut[6:].any()
    assert longer.reward[5].tolist() == [1, 0, 1]
    whole = step(in_process(make, 3), 10)
    for b in (0, 2):
        assert np.array_equal(whole.observation[:, b], longer.observation[:, b])
    told = [str(w.message) for w in recwarn]
    assert any("environment 1 (" in text for text in told) == (how == "raises")


def _raise_once(reset, env):
    left = [1]

    def once(**kwargs):
        if left:
            left.clear()
            raise ConnectionError("the server is gone")
        return reset(env, **kwargs)

    return once


def test_a_lost_column_whose_episode_had_ended_is_not_cut():
    stopped = in_process(Lost, 2)
    rows = step(stopped, 6)  # rows 6 are last
    assert rows.last[-1].all()
    resumed = in_process(Lost, 2)
    longer = tree_map(lambda x: np.concatenate([x, np.zeros((2, *x.shape[1:]), x.dtype)]), rows)
    assert resumed.restore(saved(stopped.snapshot()), longer[6]) == []
    go_on(resumed, longer, 6)
    assert longer.first[7].all() and not longer.cut.any() and not longer.truncated.any()


def test_a_longer_episode_than_the_log_is_cut_on_resume(monkeypatch):
    monkeypatch.setattr(action_log, "LOG_LIMIT", 20)
    envs = in_process(lambda b: CountEnv(4 if b else 1000, column=b), 2)
    rows = step(envs, 50)
    resumed = in_process(lambda b: CountEnv(4 if b else 1000, column=b), 2)
    state = saved(envs.snapshot())
    assert len(state["log"]["rows"]) <= 10
    assert resumed.restore(state, rows[50])[0] == 0


class OldForm(CountEnv):
    """As gym's environments were before 0.26, in one of its calls; or fails inside of it."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def reset(self, **given):
        observation, info = super().reset(**given)
        return observation if self.how == "reset" else (observation, info)

    def step(self, action):
        if self.how == "inside":
            _, _ = (1, 2, 3)
        observation, reward, terminated, _, info = super().step(action)
        if self.how == "none":
            return None
        return observation, reward, terminated, info


@pytest.mark.parametrize(("how", "call"), [("step", "step"), ("none", "step"), ("reset", "reset")])
def test_an_environment_of_the_older_form_is_named_with_its_remedy(how, call):
    with pytest.raises(
        EnvironmentFault, match=rf"environment 0 of 2.*, {call}\(.*must return .*Gym"
    ):
        step(in_process(lambda b: OldForm(how if b == 0 else ""), 2, action_mask=False), 1)


def test_control_what_cannot_be_taken_apart_inside_of_a_step_is_its_own_error():
    with pytest.raises(ValueError, match="too many values to unpack") as caught:
        step(in_process(lambda b: OldForm("inside"), 1), 1)
    assert caught.value.__notes__


class Screenshots(CountEnv):
    """Its methods of these names are for something else."""

    def snapshot(self, path):
        raise AssertionError

    restore = snapshot


class Proxy(CountEnv):
    """Has an attribute of every name, as what forwards calls to another process."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *given: None


@pytest.mark.parametrize("kind", [Screenshots, Proxy])
def test_methods_that_save_something_else_are_left_alone(kind):
    envs = in_process(lambda b: kind(), 2)
    step(envs, 3)
    assert envs.snapshot()["own"] == {}


def test_methods_in_c_say_nothing_of_what_they_take_and_are_used():
    class Compiled(CountEnv):
        snapshot, restore = dict.copy, dict.update

    assert has_snapshots(Compiled())


def test_a_snapshot_that_is_none_is_named():
    class Nothing(OwnSnapshot):
        def snapshot(self):
            return None

    envs = in_process(lambda b: Nothing(), 2)
    step(envs, 3)
    with pytest.raises(
        EnvironmentFault, match=r"environment 0 of 2.*snapshot\(\) returned NoneType"
    ):
        envs.snapshot()
