"""Every space is read, in every layout, over any leading dimensions."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlpyt.arrays import tree_map
from rlpyt.envs.spec import (
    Box,
    Composite,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Spec,
    example,
)
from rlpyt.errors import UsageError
from rlpyt.models.encoders import (
    EMBEDDING_SIZE,
    ONE_HOT_LIMIT,
    Given,
    convolutional,
    encoder,
    has_images,
    reading,
)
from rlpyt.models.images import Image, MinAtar, Nature, Residual, scale, size
from rlpyt.models.options import ModelOptions


def box(*shape: int, low: float = -np.inf, high: float = np.inf, dtype: str = "float32") -> Box:
    image = dtype == "uint8" and len(shape) in (2, 3)
    return Box(shape, dtype, np.full(shape, low), np.full(shape, high), image)


def pixels(*shape: int, dtype: str = "uint8") -> Box:
    return box(*shape, low=0, high=255, dtype=dtype)


def values(spec: Spec, *leading: int, frames: int = 1) -> Any:
    """Random observations."""
    generator = np.random.default_rng(0)

    def draw(x: np.ndarray) -> Tensor:
        stack = (frames,) if frames > 1 and x.dtype == np.uint8 and x.ndim in (2, 3) else ()
        shape = (*leading, *stack, *x.shape)
        if x.dtype.kind == "f":
            return torch.from_numpy(generator.normal(size=shape).astype(x.dtype))
        return torch.from_numpy(generator.integers(0, 2, shape).astype(x.dtype))

    return tree_map(draw, example(spec))


NESTED = Composite(
    ("camera", "state"),
    ("camera", "state"),
    (
        pixels(12, 16, 3),
        Composite(("pos", "key"), ("pos", "key"), (box(2, 3), Discrete(4)), "dict"),
    ),
    "dict",
)
SPACES: dict[str, Spec] = {
    "vector": box(5),
    "scalar": box(),
    "matrix": box(3, 4),
    "float64": box(5, dtype="float64"),
    "integers": box(5, low=-9, high=9, dtype="int32"),
    "ram": pixels(128),
    "discrete": Discrete(5, start=-2),
    "many": Discrete(500),
    "multidiscrete": MultiDiscrete((2, 3, 4), (0, 1, 0)),
    "multidiscrete-many": MultiDiscrete((200, 300), (0, 0)),
    "multibinary": MultiBinary((2, 2)),
    "image": pixels(40, 44, 3),
    "gray": pixels(36, 36),
    "chw": pixels(2, 36, 50),
    "float-image": pixels(36, 36, 3, dtype="float32"),
    "minatar": box(10, 10, 4, low=0, high=1, dtype="bool"),
    "nested": NESTED,
    "tuple": Composite(("item0", "item1"), (0, 1), (box(2), MultiBinary((3,))), "tuple"),
}


@pytest.mark.parametrize("space", SPACES)
def test_any_leading_dimensions_give_the_same_numbers(space: str) -> None:
    spec = SPACES[space]
    network = encoder(spec, ModelOptions())
    x = values(spec, 3, 2)
    out = network(x)
    assert out.shape == (3, 2, network.features) and out.dtype == torch.float32
    flat = network(tree_map(lambda leaf: leaf.flatten(0, 1), x))
    torch.testing.assert_close(flat, out.flatten(0, 1))
    torch.testing.assert_close(network(x[1]), out[1], rtol=1e-4, atol=1e-5)
    alone = network(tree_map(lambda leaf: leaf[1, 1], x))
    torch.testing.assert_close(alone, out[1, 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space", SPACES)
def test_every_parameter_has_a_gradient(space: str) -> None:
    network = encoder(SPACES[space], ModelOptions())
    network(values(SPACES[space], 4)).square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_choices_are_one_hot_from_zero_whatever_their_start() -> None:
    one_hot = reading(Discrete(3, start=-2))
    assert torch.equal(one_hot(torch.arange(3)), torch.eye(3))
    several = reading(MultiDiscrete((2, 3), (1, 1)))
    assert several(torch.tensor([1, 2])).tolist() == [0, 1, 0, 0, 1]


def test_many_choices_are_embedded_each_component_by_its_own_table() -> None:
    assert reading(Discrete(ONE_HOT_LIMIT)).features == ONE_HOT_LIMIT
    assert reading(Discrete(ONE_HOT_LIMIT + 1)).features == EMBEDDING_SIZE
    several = reading(MultiDiscrete((200, 300), (0, 0)))
    assert several.features == 2 * EMBEDDING_SIZE
    out = several(torch.tensor([0, 0]))
    assert torch.equal(out, several.table[[0, 200]].flatten())


def test_the_boxes_that_are_scaled() -> None:
    assert scale(pixels(84, 84)) == scale(pixels(128)) == 1 / 255
    assert scale(pixels(5, dtype="float32")) == 1 / 255  # declared 0 .. 255 in another type
    assert scale(box(7, 7, 3, low=0, high=10, dtype="uint8")) == 1 / 10
    assert scale(box(7, 7, 3, low=0, high=1, dtype="uint8")) == 1
    assert scale(box(5)) == scale(box(5, low=0, high=1)) == scale(box(5, low=-255, high=255)) == 1


def test_an_image_in_floats_gives_what_the_same_image_in_bytes_gives() -> None:
    torch.manual_seed(0)
    bytes_network = encoder(pixels(36, 36, 3), ModelOptions())
    torch.manual_seed(0)
    float_network = encoder(pixels(36, 36, 3, dtype="float32"), ModelOptions())
    x = torch.randint(0, 256, (2, 36, 36, 3), dtype=torch.uint8)
    torch.testing.assert_close(bytes_network(x), float_network(x.float()))


NETWORKS = {"nature": Nature, "residual": Residual, "minatar": MinAtar}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("kind", NETWORKS)
def test_pixels_reach_the_network_divided_by_255_in_either_memory_format(
    kind: Any, channels_last: bool
) -> None:
    options = ModelOptions(encoder=kind, channels_last=channels_last)
    network = encoder(pixels(3, 37, 41), options)
    assert isinstance(network, Image) and isinstance(network.network, NETWORKS[kind])
    x = torch.randint(0, 256, (2, 3, 37, 41), dtype=torch.uint8)
    network.network.factor = 1.0  # the reference: scaled beforehand, contiguous
    expected = network.network.to(memory_format=torch.contiguous_format)(x.float() / 255)
    network.network.to(memory_format=network.format)
    network.network.factor = 1 / 255
    torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-5)
    some = next(p for p in network.parameters() if p.dim() == 4 and p.shape[1] > 1)
    assert some.is_contiguous(memory_format=torch.channels_last) == channels_last


def test_layouts_of_one_image_give_the_same_numbers() -> None:
    def network(spec: Box, frames: int = 1, **options: Any) -> nn.Module:
        torch.manual_seed(0)
        return encoder(spec, ModelOptions(**options), frames)

    chw = torch.randint(0, 256, (2, 3, 40, 44), dtype=torch.uint8)
    expected = network(pixels(3, 40, 44))(chw)
    hwc = chw.permute(0, 2, 3, 1).contiguous()
    torch.testing.assert_close(network(pixels(40, 44, 3))(hwc), expected)
    # A stack of three single frames is one image of three channels.
    torch.testing.assert_close(network(pixels(40, 44), 3)(chw), expected)
    # Stacks of frames with channels: frame by frame, the channels of each together.
    stack = torch.randint(0, 256, (2, 4, 3, 40, 44), dtype=torch.uint8)
    expected = network(pixels(12, 40, 44))(stack.flatten(1, 2))
    torch.testing.assert_close(network(pixels(3, 40, 44), 4)(stack), expected)
    hwc = stack.permute(0, 1, 3, 4, 2).contiguous()
    torch.testing.assert_close(network(pixels(40, 44, 3), 4)(hwc), expected)


def test_the_layout_can_be_stated() -> None:
    assert size(pixels(40, 50, 3), "auto") == (3, 40, 50)
    assert size(pixels(3, 40, 50), "auto") == (3, 40, 50)
    assert size(pixels(40, 40, 40), "auto") == (40, 40, 40)
    assert size(pixels(40, 50, 60), "chw") == (40, 50, 60)
    assert size(pixels(40, 50, 60), "hwc") == (60, 40, 50)
    network = encoder(pixels(40, 50, 60), ModelOptions(image_layout="hwc"))
    assert network.network.conv1.weight.shape[1] == 60


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((84, 84, 3), "nature"), ((36, 36), "nature"), ((35, 36, 1), "minatar"), ((2, 9, 1), None)],
)
def test_auto_takes_the_network_that_fits(shape: tuple[int, ...], kind: str | None) -> None:
    assert convolutional(pixels(*shape), ModelOptions(image_layout="hwc")) == kind
    assert (
        encoder(pixels(*shape), ModelOptions(image_layout="hwc"))(values(pixels(*shape), 2)).shape[
            0
        ]
        == 2
    )


@pytest.mark.parametrize("kind", ["nature", "minatar"])
def test_an_image_too_small_for_the_named_network_is_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match=rf"observation.*35x2.*encoder={kind} needs at least"):
        encoder(pixels(35, 2, 1), ModelOptions(encoder=kind))


def test_a_convolutional_network_for_an_observation_without_images_is_refused() -> None:
    with pytest.raises(
        UsageError, match="encoder=nature reads images, and the observation has none"
    ):
        encoder(box(4), ModelOptions(encoder="nature"))


def test_an_observation_without_leaves_is_refused() -> None:
    with pytest.raises(UsageError, match="no leaf"):
        encoder(Composite((), (), (), "dict"), ModelOptions())


def test_images_can_be_read_as_vectors() -> None:
    options = ModelOptions(encoder="mlp")
    assert not has_images(pixels(84, 84, 3), options)
    network = encoder(pixels(4, 4), options, frame_stack=2)
    x = torch.full((3, 2, 4, 4), 255, dtype=torch.uint8)
    assert torch.equal(network.part(x), torch.ones(3, 32))


def test_leaves_are_joined_in_storage_order() -> None:
    network = encoder(NESTED, ModelOptions(hidden_sizes=()))
    x = values(NESTED, 2)
    out = network(x)
    assert out.shape == (2, 128 + 6 + 4)
    torch.testing.assert_close(out[:, 128:134], x.state.pos.flatten(1))
    assert torch.equal(out[:, 134:].argmax(-1), x.state.key)


def test_frame_stacks_are_of_images_alone() -> None:
    network = encoder(NESTED, ModelOptions(), frame_stack=4)
    assert network(values(NESTED, 3, 2, frames=4)).shape == (3, 2, 64)


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_hidden_layers_are_those_of_sequential(activation: Any, layer_norm: bool) -> None:
    network = encoder(box(5), ModelOptions(activation=activation, layer_norm=layer_norm))
    parts: list[nn.Module] = []
    for i, layer in enumerate(network.mlp.layers):
        norm = [network.mlp.norms[i]] if layer_norm else []
        parts += [
            layer,
            *norm,
            {"silu": nn.SiLU, "elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}[activation](),
        ]
    x = values(box(5), 7)
    expected = nn.Sequential(*parts)(x)
    torch.testing.assert_close(network(x), expected)
    got = torch.autograd.grad(network(x).sum(), list(network.parameters()))
    want = torch.autograd.grad(nn.Sequential(*parts)(x).sum(), list(network.parameters()))
    torch.testing.assert_close(got, want)


def test_initial_weights_are_orthogonal_and_depend_on_the_seed_alone() -> None:
    def weights(seed: int, **options: Any) -> nn.Module:
        torch.manual_seed(seed)
        return encoder(pixels(36, 36), ModelOptions(**options))

    one, two, other = weights(1), weights(1), weights(2)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q)
    assert not torch.equal(one.network.linear.weight, other.network.linear.weight)
    w = one.network.linear.weight  # [512, 64], columns of length sqrt(2)
    torch.testing.assert_close(w.T @ w, 2 * torch.eye(64), rtol=1e-4, atol=1e-5)
    assert not one.network.conv2.bias.any()
    assert weights(1, orthogonal_init=False).network.conv2.bias.any()


class Own(nn.Module):
    """A user's encoder of the nested observation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.LazyLinear(9)
        self.norm = nn.BatchNorm1d(9)

    def forward(self, observation: Any) -> Tensor:
        assert observation.camera.shape[1:] == (4, 12, 16, 3)
        assert observation.camera.dim() == 5
        return self.norm(self.linear(observation.state.pos.flatten(1)))


def test_a_given_module_sees_one_leading_dimension_and_its_width_is_found() -> None:
    module = Own()
    network = Given(module, NESTED, frame_stack=4)
    assert network.features == 9 and module.training
    assert not module.norm.running_mean.any()
    network.eval()
    x = values(NESTED, 3, 2, frames=4)
    out = network(x)
    assert out.shape == (3, 2, 9)
    torch.testing.assert_close(network(x[1]), out[1])
    assert network(tree_map(lambda leaf: leaf[0, 0], x)).shape == (9,)


def test_a_given_module_that_makes_no_vector_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Identity made \(1, 3, 4\) of one observation"):
        Given(nn.Identity(), box(3, 4), 1)
