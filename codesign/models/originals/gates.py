"""Squeeze-and-excitation, used by several families."""

from collections.abc import Callable

from . import operators as op
from .graph import Graph
from .values import Value

Function = Callable[[Graph, Value], Value]


def squeeze_and_excite(
    g: Graph, x: Value, name: str, squeeze: int, activation: Function, gate: Function
) -> Value:
    """Adds a squeeze-and-excitation block of `x` with `squeeze` inner channels to the graph, in the scope `name`; its
    two matrix products are 1x1 convolutions, the first followed by `activation`, the second by `gate`. Hu et al.,
    "Squeeze-and-Excitation Networks" (2017).
    """
    with g.scope(name):
        y = op.global_pool(g, x)
        y = activation(g, op.conv(g, y, "fc1", squeeze, 1))
        y = gate(g, op.conv(g, y, "fc2", x.channels, 1))
        return op.multiply(g, y, x)


def make_divisible(value: float, divisor: int = 8) -> int:
    """Rounds `value` to a multiple of `divisor`, but never to less than 0.9 * `value` or `divisor`, as mobile networks
    round numbers of channels.
    """
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded
