"""Loop IR semantics of the ALU's operations."""

from __future__ import annotations

from collections.abc import Callable

from vdla.isa.alu import IMMEDIATE_LIMITS, AluOpcode, alu_codes, custom_codes
from vdla.isa.config import Config
from vdla.isa.errors import ConfigError

from ...ir.expr import Buffer, Const, Expr, Var, maximum, minimum
from ...ir.stmt import Assign, IntrinsicDeclaration, nest
from ...ir.types import DType

_OPERATORS: dict[AluOpcode, Callable[[Expr, Expr], Expr]] = {
    AluOpcode.MIN: minimum,
    AluOpcode.MAX: maximum,
    AluOpcode.ADD: lambda left, right: left + right,
    AluOpcode.MUL: lambda left, right: left * right,
    AluOpcode.SUB: lambda left, right: left - right,
}


VECTORS = {
    "vector_min": AluOpcode.MIN,
    "vector_max": AluOpcode.MAX,
    "vector_add": AluOpcode.ADD,
    "vector_mul": AluOpcode.MUL,
    "vector_sub": AluOpcode.SUB,
}
"""The ALU operation of each element-wise intrinsic, by the intrinsic's name."""


def vector_opcode(config: Config, name: str) -> int | None:
    """The ALU opcode of the element-wise intrinsic `name`, such as "vector_max"; None if there is no such intrinsic.
    The intrinsic may be a custom instruction, or a built-in operation that the machine lacks.
    """
    if name in VECTORS:
        return int(VECTORS[name])
    return next((code for code, item in custom_codes(config).items() if vector_name(item.name) == name), None)


def vector_name(operation: str) -> str:
    """The name of the element-wise intrinsic of an ALU operation, such as "vector_max" for MAX."""
    return f"vector_{operation.lower()}"


def operator(opcode: AluOpcode) -> Callable[[Expr, Expr], Expr]:
    """A function that takes two int32 expressions, and returns the loop IR expression of the ALU operation `opcode` on
    the two. Raises KeyError unless `opcode` is a value of VECTORS.
    """
    return _OPERATORS[opcode]


def vector_operators(config: Config) -> dict[str, Callable[[Expr, Expr], Expr]]:
    """Maps the name of each ALU operation (such as "MAX") to a function. The function takes two int32 expressions and
    returns the expression of the operation's result. The map has the operations that the machine has and that the loop
    IR can express, and the machine's custom instructions with an `expression`.
    """
    built_in = {
        code.name: _OPERATORS[AluOpcode(code.value)] for code in alu_codes(config) if code.value in _OPERATORS
    }
    return built_in | {
        item.name: item.expression for item in config.instructions if item.expression is not None
    }


def vector(config: Config, operation: str, immediate: int | None = None) -> IntrinsicDeclaration:
    """The intrinsic of the ALU operation named `operation` on one accumulator vector: acc = operation(acc, src), where
    acc and src are int32[batch, block_out]. If `immediate` (int16) is given, it takes the place of src, and the
    intrinsic has no operand src.

    A use of the intrinsic needs the attributes `vector_attributes(immediate)`. Raises ConfigError for an operation that
    the machine or the loop IR lacks.
    """
    operators = vector_operators(config)
    if operation not in operators:
        raise ConfigError(
            f"configuration {config.name!r} has no intrinsic for the ALU operation {operation!r}; it has "
            f"{', '.join(operators)}"
        )
    lanes = (config.batch, config.block_out)
    acc = Buffer(name="acc", shape=lanes, dtype=DType.INT32, scope="acc")
    src = Buffer(name="src", shape=lanes, dtype=DType.INT32, scope="acc")
    b, j = Var("b"), Var("j")
    right = src[b, j] if immediate is None else Const(immediate, DType.INT32)
    name = vector_name(operation)
    result = Assign(name=name, buffer=acc, indices=(b, j), value=operators[operation](acc[b, j], right))
    body = nest([(b, lanes[0]), (j, lanes[1])], result)
    return IntrinsicDeclaration(name=name, parameters=(acc, src) if immediate is None else (acc,), body=body)


def vector_attributes(immediate: int | None = None) -> tuple[tuple[str, int], ...]:
    """The attributes of a `vector` intrinsic, for emission. Raises ConfigError if the immediate has over 16 bits."""
    if immediate is None:
        return ()
    if not IMMEDIATE_LIMITS[0] <= immediate <= IMMEDIATE_LIMITS[1]:
        raise ConfigError(f"the immediate {immediate} does not fit the 16 bits of an ALU instruction")
    return (("immediate", immediate),)
