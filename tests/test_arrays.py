"""Laws of named tuples of arrays and of the functions over trees of them."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import rlpyt.arrays
from rlpyt.arrays import (
    Array,
    NamedArrayTuple,
    is_field_name,
    namedarraytuple,
    tree_items,
    tree_leaves,
    tree_map,
)
from rlpyt.storage import as_tensors

Camera = namedarraytuple("Camera", ["image", "depth"])


class Step(NamedArrayTuple):
    observation: Array
    reward: Array
    state: Array = ()
    info: Array = ()
    mask: Array = None

    @property
    def doubled(self):
        return 2 * self.reward


def steps(seed=0, leading=(4, 3), library="numpy"):
    """A Step with a nested observation and a state that is a plain tuple."""
    random = np.random.default_rng(seed)

    def fill(*shape):
        return random.normal(size=(*leading, *shape)).astype(np.float32)

    tree = Step(Camera(fill(5, 5), fill(2)), fill(), (fill(6), {"c": fill(6)}))
    return tree if library == "numpy" else as_tensors(tree)


def run_python(code, **options):
    """Run `code` in a fresh interpreter that sees this package; returns what it prints."""
    root = Path(rlpyt.arrays.__file__).parents[1]
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_equal(one, other):
    left, right = tree_items(one), tree_items(other)
    assert [path for path, _ in left] == [path for path, _ in right]
    for (path, a), (_, b) in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=path)


places = pytest.mark.parametrize(
    "loc",
    [1, -1, slice(1, 3), slice(None), (2, 1), (slice(None), 1), [0, 2], ..., None],
    ids=str,
)
libraries = pytest.mark.parametrize("library", ["numpy", "torch"])


# -- reading and writing ------------------------------------------------------------------------


@places
@libraries
def test_a_read_reads_every_leaf(loc, library):
    tree = steps(library=library)
    read = tree[loc]
    assert type(read) is Step
    assert type(read.observation) is Camera
    assert type(read.state) is tuple
    assert_equal(read, tree_map(lambda leaf: leaf[loc], tree))


@places
@libraries
def test_what_was_written_is_read_and_nothing_else_changed(loc, library):
    tree, other = steps(0, library=library), steps(1, library=library)
    expected = tree_map(lambda leaf: leaf + 0, tree)
    for leaf, value in zip(tree_leaves(expected), tree_leaves(other), strict=True):
        leaf[loc] = value[loc]
    tree[loc] = other[loc]
    assert_equal(tree[loc], other[loc])
    assert_equal(tree, expected)


def test_a_boolean_mask_selects_in_every_leaf():
    tree, chosen = steps(), np.array([True, False, True, False])
    tree[chosen] = steps(1)[chosen]
    assert_equal(tree[chosen], steps(1)[chosen])
    assert_equal(tree[~chosen], steps()[~chosen])


@libraries
def test_reads_by_slice_are_views(library):
    tree = steps(library=library)
    tree[1:3].observation.image[:] = 7
    assert (tree.observation.image[1:3] == 7).all()


@libraries
def test_one_value_is_written_to_every_leaf(library):
    tree = steps(library=library)
    tree[1:3] = 5
    assert all((leaf[1:3] == 5).all() for leaf in tree_leaves(tree))
    assert_equal(tree[0], steps(library=library)[0])


def test_one_value_for_a_nested_field_is_written_to_its_leaves():
    tree = steps()
    tree[0] = Step(observation=3, reward=4, state=5)
    assert (tree.observation.depth[0] == 3).all()
    assert (tree.reward[0] == 4).all()
    assert (tree.state[1]["c"][0] == 5).all()


def test_none_and_the_empty_tuple_pass_through_a_read():
    read = steps()[0]
    assert read.mask is None
    assert read.info == ()


@pytest.mark.parametrize("nothing", [None, ()])
def test_nothing_is_written_where_either_side_holds_nothing(nothing):
    tree = steps()
    tree[0] = Step(nothing, nothing, nothing, info=np.ones(2), mask=np.ones(2))
    assert_equal(tree, steps())
    tree[0] = nothing
    assert_equal(tree, steps())
    assert tree.mask is None


def test_a_structure_is_matched_by_names_whatever_its_class():
    other = namedarraytuple("Other", Step._fields)
    tree = steps()
    tree[0] = other(*steps(1)[0])
    assert_equal(tree[0], steps(1)[0])


def test_torch_takes_gradients_through_a_read():
    tree = Step(Camera(torch.ones(3, requires_grad=True), None), torch.ones(3))
    tree[1].observation.image.backward()
    assert tree.observation.image.grad.tolist() == [0, 1, 0]


# -- like a tuple -------------------------------------------------------------------------------


def test_it_unpacks_iterates_and_counts_like_a_tuple_without_being_one():
    camera = Camera(1, 2)
    image, depth = camera
    assert (image, depth) == (1, 2) == tuple(camera)
    assert len(camera) == 2
    assert camera.items() == [("image", 1), ("depth", 2)]
    assert not isinstance(camera, tuple)
    assert not hasattr(camera, "__dict__")


def test_replace_leaves_the_original_alone():
    camera = Camera(1, 2)
    assert tuple(camera.replace(depth=3)) == (1, 3)
    assert tuple(camera) == (1, 2)
    with pytest.raises(TypeError, match=r"Camera.*'deep'"):
        camera.replace(deep=3)


def test_any_name_may_be_replaced():
    """Dict spaces name fields as they like."""
    assert tuple(namedarraytuple("Obs", ["self", "cls"])(1, 2).replace(self=3)) == (3, 2)


def test_equal_means_the_same_leaves_in_the_same_structure():
    tree = steps()
    assert tree == Step(*tree)
    assert tree == tree.replace(observation=Camera(*tree.observation))
    assert tree != copy.deepcopy(tree)
    assert Camera(1, 2) != namedarraytuple("Other", ["image", "depth"])(1, 2)
    assert Camera(1, None) != Camera(None, 1)


def test_it_shows_dtypes_and_shapes_only():
    tree = Step(Camera(np.zeros((2, 3), np.uint8), torch.zeros(2)), 1.5, (np.float32(1),))
    assert repr(tree.observation) == "Camera(image=uint8[2, 3], depth=float32[2])"
    assert "reward=float[]" in repr(tree)
    assert repr(tree).endswith("info=(), mask=None)")


def test_numpy_does_not_take_it_for_numbers():
    with pytest.raises(TypeError, match=r"field 'reward': a Camera is no array.*'image', 'depth'"):
        steps()[0] = Step(None, Camera(1, 2))


# -- typed and dynamic classes ------------------------------------------------------------------


def test_the_typed_form_has_defaults_properties_and_a_signature():
    step = Step(1, reward=2)
    assert (step.info, step.mask, step.doubled) == ((), None, 4)
    assert Step._fields == ("observation", "reward", "state", "info", "mask")
    with pytest.raises(TypeError, match=r"Step.__init__\(\) missing .* 'reward'"):
        Step(1)
    assert hasattr(NamedArrayTuple, "__dataclass_transform__")  # read by type checkers


def test_a_subclass_adds_fields_after_the_inherited_ones():
    class Scored(Step):
        score: Array = 0

    assert Scored._fields == (*Step._fields, "score")
    assert Scored(1, 2).doubled == 4
    assert type(Scored(*steps(), np.zeros(4))[0]) is Scored


def test_the_dynamic_form_is_one_class_for_one_name_and_fields():
    assert namedarraytuple("Camera", ("image", "depth")) is Camera
    assert namedarraytuple("Camera", ["depth", "image"]) is not Camera
    assert tuple(namedarraytuple("Nothing", [])()[0]) == ()


@pytest.mark.parametrize(
    ("name", "fields", "rule"),
    [
        ("Obs", ["left arm"], "Obs: 'left arm' cannot name a field; choose an identifier"),
        ("Obs", ["class"], "Obs: 'class' cannot name a field"),
        ("Obs", ["_x"], "Obs: '_x' cannot name a field"),
        ("Obs", ["items"], r"none of \['items', 'replace'\]"),
        ("Obs", [3], "Obs: 3 cannot name a field"),
        ("Obs", ["a", "b", "a"], "Obs: field 'a' is there twice; rename one"),
        ("my obs", ["a"], "'my obs' cannot name a class"),
        ("Obs", "ab", "fields='ab' is one string; give a list of names"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_the_rule(name, fields, rule):
    with pytest.raises((TypeError, ValueError), match=rule):
        namedarraytuple(name, fields)


def test_a_field_without_default_after_one_with_is_refused():
    with pytest.raises(TypeError, match="Late: field 'b' follows one with a default"):

        class Late(NamedArrayTuple):
            a: Array = 0
            b: Array


def test_fields_may_bear_any_other_name():
    names = ["self", "loc", "value", "type", "iter", "cls", "keys", "index", "count", "mro", "λ"]
    assert all(map(is_field_name, names))
    tree = namedarraytuple("Odd", names)(*(np.arange(3) for _ in names))
    tree[0] = tree[2]
    assert all(leaf[0] == 2 for leaf in tree[:1])


# -- errors name the field ----------------------------------------------------------------------


@libraries
def test_a_read_outside_names_the_first_field(library):
    with pytest.raises(IndexError, match=r"^field 'observation.image': index 9 is out of bounds"):
        steps(library=library)[9]


@libraries
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("observation.depth", lambda x: x.replace(observation=Camera(0, x.observation.image))),
        ("reward", lambda x: x.replace(reward=x.observation.image)),
        ("state.1.c", lambda x: x.replace(state=(x.state[0], {"c": x.observation.image}))),
    ],
)
def test_a_write_of_the_wrong_shape_names_the_field(library, path, wrong):
    tree = steps(library=library)
    with pytest.raises((ValueError, RuntimeError), match=rf"^field '{path}': .*shape|expand"):
        tree[0] = wrong(tree[0])


def test_each_field_of_a_class_is_named_by_its_own_errors():
    names = [f"field{i}" for i in range(9)]
    make = namedarraytuple("Many", names)
    for i, name in enumerate(names):
        tree = make(*(np.zeros(3 if j == i else 4) for j in range(9)))
        with pytest.raises(IndexError, match=f"^field '{name}': "):
            tree[3]
        with pytest.raises(IndexError, match=f"^field '{name}': "):
            tree[3] = make(*range(9))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Camera(1, 2), r"structures differ: \['observation', .*\] is needed, \['image', 'depth'\]"),
        (Step(1, {"x": 1}), r"^field 'reward': structures differ: \['x'\] was given to a leaf"),
        (Step(1, 1, (1, 2, 3)), r"^field 'state': structures differ: \[0, 1\] is needed"),
    ],
)
def test_a_write_of_another_structure_is_refused(value, text):
    with pytest.raises(ValueError, match=text):
        steps()[0] = value


def test_an_error_of_another_kind_keeps_its_class_and_gets_a_note():
    class Broken:
        def __getitem__(self, loc):
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "broken")

    with pytest.raises(UnicodeDecodeError) as caught:
        Camera(np.zeros(3), Broken())[0]
    assert "field 'depth': " in caught.value.__notes__[0]


def test_the_original_error_is_not_hidden_behind_another():
    with pytest.raises(IndexError) as caught:
        steps()[9]
    assert caught.value.__context__ is None


# -- trees --------------------------------------------------------------------------------------


def test_tree_map_keeps_the_structure_and_pairs_the_leaves():
    tree = {"a": (1, [2, Camera(3, None)]), "b": ()}
    doubled = tree_map(lambda x, y: x + y, tree, tree)
    assert list(doubled) == ["a", "b"]
    assert doubled["a"][0] == 2
    assert tuple(doubled["a"][1][1]) == (6, None)
    assert doubled["b"] == ()
    assert tree_map(abs, -1) == 1


def test_tree_map_names_the_leaf_of_an_error():
    with pytest.raises(ZeroDivisionError, match=r"^field 'a.1.depth': division by zero"):
        tree_map(lambda x: 1 / x, {"a": (1, Camera(1, 0))})
    with pytest.raises(ValueError, match=r"^field 'a': structures differ: \[0, 1\] is needed, a l"):
        tree_map(lambda x, y: x, {"a": (1, 2)}, {"a": 3})


def test_items_go_by_dotted_path_in_the_order_of_fields():
    paths = ["observation.image", "observation.depth", "reward", "state.0", "state.1.c"]
    assert [path for path, _ in tree_items(steps())] == paths
    assert tree_items(5) == [("", 5)]
    assert tree_leaves((1, {"b": None, "a": 2}, ())) == [1, 2]


# -- torch --------------------------------------------------------------------------------------


def test_it_is_a_pytree_with_named_paths():
    tree = Step(Camera(torch.ones(2), torch.ones(3)), torch.ones(4))
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    assert paths[:3] == [".observation.image", ".observation.depth", ".reward"]
    leaves, spec = pytree.tree_flatten(tree)
    assert pytree.tree_unflatten(leaves, spec) == tree
    summed = torch.vmap(lambda camera: camera.image + camera.depth)(Camera(*torch.ones(2, 3)))
    assert summed.tolist() == [2, 2, 2]


def test_classes_made_before_torch_is_imported_become_pytrees():
    code = """
