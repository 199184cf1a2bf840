"""Element-wise operators of a float model."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType

import numpy as np

from ....graph.graph import Tensor
from ....graph.operators import Elementwise
from ....ir.expr import Expr, cast, dtype_of, maximum, minimum, select, wrap
from ....ir.types import DType
from ....te import scalars
from ....te.merge import broadcast
from ....te.scalars import argument, number
from ..attributes import OnnxNode
from ..constants import check_text
from ..context import GraphContext

_NAMED: Mapping[str, Callable[[Expr], Expr]] = MappingProxyType(
    {
        "Neg": scalars.negative,
        "Abs": scalars.absolute,
        **{name.capitalize(): partial(scalars.in_double, name) for name in scalars.DOUBLES},
        "Floor": partial(scalars.whole, "floor"),
        "Ceil": partial(scalars.whole, "ceil"),
        "Round": partial(scalars.whole, "round_even"),
    }
)
"""Maps unary operators to the functions that build their expressions. An operator that is not listed has its function
in `te.scalars`, with the operator's name in snake case: `hard_swish` for HardSwish.
"""
_WITH_NUMBERS: Mapping[str, tuple[Callable[..., Expr], dict[str, float]]] = MappingProxyType(
    {
        "LeakyRelu": (scalars.leaky_relu, {"alpha": 0.01}),
        "Elu": (scalars.elu, {"alpha": 1.0}),
        "Celu": (scalars.celu, {"alpha": 1.0}),
        # ONNX's defaults, from the operator's page.
        "Selu": (scalars.selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
        "HardSigmoid": (scalars.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
        "Swish": (lambda x, alpha: x * scalars.sigmoid(x if alpha == 1.0 else x * alpha), {"alpha": 1.0}),
        "ThresholdedRelu": (lambda x, edge: select(number(edge) < x, x, 0.0), {"alpha": 1.0}),
        "Shrink": (
            lambda x, bias, edge: select(x < -edge, x + bias, select(number(edge) < x, x - bias, 0.0)),
            {"bias": 0.0, "lambd": 0.5},
        ),
        "Reciprocal": (lambda x: scalars.divide(1.0, x), {}),
    }
)
"""Unary operators with numeric attributes. Each has a function that builds the expression from an element and the
attributes, and the default values of the attributes by name.
"""
ANY_TYPE = frozenset(["Neg", "Abs", "Sign"])
"""Unary operators that are supported for integers and float64 as well as for float32."""


def import_unary(context: GraphContext, node: OnnxNode) -> None:
    """Imports an element-wise operator of one tensor."""
    name, x, dtype = node.op_type, argument(0), context.tensor(node, 0).dtype
    typed = argument(0, dtype)
    if name in ANY_TYPE and (dtype is not DType.FLOAT32 or name == "Sign"):
        if dtype is DType.BOOL:
            context.refuse(node, "cannot compute on bool")
        add_elementwise(context, node, _signed(name, typed, dtype), [context.tensor(node, 0).name])
        return
    if name in ("Floor", "Ceil", "Round") and dtype is DType.FLOAT64:
        add_elementwise(context, node, _NAMED[name](typed), [context.tensor(node, 0).name])
        return
    if name in _WITH_NUMBERS:
        function, defaults = _WITH_NUMBERS[name]
        body = function(x, *[float(np.float32(node.attributes.get(k, v))) for k, v in defaults.items()])
    elif name == "Gelu":
        check_text(context, node)
        body = scalars.gelu_tanh(x) if node.text("approximate", "none") == "tanh" else scalars.gelu(x)
    elif name in _NAMED:
        body = _NAMED[name](x)
    else:
        body = getattr(scalars, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())(x)
    _add(context, node, body, 1)


def _signed(name: str, x: Expr, dtype: DType) -> Expr:
    """The expression of Neg, Abs or Sign (the operator `name`) for `x`, of any `dtype`. NaN stays NaN, and integers
    wrap.
    """
    zero = wrap(0, dtype)
    if name == "Neg":
        return x * wrap(-1, dtype) if dtype.is_float else zero - x
    if dtype.is_unsigned:
        return x if name == "Abs" else select(zero < x, wrap(1, dtype), zero)
    if name == "Abs":
        return select(x <= zero, zero - x, x)
    return select(zero < x, wrap(1, dtype), select(x < zero, wrap(-1, dtype), x))


def import_clip(context: GraphContext, node: OnnxNode) -> None:
    """Imports Clip with constant bounds."""
    dtype = context.tensor(node, 0).dtype
    if dtype is not DType.FLOAT32 and dtype is not DType.BOOL:
        body: Expr = argument(0, dtype)
        for index, what, combine in ((1, "lower bound", maximum), (2, "upper bound", minimum)):
            bound = context.array(node, index, what)
            if bound is not None:
                body = combine(body, wrap(bound.reshape(-1)[0].item(), dtype))
        add_elementwise(context, node, body, [context.tensor(node, 0).name])
        return
    low = context.number(node, 1, "lower bound", -math.inf)
    high = context.number(node, 2, "upper bound", math.inf)
    _add(context, node, scalars.clip(argument(0), low, high), 1)


def import_power(context: GraphContext, node: OnnxNode) -> None:
    """Imports Pow of float32: by a few multiplications for a constant scalar exponent if possible, else in float64."""
    base = context.operand(node, 0)
    known = context.array(node, 1, "exponent") if context.is_constant(node, 1) else None
    if known is not None and known.size == 1:
        exponent = float(known.reshape(-1)[0])
        try:
            body = scalars.power(argument(0), exponent)
        except ValueError:
            body = scalars.general_power(argument(0), exponent)
        if known.ndim <= len(base.shape):
            _add(context, node, body, 1)
            return
    exponents = as_type(context, node, context.tensor(node, 1), DType.FLOAT32)
    body = scalars.general_power(argument(0), argument(1))
    add_elementwise(context, node, body, [base.name, exponents])


_PAIRS: Mapping[str, Callable[[Expr, Expr], Expr]] = MappingProxyType(
    {
        **dict.fromkeys(("Add", "Sum"), lambda a, b: a + b),
        "Max": maximum,
        "Min": minimum,
        "Sub": lambda a, b: a - b,
        "Mul": lambda a, b: a * b,
        "Div": scalars.divide,
        "PRelu": scalars.leaky_relu,
    }
)
"""Expression builders of binary operators."""


def import_nary(context: GraphContext, node: OnnxNode) -> None:
    """Imports an arithmetic operator on tensors of one type, which broadcast. Max, Min and Sum have any number of
    tensors, other operators two. PRelu takes float32 only; the other operators take any type of numbers. A result
    outside of an integer type wraps.
    """
    count = len(node.inputs)
    if node.op_type not in ("Max", "Min", "Sum") and count != 2:
        context.fail(node, f"must have two inputs, not {count}", "give two inputs")
    integers = node.op_type != "PRelu"
    tensors = [context.tensor(node, i) if integers else context.operand(node, i) for i in range(count)]
    dtype = tensors[0].dtype
    if any(tensor.dtype is not dtype for tensor in tensors) or dtype is DType.BOOL:
        context.refuse(
            node, f"its operands must be numbers of one type, not {' and '.join(t.dtype for t in tensors)}"
        )
    arguments: list[Expr] = [argument(i, dtype) for i in range(count)]
    if node.op_type == "Div" and dtype.is_integer:
        body = scalars.of_bits("quotient", *arguments)
    else:
        body = reduce(_PAIRS[node.op_type], arguments)
    add_elementwise(context, node, body, [tensor.name for tensor in tensors])


def as_type(context: GraphContext, node: OnnxNode, tensor: Tensor, dtype: DType) -> str:
    """Casts `tensor` to `dtype`, if it has another dtype; returns the name of the result."""
    if tensor.dtype is dtype:
        return tensor.name
    body = cast(argument(0, tensor.dtype), dtype)
    output = context.temporary(node, f"{dtype}")
    return context.add(node, Elementwise(body=body), (tensor.name,), tensor.shape, output=output, dtype=dtype)


def _add(context: GraphContext, node: OnnxNode, body: Expr, count: int) -> None:
    add_elementwise(context, node, body, [context.operand(node, i).name for i in range(count)])


def add_elementwise(context: GraphContext, node: OnnxNode, body: Expr, operands: Sequence[str]) -> str:
    """Adds a node that computes `body` of broadcast `operands` (names); returns the name of its output. Raises
    InvalidNodeError for shapes that do not match.
    """
    try:
        shape = broadcast([context.tensors[name].shape for name in operands])
    except ValueError as error:
        context.refuse(node, str(error))
    return context.add(node, Elementwise(body=body), tuple(operands), shape, dtype=dtype_of(body))
