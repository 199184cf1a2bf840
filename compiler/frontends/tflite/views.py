"""Operators that give the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .flatbuffer import damaged
from .model import Operator
from .products import planes_order
from .writer import Writer, refuse, result_name, same_integers, same_type


def _moved(
    writer: Writer, operator: Operator, move: Callable[[str, str], str], *, planes: bool = False
) -> None:
    """Gives an operator's output the moved elements of its first input. `move` adds a node for (input, output name);
    with `planes` the input is read as planes."""
    source, output = operator.inputs[0], operator.outputs[0]
    if same_integers(writer, source, output):
        name = move(writer.integral(source, planes=planes), writer.tensor(output).name)
        writer.put_integers(output, name)
    else:
        writer.put(output, move(writer.real(source, planes=planes), result_name(writer, operator)))


def reshape(writer: Writer, operator: Operator) -> None:
    """RESHAPE, SQUEEZE and EXPAND_DIMS: the output's declared shape says all."""
    source, output = operator.inputs[0], operator.outputs[0]
    before, after = writer.tensor(source).shape, writer.tensor(output).shape
    if np.prod(before) != np.prod(after):
        raise damaged(f"{operator.kind} makes {after} of {before}")
    if (array := writer.known(source)) is not None and same_type(writer, source, output):
        writer.constants[output] = array.reshape(after)
        return
    planes = writer.rank(source) == 4 and writer.in_planes(source)
    if planes and (order := planes_order(before)) is not None:
        flat = after == (before[0], np.prod(before[1:]))
        if flat and same_type(writer, source, output) and _only_weighted(writer, output):
            writer.columns[output] = order
        else:
            planes = False
    _moved(writer, operator, lambda name, result: writer.reshaped(name, after, result), planes=planes)


def _only_weighted(writer: Writer, index: int) -> bool:
    """Whether a tensor is read only as data of FULLY_CONNECTED with constant weights of as many columns."""
    length = writer.tensor(index).shape[1]
    readers = [operator for operator in writer.network.operators if index in operator.inputs]
    return index not in writer.network.outputs and all(
        reader.kind == "FULLY_CONNECTED"
        and reader.inputs[0] == index
        and (weights := writer.known(reader.inputs[1])) is not None
        and weights.shape[1:] == (length,)
        for reader in readers
    )


def transpose(writer: Writer, operator: Operator) -> None:
    """TRANSPOSE by a constant order of axes."""
    source = operator.inputs[0]
    order = [int(axis) for axis in writer.values(operator.inputs[1], "order")]
    if sorted(order) != list(range(writer.rank(source))):
        raise damaged(f"{operator.kind} has the order {order}")
    _moved(writer, operator, lambda name, result: writer.node("Transpose", [name], result, perm=order))


def shape(writer: Writer, operator: Operator) -> None:
    """SHAPE: a constant, as all shapes are static."""
    output = operator.outputs[0]
    writer.constants[output] = np.array(writer.tensor(operator.inputs[0]).shape, writer.tensor(output).dtype)


def blocks(writer: Writer, operator: Operator, onnx_operator: str) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH, whose blocks come before the channels."""
    size = operator.options(f"{onnx_operator}Options").BlockSize()
    name = writer.real(operator.inputs[0], planes=True)
    more = {"mode": "DCR"} if onnx_operator == "DepthToSpace" else {}
    result = writer.node(onnx_operator, [name], result_name(writer, operator), blocksize=size, **more)
    writer.put(operator.outputs[0], result, planes=True)


def space_to_batch(writer: Writer, operator: Operator) -> None:
    """SPACE_TO_BATCH_ND of images: pads, then each position of a block becomes an image."""
    source, (rows, columns), ends = _block_operands(writer, operator)
    output, name = operator.outputs[0], result_name(writer, operator)
    batch, height, width, channels = writer.tensor(source).shape
    (top, bottom), (left, right) = ends
    pads = writer.constant(np.array([0, 0, top, left, 0, 0, bottom, right]), f"{name}/pads")
    padded = writer.node("Pad", [writer.real(source, planes=True), pads], f"{name}/padded")
    height, width = height + top + bottom, width + left + right
    apart = (batch, channels, height // rows, rows, width // columns, columns)
    together = (batch * rows * columns, channels, height // rows, width // columns)
    writer.put(output, _rearranged(writer, padded, name, apart, (3, 5, 0, 1, 2, 4), together), planes=True)


def batch_to_space(writer: Writer, operator: Operator) -> None:
    """BATCH_TO_SPACE_ND of images: the inverse of SPACE_TO_BATCH_ND, with crops."""
    source, (rows, columns), ends = _block_operands(writer, operator)
    output, name = operator.outputs[0], result_name(writer, operator)
    batch, height, width, channels = writer.tensor(source).shape
    images = batch // (rows * columns)
    apart = (rows, columns, images, channels, height, width)
    together = (images, channels, height * rows, width * columns)
    data = writer.real(source, planes=True)
    whole = _rearranged(writer, data, f"{name}/whole", apart, (2, 3, 4, 0, 5, 1), together)
    (top, bottom), (left, right) = ends
    limits = [(top, left), (height * rows - bottom, width * columns - right), (2, 3)]
    parts = [writer.constant(np.array(limit), f"{name}/crop") for limit in limits]
    writer.put(output, writer.node("Slice", [whole, *parts], name), planes=True)


def _block_operands(writer: Writer, operator: Operator) -> tuple[int, tuple[int, int], list[list[int]]]:
    """(tensor, block size, pads or crops of rows and columns)."""
    source = operator.inputs[0]
    block = writer.values(operator.inputs[1], "block size").reshape(-1).tolist()
    ends = writer.values(operator.inputs[2], "pads").reshape(-1, 2).tolist()
    if writer.rank(source) != 4 or len(block) != 2 or len(ends) != 2:
        refuse(f"works on {writer.tensor(source).shape}", "only images (N, H, W, C) are supported")
    if min(block) < 1 or min(min(pair) for pair in ends) < 0:
        raise damaged(f"{operator.kind} has blocks {block}, pads {ends}")
    return source, (block[0], block[1]), ends


def _rearranged(
    writer: Writer, data: str, name: str, apart: Sequence[int], order: Sequence[int], together: Sequence[int]
) -> str:
    """Data reshaped to `apart`, transposed by `order` and reshaped to `together`."""
    split = writer.reshaped(data, apart, f"{name}/split")
    turned = writer.node("Transpose", [split], f"{name}/turned", perm=order)
    return writer.reshaped(turned, together, name)
