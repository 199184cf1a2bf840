"""Inputs of a model that are int8 or uint8, and their layouts."""

from __future__ import annotations

from math import prod

import numpy as np

from ...graph.budgets import SMALLER
from ...graph.errors import ModelError
from ...graph.graph import GraphInput, quantized_tensor
from ...graph.int8_convolution import ActivationType, Quantization
from ...ir.limits import MOST_CONSTANT_BYTES
from ...ir.types import DType
from .inputs import check_rank, windowed
from .integer_context import ImportContext
from .strided_views import transposed_view
from .values import Integer


def bind_integers(context: ImportContext, name: str, shape: tuple[int, ...], dtype: ActivationType) -> None:
    """Binds the int8 or uint8 model input `name` to a value. The first DequantizeLinear or QLinear node that reads the
    input gives it a scale. If the model first transposes and reshapes the input, the host does this instead
    (`_stored_order`).

    Raises ModelError for shapes that no operator supports, and for inputs too large for the host to transpose.
    """
    order, stored = _stored_order(context, name, shape)
    if stored == shape and len(shape) == 3 and name not in windowed(context.model_nodes):
        order, stored = (0, 2, 1), (shape[0], shape[2], shape[1])  # rows of channels, as in `quantized_input`
    view = None
    if order is not None:
        if prod(shape) > (most := MOST_CONSTANT_BYTES // np.dtype(np.int64).itemsize):
            raise ModelError(
                f"{context.source}: input '{name}' has {prod(shape):,} elements, more than the {most:,} that the host "
                f"transposes; {SMALLER}"
            )
        view = transposed_view(shape, order)
    natural = {1: (1, *stored), 3: (*stored, 1)}.get(len(stored), stored)
    check_rank(context, name, natural)
    unknown = Quantization(scale=np.float32(1), zero_point=0, dtype=dtype)
    context.tensors[name] = quantized_tensor(name, natural, unknown)
    context.unscaled.add(name)
    context.inputs.append(
        GraphInput(name=name, tensor=name, shape=shape, dtype=DType(dtype), permutation=order)
    )
    context.values[name] = Integer(tensor=name, shape=shape, dtype=dtype, view=view)


def _stored_order(
    context: ImportContext, name: str, shape: tuple[int, ...]
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """Finds the Transpose and the Reshapes that the model applies first to the integer input `name` of `shape`; the
    host applies these nodes instead. Returns (permutation of the Transpose or None, shape of the stored tensor). The
    last Reshape that counts is the last one whose result is an image or a vector.
    """
    order, stored, last, found = None, shape, name, (None, shape)
    while readers := [node for node in context.model_nodes if last in node.inputs]:
        node = next((node for node in readers if node.op_type == "Transpose"), readers[0])
        if node.op_type == "Transpose" and stored == shape and order is None:
            order = node.integers("perm", tuple(reversed(range(len(shape)))))
            stored = tuple([shape[axis] for axis in order])
        elif node.op_type == "Reshape" and len(readers) == 1 and node.outputs[0] in context.static_shapes:
            stored = context.static_shapes[node.outputs[0]]
        else:
            break
        last = node.outputs[0]
        if len(stored) in (2, 4) or stored == shape:
            found = order, stored
    return found
