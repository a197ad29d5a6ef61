"""Every space: its specification, observations into storage, actions out of it."""

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rlpyt.arrays import tree_items
from rlpyt.envs.actions import action_reader
from rlpyt.envs.observations import observation_writer
from rlpyt.envs.spaces import to_spec
from rlpyt.envs.spec import (
    Box,
    Composite,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    example,
    leaves,
    not_finite,
    outside,
)
from rlpyt.errors import EnvironmentFault, UsageError
from rlpyt.storage import zeros

BOXES = {
    "float32": spaces.Box(-1.0, 1.0, (3,)),
    "float64": spaces.Box(-2.0, 3.0, (2, 3), np.float64),
    "float16": spaces.Box(-1.0, 1.0, (2,), np.float16),
    "scalar": spaces.Box(0.0, 1.0, ()),
    "length one": spaces.Box(0.0, 1.0, (1,)),
    "no elements": spaces.Box(0.0, 1.0, (0,)),
    "uint8": spaces.Box(0, 255, (4,), np.uint8),
    "image": spaces.Box(0, 255, (36, 40), np.uint8),
    "image hwc": spaces.Box(0, 255, (9, 7, 3), np.uint8),
    "float image": spaces.Box(0.0, 255.0, (9, 7, 3)),
    "int64": spaces.Box(-5, 5, (2,), np.int64),
    "int64, all of it": spaces.Box(-np.inf, np.inf, (2,), np.int64),
    "uint64": spaces.Box(0, 2**64 - 1, (2,), np.uint64),
    "uint16": spaces.Box(0, 65535, (2,), np.uint16),
    "bool": spaces.Box(0, 1, (3,), np.bool_),
    "per dimension": spaces.Box(np.float32([-2, -2]), np.float32([1, 3])),
    "half infinite": spaces.Box(np.float32([0, -np.inf]), np.float32([np.inf, 2])),
    "infinite": spaces.Box(-np.inf, np.inf, (2,)),
    "infinite image": spaces.Box(-np.inf, np.inf, (8, 8, 3)),
    "largest float": spaces.Box(np.finfo(np.float32).min, np.finfo(np.float32).max, (2,)),
    "degenerate": spaces.Box(2.0, 2.0, (2,)),
}
LEAVES: dict[str, spaces.Space] = BOXES | {
    "discrete": spaces.Discrete(4),
    "discrete from 1": spaces.Discrete(4, start=1),
    "discrete from -2": spaces.Discrete(np.int64(4), start=np.int64(-2)),
    "discrete uint8": spaces.Discrete(4, dtype=np.uint8),
    "multi-discrete": spaces.MultiDiscrete([3, 4, 2]),
    "multi-discrete from": spaces.MultiDiscrete([3, 4], start=[-1, 5]),
    "multi-discrete table": spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    "multi-discrete int8": spaces.MultiDiscrete([3, 4], dtype=np.int8),
    "multi-discrete scalar": spaces.MultiDiscrete(3),
    "multi-binary": spaces.MultiBinary(4),
    "multi-binary table": spaces.MultiBinary([2, 2]),
}
COMPOSITES: dict[str, spaces.Space] = {
    "dict": spaces.Dict(LEAVES),
    "tuple": spaces.Tuple(list(LEAVES.values())),
    "nested": spaces.Dict(
        {
            "cam": BOXES["image hwc"],
            "state": spaces.Dict({"pos": BOXES["float64"], "vel": BOXES["float32"]}),
            "pair": spaces.Tuple((spaces.Discrete(3, start=2), spaces.Dict({"x": BOXES["bool"]}))),
        }
    ),
    "empty parts": spaces.Dict({"a": spaces.Dict({}), "b": spaces.Tuple(()), "c": BOXES["uint8"]}),
}
ALL = LEAVES | COMPOSITES

every_space = pytest.mark.parametrize("space", ALL.values(), ids=ALL.keys())


@every_space
def test_an_observation_comes_back_from_storage_as_the_environment_gave_it(space):
    spec = to_spec(space, "observation")
    storage = zeros(example(spec), (3,))
    write = observation_writer(space, spec)
    space.seed(1)
    sent = [space.sample() for _ in range(3)]
    for b, value in enumerate(sent):
        write(storage, b, value)
    for b, value in enumerate(sent):
        expected = dict(values_by_path(space, spec, value))
        stored = dict(tree_items(storage[b]))
        assert stored.keys() == expected.keys()
        for path, array in stored.items():
            np.testing.assert_array_equal(array, expected[path], err_msg=path)


