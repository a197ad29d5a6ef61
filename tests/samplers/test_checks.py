"""What no run can go on from is named: a NaN, an infinity, a row without an allowed action."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_parts import run_of
from stepping import by_row, in_process, sampler_of, stream, zeros_of
from toy_tasks import TwoStateMDP
from toys import CountEnv, MaskEnv, MutateActionEnv, SpaceZooEnv

from rlpyt.build import build
from rlpyt.errors import EnvironmentFault


class Spoils(CountEnv):
    """A CountEnv whose `field` is `value` at one step of the second episode."""

    def __init__(self, field="", value=np.nan, column=0):
        super().__init__(3, column=column)
        self.field, self.value = field, value

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if (self.episode, self.steps) == (1, 2):
            if self.field == "observation":
                observation[1] = self.value
            if self.field == "reward":
                reward = self.value
        return (observation, reward, *rest)


@pytest.mark.parametrize("horizon", [3, 6, 20])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["observation", "reward"])
def test_what_is_not_finite_is_named_by_environment_row_and_field(field, value, horizon):
    """F9."""
    envs = in_process(lambda b: Spoils(field if b == 1 else "", value, b), 3)
    sampler = sampler_of(envs, by_row, horizon)
    with pytest.raises(EnvironmentFault, match=rf"^{field} of environment 1 .* at row 6: "):
        stream(sampler, 8)


def test_control_finite_numbers_of_any_size_pass():
    envs = in_process(lambda b: Spoils("observation", np.float32(3e38), b), 2)
    sampler_of(envs, by_row, 12).collect()


def test_a_nested_leaf_is_named_also_on_the_first_row():
    space = spaces.Dict(cam=spaces.Box(-1, 1, (2,)), state=spaces.Dict(vel=spaces.Box(-1, 1, (2,))))

    class Bad(SpaceZooEnv):
        def _observe(self):
            observation = super()._observe()
            observation["state"]["vel"][1] = np.nan
            return observation

    envs = in_process(lambda b: Bad(space, spaces.Discrete(2)), 2)
    with pytest.raises(EnvironmentFault, match=r"observation.state.vel of environment 0 .* row 0"):
        sampler_of(envs, zeros_of, 2)


def test_what_arrived_is_named_when_an_environment_then_refuses_the_answer_to_it():
    class Refuses(Spoils):
        def step(self, action):
            assert action == 0, "simulation diverged"
            return super().step(action)

    envs = in_process(lambda b: Refuses("observation", np.nan, b), 1)
    sampler = sampler_of(envs, lambda inputs, _: inputs.observation.isnan().any(1).long(), 20)
    with pytest.raises(EnvironmentFault, match="observation of environment 0 .* row 6") as caught:
        sampler.collect()
    assert isinstance(caught.value.__context__, AssertionError)


def continuous(b):
    env = MutateActionEnv(4)
    env.calls = []
    step = env.step
    env.step = lambda action: (env.calls.append(action.copy()), step(action))[1]
    return env


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_answer_that_is_not_finite_is_raised_before_any_environment_sees_it(value):
    """F10."""
    made = []

    def make(b):
        made.append(continuous(b))
        return made[-1]

    def answer(inputs, drawn):
        count[0] += 1
        action = torch.zeros(2, 1)
        action[1] = value if count[0] == 4 else 0.5
        return action

    count = [0]
    sampler = sampler_of(in_process(make, 2), answer, 8)
    with pytest.raises(FloatingPointError, match=r"^action for environment 1 .* at row 3: \["):
        sampler.collect()
    assert [len(env.calls) for env in made] == [0, 3, 3]  # the first was made to be described
    assert np.isfinite(made[2].calls).all()


def test_control_large_answers_pass_and_those_on_dead_rows_are_never_executed():
    def answer(inputs, drawn):
        count[0] += 1
        return torch.full((1, 1), np.nan if count[0] == 5 else 3e38)  # row 4 is last

    count = [0]
    sampler_of(in_process(lambda b: MutateActionEnv(4), 1), answer, 8).collect()


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_weights_that_are_not_finite_are_named_before_an_environment_is_stepped(env):
    """F10: whatever the distribution would make of them."""
    parts = build(run_of(2, env=env))
    parts.sampler.reset()
    parts.sampler.collect()  # the control
    before = parts.sampler.window.start
    name, weight = list(parts.agent.model.named_parameters())[1]
    with torch.no_grad():
        weight[0] = np.nan
    with pytest.raises(FloatingPointError, match=f"parameter {name} is not finite"):
        parts.sampler.collect()
    assert parts.sampler.window.start == before
    with pytest.raises(FloatingPointError, match=name):
        parts.evaluator.sampler.collect()
    parts.close()


class NoWayOut(MaskEnv):
    """Allows nothing on its last row, and on the row `at` of an episode."""

    def __init__(self, at=None):
        self.at = at
        super().__init__(n=3)

    def _arrival(self):
        state, info = super()._arrival()
        if self.steps in (self.at, self.n):
            info["action_mask"][:] = 0
        return state, info


def allowed(inputs, drawn):
    return inputs.mask.long().argmax(-1)


def test_a_live_row_without_an_allowed_action_is_named():
    """B161."""
    envs = in_process(lambda b: NoWayOut(2 if b == 1 else None), 2)
    with pytest.raises(EnvironmentFault, match=r"environment 1 .*no action at row 2"):
        sampler_of(envs, allowed, 10).collect()


class OneComponentStuck(MaskEnv):
    """Allows nothing in the second component of a MultiDiscrete on row 2."""

    def __init__(self):
        super().__init__(actions=5, n=6)
        self.action_space = spaces.MultiDiscrete([2, 3])

    def _arrival(self):
        info = {"action_mask": np.array([1, 1, *[self.steps != 2] * 3])}
        return np.array([self.steps], np.float32), info

    def step(self, action):
        return super().step(0)


def test_every_component_needs_an_allowed_action():
    """B161, of a MultiDiscrete."""
    envs = in_process(lambda b: OneComponentStuck(), 2)
    with pytest.raises(EnvironmentFault, match=r"environment 0 .*no action at row 2"):
        sampler_of(envs, lambda inputs, drawn: torch.zeros(2, 2, dtype=torch.long), 4).collect()


def test_a_last_row_needs_no_allowed_action():
    rows = sampler_of(in_process(lambda b: NoWayOut(), 2), allowed, 11).collect().rows
    assert (rows.mask.any(-1) == ~rows.last).all() and rows.last.any()


class Leaves(TwoStateMDP):
    def step(self, action):
        observation, *rest = super().step(action)
        return (observation * 1.5, *rest)


def test_an_observation_out_of_its_bounds_is_told_of_once():
    """B037."""
    sampler = sampler_of(in_process(lambda b: Leaves(), 2), zeros_of, 3)
    with pytest.warns(UserWarning, match="Leaves|lambda.*: observation left the bounds"):
        sampler.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.collect()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found_also_after_bounds_were_left(value):
    class LeavesAndBreaks(Leaves):
        def step(self, action):
            observation, *rest = super().step(action)
            return (observation + value if self.steps == 5 else observation, *rest)

    sampler = sampler_of(in_process(lambda b: LeavesAndBreaks(), 2), zeros_of, 3)
    with pytest.warns(UserWarning, match="left the bounds"):
        sampler.collect()
    with pytest.raises(EnvironmentFault, match="observation of environment 0 .* at row 5"):
        sampler.collect()


def test_strict_bounds_stop_the_run():
    sampler = sampler_of(in_process(lambda b: Leaves(), 2), zeros_of, 3, strict_bounds=True)
    with pytest.raises(EnvironmentFault, match="observation left the bounds"):
        sampler.collect()
