"""16-bit floats: arithmetic operators compute in float32 and round their results once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....graph.operators import Elementwise
from ....ir.expr import cast
from ....ir.types import HALVES, DType
from ....te.scalars import argument
from ..attributes import OnnxNode
from ..context import GraphContext
from .pointwise import as_type


def in_float32(
    context: GraphContext, node: OnnxNode, half: DType, importer: Callable[[GraphContext, OnnxNode], None]
) -> None:
    """Imports a node by `importer`. Inputs that are 16-bit floats are first cast to float32. The float32 results are
    cast to `half`, unless the node's first input is float32.
    """
    if context.tensor(node, 0).dtype is DType.FLOAT32:
        half = DType.FLOAT32
    inputs: list[str] = []
    for index, name in enumerate(node.inputs):
        resolved = context.resolve(name)
        known = bool(name) and (resolved in context.constants or resolved in context.tensors)
        tensor = context.tensor(node, index) if known else None
        if tensor is None or tensor.dtype not in HALVES:
            inputs.append(name)
        elif resolved in context.constants:
            array = context.constants[resolved].astype(np.float32)
            inputs.append(context.store(context.temporary(node, f"input{index}"), array))
        else:
            inputs.append(as_type(context, node, tensor, DType.FLOAT32))
    outputs = tuple(name and context.temporary(node, f"wide{i}") for i, name in enumerate(node.outputs))
    importer(context, replace(node, inputs=tuple(inputs), outputs=outputs))
    for name, wide in zip(node.outputs, outputs, strict=True):
        if not name:
            continue
        resolved = context.resolve(wide)
        if resolved in context.constants and resolved not in context.tensors:
            context.constants[name] = context.constants[resolved]
        elif context.tensors[resolved].dtype is DType.FLOAT32 and half is not DType.FLOAT32:
            tensor = context.tensors[resolved]
            body = cast(argument(0), half)
            context.add(node, Elementwise(body=body), (resolved,), tensor.shape, output=name, dtype=half)
        else:
            context.renamed[name] = resolved
