"""Actor and critics together: what they read, what they remember, what they share."""

import copy
import pickle

import pytest
import torch
from small_actor import ALGOS, MODELS, SMALL, several, spec

from rlpyt.algos.options import DDPGOptions, SACOptions
from rlpyt.arrays import tree_leaves
from rlpyt.models.options import ActorQOptions
from rlpyt.models.q_value import Networks, make_networks, make_returns
from rlpyt.returns import CategoricalReturn, Expected, QuantileReturn


def networks(algo=None, process=0, observation=None, **model):
    algo = algo or DDPGOptions()
    torch.manual_seed(0)
    options = ActorQOptions(**{**SMALL, **model})
    return Networks(*make_networks(spec(observation), make_returns(algo), algo, options), process)


@pytest.mark.parametrize("name", ALGOS)
def test_actor_and_critics_have_the_outputs_of_their_algorithm(name):
    algo = ALGOS[name]
    found, options = networks(algo), ActorQOptions()
    squashed = isinstance(algo, SACOptions)
    assert found.actor.linear.weight.shape[0] == (4 if squashed else 2)
    last = found.critics.ensemble.layers[-1]
    assert last.weight.shape[:2] == (algo.critics, make_returns(algo).outputs)
    assert options.hidden_sizes == (256, 256)


def test_a_deviation_that_the_state_does_not_change_is_a_parameter_a_dimension():
    found = networks(SACOptions(), state_dependent_std=False)
    assert found.actor.constant.shape == (2,) and found.actor.linear.weight.shape[0] == 2


def test_critics_may_have_sizes_of_their_own():
    found = networks(critic_sizes=(5,))
    assert [layer.weight.shape for layer in found.critics.ensemble.layers] == [(1, 5, 5), (1, 1, 5)]
    assert found.actor.hidden.features == SMALL["hidden_sizes"][-1]


def test_the_state_has_what_there_is_to_remember_and_nothing_else():
    assert networks().initial_state(5) == ()
    both = networks(memory="lstm").initial_state(5)
    assert [x.shape for x in tree_leaves(both)] == [(5, 6)] * 4 and both.process == ()
    shared = networks(memory="gru", share_trunk=True).initial_state(5)
    assert shared.actor == () and [x.shape for x in shared.critics] == [(5, 6)]
    process = networks(process=2).initial_state(5)
    assert process.actor == process.critics == () and process.process.shape == (5, 2)
    assert not any(x.any() for x in tree_leaves((both, shared, process)))


def test_what_is_read_is_what_either_of_them_reads():
    assert networks().reads == {"observation"}
    assert networks(process=2).reads == {"observation", "first"}
    assert networks(memory="lstm").reads == {"observation", "reward", "first", "previous_action"}


def test_images_are_encoded_once_unless_asked_otherwise():
    one = networks(observation=several(), encoder="minatar")
    assert one.actor.shares_trunk and one.actor.trunk is one.critics.trunk
    two = networks(observation=several(), encoder="minatar", share_trunk=False)
    assert not two.actor.shares_trunk and two.actor.trunk is not two.critics.trunk
    assert not networks().actor.shares_trunk


@pytest.mark.parametrize("name", MODELS)
def test_copies_share_among_themselves_what_the_originals_share(name):
    made = networks(**MODELS[name])
    for found in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (found.actor.trunk is found.critics.trunk) == made.actor.shares_trunk
        assert found.critics.trunk is not made.critics.trunk
        own = {p.data_ptr() for p in found.parameters()}
        assert not own & {p.data_ptr() for p in made.parameters()}
        assert found.state_dict().keys() == made.state_dict().keys()


def test_returns_are_those_that_the_options_name():
    assert isinstance(make_returns(SACOptions()), Expected)
    atoms = make_returns(SACOptions(values="categorical", num_atoms=7, v_min=-3, v_max=2))
    assert isinstance(atoms, CategoricalReturn)
    assert (atoms.outputs, atoms.v_min, atoms.v_max) == (7, -3, 2)
    quantiles = make_returns(SACOptions(values="quantile", num_quantiles=9, huber_delta=0.5))
    assert isinstance(quantiles, QuantileReturn)
    assert (quantiles.outputs, quantiles.kappa) == (9, 0.5)
    huber = make_returns(SACOptions(critic_loss="huber", huber_delta=2.0))
    assert isinstance(huber, Expected) and not huber.squared and huber.delta == 2.0
