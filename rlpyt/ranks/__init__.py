"""The processes that train one agent together, as `torchrun` starts them.

Every rank runs the same loop over environments and rows of its own. What they must agree on goes
through here: sums of gradients and statistics, counts, decisions. A process that trains alone is a
rank of one, whose sums are what it gave.

Nobody waits for a rank that is no more. One that fails leaves word of it in the store that all
share, and the others, whose next sum then fails, tell of that. One that is silent (stopped, or cut
off) is noticed by its heart, which beats in a thread of its own: so an evaluation, a compilation or
a slow environment of one rank may take as long as it likes.
"""

from rlpyt.ranks.alone import Ranks, merge_moments
from rlpyt.ranks.meeting import join, together, world
from rlpyt.ranks.sameness import bits, differing

__all__ = ["Ranks", "bits", "differing", "join", "merge_moments", "together", "world"]
