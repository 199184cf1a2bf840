"""Expressions of element-wise operators as data for JSON: steps in order, each an operation on earlier steps.

    ("argument", 0), ("constant", "0.5"), ("*", 0, 1), ("tanh", 2)

is `tanh(argument(0) * 0.5)`. Each value is one step, even if it is used several times; the last step is the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..ir.expr import COMPARISONS, OPERATORS, Binary, Call, Const, Expr, Select, Var
from ..ir.types import DType
from .scalars import argument

Step = tuple[str | int, ...]
"""An operation followed by the numbers of the steps that compute its operands. An "argument" is followed by the index
of the input, a "constant" by its text.
"""
Steps = tuple[Step, ...]
FUNCTIONS: Mapping[str, int] = MappingProxyType(
    {"divide": 2, "exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "erf": 1}
)
"""Functions of float32, each with its number of arguments."""
BINARY = tuple(operator for operator in OPERATORS if operator not in ("//", "%"))
MOST_NODES = 2048
"""Largest number of nodes of an expression; a subexpression that is used twice counts twice, as in programs."""


def steps_of(body: Expr) -> Steps:
    """The steps of a float32 expression of `te.scalars`. Raises ValueError for other expressions, and for more than
    `MOST_NODES` nodes.
    """
    found: dict[Step, int] = {}
    nodes: list[int] = []
    known: dict[int, int] = {}

    def step_of(e: Expr) -> Step:
        match e:
            case Var(dtype=DType.FLOAT32, name=name) if name[8:].isdecimal():
                position = int(name[8:])
                if argument(position) == e:
                    return ("argument", position)
            case Const(value=value, dtype=DType.FLOAT32):
                return ("constant", repr(float(value)))
            case Binary(op=op, a=a, b=b) if op in BINARY:
                return (op, place(a), place(b))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return ("select", place(condition), place(then), place(otherwise))
            case Call(function=function, arguments=arguments) if function in FUNCTIONS:
                return (function, *map(place, arguments))
        raise ValueError(
            f"an element-wise operator must not contain a {type(e).__name__}, which has no element-wise step"
        )

    def place(e: Expr) -> int:
        # A shared subexpression is one object: visiting it once for each use could take exponential time.
        if (number := known.get(id(e))) is None:
            step = step_of(e)
            number = known[id(e)] = found.setdefault(step, len(found))
            if number == len(nodes):
                nodes.append(_nodes(step, nodes))
        return number

    place(body)
    steps = tuple(found)
    expression(steps)
    return steps


def expression(steps: Steps) -> Expr:
    """The expression that `steps` describe; `steps_of` makes the same steps of the expression.

    Raises ValueError, which names the step, for an invalid step, invalid operands, or a step that no later step
    uses (the last step excepted).
    """
    made: list[Expr] = []
    types: list[DType] = []
    nodes: list[int] = []
    for number, step in enumerate(steps):
        try:
            e, dtype = _step_expression(step, made, types)
            nodes.append(_nodes(step, nodes))
        except ValueError as error:
            raise ValueError(f"step {number} {error}") from None
        made.append(e)
        types.append(dtype)
    used = {number for step in steps for number in operands(step)}
    if not steps or types[-1] is not DType.FLOAT32:
        raise ValueError("the last step must have a float32 result")
    if unused := sorted({*range(len(steps) - 1)} - used):
        raise ValueError(f"step {unused[0]} is used by no other step")
    if len({*steps}) < len(steps):
        raise ValueError("the steps must differ from each other")
    return made[-1]


def operands(step: Step) -> tuple[int, ...]:
    """The numbers of the steps that compute the operands of `step`."""
    if step[0] in ("argument", "constant"):
        return ()
    return tuple([number for number in step[1:] if isinstance(number, int)])


def _nodes(step: Step, nodes: list[int]) -> int:
    count = 1 + sum(nodes[number] for number in operands(step))
    if count > MOST_NODES:
        raise ValueError(f"expands to an expression of {count} nodes, more than {MOST_NODES}")
    return count


def _step_expression(step: Step, made: list[Expr], types: list[DType]) -> tuple[Expr, DType]:
    match step:
        case ("argument", int(position)) if not isinstance(position, bool) and 0 <= position < 1000:
            return argument(position), DType.FLOAT32
        case ("constant", str(text)):
            return Const(_number(text), DType.FLOAT32), DType.FLOAT32
        case (str(name), *numbers) if all(type(k) is int and 0 <= k < len(made) for k in numbers):
            taken = [made[k] for k in numbers if isinstance(k, int)]
            kinds = [types[k] for k in numbers if isinstance(k, int)]
            match name, taken:
                case "select", [condition, then, otherwise]:
                    if kinds[0] is DType.BOOL and kinds[1] is kinds[2]:
                        return Select(condition, then, otherwise), kinds[1]
                case _, [a, b] if name in BINARY:
                    logical = name in ("and", "or")
                    if kinds == [DType.BOOL if logical else DType.FLOAT32] * 2:
                        dtype = DType.BOOL if logical or name in COMPARISONS else DType.FLOAT32
                        return Binary(name, a, b), dtype  # type: ignore[arg-type]
                case _ if FUNCTIONS.get(name) == len(taken) and DType.BOOL not in kinds:
                    return Call(name, tuple(taken), DType.FLOAT32), DType.FLOAT32
    raise ValueError(f"is {step!r}, which is not an operation on results of earlier steps")


def _number(text: str) -> float:
    """The float32 value of a text. Raises ValueError unless the text is the repr of its value."""
    try:
        value = float(text)
    except ValueError:
        value = None
    with np.errstate(over="ignore"):
        if (
            value is None
            or repr(value) != text
            or (float(np.float32(value)) != value and not math.isnan(value))
        ):
            raise ValueError(f"has the constant {text!r}, which is not exactly the text of a float32")
    return value
