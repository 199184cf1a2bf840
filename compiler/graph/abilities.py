"""What a target computes beside the nodes that every target has, which decides what the importer takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vdla.isa.config import Config

from ..te.blocks import Blocks
from .graph import Graph, Node
from .int8_operators import Int8Elementwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """Nodes of an integer graph that only some targets compute.

    `processor`: those that only processors have (what follows `Table` in `int8_operators`). `tables`: functions of one
    tensor, which an accelerator with the extension `table` looks up. `planes`: an operand of one value for each plane,
    which one with the extension `broadcast` repeats. `rows`: softmax and normalization over
    channels, with the extension `rows`. `products`: those of two activations, on square arrays with batch 1, whose
    `zero_points` the array takes off with that extension. Rows and products have whole blocks of `block` channels.
    """

    processor: bool = False
    tables: bool = False
    planes: bool = False
    rows: bool = False
    products: bool = False
    zero_points: bool = False
    block: int = 1

    @staticmethod
    def of(config: Config) -> Abilities:
        """Those of an accelerator.

        Where a block is several output vectors, one value for a plane is no vector that repeats.
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
"""Those of an accelerator without extensions."""
ACCELERATOR = Abilities(tables=True, planes=True, rows=True, products=True, zero_points=True)
"""Those of an accelerator with all extensions: what may run on one machine of many."""
PROCESSOR = Abilities(processor=True, tables=True, planes=True)
"""Those of processors."""
EVERYTHING = replace(ACCELERATOR, processor=True)
"""Those of the interpreter."""


def needs(extension: str) -> tuple[str, str]:
    """Why an accelerator without an extension refuses a node, and the way out."""
    if extension in ("broadcast", "rows"):
        return (
            f"needs the extension '{extension}' and block_in no larger than block_out",
            "add it to `extensions` of the configuration, or make block_out as large as block_in",
        )
    return f"needs the extension '{extension}'", "add it to `extensions` of the configuration"


def is_broadcast(graph: Graph, node: Node) -> bool:
    """Whether the second operand of an element-wise node has one value for each plane of the first."""
    operator = node.operator
    if not isinstance(operator, Int8Elementwise) or not operator.combination.has_operand:
        return False
    return graph.tensors[node.inputs[1]].nchw != graph.tensors[node.output].nchw
