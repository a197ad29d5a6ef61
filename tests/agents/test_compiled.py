"""New weights act and are learned on from in what was compiled before, without a new trace."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_parts import MODELS, ChanceEnv, collected, make, parameters
from torch import Tensor, nn

BOX = spaces.Box(-1.0, 1.0, (2,))


@pytest.fixture
def compiled() -> tuple[Callable[[Any], Any], list[Any]]:
    """torch.compile by a backend that generates no code, and the graphs it was given."""
    torch.compiler.reset()
    original, graphs = torch.compile, []

    def count(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    return lambda function, **_: original(function, backend=count, dynamic=False), graphs


def zero(module: nn.Module) -> None:
    """Set all weights to zero, and the standard deviation to next to nothing."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.fill_(-20.0 if name.endswith("log_std") else 0.0)


def largest(parts: Any) -> float:
    """The largest coordinate of the actions in the next window."""
    return float(np.abs(parts.sampler.collect().rows.action[:-1]).max())


@pytest.mark.parametrize("name", ["feed-forward", "feed-forward-shared"])
def test_zero_weights_show_in_the_next_window_of_a_compiled_network(name, compiled):
    """B086: as for one that is not compiled (B085), by copying and by loading."""
    compile_, graphs = compiled
    parts = make(env=lambda: ChanceEnv(BOX), model=MODELS[name])
    model = parts.agent.model
    model.policy, model.forward = compile_(model.policy), compile_(model.forward)
    collected(parts)
    parts.sampler.collect()
    traced, kept = len(graphs), {k: v.clone() for k, v in parts.agent.state_dict().items()}
    assert traced > 0 and largest(parts) > 0.1
    zero(model)
    assert largest(parts) < 1e-6
    parts.agent.load_state_dict(kept)
    assert largest(parts) > 0.1
    assert len(graphs) == traced


def test_control_a_compiled_network_that_holds_copies_of_its_weights_does_not_see_new_ones():
    layer = nn.Linear(2, 2)
    copies = {name: p.detach().clone() for name, p in layer.named_parameters()}

    def stale(x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, copies["weight"], copies["bias"])

    before = stale(torch.ones(2))
    zero(layer)
    assert torch.equal(stale(torch.ones(2)), before) and not layer(torch.ones(2)).any()


def test_a_compiled_loss_learns_on_from_weights_that_were_loaded(compiled, monkeypatch):
    """B086, of what --compile on compiles: the same steps as eager, in the same graphs."""
    compile_, graphs = compiled
    monkeypatch.setattr(torch, "compile", compile_)
    other = make(seed=1).agent.state_dict()
    results = []
    for mode in ("off", "on"):
        parts = make(loop={"compile": mode}, lr=0.01)
        window = collected(parts, 2)
        parts.algorithm.update(window, 64)
        traced = len(graphs)
        parts.agent.load_state_dict(other)
        parts.algorithm.update(parts.sampler.collect(), 128)
        results.append(parameters(parts))
    assert traced > 0 and len(graphs) == traced
    for name, p in results[0].items():
        torch.testing.assert_close(results[1][name], p, rtol=1e-5, atol=1e-6, msg=name)
