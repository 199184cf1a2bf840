"""GridSample of a float model."""

from __future__ import annotations

from ...te.ops.grid_sample import Outside, Sampling, grid_sample
from ..onnx_attributes import OnnxNode
from ..onnx_context import GraphContext
from ..operators import Computed


def import_grid_sample(context: GraphContext, node: OnnxNode) -> None:
    """Imports GridSample of two or three spatial dimensions; mode cubic of two only."""
    data, grid = context.operand(node, 0), context.operand(node, 1)
    modes: dict[str, Sampling] = {
        "nearest": "nearest",
        "linear": "linear",
        "cubic": "cubic",
        "bilinear": "linear",
        "bicubic": "cubic",
    }
    outsides: dict[str, Outside] = {"zeros": "zeros", "border": "border", "reflection": "reflection"}
    mode = modes.get(node.text("mode", "linear"))
    outside = outsides.get(node.text("padding_mode", "zeros"))
    rank = len(data.shape) - 2
    fits = len(grid.shape) == rank + 2 and grid.shape[0] == data.shape[0] and grid.shape[-1] == rank
    if mode is None or outside is None or rank not in (2, 3) or not fits or (mode == "cubic" and rank == 3):
        context.fail(
            node,
            f"samples {data.shape} at {grid.shape} by mode {node.text('mode', 'linear')} and padding_mode "
            f"{node.text('padding_mode', 'zeros')}",
            "give it (N, C, H, W) or (N, C, D, H, W); a mode of nearest, linear or, of two dimensions, cubic; and a "
            f"padding_mode of {', '.join(outsides)}",
        )
    outputs = grid.shape[1:-1]
    program = grid_sample(
        data.shape, outputs, mode, outside, align_corners=bool(node.integer("align_corners", 0))
    )
    context.add(node, Computed(program=program), (data.name, grid.name), (*data.shape[:2], *outputs))
