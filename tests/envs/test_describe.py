"""What an environment is described as: its masks, stacks and infos, and what is refused."""

import sys

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TimeLimit
from toys import CountEnv, InfoEnv, MaskEnv, SpaceZooEnv

from rlpyt.envs.make import describe, probe
from rlpyt.envs.options import EnvOptions
from rlpyt.envs.spec import Composite, Discrete, MultiDiscrete
from rlpyt.errors import EnvironmentFault, UsageError

BIT = spaces.Discrete(2)


def zoo(observation: spaces.Space = BIT, action: spaces.Space = BIT):
    return lambda: SpaceZooEnv(observation, action)


def test_a_probe_is_closed_again():
    closed = []

    class Closing(CountEnv):
        def close(self):
            closed.append(True)

    spec = probe(EnvOptions(Closing))
    assert closed == [True]
    assert spec.id.endswith("Closing")


class Exits(CountEnv):
    def __init__(self, where="init"):
        super().__init__()
        self.where = where
        if where == "init":
            sys.exit(0)

    def close(self):
        sys.exit(0)


@pytest.mark.parametrize(("where", "says"), [("init", "was made"), ("close", "spaces")])
def test_one_that_would_end_the_process_while_it_is_looked_at_is_at_fault(where, says):
    with pytest.raises(EnvironmentFault, match=rf"{says}.* raised SystemExit\(0\)"):
        probe(EnvOptions(Exits, env_kwargs={"where": where}))


def test_a_description_holds_what_the_options_ask_for():
    spec = probe(EnvOptions(InfoEnv, info=("steps", "speed.x")))
    assert spec.env_info == ("steps", "speed.x")
    assert (spec.mask, spec.frame_stack, spec.frames_per_step) == (None, 1, 1)
    assert spec.action == Discrete(2)


def test_atari_is_described_by_its_protocol():
    pytest.importorskip("ale_py")
    spec = probe(EnvOptions("ALE/Pong-v5"))
    assert (spec.frame_stack, spec.frames_per_step) == (4, 4)
    assert probe(EnvOptions("ALE/Pong-v5", frame_stack=2)).frame_stack == 2


def test_a_mask_is_found_in_the_observation_and_leaves_it():
    spec = probe(EnvOptions(lambda: MaskEnv(4, "observation")))
    assert (spec.mask, spec.mask_size) == ("observation", 4)
    assert isinstance(spec.observation, Composite)
    assert spec.observation.names == ("state",)


def test_a_mask_is_found_in_the_info():
    spec = probe(EnvOptions(lambda: MaskEnv(5, "info")))
    assert (spec.mask, spec.mask_size) == ("info", 5)


def test_masks_can_be_left_alone():
    spec = probe(EnvOptions(lambda: MaskEnv(4, "observation"), action_mask=False))
    assert (spec.mask, spec.mask_size) == (None, 0)
    assert spec.observation.names == ("action_mask", "state")


def test_a_mask_covers_every_choice_of_a_multi_discrete_action():
    mask = spaces.Dict({"action_mask": spaces.MultiBinary(5), "x": spaces.Discrete(2)})
    spec = probe(EnvOptions(zoo(mask, spaces.MultiDiscrete([2, 3]))))
    assert (spec.action, spec.mask_size) == (MultiDiscrete((2, 3), (0, 0)), 5)


MASKED = spaces.Dict({"action_mask": spaces.MultiBinary(5), "x": spaces.Discrete(2)})


def test_a_mask_that_does_not_fit_the_action_is_refused():
    with pytest.raises(UsageError, match=r"has shape \(5,\).*--no-action-mask"):
        probe(EnvOptions(zoo(MASKED, spaces.Discrete(4))))


@pytest.mark.parametrize("where", ["observation", "info"])
@pytest.mark.parametrize(
    "action", [spaces.MultiBinary(5), spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(2))]
)
def test_a_mask_of_actions_that_none_is_read_for_is_refused_wherever_it_is(action, where):
    class Masking(SpaceZooEnv):
        def reset(self, **given):
            observation, info = super().reset(**given)
            return observation, info | {"action_mask": np.ones(5, bool)}

    env = zoo(MASKED, action) if where == "observation" else lambda: Masking(BIT, action)
    with pytest.raises(UsageError, match=f"action_mask in the {where}.*--no-action-mask"):
        probe(EnvOptions(env))
    assert probe(EnvOptions(env, action_mask=False)).mask is None


def test_a_mask_of_numbers_is_refused_where_it_is_observed():
    with pytest.raises(UsageError, match="action_mask in the observation.*--no-action-mask"):
        probe(EnvOptions(zoo(MASKED, spaces.Box(-1.0, 1.0, (5,)))))


def test_stacks_are_for_images():
    image = spaces.Dict({"cam": spaces.Box(0, 255, (8, 8), np.uint8), "x": spaces.Discrete(2)})
    assert probe(EnvOptions(zoo(image), frame_stack=3)).frame_stack == 3
    with pytest.raises(UsageError, match="frame_stack=3 stacks images"):
        probe(EnvOptions(CountEnv, frame_stack=3))


@pytest.mark.parametrize(
    "empty", [spaces.Dict({}), spaces.Tuple(()), spaces.Dict({"a": spaces.Tuple(())})]
)
def test_an_environment_without_observations_or_actions_is_refused(empty):
    with pytest.raises(UsageError, match="nothing to observe"):
        probe(EnvOptions(zoo(empty)))
    with pytest.raises(UsageError, match="action space .* is empty"):
        probe(EnvOptions(zoo(action=empty)))


@pytest.mark.parametrize(
    ("wrapper", "remedy"),
    [(NormalizeObservation, "--normalize-observation"), (NormalizeReward, "--normalize-reward")],
)
def test_running_statistics_of_a_wrapper_are_refused_where_it_goes_on_with_them(wrapper, remedy):
    """In an evaluation, and after a resume, they would be others than those learned with."""
    env = TimeLimit(wrapper(CountEnv()), 9)
    with pytest.raises(
        UsageError, match=rf"{wrapper.__name__}.*of its own.*leave it out.*{remedy}"
    ):
        describe(env, EnvOptions(CountEnv))
    env.env.update_running_mean = False
    describe(env, EnvOptions(CountEnv))


def test_describing_resets_only_where_an_info_may_hold_a_mask():
    env = CountEnv()
    describe(env, EnvOptions(CountEnv, action_mask=False))
    assert env.episode == -1


def test_a_reset_of_the_older_form_is_named_with_its_remedy():
    class Older(CountEnv):
        def reset(self, **given):
            return super().reset(**given)[0]

    options = EnvOptions(Older)
    with pytest.raises(EnvironmentFault, match=r"Older: reset\(\) returned numpy.ndarray; .*Gym"):
        probe(options)
