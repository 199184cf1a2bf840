"""Imports Add, Mul, Relu and Clip into an integer graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from vdla.isa.arithmetic import LARGEST_CONSTANT, SMALLEST_RATIO, AddConstants, add_constants, multiply_ratio
from vdla.isa.scales import ScaleError

from ....graph.abilities import needs
from ....graph.graph import Tensor
from ....te.combination import Combination
from ..attributes import OnnxNode
from ..emit import Rounding, real_operand
from ..integer_context import ImportContext, pending_result
from ..known_values import Constant, Known, QuantizedConstant
from ..operations import Identity, Maximum, Opaque, Product
from ..own_grids import combined, on_own_grid
from ..rescaling import rescale
from ..strided_views import elements_of, is_whole, lying_like, rows_of, with_view, without_pads
from ..values import Integer, Pending, Real, Value
from .quantized_constants import stored_constant

BROADCAST = "give both operands the same shape, or one a shape that broadcasts to the other's"


def import_pairwise(context: ImportContext, node: OnnxNode) -> None:
    """Imports an Add or Mul between DequantizeLinear and QuantizeLinear. If an Add adds a constant to a product, the
    constant becomes the bias of the product.
    """
    kind = {"Add": "add", "Mul": "multiply"}[node.op_type]
    operands = [context.value(node, 0), context.value(node, 1)]
    for pending, constant in (operands, operands[::-1]) if kind == "add" else ():
        if isinstance(pending, Pending) and isinstance(constant, Constant | QuantizedConstant):
            biased = with_bias(pending, node, constant)
            if biased is not None:
                context.bind(node, biased)
                return
    # The scores of attention are scaled by a float number without quantizer.
    if _is_pair(operands, Constant, viewed=False) and _looked_up(context, node):
        return
    for index, value in enumerate(operands):
        if not isinstance(value, QuantizedConstant):
            operands[index] = real_operand(context, node, index, viewed=True)
    # A constant tensor cannot be laid out like a view of a part of a tensor: use a table.
    if _is_pair(operands, QuantizedConstant, viewed=True) and _looked_up(context, node):
        return
    a, b = (stored_operand(context, node, index, operands) for index in range(2))
    context.bind(node, pairwise(context, node, kind, a, b))


def _is_pair(operands: list[Value | None], kind: type[Known], *, viewed: bool) -> bool:
    """Whether one operand is a constant of class `kind` with one element, and the other is a quantized tensor. With
    `viewed`, the tensor must be read through a view. `operands`: the two values.
    """
    for number, tensor in (operands, operands[::-1]):
        if isinstance(number, kind) and prod(number.shape) == 1 and isinstance(tensor, Real):
            known = isinstance(number, QuantizedConstant) or number.array.dtype.kind == "f"
            return known and (not viewed or tensor.view is not None)
    return False


def _looked_up(context: ImportContext, node: OnnxNode) -> bool:
    from .tables import import_function

    return import_function(context, node)


def with_bias(pending: Pending, node: OnnxNode, constant: Constant | QuantizedConstant) -> Pending | None:
    """Adds `constant` to `pending`, a product that the next QuantizeLinear rounds, as the bias of the product. Returns
    None if `pending` is no product or already has a bias or a clamp, or if the constant has neither one value nor one
    for each channel.
    """
    product = pending.operation
    if (
        not isinstance(product, Product)
        or product.bias is not None
        or (pending.low, pending.high) != (-np.inf, np.inf)
    ):
        return None
    shape = (1,) * (len(pending.shape) - len(constant.shape)) + constant.shape
    channels = pending.natural[1]
    if pending.view is not None:
        # In rows of channels the channel axis is the last.
        of = pending.view // np.prod(pending.natural[2:]) % channels
        rows = pending.shape[-1] == channels and (of == np.arange(channels)).all()
        if not rows or shape[-1] not in (1, channels) or np.prod(shape) != shape[-1]:
            return None
    elif len(shape) != len(pending.shape) or shape[1] not in (1, channels) or np.prod(shape) != shape[1]:
        return None
    real = constant.real().astype(np.float32)
    bias = Constant(array=np.broadcast_to(real.reshape(-1), (channels,)))
    return pending_result(
        node,
        replace(product, bias=bias),
        pending.natural,
        shape=pending.shape,
        view=pending.view,
        before=pending.members,
    )


def pairwise(context: ImportContext, node: OnnxNode, kind: str, a: Real, b: Real) -> Pending:
    """The sum (`kind` "add") or product ("multiply") of `a` and `b`, whose shapes are equal or broadcast. The result is
    pending: the QuantizeLinear that reads it determines its rounding.
    """
    a, b = _in_one_layout(context, node, a, b)
    first, second = context.tensors[a.tensor], context.tensors[b.tensor]
    same = a.shape == b.shape and first.nchw == second.nchw
    if not same and not one_for_each_channel(first, second):
        context.fail(node, f"its operands of shapes {a.shape} and {b.shape} do not match", BROADCAST)
    if not same and not context.abilities.planes:
        context.fail(node, *needs("broadcast"))
    round_result = partial(round_pairwise, kind=kind, operands=(a, b))
    operation = Opaque(round=round_result, bounds=combined(kind, a, b))
    whole, natural = (a, first) if first.size >= second.size else (b, second)
    return pending_result(node, operation, natural.shape, shape=whole.shape, view=whole.view)


def one_for_each_channel(first: Tensor, second: Tensor) -> bool:
    """Whether one of two tensors has height and width 1, and as many images and channels as the other."""
    return first.nchw[:2] == second.nchw[:2] and (1, 1) in (first.nchw[2:], second.nchw[2:])


def _in_one_layout(context: ImportContext, node: OnnxNode, a: Real, b: Real) -> tuple[Real, Real]:
    """The two operands in one memory layout, perhaps in exchanged order. If the layouts differ, one operand is copied
    to a new tensor.
    """
    first, second = context.tensors[a.tensor], context.tensors[b.tensor]
    if first.nchw != second.nchw and one_for_each_channel(first, second) and over_channels(context, a, b):
        return a, b
    if a.shape != b.shape:
        a, b = _broadcast_together(context, node, a, b)
        first, second = context.tensors[a.tensor], context.tensors[b.tensor]
    if a.view is None and b.view is None and first.nchw == second.nchw:
        return a, b
    if not is_whole(context, a):
        a, b = b, a
        if not is_whole(context, a):
            a = rows_of(context, node, a).data
    return a, lying_like(context, node, b, a)


def _broadcast_together(context: ImportContext, node: OnnxNode, a: Real, b: Real) -> tuple[Real, Real]:
    """Returns (larger operand, smaller operand broadcast to its shape by a view)."""
    few, whole = (a, b) if prod(a.shape) < prod(b.shape) else (b, a)
    try:
        elements = np.broadcast_to(elements_of(context, few), whole.shape)
    except ValueError:
        context.fail(node, f"its operands of shapes {a.shape} and {b.shape} do not match", BROADCAST)
    return whole, with_view(context, few, elements)


def over_channels(context: ImportContext, a: Real, b: Real) -> bool:
    """Whether the smaller operand has one element for each channel of the tensor that stores the larger operand, in the
    order of the channels. Broadcasting then combines all pixels of a channel with the same element.
    """
    whole, few = (a, b) if context.tensors[a.tensor].size >= context.tensors[b.tensor].size else (b, a)
    _, channels, height, width = context.tensors[whole.tensor].nchw
    over = elements_of(context, whole) // (height * width)
    try:
        mine = np.broadcast_to(elements_of(context, few), whole.shape)
    except ValueError:
        return False
    return np.array_equal(over, mine) and channels == context.tensors[few.tensor].nchw[1]


def stored_operand(context: ImportContext, node: OnnxNode, index: int, operands: list) -> Real:
    """Entry `index` of the two `operands` as a stored tensor; a constant is first broadcast to the other operand's
    shape. If the other operand is a view of a part of a tensor, a copy of its elements replaces it in `operands`.
    """
    value, other = operands[index], operands[1 - index]
    if isinstance(value, Real):
        return value
    if not isinstance(value, QuantizedConstant) or not isinstance(other, Real):
        context.fail(
            node, "has no operand that depends on the model's input", "fold the node when exporting the model"
        )
    integers, quantization = stored_constant(context, node, value)
    try:
        stored = np.broadcast_to(integers, other.shape)
    except ValueError:
        context.fail(
            node, f"its constant of shape {value.shape} does not broadcast to {other.shape}", BROADCAST
        )
    name = f"{node.name}.constant"
    natural = context.tensors[other.tensor].shape
    if other.view is not None:
        if not is_whole(context, other):
            other = operands[1 - index] = rows_of(context, node, other).data
            natural = context.tensors[other.tensor].shape
        there = np.empty_like(stored.reshape(-1))
        there[elements_of(context, other).reshape(-1)] = stored.reshape(-1)
        stored = there
    batch, channels, height, width = context.tensors[other.tensor].nchw
    planes = stored.reshape(batch, channels, height * width)
    if context.abilities.planes and not context.abilities.processor and (planes == planes[..., :1]).all():
        # Not for processors, which fuse the operand and read as many elements as they compute.
        few = context.store_constant(name, planes[..., :1].reshape(batch, channels, 1, 1), quantization)
        view = elements_of(context, other) // (height * width)
        return Real(tensor=few, shape=other.shape, quantization=quantization, view=view)
    tensor = context.store_constant(name, stored.reshape(natural), quantization)
    return replace(other, tensor=tensor, quantization=quantization)


def import_clamp(context: ImportContext, node: OnnxNode) -> None:
    """Imports Relu, or Clip with constant bounds, after any operation or on a dequantized tensor."""
    low, high = _bounds(context, node)
    if low > high:
        context.fail(
            node,
            f"its lower bound {low} is above its upper bound {high}",
            "give a lower bound below the upper one",
        )
    value = context.value(node, 0)
    if isinstance(value, Pending) and isinstance(value.operation, Maximum):
        # A maximum has no clamp: it becomes a tensor on its input's grid first.
        value = on_own_grid(context, node, value) or value
    if isinstance(value, Pending) and not isinstance(value.operation, Maximum):
        members, operation, natural = value.members, value.operation, value.natural
        low, high = (min(max(bound, low), high) for bound in (value.low, value.high))
    elif isinstance(value, Real):
        if not low <= 0 <= high:
            value = without_pads(context, node, value)
        members, operation = (), Identity(data=value)
        natural = context.tensors[value.tensor].shape
    elif isinstance(value, Integer):
        from .integer_clips import import_integer_clip

        import_integer_clip(context, node, value, low, high)
        return
    else:
        context.refuse_float(node, 0, value)
    pending = pending_result(node, operation, natural, shape=value.shape, view=value.view, before=members)
    context.bind(node, replace(pending, low=low, high=high))


def _bounds(context: ImportContext, node: OnnxNode) -> tuple[float, float]:
    if node.op_type == "Relu":
        return 0.0, np.inf
    low = context.number(node, 1, "lower bound", -np.inf)
    return low, context.number(node, 2, "upper bound", np.inf)


def round_pairwise(context: ImportContext, to: Rounding, *, kind: str, operands: tuple[Real, Real]) -> str:
    """Adds the integer sum (`kind` "add") or product (any other) of `operands`, requantized by `to`; returns the
    result's name.

    An operand's scale may be so small in comparison with the result's scale that the operand never changes the sum.
    (For example, scores do not change a sum whose mask has the value -3.4e38.) The operand's scale is then raised to
    the least scale that the arithmetic allows; the sums stay the same.
    """
    a, b = (operand.quantization for operand in operands)
    unsigned = to.grid.dtype == "uint8"
    combine = partial(Combination, unsigned=unsigned, low=to.low, high=to.high)
    if kind == "add":
        zeros = [grid.stored_zero_point for grid in (a, b, to.grid)]
        scales = [np.maximum(grid.scale, to.grid.scale * np.float32(SMALLEST_RATIO)) for grid in (a, b)]
        constants = add_constants(scales[0], zeros[0], scales[1], zeros[1], to.grid.scale, zeros[2], unsigned)
        if not context.abilities.processor:
            _check_constants(constants)
        combination = combine(
            kind="add",
            ratio_self=float(constants.ratio_a),
            ratio_operand=float(constants.ratio_b),
            offset=float(constants.offset),
        )
    else:
        combination = combine(
            kind="multiply",
            # Any larger ratio gives the same integers: all products but 0 saturate.
            ratio_self=min(float(multiply_ratio(a.scale, b.scale, to.grid.scale)), LARGEST_CONSTANT),
            zero_point_self=a.stored_zero_point,
            zero_point_operand=b.stored_zero_point,
            zero_point=to.grid.stored_zero_point,
        )
    a, b = (context.tensors[operand.tensor] for operand in operands)
    if a.size < b.size:
        # The broadcast tensor must be the second operand.
        combination, a, b = combination.of_operand(), b, a
    return to.append_elementwise(context, (a.name, b.name), combination)


def _check_constants(constants: AddConstants) -> None:
    """Raises ScaleError if the constants of a sum are larger than the accelerator's registers for them."""
    largest = max(abs(float(x)) for x in (constants.ratio_a, constants.ratio_b, constants.offset))
    if largest > LARGEST_CONSTANT:
        raise ScaleError(
            f"the result's scale is so much smaller than an operand's that the sum needs the constant {largest:g}, and "
            f"the accelerator has constants of at most {LARGEST_CONSTANT:g}"
        )


def round_identity(context: ImportContext, identity: Identity, to: Rounding) -> str:
    """Adds the node that rescales or clamps the tensor of `identity` to the result's quantization, given by `to`;
    returns the result's name.
    """
    return rescale(context, identity.data, to)
