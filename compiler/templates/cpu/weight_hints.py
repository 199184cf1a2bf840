"""Prefetches of weights: the conditions under which they pay, and the number of unrolled steps of a sum."""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import For
from ...ir.visit import loops, walk
from ...schedule import Schedule
from .conv2d_knobs import REMOTE_BYTES_CYCLE

WAITING_SHARE = 0.05
"""Least time of waiting for weights, as a share of the arithmetic, at which prefetches pay for their instructions."""
PREFETCH_BYTES = 4096
"""Distance of prefetches: some hundred cycles of a tile's steps."""
STEPS = 4
"""Unrolled steps of a sum: 3 to 10% faster than one (20 convolutions and products on a Golden Cove whose weights stay
in the caches), and equally fast with prefetches."""

WIDE = 256
"""Vector bits at which x86 multiplies with an operand in memory, broadcast or not: loads take few registers."""


def waits_for_weights(target: CpuTarget, *, panel: float, weights: float, cycles: float) -> bool:
    """Whether prefetching weights pays; `panel` and `weights` in bytes, `cycles` of the arithmetic.

    It pays for a panel, or part of one, that exceeds the first-level cache and is reloaded for each tile (3 to 10%
    faster on a Zen 5, also from the second-level cache; 5 to 25% on a Golden Cove), and for a smaller panel from beyond
    the second-level cache that few positions use.
    """
    if panel > target.cache_bytes[0]:
        return True
    far = weights > target.cache_bytes[1] * 0.75
    return far and weights / REMOTE_BYTES_CYCLE > WAITING_SHARE * cycles


def most_steps(target: CpuTarget) -> int:
    """Most unrolled steps of a sum: STEPS, or one with vectors of 128 bits (SSE, NEON), where the loads of several
    steps would spill sums."""
    return STEPS if target.vector_bits >= WIDE else 1


def written_steps(target: CpuTarget, depth: int) -> int:
    """The greatest divisor of `depth` up to `most_steps`."""
    return max(steps for steps in range(1, most_steps(target) + 1) if depth % steps == 0)


def ask_early(s: Schedule, loop: str, buffer: str) -> None:
    """Adds prefetches of `buffer` in the innermost loops that splits, parts and peeling made from the sum's loop."""
    made = [node for node in loops(s.program) if node.name == loop or node.name.startswith(f"{loop}.")]
    names = {node.name for node in made}
    for node in made:
        if not any(isinstance(inner, For) and inner.name in names for inner in walk(node.body)):
            s.prefetch(node.name, buffer, PREFETCH_BYTES)