def values_by_path(space: spaces.Space, spec: Any, value: Any, path: str = ""):
    """What is to be stored, by the slow and obvious way."""
    if isinstance(spec, Composite):
        for name, key, part in zip(spec.names, spec.keys, spec.parts, strict=True):
            inner = f"{path}.{name}" if path else name
            yield from values_by_path(space[key], part, value[key], inner)
    elif isinstance(spec, Discrete):
        yield path, np.int64(int(value) - spec.start)
    elif isinstance(spec, MultiDiscrete):
        yield path, (value.astype(np.int64) - space.start).ravel()
    elif isinstance(spec, MultiBinary):
        yield path, value.astype(bool)
    else:
        with np.errstate(over="ignore"):
            yield path, value.astype(spec.dtype)


@every_space
def test_every_stored_action_is_contained_in_its_space(space):
    spec = to_spec(space, "action")
    rng = np.random.default_rng(0)
    actions = zeros(example(spec), (64,))
    for path, leaf in leaves(spec):
        array = dict(tree_items(actions))[path]
        array[...] = random_leaf(leaf, array.shape, rng)
    before = [array.copy() for _, array in tree_items(actions)]
    with np.errstate(over="raise", invalid="raise"):
        read = action_reader(space, spec)(actions)
    assert type(read) is list
    assert len(read) == 64
    for action in read:
        assert space.contains(action), action
        assert_exact_dtypes(space, action)
    # what the environment does to its action reaches neither storage nor its neighbours
    for action in read:
        overwrite(action)
    for (path, array), kept in zip(tree_items(actions), before, strict=True):
        np.testing.assert_array_equal(array, kept, err_msg=path)


