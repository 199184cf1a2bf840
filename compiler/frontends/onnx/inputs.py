"""Inputs of a model that are quantized tensors, or that the host quantizes, and their layouts.

An input of rank 4 is an image (N, C, H, W), or a mask or the keys and values of earlier tokens for attention, (N,
heads, length, size). Inputs of attention are stored as (N, heads * size, length, 1), the layout that its matrix
products need."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.errors import ModelError
from ...graph.graph import GraphInput
from ...graph.int8_convolution import Quantization
from ...ir.types import DType
from .attributes import OnnxNode
from .integer_context import ImportContext
from .strided_views import natural_of, transposed_view
from .values import FloatInput, Integer

WINDOWS = frozenset(
    (
        *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize"),
        *("QLinearConv", "QLinearAveragePool", "QLinearGlobalAveragePool"),
    )
)


PRODUCTS = frozenset(("MatMul", "Gemm", "QGemm", "QLinearMatMul"))
SLICES = (0, 2, 1, 3, 4)
"""The order in which the axes of a volume (N, C, D, H, W) are stored. The stored images are (N * D, C, H, W)."""


def attended(context: ImportContext) -> frozenset[str]:
    """Names of the tensors that are read for attention, not as images. From such a tensor the model computes a factor
    of a product of two activations, with no product with constant weights in between. No convolution or pool reads the
    tensor, directly or through other nodes."""
    nodes, known = context.model_nodes, set(context.initializers)
    for node in nodes:
        if all(name in known for name in node.inputs if name):
            known.update(node.outputs)
    windows: set[str] = set()
    products: set[str] = set()
    for node in reversed(nodes):
        if node.op_type in WINDOWS or not windows.isdisjoint(node.outputs):
            windows.update(node.inputs)
        if node.op_type in PRODUCTS and not known.isdisjoint(node.inputs):
            continue
        if node.op_type == "MatMul" or not products.isdisjoint(node.outputs):
            products.update(node.inputs)
    return frozenset(products - windows)


ALIKE = frozenset(
    (
        *("QuantizeLinear", "DequantizeLinear", "Identity", "Dropout", "Pad", "Slice", "Split", "Concat"),
        *("Add", "Sub", "Mul", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "BatchNormalization"),
    )
)
"""Operators whose result has the dimensions of their inputs, in the same order."""


def windowed(nodes: Sequence[OnnxNode]) -> frozenset[str]:
    """Names of the tensors that a windowed operator (`WINDOWS`) reads as its data, directly or after nodes that keep
    all dimensions in their order. Such a tensor of rank 3 is a line (N, C, L), not rows of channels."""
    found: set[str] = set()
    for node in reversed(nodes):
        if node.op_type in WINDOWS or (node.op_type in ALIKE and not found.isdisjoint(node.outputs)):
            found.update(node.inputs[:1] if node.op_type in WINDOWS else node.inputs)
    return frozenset(found)


def check_rank(context: ImportContext, name: str, shape: tuple[int, ...]) -> None:
    """Raises ModelError unless `shape`, stored for input `name`, is an image (N, C, H, W) or a vector (N, K)."""
    if len(shape) not in (2, 4):
        raise ModelError(
            f"{context.source}: input '{name}' has shape {shape}; "
            "only (N, C, H, W) and (N, K) are supported: reshape it in the model before it is quantized"
        )


def quantized_input(
    context: ImportContext, node: OnnxNode, value: FloatInput, output: str, quantization: Quantization
) -> Integer:
    """Adds tensor `output`, into which the host quantizes `value`, a model input that `node` reads; returns it."""
    permutation, shape = value.permutation, value.shape
    axes = permutation or tuple(range(len(value.declared)))
    whole = shape == tuple([value.declared[axis] for axis in axes])
    order, view, natural = None, None, shape
    if len(shape) == 5 and whole:
        order, natural = SLICES, (shape[0] * shape[2], shape[1], *shape[3:])
    elif len(shape) == 3 and not windowed(context.model_nodes).isdisjoint((value.name, *node.inputs[:1])):
        natural = (*shape, 1)
    elif len(shape) == 3 and not whole:
        # The host transposes the caller's array to other dimensions: rows are stored as images, without a move.
        natural = (shape[0] * shape[1], shape[2])
    elif len(shape) == 3:
        # Rows of channels: (N, S, C) is stored as (N, C, S, 1), transposed by the host.
        order, natural = (0, 2, 1), natural_of(shape)
    elif context.abilities.products and len(shape) == 4 and whole and value.name in attended(context):
        batch, heads, length, size = shape
        order, natural = (0, 1, 3, 2), (batch, heads * size, length, 1)
    if order is not None:
        permutation, view = tuple([axes[axis] for axis in order]), transposed_view(shape, order)
    check_rank(context, value.name, natural)
    tensor = context.declare(output, natural, quantization)
    context.inputs.append(
        GraphInput(
            name=value.name, tensor=tensor, shape=value.declared, dtype=DType.FLOAT32, permutation=permutation
        )
    )
    if view is not None and tensor == output:
        context.views[tensor] = view
    return Integer(tensor=tensor, shape=shape, dtype=quantization.dtype, view=view)
