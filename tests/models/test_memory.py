"""Memory with resets inside a sequence is a loop over single steps."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from rlpyt.models.memory import Memory, Segments, State, reset
from rlpyt.models.options import ModelOptions

KINDS = ["lstm", "gru"]
INPUTS, SIZE = 5, 8


def memory(kind: Any) -> Memory:
    torch.manual_seed(3)
    made = Memory(kind, INPUTS, ModelOptions(memory_size=SIZE))
    for p in made.parameters():  # biases too, so that nothing holds only because they are zero
        nn.init.normal_(p, std=0.5)
    return made


def random_state(mem: Memory, batch: int) -> State:
    return tuple(torch.randn_like(s) for s in mem.initial_state(batch))


def loop(mem: Memory, x: Tensor, state: State, first: Tensor) -> tuple[Tensor, State]:
    """The reference: PyTorch's cells, one row after the other."""
    cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[mem.kind](INPUTS, SIZE)
    weights = {
        name: getattr(mem, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    outs = []
    for row, begins in zip(x, first, strict=True):
        state = tuple(torch.where(begins[:, None], torch.zeros(()), s) for s in state)
        fed = state if mem.kind == "lstm" else state[0]
        result = torch.func.functional_call(cell, weights, (row, fed))
        state = result if mem.kind == "lstm" else (result,)
        outs.append(state[0])
    return torch.stack(outs), state


PATTERNS = {
    "none": lambda t, b: torch.zeros(t, b, dtype=torch.bool),
    "row 0 alone": lambda t, b: torch.arange(t)[:, None].expand(t, b) == 0,
    "last row": lambda t, b: torch.arange(t)[:, None].expand(t, b) == t - 1,
    "every row": lambda t, b: torch.ones(t, b, dtype=torch.bool),
    "one column alone": lambda t, b: (torch.arange(t)[:, None] % 3 == 0) & (torch.arange(b) == 1),
    "few": lambda t, b: torch.rand(t, b) < 0.02,
    "many": lambda t, b: torch.rand(t, b) < 0.3,
}


@pytest.mark.parametrize("path", ["chosen", "stretches", "segments"])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_path_gives_the_outputs_states_and_gradients_of_the_loop(
    kind: str, pattern: str, path: str
) -> None:
    mem = memory(kind)
    rows, columns = 23, 3
    first = PATTERNS[pattern](rows, columns)
    inputs = [torch.randn(rows, columns, INPUTS), *random_state(mem, columns)]
    weight = torch.randn(rows, columns, SIZE)

    def run(function: Any) -> list[Tensor]:
        x, *state = [tensor.clone().requires_grad_() for tensor in inputs]
        out, final = function(x, tuple(state), first)
        loss = (out * weight).sum() + sum(s.square().sum() for s in final)
        return [out, *final, *torch.autograd.grad(loss, [x, *state, *mem.parameters()])]

    def stretches(x: Tensor, state: State, first: Tensor) -> tuple[Tensor, State]:
        cuts = [t for t in range(1, rows) if first[t].any()]
        return mem._stretches(x, reset(state, first[0]), first, cuts)

    def segments(x: Tensor, state: State, first: Tensor) -> tuple[Tensor, State]:
        return mem._segments(x, reset(state, first[0]), Segments.of(first))

    paths = {"chosen": mem, "stretches": stretches, "segments": segments}
    expected = run(lambda x, state, first: loop(mem, x, state, first))
    for got, want in zip(run(paths[path]), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)
    for got, want in zip(run(paths[path])[:2], expected[:2], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_an_episode_reaches_the_next_forward_or_backward(kind: str) -> None:
    mem = memory(kind)
    first = torch.zeros(12, 2, dtype=torch.bool)
    first[5, 0] = True
    x = torch.randn(12, 2, INPUTS, requires_grad=True)
    state = random_state(mem, 2)
    out, _ = mem(x, state, first)
    (gradient,) = torch.autograd.grad(out[5:, 0].sum(), x, retain_graph=True)
    assert not gradient[:5, 0].any() and gradient[5, 0].any()
    (gradient,) = torch.autograd.grad(out[5:, 1].sum(), x)
    assert gradient[0, 1].any()  # control: the other column remembers
    changed = x.detach().clone()
    changed[:5, 0] = float("nan")
    again, _ = mem(changed, state, first)
    torch.testing.assert_close(again[5:, 0], out[5:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_acting_row_by_row_gives_what_the_sequence_gives(kind: str) -> None:
    mem = memory(kind)
    first = torch.rand(30, 4) < 0.2
    x, start = torch.randn(30, 4, INPUTS), random_state(mem, 4)
    expected, expected_state = mem(x, start, first)
    state, outs = start, []
    with torch.inference_mode():
        for t in range(30):
            out, state = mem(x[t], state, first[t])
            outs.append(out)
    torch.testing.assert_close(torch.stack(outs), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, expected_state, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_in_pieces_gives_what_the_whole_gives(kind: str) -> None:
    mem = memory(kind)
    first = torch.rand(24, 3) < 0.1
    x, state = torch.randn(24, 3, INPUTS), random_state(mem, 3)
    whole, final = mem(x, state, first)
    pieces = []
    for begin in range(0, 24, 6):
        out, state = mem(x[begin : begin + 6], state, first[begin : begin + 6])
        pieces.append(out)
    torch.testing.assert_close(torch.cat(pieces), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, final, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_column_that_ended_is_reset(kind: str) -> None:
    mem = memory(kind)
    x, state = torch.randn(3, INPUTS), random_state(mem, 3)
    out, _ = mem(x, state, torch.tensor([False, True, False]))
    fresh, _ = mem(x, mem.initial_state(3), None)
    kept, _ = mem(x, state, None)
    torch.testing.assert_close(out[1], fresh[1])
    torch.testing.assert_close(out[[0, 2]], kept[[0, 2]])


@pytest.mark.parametrize("kind", KINDS)
def test_one_column_without_leading_dimension_gives_the_same_numbers(kind: str) -> None:
    mem = memory(kind)
    x, state = torch.randn(2, INPUTS), random_state(mem, 2)
    first = torch.tensor([True, False])
    batched, batched_state = mem(x, state, first)
    for b in range(2):
        out, after = mem(x[b], tuple(s[b] for s in state), first[b])
        torch.testing.assert_close(out, batched[b])
        torch.testing.assert_close(after, tuple(s[b] for s in batched_state))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_not_finite_is_gone_after_a_reset(kind: str) -> None:
    mem = memory(kind)
    bad = tuple(torch.full_like(s, float("nan")) for s in mem.initial_state(1))
    out, state = mem(torch.randn(1, INPUTS), bad, torch.tensor([True]))
    assert out.isfinite().all() and all(s.isfinite().all() for s in state)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**36 - 1))
def test_segments_hold_every_row_once_in_order(rows: int, columns: int, bits: int) -> None:
    first = torch.tensor([bits >> i & 1 for i in range(rows * columns)], dtype=torch.bool)
    first = first.view(rows, columns)
    at = Segments.of(first)
    source = at.source.flatten()
    torch.testing.assert_close(source[at.back], torch.arange(rows * columns))
    assert (source < rows * columns).sum() == rows * columns
    starts = first.clone()
    starts[0] = True
    assert at.source.shape[1] == starts.sum()
    assert torch.equal(at.source[0, at.carried], torch.arange(columns))
    last = torch.arange(columns) + (rows - 1) * columns
    assert torch.equal(at.source[-1, at.final], last)


def test_initial_weights_depend_on_the_seed_alone() -> None:
    def weights(seed: int) -> Tensor:
        torch.manual_seed(seed)
        mem = Memory("lstm", INPUTS, ModelOptions(memory_size=SIZE))
        return nn.utils.parameters_to_vector(mem.parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
