"""Capabilities of a target: which optional operators of integer graphs it computes. The importer rejects the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..te.blocks import Blocks
from .graph import Graph, Node
from .int8_operators import Int8Elementwise

if TYPE_CHECKING:
    from vdla.isa.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The optional operators of integer graphs that a target computes.

    `processor`: the target is a processor, not an accelerator. A processor computes all operators of
    `int8_operators.py`, except those whose text says that they are for accelerators. `tables`: look-up tables of one
    tensor (extension `table`). `planes`: element-wise operators whose second operand has one value for each channel
    (height and width 1; extension `broadcast`). `rows`: softmax and normalization over channels (extension `rows`).
    `products`: matrix products of two activations, on square arrays with batch 1; with `zero_points` the array
    subtracts the zero points of both factors. `rows` and `products` require whole blocks of `block` channels."""

    processor: bool = False
    tables: bool = False
    planes: bool = False
    rows: bool = False
    products: bool = False
    zero_points: bool = False
    block: int = 1

    @staticmethod
    def of(config: Config) -> Abilities:
        """The abilities of an accelerator with this configuration.

        `planes` and `rows` are False if a block of channels spans several output vectors: both need the values of all
        channels of a block in one vector.
        """
        planes = config.has("broadcast") and Blocks.of(config).outputs == 1
        rows = config.has("rows") and Blocks.of(config).outputs == 1
        square = config.batch == 1 and config.block_in == config.block_out
        return Abilities(
            tables=config.has("table"),
            planes=planes,
            rows=rows,
            products=square,
            zero_points=config.has("zero_points"),
            block=Blocks.of(config).block,
        )


PLAIN = Abilities()
"""Abilities of an accelerator that computes no optional operator."""
ACCELERATOR = Abilities(tables=True, planes=True, rows=True, products=True, zero_points=True)
"""Abilities of an accelerator with all extensions, a superset of the abilities of every configuration. A design-space
exploration imports each model once, with these abilities, for many configurations.
"""
PROCESSOR = Abilities(processor=True, tables=True, planes=True)
"""Abilities of processors."""
EVERYTHING = replace(ACCELERATOR, processor=True)
"""Abilities of the interpreter of integer graphs, which computes every operator."""


def needs(extension: str) -> tuple[str, str]:
    """Error text (problem, remedy) for a node that needs the extension `extension`, on an accelerator without it."""
    if extension in ("broadcast", "rows"):
        return (
            f"needs the extension '{extension}' and block_in no larger than block_out",
            "add it to `extensions` of the configuration, or make block_out as large as block_in",
        )
    return f"needs the extension '{extension}'", "add it to `extensions` of the configuration"


def is_broadcast(graph: Graph, node: Node) -> bool:
    """Whether a node is element-wise with a second operand that has height and width 1 (one value for each channel),
    and a result that has not.
    """
    operator = node.operator
    if not isinstance(operator, Int8Elementwise) or not operator.combination.has_operand:
        return False
    return graph.tensors[node.inputs[1]].nchw != graph.tensors[node.output].nchw
