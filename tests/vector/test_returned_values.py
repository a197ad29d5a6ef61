"""Rewards, flags, infos and masks of every kind are stored; what cannot be is named."""

import gymnasium
import numpy as np
import pytest
from count_streams import read_back, written_out
from gymnasium.wrappers import TransformReward
from stepping import go_on, in_process, step
from toys import CountEnv, InfoEnv, MaskEnv

from rlpyt.errors import EnvironmentFault
from rlpyt.rows import example_row
from rlpyt.storage import zeros
from rlpyt.vector.in_process import numbers


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


@pytest.mark.parametrize(
    "wrong", [[0.0, -np.inf, 0.0, -np.inf], [1, 0, -1, 1], [np.nan, 1, 1, 1], [1], [1, 0, 1]]
)
def test_what_is_neither_0_nor_1_is_no_mask_nor_what_is_of_another_size(wrong):
    """A mask to be added to logits, read as one of truths, would allow what it forbids."""

    with pytest.raises(EnvironmentFault, match=r"environment 0 of 1.*step.*action_mask is.*of 4"):
        masked_by(wrong)


@pytest.mark.parametrize("form", [list, np.bool_, np.int8, np.float64])
def test_a_mask_of_0_and_1_may_be_of_any_type(form):
    wanted = [True, False, True, False]
    mask = wanted if form is list else np.array(wanted, form)
    assert masked_by(mask).mask[2, 0].tolist() == wanted


def masked_by(mask):
    """Rows of two steps, the second of which gives this mask."""

    class Other(MaskEnv):
        def step(self, action):
            *rest, info = super().step(action)
            return (*rest, info | ({"action_mask": mask} if self.steps == 2 else {}))

    def allowed(t, row):
        row.action[:] = row.mask.argmax(-1)

    return step(in_process(lambda b: Other(), 1), 2, allowed)


def test_a_wrong_observation_names_its_environment_and_leaf():
    class Grows(CountEnv):
        def step(self, action):
            observation, *rest = super().step(action)
            return (np.zeros(2, np.float32) if self.steps == 2 else observation, *rest)

    envs = in_process(lambda b: Grows() if b else CountEnv(), 2)
    with pytest.raises(EnvironmentFault, match=r"environment 1 of 2.*step.*observation.*shape"):
        step(envs, 4)


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
