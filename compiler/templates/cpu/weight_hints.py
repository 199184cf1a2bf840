"""When weights are asked for early, and how many steps of a sum are written out."""

from __future__ import annotations

from ...codegen.cpu.machine import CpuTarget
from ...ir.stmt import For
from ...ir.visit import loops, walk
from ...schedule import Schedule
from .conv2d_knobs import REMOTE_BYTES_CYCLE

WAITING_SHARE = 0.05
"""Of the arithmetic, that waiting for weights takes before prefetching them pays for its instructions."""
PREFETCH_BYTES = 4096
"""How far ahead: some hundred cycles of a tile's steps."""
STEPS = 4
"""Steps of a sum that are written out: 3 to 10% faster than one (20 convolutions and products on a Golden Cove whose
weights stay near), as fast with hints in them."""

WIDE = 256
"""Bits of vectors for which x86 multiplies with an operand in memory, broadcast or not: loads take few registers."""


def waits_for_weights(target: CpuTarget, *, panel: float, weights: float, cycles: float) -> bool:
    """Whether asking for weights early pays; `panel` and `weights` are bytes, `cycles` those of the arithmetic.

    A panel, or a part of it, that is more than the first-level cache holds comes anew for each tile (asking early: 3 to
    10% faster on a Zen 5, from the second-level cache too; 5 to 25% on a Golden Cove); a smaller one where it comes
    from far away and few positions use it.
    """
    if panel > target.cache_bytes[0]:
        return True
    far = weights > target.cache_bytes[1] * 0.75
    return far and weights / REMOTE_BYTES_CYCLE > WAITING_SHARE * cycles


def most_steps(target: CpuTarget) -> int:
    """Steps of a sum that may be written out: one with vectors of 128 bits (SSE, NEON), whose sums would leave their
    registers for what several steps load."""
    return STEPS if target.vector_bits >= WIDE else 1


def written_steps(target: CpuTarget, depth: int) -> int:
    """The greatest divisor of `depth` up to `most_steps`."""
    return max(steps for steps in range(1, most_steps(target) + 1) if depth % steps == 0)


def ask_early(s: Schedule, loop: str, buffer: str) -> None:
    """Hints about `buffer` in the innermost of the loops that splits, parts and peeling made of the loop of a sum."""
    made = [node for node in loops(s.program) if node.name == loop or node.name.startswith(f"{loop}.")]
    names = {node.name for node in made}
    for node in made:
        if not any(isinstance(inner, For) and inner.name in names for inner in walk(node.body)):
            s.prefetch(node.name, buffer, PREFETCH_BYTES)
