"""Large layers with rearranged weights: the same sums, and never of weights that have changed."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from small_runs import make
from torch import nn
from torch.nn.utils import spectral_norm

from rlpyt.acting import open_agent
from rlpyt.build import build
from rlpyt.models import prepacked as module
from rlpyt.models.prepacked import LARGE, PASSES, prepackable, prepacked
from rlpyt.rows import Window


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """Elsewhere than on x86 the operations are there, too: only their use is not worth it."""
    monkeypatch.setattr(module, "_offered", True)


class Agent:
    def __init__(self, *layers: nn.Module, precision: str = "float32") -> None:
        self.layers, self.precision = layers, precision

    def acting(self) -> list[nn.Module]:
        return [*self.layers, nn.Sequential(*self.layers)]


@pytest.mark.parametrize("rows", [1, 4, 5, 64])
@pytest.mark.parametrize("bias", [True, False])
def test_the_same_sums_for_any_number_of_rows(rows, bias):
    layer, x = nn.Linear(1024, 300, bias), torch.randn(rows, 1024)
    plain = layer(x)
    with torch.inference_mode(), prepacked([layer], 4):
        answer = layer(x)
        assert "forward" in layer.__dict__
    torch.testing.assert_close(answer, plain, atol=1e-5, rtol=1e-5)
    assert "forward" not in layer.__dict__
    layer(x).sum().backward()  # it learns as ever


def test_it_ends_with_an_error_too():
    layer = nn.Linear(1024, 300)
    with pytest.raises(ZeroDivisionError), prepacked([layer], 4):
        raise ZeroDivisionError
    assert "forward" not in layer.__dict__


def test_what_is_large_and_float32_and_linear_is_prepacked():
    class Own(nn.Linear):
        """Computes something else, for all that is known."""

    large = nn.Linear(1024, 300)
    assert large.weight.numel() >= LARGE
    normed, patched = spectral_norm(nn.Linear(1024, 300)), nn.Linear(1024, 300)
    patched.__dict__["forward"] = lambda x: x
    others = (nn.Linear(8, 8), Own(1024, 300), nn.Linear(1024, 300).double(), normed, patched)
    assert prepackable(Agent(large, *others)) == [large]
    assert prepackable(Agent(large, precision="bf16")) == []


def test_in_bfloat16_it_computes_as_ever():
    layer, x = nn.Linear(1024, 300), torch.randn(4, 1024)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        plain = layer(x)
        with prepacked([layer], 4):
            answer = layer(x)
    assert answer.dtype == torch.bfloat16
    assert torch.equal(answer, plain)


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_who_acts_in_evaluations_says_what_with(kind, tmp_path):
    agent: Any = open_agent(make(kind, tmp_path)).agent
    for acting in (agent, agent.evaluation(stochastic=False)):
        assert acting.acting() == agent.acting()
        assert acting.precision == "float32"


def test_every_window_is_answered_with_the_weights_of_its_own(tmp_path, monkeypatch):
    """Values that are kept are those of one forward pass over the window, before and after weights
    change in place; the control, which rearranges them once, keeps the old ones."""
    parts = build(make("ppo-pixels", tmp_path))
    try:
        sampler, agent = parts.sampler, cast(Any, parts.agent)
        layer: nn.Linear = agent.model.actor.encoder.network.linear
        sampler.reset()

        def error(window: Window) -> float:
            assert window.horizon >= PASSES
            with torch.inference_mode():
                values = agent.value(agent.read(window.inputs()), window.kept_state(0))
            return float(np.abs(values[:-1].numpy() - window.rows.info.value[:-1]).max())

        assert error(sampler.collect()) < 1e-5
        with torch.no_grad():
            layer.weight.mul_(3.0)
        assert error(sampler.collect()) < 1e-5
        monkeypatch.setattr("rlpyt.samplers.sampler.prepackable", lambda agent: [])
        with torch.no_grad(), prepacked([layer], 4):
            layer.weight.mul_(3.0)
            window = sampler.collect()
        assert error(window) > 1e-3
    finally:
        parts.close()
