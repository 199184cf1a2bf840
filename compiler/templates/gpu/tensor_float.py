"""Products of float32 on tensor cores, with factors rounded to tf32, if the target allows the rounding."""

from __future__ import annotations

from ...codegen.cuda.machine import GpuTarget
from ...ir.expr import Call
from ...ir.named_nodes import find_loop, find_statement
from ...ir.stmt import Program, Reduce
from ...ir.visit import walk_expr
from ...te.ops.product import round_factors

LEAST = 8
"""Least number of rows and of columns of a product on tensor cores: this many fill at least half of a fragment."""


def for_target(target: GpuTarget, program: Program) -> Program:
    """A program with the stages of `te.ops.product` (copies of the operands, sum "gemm", epilogue "post") in float32,
    with factors rounded to tf32 for tensor cores.

    Returns the same object, unchanged, unless `target.tensor_float` allows rounding, the target has `mma` instructions,
    and the product has at least `LEAST` rows and columns (otherwise fragments would be mostly padding).
    """
    if not (target.tensor_float and target.has("mma")):
        return program
    sizes = [find_loop(program, f"gemm.{d}").extent for d in "ij"]
    if any(getattr(size, "value", 0) < LEAST for size in sizes):
        return program
    return round_factors(program)


def is_rounded(program: Program) -> bool:
    """Whether the program itself rounds the factors of "gemm" to tf32. Tensor cores (`gemm_mma`) then compute the
    product without further rounding of factors.
    """
    reduce = find_statement(program, "gemm")
    return isinstance(reduce, Reduce) and any(
        isinstance(e, Call) and e.function == "round_tf32" for e in walk_expr(reduce.value)
    )
