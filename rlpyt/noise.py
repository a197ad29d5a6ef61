"""Randomness as data: seeds and acting noise are pure functions of where they are used.

Nothing here is ever saved: the same (root seed, stream, column, row) gives the same numbers in
every process, sampler and resumed run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

# Codes of the things that draw from the root seed. They start at 1 because NumPy pads a
# SeedSequence with zeros: [5], [5, 0] and [5, 0, 0] are the same seed. So a process alone has the
# seeds of rank 0.
INITIAL_WEIGHTS: Final = 1
LEARNER: Final = 2
TRAINING_RESETS: Final = 3
EVALUATION_RESETS: Final = 4
ACTION_NOISE: Final = 5
EVALUATION_NOISE: Final = 7
GLOBAL_GENERATORS: Final = 9
REPLAY: Final = 10
RANDOM_STEPS: Final = 11  # before a run begins
SPACES: Final = 12  # of environments that draw from them

_BLOCK = 256  # rows drawn at once per column; resets seeded at once


def seed(root: int, code: int, rank: int = 0) -> int:
    """The 64-bit seed of one stream under a root seed.

    Args:
        rank: of the process, for what each draws for itself.
    """
    return int(np.random.SeedSequence([root, code, rank]).generate_state(1, np.uint64)[0])


class ResetSeeds:
    """Seed of reset `k` of each column: the same whoever steps the column, and wherever.

    Args:
        root: the run's seed.
        role: TRAINING_RESETS or EVALUATION_RESETS, so that the two never share a start.
        first: number of column 0 among those of all ranks.
        numbered: that of its environment among all of a job, evaluation's too; None: the same.
    """

    def __init__(self, root: int, role: int, first: int = 0, numbered: int | None = None) -> None:
        self._root, self.role, self._first = root, role, first
        self.numbered = first if numbered is None else numbered
        self._blocks: dict[int, tuple[int, list[int]]] = {}

    def __call__(self, column: int, k: int) -> int:
        block, words = self._blocks.get(column, (-1, []))
        if block != k // _BLOCK:
            block = k // _BLOCK
            at = self._first + column
            sequence = np.random.SeedSequence([self._root, self.role, at, block])
            words = sequence.generate_state(_BLOCK).tolist()
            self._blocks[column] = (block, words)
        return words[k % _BLOCK]

    def random_steps(self, column: int) -> np.random.Generator:
        """Draws the steps that a column's environment takes before the run begins."""
        return np.random.default_rng([self._root, RANDOM_STEPS, self._first + column])

    def spaces(self, column: int, k: int) -> list[int]:
        """Seeds of the action and the observation space of a column, before its reset k."""
        words = [self._root, SPACES, self.role, self._first + column, k]
        return np.random.SeedSequence(words).generate_state(2).tolist()

    def global_generators(self, column: int, k: int, calls: int) -> int:
        """A seed for those of a process whose first column this is.

        Args:
            k: resets of that column so far.
            calls: which ones follow; 0: its environments are made, 1: they are stepped.
        """
        at = self._first + column
        words = [self._root, GLOBAL_GENERATORS, self.role, at, k, calls]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


class Noise:
    """Acting noise of every column and row: uniforms in [0, 1), then standard normals.

    Args:
        root: the run's seed.
        stream: one of the codes above.
        columns: global numbers of the columns, B of them.
        uniforms, normals: how many of each a row of a column needs.
    """

    def __init__(self, root: int, stream: int, columns: range, uniforms: int, normals: int) -> None:
        self._key = seed(root, stream)
        self._columns, self._uniforms, self._normals = columns, uniforms, normals
        self._drawn: dict[int, np.ndarray] = {}

    def rows(self, start: int, count: int) -> np.ndarray:
        """Noise of rows start .. start+count-1, float32 [count, B, uniforms + normals]."""
        wanted = range(start // _BLOCK, (start + count - 1) // _BLOCK + 1)
        blocks = [self._drawn[j] if j in self._drawn else self._draw(j) for j in wanted]
        self._drawn = dict(zip(wanted, blocks, strict=True))  # the others are forgotten
        offset = start - wanted.start * _BLOCK
        drawn = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return drawn[offset : offset + count]

    def _draw(self, j: int) -> np.ndarray:
        return np.stack([self._block(column, j) for column in self._columns], axis=1)

    def _block(self, column: int, j: int) -> np.ndarray:
        bits = np.random.Philox(key=[self._key, column], counter=[0, 0, 0, j])
        generator = np.random.Generator(bits)
        uniforms = generator.random((_BLOCK, self._uniforms), dtype=np.float32)
        normals = generator.standard_normal((_BLOCK, self._normals), dtype=np.float32)
        return np.concatenate([uniforms, normals], axis=1)
