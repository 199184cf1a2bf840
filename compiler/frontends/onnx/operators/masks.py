"""Imports the masking of scores before a softmax: the Add or Where of a float mask. Quantizers do not quantize the
nodes between the scores and the softmax.

A mask adds about the lowest float32 number, so no 8-bit quantization can represent masked and other scores together.
This file chooses the scale and zero point of the sums of scores and mask. A softmax looks up exponentials by the
difference from the greatest element of a row; a masked score must have a negligible exponential.

- If all scores are within `NEAR` of each other, each row gets an extra element that is greater than all scores, so that
  all differences are from the same number. Masked scores have the least stored value. The softmax's table has the entry
  0 for the extra element and for the least value.
- Otherwise the scale is made so large that a masked score is negligible even in comparison with the lowest score.

A mask may hide a whole row, whose softmax is NaN. Exported attention therefore has guards after its softmax: IsNaN,
IsInf, and a Where that replaces NaN. Quantized tensors never hold NaN, so the guards are removed. No output uses the
hidden rows; they hold zeros in the first case above, else the softmax of equal scores.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.rows import ENTRY_BITS

from ....graph.int8_convolution import Quantization
from ....graph.int8_operators import Channels
from ..attributes import OnnxNode
from ..axes import one_axis
from ..emit import append, emit
from ..inputs import quantized_input
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Masked, Shared
from ..strided_views import rows_of, with_view
from ..values import FloatInput, Pending, Real
from .elementwise import pairwise, stored_operand
from .rows import data_of, shared_rows, step_of

HIDDEN = 1e4
"""A mask hides a score if it subtracts at least this number from the score."""
INVISIBLE = 512.0
"""A softmax term below 1 / `INVISIBLE` of the sum of the other terms rounds to 0 in 8 bits."""
NEAR = 10.0
"""Largest range of scores (greatest minus least) for which all exponentials in the softmax's look-up table have at
least ten bits.
"""
STEPS = 255
GREATEST = 255
"""The greatest stored value, as uint8."""
MASK = Quantization(scale=np.float32(1), zero_point=GREATEST, dtype="uint8")
"""The quantization of masks that are inputs of the model: scale 1, so that stored values represent 0, -1, ..., -255.
All softmaxes that read such a mask use the same quantization.
"""


def import_masked(context: ImportContext, node: OnnxNode) -> bool:
    """Imports an Add of scores and a float mask, or a Where that hides scores, as a pending operation that only a
    softmax can read. Returns False for any other node.
    """
    if not context.abilities.rows:
        return False
    found = _added(context, node) if node.op_type == "Add" else _hidden(context, node)
    if found is None:
        return False
    scores, mask = found
    step = step_of(scores)
    if step is None or len(scores.shape) < 2:
        return False
    try:
        if np.broadcast_shapes(scores.shape, mask.shape) != scores.shape:
            return False
    except ValueError:
        return False
    data = scores if isinstance(scores, Real) else data_of(scores)
    members = scores.members if isinstance(scores, Pending) else ()
    masked = Masked(data=data, step=step, mask=mask)
    context.bind(node, context.element_wise(node, masked, data, members))
    return True


def _added(context: ImportContext, node: OnnxNode) -> tuple[Real | Pending, np.ndarray | FloatInput] | None:
    first, second = context.value(node, 0), context.value(node, 1)
    readers = {reader.op_type for reader in context.model_nodes if node.outputs[0] in reader.inputs}
    for scores, mask in ((first, second), (second, first)):
        if not isinstance(scores, Real | Pending):
            continue
        if isinstance(mask, Constant) and mask.array.dtype.kind == "f" and mask.array.size > 1:
            # Masked scores stay float; a sum that is rounded is one of numbers of like size.
            if "QuantizeLinear" in readers and mask.array.min() > -HIDDEN:
                return None
            return scores, mask.array
        # A mask is the same for all heads; a tensor that differs between heads is a bias, which may be above 0.
        if isinstance(mask, FloatInput) and all(size == 1 for size in mask.shape[1:-2]):
            return scores, mask
    return None


def _hidden(context: ImportContext, node: OnnxNode) -> tuple[Real | Pending, np.ndarray] | None:
    condition, *values = (context.value(node, index) for index in range(3))
    if not isinstance(condition, Constant):
        return None
    for index, shown in ((0, True), (1, False)):
        scores, other = values[index], values[1 - index]
        if isinstance(scores, Real | Pending) and isinstance(other, Constant | QuantizedConstant):
            least = other.real()
            if (least <= -HIDDEN).all():
                return scores, np.where(condition.array == shown, np.float32(0), least)
    return None


def import_masked_softmax(context: ImportContext, node: OnnxNode) -> bool:
    """Imports the softmax of masked scores along their last axis; returns False for any other node."""
    value = context.value(node, 0)
    if not isinstance(value, Pending) or not isinstance(value.operation, Masked):
        return False
    masked, rank = value.operation, len(value.shape)
    axis = one_axis(context, node, value.shape, -1)
    if axis != rank - 1:
        context.fail(
            node, f"a masked softmax along axis {axis} is not supported", "use a softmax along the last axis"
        )
    mask, step, low = masked.mask, masked.step, 0.0
    if isinstance(mask, np.ndarray):
        shown = mask[mask > mask.max() - HIDDEN]
        low = float(shown.max() - shown.min())
    span = STEPS * step + low
    if span > NEAR:
        hidden = float(np.log(INVISIBLE * value.shape[-1]))
        scale, top = np.float32((span + hidden) / STEPS), GREATEST
        scores = _masked_scores(context, node, value, masked, scale, top)
        context.bind(node, shared_rows(context, node, Shared(data=scores), scores))
        return True
    # The greatest stored value is the extra element's, the least one that of masked scores.
    scale, top = np.float32(span / (STEPS - 2)), GREATEST - 1
    scores = _masked_scores(context, node, value, masked, scale, top)
    longer = _with_greatest(context, node, scores)
    pending = shared_rows(context, node, Shared(data=longer, entries=_masked_table(float(scale))), longer)
    assert pending.view is not None
    context.bind(node, with_view(context, pending, pending.view[..., : value.shape[-1]]))
    return True


def _masked_scores(
    context: ImportContext, node: OnnxNode, value: Pending, masked: Masked, scale: np.float32, top: int
) -> Real:
    """Adds the node that computes the sum of attention scores and a mask, for the softmax `node`. `value` is the sum as
    a pending result, and `masked` its operation. Returns the sum as a uint8 tensor.

    The greatest possible score is subtracted, so that the largest value is 0. `scale`: scale of the sum; `top`: the
    stored value that represents 0.
    """
    mask, grid = masked.mask, Quantization(scale=scale, zero_point=top, dtype="uint8")
    # The greatest possible score is the last of a tensor's 256 stored values.
    own = Quantization(scale=np.float32(masked.step), zero_point=GREATEST, dtype="uint8")
    scores = replace(masked.data, quantization=own)
    if isinstance(mask, FloatInput):
        if mask not in context.masks:
            context.masks[mask] = quantized_input(context, node, mask, f"{mask.name}.quantized", MASK)
        # A mask of -1 or less must hide a score even if all steps of scores span more than 1.
        step = np.float32(min(1.0, 256 * float(scale)))
        added = context.as_real(context.masks[mask], replace(MASK, scale=step))
    else:
        steps = np.rint((mask - mask.max()) / np.float64(scale))
        constant = QuantizedConstant(
            integers=np.clip(steps + GREATEST, 0, GREATEST).astype(np.uint8),
            scale=np.asarray(scale),
            zero_point=np.asarray(GREATEST),
            axis=None,
        )
        operands: list[object] = [scores, constant]
        added = stored_operand(context, node, 1, operands)
        assert isinstance(operands[0], Real)
        scores = operands[0]
    pending = replace(pairwise(context, node, "add", scores, added), members=value.members)
    return emit(context, node, pending, f"{value.name}.below_greatest", grid)


def _masked_table(scale: float) -> np.ndarray:
    """Makes the softmax table, int64 (256,), indexed by (stored value - 255) modulo 256. The greatest score is stored
    as 254. An entry is the exponential of `scale` times the difference between the stored value and 254.

    Two entries are 0: the entry for 255 (the element that `_with_greatest` adds to each row), and the entry for the
    least stored value (masked scores).
    """
    below = np.arange(-STEPS, 1)
    entries = np.rint(((1 << ENTRY_BITS) - 1) * np.exp(scale * (below + 1)))
    entries[[0, -1]] = 0
    return np.roll(entries, 1).astype(np.int64)


def _with_greatest(context: ImportContext, node: OnnxNode, scores: Real) -> Real:
    """Rows of scores with an additional last element, which has the greatest stored value."""
    rows = rows_of(context, node, scores)
    images, channels, height, width = context.tensors[rows.data.tensor].nchw
    stored = np.full((images, 1, height, width), 127, np.int8)
    greatest = context.store_constant(f"{node.name}.greatest", stored, scores.quantization)
    natural = (images, channels + 1, height, width)
    tensor = context.declare(f"{node.name}.longer", natural, scores.quantization)
    sources = [*((0, channel) for channel in range(channels)), (1, 0)]
    operator = Channels(sources=tuple(sources))
    append(context, (node.name,), tensor, operator, (rows.data.tensor, greatest), tensor)
    view = rows.view(natural)
    return Real(tensor=tensor, shape=view.shape, quantization=scores.quantization, view=view)


def import_guard(context: ImportContext, node: OnnxNode) -> bool:
    """Removes guards against NaN. IsInf of a quantized tensor, and IsNaN of a quantized or pending value (rounded by
    the next QuantizeLinear), become the constant False. A Where whose condition is a constant with equal elements is
    replaced by the operand that the condition selects, if this operand is a quantized or pending value of the result's
    shape. Returns False for any other node.
    """
    if node.op_type in ("IsNaN", "IsInf"):
        value = context.value(node, 0)
        # Scores that await their softmax may be infinite by a mask.
        if isinstance(value, Real | Pending) and (node.op_type == "IsNaN" or isinstance(value, Real)):
            context.bind(node, Constant(array=np.zeros(value.shape, np.bool_)))
            return True
    elif node.op_type == "Where":
        condition, *values = (context.value(node, index) for index in range(3))
        if isinstance(condition, Constant) and condition.array.size and _alike(condition.array):
            taken, other = values if condition.array.flat[0] else reversed(values)
            shapes = [condition.array.shape, *(value.shape for value in (taken, other) if value is not None)]
            if isinstance(taken, Real | Pending) and np.broadcast_shapes(*shapes) == taken.shape:
                context.bind(node, taken)
                return True
    return False


def _alike(condition: np.ndarray) -> bool:
    return bool((condition == condition.flat[0]).all())
