"""Attributes that nobody else checks: what they say is looked at before ONNX's shape inference relies on it.

Some say yes or no by an integer, and what 2 or -1 means depends on who reads it. A Split that promises fewer outputs
than it has ends the process inside of ONNX (1.22).
"""

from __future__ import annotations

import onnx

from .errors import invalid_node_error
from .onnx_context import read_node

FLAGS = frozenset(
    {
        "allowzero",
        "antialias",
        "ceil_mode",
        "count_include_pad",
        "exclude_outside",
        "exclusive",
        "input_forget",
        "keepdims",
        "layout",
        "linear_before_reset",
        "noop_with_empty_axes",
        "reverse",
        "saturate",
        "select_last_index",
        "storage_order",
        "transA",
        "transB",
        "upper",
    }
)


def check_attributes(label: str, model: onnx.ModelProto) -> None:
    """NodeError, which begins with `label`, for a flag that is neither 0 nor 1, and for a Split of other outputs."""
    for index, node in enumerate(model.graph.node):
        for attribute in node.attribute:
            if (
                node.op_type == "Split"
                and attribute.name == "num_outputs"
                and attribute.i != len(node.output)
            ):
                raise invalid_node_error(
                    label,
                    read_node(node, index).name,
                    node.op_type,
                    f"has {len(node.output)} outputs, and num_outputs is {attribute.i}",
                    "export the model again",
                )
            if (
                attribute.name in FLAGS
                and attribute.type == onnx.AttributeProto.INT
                and attribute.i not in (0, 1)
            ):
                known = read_node(node, index)
                raise invalid_node_error(
                    label,
                    known.name,
                    known.op_type,
                    f"{attribute.name} is {attribute.i}, and it says yes or no",
                    "write 1 or 0",
                )
