"""Memory for trees: shapes, dtypes, sharing between processes and between arrays and tensors."""

import errno
import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import torch

from rlpyt.arrays import Array, NamedArrayTuple, namedarraytuple, tree_leaves
from rlpyt.descriptors import forking
from rlpyt.errors import UsageError
from rlpyt.storage import Memory, as_arrays, as_tensors, to_device, zeros

Camera = namedarraytuple("Camera", ["image", "depth"])


class Step(NamedArrayTuple):
    observation: Array
    reward: Array
    state: Array = ()
    mask: Array = None


def steps():
    return Step(Camera(np.ones((4, 3, 5)), np.ones((4, 3))), np.ones((4, 3)), (np.ones((4, 3)),))


@pytest.mark.parametrize("shared", [None, Memory()])
def test_zeros_have_the_leading_dimensions_and_dtype_of_each_leaf(shared):
    example = Step(Camera(np.ones((2, 3), np.uint8), np.float32(1)), True, (np.zeros((0, 2)),))
    made = zeros(example, (4, 5), shared=shared)
    assert type(made) is Step
    assert made.mask is None
    assert [(leaf.shape, leaf.dtype) for leaf in tree_leaves(made)] == [
        ((4, 5, 2, 3), np.uint8),
        ((4, 5), np.float32),
        ((4, 5), bool),
        ((4, 5, 0, 2), np.float64),
    ]
    assert all(not leaf.any() and leaf.flags.writeable for leaf in tree_leaves(made))
    made[2, 3] = example
    assert made.observation.image.sum() == 6


@pytest.mark.parametrize("shared", [None, Memory()])
def test_a_leaf_without_dimensions_keeps_its_shape(shared):
    made = zeros((np.float32(3), np.array(2)), shared=shared)
    assert [leaf.shape for leaf in made] == [(), ()]
    assert [leaf.shape for leaf in as_arrays(as_tensors(made))] == [(), ()]


def test_shared_leaves_are_aligned_and_apart():
    leaves = tree_leaves(
        zeros((np.zeros(3, np.int8), np.zeros(1), (), np.zeros(2)), shared=Memory())
    )
    starts = [leaf.__array_interface__["data"][0] for leaf in leaves]
    assert all(start % 64 == 0 for start in starts)
    assert np.diff(starts).tolist() == [64, 64]
    assert zeros((), (3,), shared=Memory()) == ()


def test_objects_cannot_be_shared_and_the_field_is_named():
    with pytest.raises(TypeError, match=r"^field 'depth': dtype object cannot be shared"):
        zeros(Camera(1, np.array([object()])), shared=Memory())


def test_what_a_forked_process_writes_is_seen_here_and_no_file_remains():
    code = """
import os
import numpy as np
from rlpyt.arrays import namedarraytuple
from rlpyt.storage import Memory, zeros
before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
Camera = namedarraytuple("Camera", ["image", "depth"])
rows = zeros(Camera(np.zeros(3), np.float32(0)), (4,), shared=Memory())
child = os.fork()
if not child:
    rows[2] = 7
    os._exit(0)
os.waitpid(child, 0)
after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
print(rows.image[2].tolist(), rows.depth.tolist(), after - before)
"""
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[7.0, 7.0, 7.0] [0.0, 0.0, 7.0, 0.0] set()"


def test_tensors_and_arrays_share_memory():
    arrays = steps()
    tensors = as_tensors(arrays)
    tensors.observation.image[:] = 2
    assert (arrays.observation.image == 2).all()
    as_arrays(tensors).reward[:] = 3
    assert (arrays.reward == 3).all()
    assert as_tensors(tensors) == tensors
    assert tensors.mask is None


def test_arrays_come_from_tensors_with_gradients():
    assert as_arrays((torch.ones(2, requires_grad=True),))[0].tolist() == [1, 1]


def test_going_to_the_same_device_copies_nothing():
    tensors = as_tensors(steps())
    assert to_device(tensors, "cpu") == tensors


def test_shared_memory_is_one_descriptor_and_blocks_outlive_it():
    memory = Memory()
    first, second = memory.zeros(np.zeros(3)), memory.zeros((np.zeros(2), np.zeros(4, np.int8)))
    first[:], second[0][:], second[1][:] = 1, 2, 3
    memory.close()
    assert (first.sum(), second[0].sum(), second[1].sum()) == (3, 4, 12)
    with pytest.raises(ValueError, match="closed"):
        memory.zeros(np.zeros(3))
    memory.close()


def test_who_receives_memory_finds_the_blocks_in_their_order():
    made = Memory()
    first, second = made.zeros(np.zeros(3)), made.zeros(np.zeros(2, np.int8), (4,))
    found = received(made)
    assert made.created and not found.created
    first[:], second[:] = 5, 6
    assert (found.zeros(np.zeros(3)) == 5).all()
    with pytest.raises(RuntimeError, match="holds other arrays than these.*same order"):
        found.zeros(np.zeros(2, np.int16), (4,))
    assert (found.zeros(np.zeros(2, np.int8), (4,)) == 6).all()  # the control
    with pytest.raises(RuntimeError, match="no such block"):
        found.zeros(np.zeros(3))
    later = made.zeros(np.zeros(3))
    later[:] = 7
    assert (found.zeros(np.zeros(3)) == 7).all()


def received(memory):
    """As another process has it."""
    with forking():
        return pickle.loads(pickle.dumps(memory))


def test_a_refused_block_can_be_asked_for_in_a_smaller_size(monkeypatch):
    memory = Memory()
    refuse = OSError(errno.ENOSPC, "No space left on device")

    def fallocate(*arguments):
        raise refuse

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", fallocate)
        with pytest.raises(UsageError, match=r"8\.0 MB .* not to be had \(No space left"):
            memory.zeros(np.zeros(2**20))
    assert memory.zeros(np.zeros(2)).sum() == 0
    assert (received(memory).zeros(np.zeros(2)) == 0).all()


def test_a_limit_of_the_size_of_files_is_named(monkeypatch):
    def fallocate(*arguments):
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    with pytest.raises(UsageError, match=r"limit of a file's size .*ulimit -f"):
        Memory().zeros(np.zeros(2**20))


def test_without_memfd_a_file_without_a_name_serves(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = Memory()
    array = memory.zeros(np.zeros(1000), (3,))
    array[:] = 4
    assert (received(memory).zeros(np.zeros(1000), (3,)) == 4).all()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="there is none to take: Linux alone has memfd_create"
)
def test_a_python_built_without_memfd_takes_that_of_the_system(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")  # as those of conda and uv are
    memory = Memory()
    array = memory.zeros(np.zeros(1000), (3,))
    array[:] = 4
    assert (received(memory).zeros(np.zeros(1000), (3,)) == 4).all()
    file = memory._file.fileno()
    assert os.readlink(f"/proc/self/fd/{file}").startswith("/memfd:rlpyt")
    assert not os.get_inheritable(file)