def random_leaf(leaf: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    match leaf:
        case Box():
            return rng.choice([-1e6, -1, -0.3, 0, 1e-8, 0.7, 1, 3], shape)
        case Discrete(n):
            return rng.integers(n, size=shape)
        case MultiDiscrete(nvec):
            return rng.integers(nvec, size=shape)
        case MultiBinary():
            return rng.random(shape) < 0.5


def assert_exact_dtypes(space: spaces.Space, action: Any) -> None:
    if isinstance(space, spaces.Dict):
        assert type(action) is dict
        for key, part in space.spaces.items():
            assert_exact_dtypes(part, action[key])
    elif isinstance(space, spaces.Tuple):
        for part, value in zip(space.spaces, action, strict=True):
            assert_exact_dtypes(part, value)
    else:
        assert isinstance(action, np.ndarray | np.generic)
        assert action.dtype == space.dtype
        assert action.shape == space.shape


def overwrite(action: Any) -> None:
    if isinstance(action, dict):
        for value in action.values():
            overwrite(value)
    elif isinstance(action, tuple):
        for value in action:
            overwrite(value)
    elif isinstance(action, np.ndarray):
        action[...] = 1


@given(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.floats(-1, 1, width=32),
    st.sampled_from([np.float32, np.float64]),
)
def test_coordinates_reach_both_ends_exactly_and_stay_between(a, b, u, dtype):
    low, high = min(a, b), max(a, b)
    space = spaces.Box(np.array([low], dtype), np.array([high], dtype), dtype=dtype)
    spec = to_spec(space, "action")
    read = action_reader(space, spec)(np.float32([[-1], [1], [u], [-7], [7]]))
    assert read[0] == read[3] == space.low
    assert read[1] == read[4] == space.high
    assert space.contains(read[2])


def test_coordinates_span_each_dimension_by_its_own_bounds():
    space = spaces.Box(np.float32([-2, -2]), np.float32([1, 3]))
    read = action_reader(space, to_spec(space, "action"))
    np.testing.assert_allclose(
        read(np.float32([[0, 0], [0.5, -0.5]])), [[-0.5, 0.5], [0.25, -0.75]]
    )


def test_bounds_as_large_as_the_dtype_are_no_bounds():
    space = spaces.Box(-1e308, 1e308, (2,), np.float64)
    read = action_reader(space, to_spec(space, "action"))
    assert [x.tolist() for x in read(np.float32([[3, -4]]))] == [[3, -4]]


def test_without_two_finite_bounds_the_action_itself_is_passed_on():
    space = spaces.Box(np.float32([0, -np.inf, -np.inf]), np.float32([np.inf, 2, np.inf]))
    read = action_reader(space, to_spec(space, "action"))
    np.testing.assert_array_equal(
        read(np.float32([[-3, -30, 1e6], [40, 5, -7]])), [[0, -30, 1e6], [40, 2, -7]]
    )


def test_integer_coordinates_are_rounded_to_the_nearest():
    space = spaces.Box(0, 10, (1,), np.int32)
    read = action_reader(space, to_spec(space, "action"))
    assert [int(x[0]) for x in read(np.float32([[-1], [-0.95], [0.05], [1]]))] == [0, 0, 5, 10]


def test_discrete_is_zero_based_inside_and_numpy_integers_outside():
    for start in (0, 1, -2):
        space = spaces.Discrete(4, start=start)
        read = action_reader(space, to_spec(space, "action"))(np.arange(4))
        assert read == [start, start + 1, start + 2, start + 3]
        assert {type(x) for x in read} == {np.int64}


def test_specifications_compare_hash_and_pickle_by_value():
    for space in ALL.values():
        spec, again = to_spec(space, "observation"), to_spec(space, "observation")
        assert spec == again
        assert hash(spec) == hash(again)
        assert pickle.loads(pickle.dumps(spec)) == spec
    assert to_spec(BOXES["float32"], "action") != to_spec(BOXES["per dimension"], "action")


def test_storage_forms():
    stored = {name: example(to_spec(space, "observation")) for name, space in LEAVES.items()}
    dtypes = {name: array.dtype.name for name, array in stored.items()}
    assert dtypes["float64"] == "float32"
    assert dtypes["float16"] == "float16"
    assert dtypes["uint8"] == dtypes["image"] == "uint8"
    assert dtypes["uint16"] == "int32"
    assert stored["multi-discrete table"].shape == (4,)
    assert stored["multi-binary"].dtype == bool
    kept = to_spec(BOXES["float64"], "observation", float64_as="float64")
    assert example(kept).dtype == np.float64
    assert [name for name, s in BOXES.items() if to_spec(s, "observation").image] == [
        "image",
        "image hwc",
    ]
    assert not to_spec(BOXES["image"], "action").image


def test_keys_become_unique_identifiers_and_are_kept():
    keys = ["a.b", "a_b", "a b", "class", "items", "_x", "3d", "", "naïve"]
    space = spaces.Dict([(key, spaces.Discrete(2)) for key in keys])
    spec = to_spec(space, "observation")
    assert isinstance(spec, Composite)
    assert spec.keys == tuple(keys)
    assert spec.names[1] == "a_b"  # a name that is fine is never taken by another key
    assert len(set(spec.names)) == len(keys)
    example(spec)
    storage = zeros(example(spec), (1,))
    observation_writer(space, spec)(storage, 0, {key: i % 2 for i, key in enumerate(keys)})
    assert [int(x[0]) for x in storage] == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_spaces_without_parts_hold_nothing():
    for space in (spaces.Dict({}), spaces.Tuple(())):
        spec = to_spec(space, "observation")
        assert example(spec) == ()
        assert leaves(spec) == []
        observation_writer(space, spec)((), 0, space.sample())


class Legacy:
    """A space as the package gym has it."""

    Discrete = type("Discrete", (), {"__module__": "gym.spaces.discrete"})


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), ("Text", "Box", "wrapper")),
        (spaces.Sequence(spaces.Discrete(2)), ("Sequence", "pad")),
        (spaces.Graph(spaces.Discrete(2), None), ("Graph", "pad")),
        (spaces.OneOf([spaces.Discrete(2)]), ("OneOf", "Discrete")),
        (Legacy.Discrete(), ("legacy", "gymnasium", "shimmy")),
    ],
    ids=["text", "sequence", "graph", "one of", "legacy gym"],
)
def test_what_has_no_fixed_form_is_refused_by_name_with_a_remedy(space, words):
    with pytest.raises(UsageError) as error:
        to_spec(space, "observation")
    assert all(word in str(error.value) for word in (*words, "observation"))


def test_a_refusal_names_the_part():
    space = spaces.Dict({"a": spaces.Tuple((spaces.Text(3),))})
    with pytest.raises(UsageError, match=r"observation\.a\.item0"):
        to_spec(space, "observation")


def writer(space: spaces.Space) -> tuple[Any, Any]:
    spec = to_spec(space, "observation")
    return observation_writer(space, spec), zeros(example(spec), (2,))


def test_values_are_cast_and_bytes_never_reinterpreted():
    write, storage = writer(spaces.Box(-9.0, 9.0, (2,)))
    for value in (np.array([1.5, 2]), [1.5, 2], np.float16([1.5, 2]), (1.5, 2)):
        storage[:] = 0
        write(storage, 1, value)
        assert storage.tolist() == [[0, 0], [1.5, 2]]
    write(storage, 0, np.array([3, 4], ">i4"))
    assert storage[0].tolist() == [3, 4]
    write, storage = writer(spaces.Box(-9.0, 9.0, (1,)))
    write(storage, 0, [3])
    assert storage.shape == (2, 1)
    assert storage[0, 0] == 3


