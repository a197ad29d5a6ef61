"""One optimizer step: what it changes, and that a gradient that is not finite changes nothing."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from small_parts import MODELS, chunks_of, collected, everything, make, parameters
from torch import nn

from rlpyt.algos import compiled
from rlpyt.algos.learner import Learner
from rlpyt.arrays import tree_leaves
from rlpyt.errors import StopAsked
from rlpyt.models.flat import Adam, RMSprop
from rlpyt.schedules import scheduled


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Parameter(torch.ones(3))
        self.after = nn.Parameter(torch.full((5,), 2.0))


def loss_of(module: Two, before: float, after: float) -> Any:
    """A loss with these slopes."""

    def loss() -> tuple[torch.Tensor, torch.Tensor]:
        total = before * module.before.sum() + after * module.after.sum()
        return total, torch.zeros(1)

    return loss


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("optimizer", [Adam, partial(RMSprop, eps_inside_root=True)])
@pytest.mark.parametrize("max_norm", [0.5, 0.0])
@pytest.mark.parametrize(
    ("slopes", "said"),
    [
        ((1.0, NAN), "gradient of after is not finite"),
        ((NAN, 1.0), "gradient of before is not finite"),
        ((1.0, INF), "gradient of after is not finite"),
        ((1e30, 1.0), "norm overflows, mostly in before"),
    ],
)
def test_a_gradient_that_is_not_finite_names_its_tensor_and_changes_nothing(
    slopes, said, max_norm, optimizer
):
    module = Two()
    learner = Learner(module, optimizer, max_norm)
    for _ in range(2):
        learner.step(loss_of(module, 1.0, -1.0), 0.1)
    kept = [x.clone() for x in (learner.parameters.vector, *learner.optimizer.state().values())]
    with pytest.raises(FloatingPointError, match=f"{said}.* at update 2 "):
        learner.step(loss_of(module, *slopes), 0.1)
    now = (learner.parameters.vector, *learner.optimizer.state().values())
    assert all(torch.equal(x, y) for x, y in zip(kept, now, strict=True))
    assert learner.updates == 2
    learner.step(loss_of(module, 1.0, -1.0), 0.1)  # and it can go on
    assert learner.parameters.vector.isfinite().all()


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
@pytest.mark.parametrize("name", ["feed-forward", "lstm"])
def test_a_nan_in_a_window_stops_the_update_before_it_changes_anything(name, algo):
    """The reward of a live row: agent and optimizer stay as they were, bit for bit."""
    parts = make(algo, model=MODELS[name])
    window = collected(parts, 3)
    before = everything(parts)
    generator = getattr(parts.algorithm, "generator", None)
    drawn = generator.get_state() if generator else None
    window.rows.reward[5] = NAN
    with pytest.raises(FloatingPointError, match=r"gradient of actor.* at update \d+ \(loss nan\)"):
        parts.algorithm.update(window, 0)
    if generator:
        generator.set_state(drawn)  # the order of the epoch was drawn already
    for x, y in zip(before, everything(parts), strict=True):
        assert torch.equal(x, y)


def test_without_the_check_the_step_would_spoil_every_parameter():
    """The control: one NaN, through the norm, reaches all that the optimizer steps."""
    module = Two()
    learner = Learner(module, Adam, 0.5)
    learner.parameters.zero_grad()
    loss_of(module, 1.0, NAN)()[0].backward()
    learner.parameters.clip_(0.5)
    learner.optimizer.step(0.1)
    assert learner.parameters.vector[:3].isnan().all()


def test_the_step_is_the_optimizers_on_the_clipped_gradient():
    module = Two()
    learner = Learner(module, partial(Adam, eps=1e-5), 0.5)
    metrics = learner.step(loss_of(module, 3.0, 4.0), 0.1)
    norm = np.sqrt(3 * 9.0 + 5 * 16.0)
    assert float(metrics[0]) == pytest.approx(norm)
    clipped = 0.5 * 3 / norm
    assert module.before[0].item() == pytest.approx(1 - 0.1 * clipped / (clipped + 1e-5))


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
def test_a_linear_learning_rate_is_followed_by_environment_steps_to_its_end(algo):
    parts = make(algo, lr=1e-2, lr_schedule="linear")
    window = collected(parts)
    for env_steps in (0, 1, 5000, 9999, 10_000, 10_050):
        lr = parts.algorithm.update(window, env_steps)["loss/lr"]
        assert float(lr) == pytest.approx(1e-2 * max(0.0, 1 - env_steps / 10_000))
    before = parameters(parts)
    parts.algorithm.update(window, 10_000)
    assert all(torch.equal(p, before[name]) for name, p in parameters(parts).items())


def test_schedules_are_exact_at_both_ends():
    assert scheduled(0.3, "linear", 0, 100) == 0.3
    assert scheduled(0.3, "linear", 100, 100) == scheduled(0.3, "linear", 107, 100) == 0.0
    assert scheduled(0.3, "constant", 100, 100) == 0.3


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_saved_and_restored_in_the_middle_the_steps_are_the_same(algo, optimizer):
    options = {"optimizer": optimizer} if algo in ("a2c", "impala") else {}
    one, two = make(algo, **options), make(algo, seed=3, **options)
    window = collected(one, 3)
    two.agent.load_state_dict(one.agent.state_dict())
    two.algorithm.load(one.algorithm.state())
    assert two.algorithm.learner.updates == one.algorithm.learner.updates > 0
    for parts in (one, two):
        parts.algorithm.update(window, 0)
    assert all(torch.equal(x, y) for x, y in zip(everything(one), everything(two), strict=True))


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
@pytest.mark.parametrize("name", MODELS)
def test_parameters_stay_views_of_the_flat_vector(name, algo):
    parts = make(algo, model=MODELS[name])
    collected(parts, 3)
    parts.algorithm.learner.parameters.assert_intact()


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "appo"])
def test_metrics_hold_no_graph(algo):
    """Kept until a line is logged, they must not keep a window's graph alive (B212)."""
    parts = make(algo)
    for value in parts.algorithm.update(collected(parts), 0).values():
        assert value.grad_fn is None and not value.requires_grad
    sample, _ = chunks_of(parts, parts.sampler.window)
    assert not any(x.requires_grad for x in tree_leaves(sample))


@pytest.mark.parametrize("asked", [True, False])
def test_a_compiler_that_the_signal_ended_ends_the_run_as_the_signal_does(asked, monkeypatch):
    """F14: Ctrl-C in a terminal ends g++ too; without a signal its error is what it is."""
    failed = type("InductorError", (Exception,), {"__module__": "torch._inductor.exc"})

    def compiler(*_, **__):
        def run(**_):
            raise failed("g++ was killed")

        return run

    monkeypatch.setattr(torch, "compile", compiler)
    monkeypatch.setattr(compiled, "asked_at", lambda: 1.0 if asked else None)
    trained = Learner(nn.Linear(2, 1), Adam, 0.5, compile=True)
    with pytest.raises(StopAsked if asked else failed):
        trained.step(lambda: None, 1e-3)
    assert not trained.updates