import sys
from rlpyt.arrays import namedarraytuple, register_with_torch
Early = namedarraytuple("Early", ["a"])
assert "torch" not in sys.modules
import torch
register_with_torch()
register_with_torch()
Late = namedarraytuple("Late", ["a"])
doubled = torch.utils._pytree.tree_map(lambda x: 2 * x, Early(Late(1)))
print(type(doubled) is Early, doubled.a.a)
"""
    assert run_python(code).decode().split() == ["True", "2"]


def compiled_reads(tree):
    """Attributes, reads, unpacking, building, replacing and mapping."""
    row = tree[1]
    observation, reward, *_ = tree
    built = Step(Camera(observation.image * 2, None), reward + row.reward, row.state)
    mapped = tree_map(lambda x, y: x - y, tree.state, tree.state)
    return built, row.replace(info=Camera(row.doubled, ())), mapped, len(tree)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_enters_is_made_in_and_leaves_a_compiled_function(backend):
    torch.compiler.reset()
    compiled = torch.compile(compiled_reads, backend=backend, fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for seed in (0, 1):  # another instance is no reason to compile again
            tree = steps(seed, library="torch")
            got, expected = compiled(tree), compiled_reads(tree)
            assert type(got[0]) is Step
            assert type(got[1].info) is Camera
            assert got[0].observation.depth is None
            assert got[1].info.depth == ()
            assert_equal(got, expected)


def test_a_compiled_function_writes_into_its_argument():
    def write(tree, row):
        tree[1] = row
        return tree.reward.sum()

    torch.compiler.reset()
    tree, row = steps(library="torch"), steps(1, library="torch")[2]
    torch.compile(write, backend="aot_eager", fullgraph=True)(tree, row)
    assert_equal(tree[1], row)


def test_gradients_flow_through_a_compiled_function():
    torch.compiler.reset()
    camera = Camera(torch.ones(3, requires_grad=True), torch.ones(3))
    loss = torch.compile(lambda x: (x.image * x.depth)[1:].sum(), backend="aot_eager")(camera)
    loss.backward()
    assert camera.image.grad.tolist() == [0, 1, 1]


# -- pickling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_spaces_named_at_run_time_unpickle_in_a_fresh_interpreter(protocol):  # B118
    inner = namedarraytuple("Inner", ["left", "right"])
    outer = namedarraytuple("Outer", ["arm", "nothing", "empty", "state"])
    tree = outer(inner(np.arange(3), np.float32(2)), None, (), (inner(1, 2),))
    code = """
import pickle, sys
tree, inner = pickle.load(sys.stdin.buffer)
from rlpyt.arrays import namedarraytuple
assert inner is namedarraytuple("Inner", ["left", "right"]) is type(tree.arm)
assert "torch" not in sys.modules
sys.stdout.buffer.write(pickle.dumps(tree))
print(tree.arm.left.tolist(), tree.nothing, tree.empty, tree.state[0].right, file=sys.stderr)
"""
    back = pickle.loads(run_python(code, input=pickle.dumps((tree, inner), protocol)))
    assert type(back) is outer
    assert_equal(back, tree)


def test_typed_instances_pickle_by_reference_and_copy():
    from rlpyt.rows import Row

    row = Row(*range(len(Row._fields)))
    assert_equal(pickle.loads(pickle.dumps(row)), row)
    assert pickle.loads(pickle.dumps(Row)) is Row
    assert copy.copy(row) == row
    deep = copy.deepcopy(steps())
    assert_equal(deep, steps())


def test_importing_it_does_not_import_torch():
    code = "import sys, rlpyt.arrays; print('torch' in sys.modules)"
    assert run_python(code).split() == [b"False"]
