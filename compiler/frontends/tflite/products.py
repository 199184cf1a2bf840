"""Products with matrices."""

from __future__ import annotations

import numpy as np
import tflite

from .flatbuffer import damaged
from .model import Operator
from .operands import bias_operands, put_activated, weight_operand
from .writer import Writer, refuse, result_name


def fully_connected(writer: Writer, operator: Operator) -> None:
    """FULLY_CONNECTED: rows of K elements times weights (O, K). Weights of an image that was flattened as planes get
    the planes' order, so that no activation moves."""
    options = operator.options("FullyConnectedOptions")
    if options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        refuse("has shuffled weights", "convert the model without them")
    data, filters = operator.inputs[:2]
    weights = writer.values(filters, "filter")
    if weights.ndim != 2 or not weights.size or np.prod(writer.tensor(data).shape) % weights.shape[1]:
        raise damaged(f"{operator.kind} multiplies {writer.tensor(data).shape} with {weights.shape}")
    rank, shape = writer.rank(data), writer.tensor(operator.outputs[0]).shape
    name = result_name(writer, operator, options)
    bias = bias_operands(writer, operator.inputs[2:], data, filters)
    if rank == 3 and len(shape) == 3 and writer.tensor(data).shape[-1] == weights.shape[1]:
        turned = weight_operand(writer, data, filters, weights.T, axis=0, last=True)
        product = writer.node("MatMul", [writer.real(data), turned], name)
        if bias:
            product = writer.node("Add", [product, *bias], f"{name}/sum")
    else:
        rows, order = _rows(writer, data, weights.shape[1])
        weights = weights if order is None else weights[:, order]
        factor = weight_operand(writer, data, filters, weights, axis=0)
        product = writer.node("Gemm", [rows, factor, *bias], name, transB=1)
        if len(shape) != 2:
            product = writer.reshaped(product, shape, f"{name}/view")
    put_activated(writer, operator, product, options)


def _rows(writer: Writer, data: int, length: int) -> tuple[str, np.ndarray | None]:
    """(the data as rows of `length` elements, for each element of a row the column of the weights; None: in order)."""
    tensor = writer.tensor(data)
    planes = len(tensor.shape) == 4 and writer.in_planes(data)
    if planes and np.prod(tensor.shape[1:]) != length:
        planes = tensor.shape[3] == 1
    order = writer.columns.get(data)
    if planes:
        order = planes_order(tensor.shape)
    name = writer.real(data, planes=planes)
    if len(tensor.shape) != 2 or tensor.shape[1] != length:
        name = writer.reshaped(name, (-1, length), f"{tensor.name}/rows")
    return name, order


def planes_order(shape: tuple[int, ...]) -> np.ndarray | None:
    """For each element of an image (H, W, C) flattened as planes its place among the rows; None: the same place."""
    order = np.arange(np.prod(shape[1:])).reshape(shape[1:]).transpose(2, 0, 1).reshape(-1)
    return None if (order == np.arange(order.size)).all() else order


def matrix_product(writer: Writer, operator: Operator) -> None:
    """BATCH_MATMUL: a product of two activations, or with a constant."""
    options = operator.options("BatchMatMulOptions")
    factors: list[str] = []
    for index, turned in zip(operator.inputs, (options.AdjX(), options.AdjY()), strict=True):
        name, rank = writer.real(index), writer.rank(index)
        if turned:
            axes = (*range(rank - 2), rank - 1, rank - 2)
            name = writer.node("Transpose", [name], f"{writer.tensor(index).name}/turned", perm=axes)
        factors.append(name)
    writer.put(operator.outputs[0], writer.node("MatMul", factors, result_name(writer, operator)))