def test_the_same_array_written_twice_leaves_the_first_copy_alone():
    write, storage = writer(spaces.Box(-9.0, 9.0, (1,)))
    array = np.float32([1])
    write(storage, 0, array)
    array += 1
    write(storage, 1, array)
    assert storage.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (BOXES["float32"], np.zeros(4), r"observation: expected shape \(3,\), got \(4,\)"),
        (BOXES["float32"], np.float32(0), r"expected shape \(3,\), got \(\)"),
        (BOXES["float32"], 0.5, r"expected shape \(3,\), got \(\)"),
        (BOXES["float32"], None, r"expected numbers of shape \(3,\), got None"),
        (BOXES["float32"], ["1", "2", "3"], "expected numbers"),
        (BOXES["float32"], [[1], [1, 2]], r"expected an array of shape \(3,\)"),
        (BOXES["uint8"], np.full(4, 0.5), r"integers from 0 to 255 \(uint8\), got 0.5"),
        (BOXES["uint8"], np.full(4, 256), "got 256"),
        (BOXES["uint8"], np.full(4, np.nan), "got nan"),
        (spaces.MultiBinary(2), np.int8([0, 2]), "from 0 to 1"),
        (spaces.Discrete(3), 3, "expected an integer from 0 to 2, got 3"),
        (spaces.Discrete(3, start=1), 0, "expected an integer from 1 to 3, got 0"),
        (spaces.Discrete(3), 0.5, "got 0.5"),
        (spaces.Discrete(3), np.array([1]), r"expected shape \(\), got \(1,\)"),
        (spaces.MultiDiscrete([2, 3]), [0, 3], r"to \[1, 2\], got \[0, 3\]"),
        (spaces.MultiDiscrete([2, 3]), [-1, 0], r"got \[-1, 0\]"),
        (spaces.Dict({"a": BOXES["uint8"]}), {"b": 0}, "the key 'a' of the space is missing"),
        (spaces.Dict({"a": BOXES["uint8"]}), np.zeros(4), "expected a dict of 1"),
        (spaces.Dict({"a": BOXES["uint8"]}), {"a": np.zeros(3)}, r"observation\.a: expected shape"),
        (spaces.Tuple([BOXES["uint8"]]), (np.zeros(4), {}), "expected a tuple of 1"),
    ],
)
def test_what_does_not_fit_is_a_fault_naming_leaf_rule_and_value(space, value, message):
    write, storage = writer(space)
    with pytest.raises(EnvironmentFault, match=message):
        write(storage, 0, value)


def test_integral_values_of_another_type_fit_integer_spaces():
    write, storage = writer(BOXES["uint8"])
    write(storage, 0, np.array([0.0, 255.0, 3.0, 4.0]))
    assert storage[0].tolist() == [0, 255, 3, 4]
    write, storage = writer(spaces.Discrete(3, start=1))
    for b, value in enumerate((2.0, np.array(3))):
        write(storage, b, value)
    assert storage.tolist() == [1, 2]


def test_keys_beyond_the_space_are_left_out():
    write, storage = writer(spaces.Dict({"a": spaces.Discrete(3)}))
    write(storage, 0, {"a": 2, "action_mask": np.ones(3)})
    assert storage.a[0] == 2


def test_leaves_out_of_their_bounds_are_found():
    space = spaces.Dict({"a": BOXES["per dimension"], "b": spaces.Tuple([BOXES["int64"]])})
    spec = to_spec(space, "observation")
    window = zeros(example(spec), (5, 2))
    assert outside(spec, window) == not_finite(spec, window) == []
    window.a[3, 1, 0] = 1.5
    assert outside(spec, window) == ["a"]
    window.b.item0[0, 0, 1] = -6
    assert outside(spec, window) == ["a", "b.item0"]
    window.a[...] = np.nan
    assert outside(spec, window) == ["b.item0"]
    assert not_finite(spec, window) == ["a"]


def test_bounds_are_compared_as_they_are_stored():
    space = spaces.Box(0.0, 0.1, (1,), np.float64)  # float32(0.1) > 0.1
    spec = to_spec(space, "observation")
    assert isinstance(spec, Box)
    assert outside(spec, np.full((3, 2, 1), 0.1, np.float32)) == []
    assert outside(spec, np.full((3, 2, 1), 0.11, np.float32)) == [""]
