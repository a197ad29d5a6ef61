"""Recurrent layers that begin anew inside a sequence, on the fused kernels.

A state is a tuple of tensors [B, size]: (h, c) of an LSTM, (h,) of a GRU. It is reset at every row
that begins an episode, before the row is read (`docs/design.md`).

PyTorch's kernels know no resets. With few of them time is cut into *stretches*, one call each, with
the state reset in between. With many, every column is cut into its own *segments*, which go through
one call side by side: 8 columns of short episodes make 50 segments of 40 rows instead of 45
calls. Both give what a loop over single steps gives, to rounding.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlpyt.models.options import ModelOptions

State = tuple[Tensor, ...]

_CALL_COST = 2**19
"""What a call costs besides its rows, in size² (4.2 million of them take 2.7 ms forward and
backward on one CPU core): 0.35 ms of kernels and graph; preparing segments is another call's."""

_STEP_COST = {"lstm": 2**13, "gru": 2**17}
"""What each of a sequence's rows costs besides its columns: PyTorch's GRU on CPUs has no fused
kernel, so 0.1 ms."""

_HOLD = 1e4
"""Added to a gate's input it makes the gate exactly 1, subtracted exactly 0."""


@final
class Memory(nn.Module):
    """One layer, LSTM (Gers et al., 2000) or GRU (Cho et al., 2014), in PyTorch's formulas.

    Args:
        kind: which of the two.
        inputs: width of what it reads.
        options: memory_size, and the initial weights.
    """

    weight_ih: Tensor  # [gates * size, inputs]
    weight_hh: Tensor  # [gates * size, size]
    bias_ih: Tensor
    bias_hh: Tensor
    hold: Tensor

    def __init__(self, kind: Literal["lstm", "gru"], inputs: int, options: ModelOptions) -> None:
        super().__init__()
        size = self.features = options.memory_size
        self.kind = kind
        self.tensors, gates = (2, 4) if kind == "lstm" else (1, 3)
        uniform = size**-0.5
        for name, width in (("weight_ih", inputs), ("weight_hh", size)):
            weight = nn.Parameter(torch.empty(gates * size, width))
            if options.orthogonal_init:
                nn.init.orthogonal_(weight)
            else:
                nn.init.uniform_(weight, -uniform, uniform)
            self.register_parameter(name, weight)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, nn.Parameter(torch.zeros(gates * size)))
        # Added to the gates it holds a state of zeros: an LSTM's input gate at 0 adds nothing to an
        # empty cell, a GRU's update gate at 1 keeps what is there.
        hold = torch.zeros(gates, size)
        hold[0 if kind == "lstm" else 1] = -_HOLD if kind == "lstm" else _HOLD
        self.register_buffer("hold", hold.view(-1, 1), persistent=False)

    def initial_state(self, batch: int) -> State:
        """Zeros, [batch, size] each."""
        zeros = self.weight_hh.new_zeros
        return tuple(zeros(batch, self.features) for _ in range(self.tensors))

    def forward(self, x: Tensor, state: State, first: Tensor | None) -> tuple[Tensor, State]:
        """Read one row or a sequence of rows.

        Args:
            x: [B, inputs] one row, [T, B, inputs] a sequence, or [inputs] one row of one column.
            state: [B, size] (or [size]) each, as fed at the first row.
            first: [B], [T, B] or []; where the state is reset. None: nowhere.

        Returns:
            [..., size] and the state after the last row.
        """
        if x.dim() == 2:
            state = self._step(x, state if first is None else reset(state, first))
            return state[0], state
        if x.dim() == 1:
            state = tuple(s.unsqueeze(0) for s in state)
            out, state = self(x.unsqueeze(0), state, None if first is None else first.view(1))
            return out[0], tuple(s[0] for s in state)
        if first is None:
            return self._run(x, state, self.weight_ih)
        state = reset(state, first[0])
        cuts = first[1:].any(1).nonzero().flatten().add_(1).tolist()
        if not cuts:
            return self._run(x, state, self.weight_ih)
        segments = Segments.of(first)
        pieces = self._cost(len(cuts) + 1, *first.shape)
        if pieces < self._cost(2, *segments.source.shape):
            return self._stretches(x, state, first, cuts)
        return self._segments(x, state, segments)

    def _step(self, x: Tensor, state: State) -> State:
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if self.kind == "lstm":
            return torch.lstm_cell(x, state, *weights)
        return (torch.gru_cell(x, state[0], *weights),)

    def _run(self, x: Tensor, state: State, weight_ih: Tensor) -> tuple[Tensor, State]:
        """The fused kernel: [T, B, inputs] -> [T, B, size], without resets."""
        weights = (weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        initial = [s.unsqueeze(0) for s in state]
        shape = (True, 1, 0.0, torch.is_grad_enabled(), False, False)  # one layer, no dropout
        if self.kind == "lstm":
            out, h, c = torch.lstm(x, initial, weights, *shape)
            return out, (h[0], c[0])
        out, h = torch.gru(x, initial[0], weights, *shape)
        return out, (h[0],)

    def _cost(self, calls: int, rows: int, columns: int) -> int:
        step = _STEP_COST[self.kind] + columns * self.features**2
        return calls * _CALL_COST + rows * step

    def _stretches(
        self, x: Tensor, state: State, first: Tensor, cuts: list[int]
    ) -> tuple[Tensor, State]:
        """One call for the rows between two cuts; `state` is reset at row 0 already."""
        outs = []
        for begin, end in zip([0, *cuts], [*cuts, len(x)], strict=True):
            if begin:
                state = reset(state, first[begin])
            out, state = self._run(x[begin:end], state, self.weight_ih)
            outs.append(out)
        return torch.cat(outs), state

    def _segments(self, x: Tensor, state: State, at: Segments) -> tuple[Tensor, State]:
        """One call for all segments of all columns; `state` is reset at row 0 already.

        One more input is 1 in the rows of padding, where its weights hold a state of zeros.
        """
        rows, columns, width = x.shape
        padding = F.pad(x.new_zeros(1, width), (0, 1), value=1.0)
        x = torch.cat([F.pad(x.flatten(0, 1), (0, 1)), padding])  # [T * B + 1, inputs + 1]
        x = x.index_select(0, at.source.flatten()).unflatten(0, at.source.shape)
        count = at.source.shape[1]
        initial = tuple(s.new_zeros(count, s.shape[1]).index_copy(0, at.carried, s) for s in state)
        out, final = self._run(x, initial, torch.cat([self.weight_ih, self.hold], 1))
        out = out.flatten(0, 1).index_select(0, at.back).unflatten(0, (rows, columns))
        return out, tuple(s.index_select(0, at.final) for s in final)


def reset(state: State, first: Tensor) -> State:
    """The state [B, size] each, with zeros where first [B]; also where it is not finite."""
    mask = first.unsqueeze(-1)
    return tuple(torch.where(mask, 0.0, s) for s in state)


class Segments(NamedTuple):
    """Where the segments of T rows and B columns go in S sequences of L rows, and back.

    Segments that begin at row 0 with the state given are put at the front of their sequence. The
    others begin with zeros and are put at its end, so that the last row of every sequence that ends
    a column is its last: the state after it is the column's.
    """

    source: Tensor  # [L, S]: t * B + b, or T * B in the rows of padding
    back: Tensor  # [T * B]: the place in L * S of row t of column b
    carried: Tensor  # [B]: the segment with which each column begins
    final: Tensor  # [B]: the segment with which each column ends

    @staticmethod
    def of(first: Tensor) -> Segments:
        """Cut wherever first [T, B]; row 0 begins a segment in any case."""
        rows, columns = first.shape
        starts = first.t().clone()  # column by column, as segments follow each other
        starts[:, 0] = True
        begin = starts.flatten().nonzero().flatten()  # [S]: b * T + t
        time, column = begin % rows, begin // rows
        length = torch.diff(begin, append=begin.new_tensor([rows * columns]))
        longest = int(length.max())
        shift = torch.where(time == 0, 0, longest - length)
        place = torch.arange(longest, device=first.device).unsqueeze(1) - shift  # [L, S]
        inside = (place >= 0) & (place < length)
        source = torch.where(inside, (time + place) * columns + column, rows * columns)
        segment = starts.flatten().cumsum(0) - 1  # [B * T]
        row = torch.arange(rows * columns, device=first.device) - begin[segment] + shift[segment]
        back = (row * len(begin) + segment).view(columns, rows).t().flatten()
        carried = (time == 0).nonzero().flatten()
        final = torch.cat([carried[1:] - 1, carried.new_tensor([len(begin) - 1])])
        return Segments(source, back, carried, final)
