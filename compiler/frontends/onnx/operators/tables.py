"""Functions of one quantized tensor (an operator or a chain of operators) as look-up tables, indexed by the stored
value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.isa.scales import dequantize, quantize

from ....graph.abilities import needs
from ....graph.int8_operators import Table
from ..attributes import OnnxNode
from ..constants import evaluate_node
from ..emit import Rounding
from ..integer_context import ImportContext
from ..known_values import Constant, QuantizedConstant
from ..operations import Function, Identity
from ..rescaling import STORED
from ..strided_views import same_view, without_pads
from ..values import Pending, Real


def import_function(context: ImportContext, node: OnnxNode) -> bool:
    """Imports a node that is a function of one quantized tensor and scalar constants. Returns False for any other node,
    and if the function is NaN for one of the stored values.

    ONNX's reference implementation computes the function, with all attributes. Raises ModelError if the implementation
    cannot compute it, or if the target has no look-up tables.
    """
    feeds: dict[str, np.ndarray | None] = {}
    data: Real | None = None
    members: tuple[str, ...] = ()
    seen: Real | Pending | None = None
    for index, name in enumerate(node.inputs):
        value = context.value(node, index)
        match value:
            case None:
                continue
            case Constant() | QuantizedConstant():
                array = value.real()
                if array.size != 1:
                    return False
                feeds[name] = array.reshape(())
                continue
            case Real():
                # The function of a padding zero need not be zero: store the padded tensor.
                value = without_pads(context, node, value)
                read, values = value, real_values(value)
            case Pending(operation=Identity(data=read), low=low, high=high):
                values = np.clip(real_values(read), low, high)
            case Pending(operation=Function(data=read, values=values), low=low, high=high):
                values = np.clip(values, low, high)
            case _:
                return False
        if data is not None and (data.tensor, data.quantization) != (read.tensor, read.quantization):
            return False
        if seen is not None and not same_view(seen, value):
            return False
        data, seen, feeds[name] = read, value, values.astype(np.float32)
        members = value.members if isinstance(value, Pending) else ()
    if data is None or seen is None:
        return False
    with np.errstate(all="ignore"):
        result = evaluate_node(context, node, feeds, context.opset)[node.outputs[0]]
    if result.shape != STORED.shape or np.isnan(result).any():
        return False
    if not context.abilities.tables:
        context.fail(node, *needs("table"))
    function = Function(data=data, values=result.astype(np.float32))
    data = replace(data, shape=seen.shape, view=seen.view)
    context.bind(node, context.element_wise(node, function, data, members))
    return True


def real_values(data: Real) -> np.ndarray:
    """Real values of the stored values -128 .. 127 of a tensor, float32 (256,)."""
    return dequantize(STORED, data.quantization.scale, data.quantization.stored_zero_point)


def round_function(context: ImportContext, function: Function, to: Rounding) -> str:
    """Adds a look-up table with the rounded result of a function for each stored value; returns the name of the
    result's tensor.
    """
    real = np.clip(function.values, to.pending.low, to.pending.high)
    operator = Table(table=quantize(real, to.grid.scale, to.grid.stored_zero_point))
    return to.append(context, operator, (function.data.tensor,), name=to.pending.members[-1])
