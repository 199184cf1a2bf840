"""Reference results for workloads of processors and GPUs, and the tolerance of candidates' results against them.

The reference is the result of the workload's unscheduled program, evaluated nest by nest (`ir.evaluate`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from ...codegen.cuda.machine import Precision
from ...codegen.cuda.tolerances import MODEL_TOLERANCE, OUTPUTS, tolerance
from ...ir.evaluate import evaluate
from ...ir.expr import Cast, Const
from ...ir.named_nodes import enclosing_loops
from ...ir.stmt import Program, Reduce
from ...ir.types import HALVES, DType
from ...ir.visit import expressions, free_vars, walk, walk_expr
from ...te.functions import FUNCTIONS
from ...templates.gpu.tensor_float import is_rounded

WEIGHTS = "W"
"""Prefix of the names of weight parameters, in every operator. Weights are the constant factors in sums of products."""


def inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays for the inputs of a workload's program, by name. The inputs are all parameters except the last one,
    and have float types. The elements are normally distributed.

    Weights are scaled so that sums are about 1; otherwise functions after the sums would amplify rounding errors. The
    last bit of every float32 is set, so that no number is half way between two numbers of tf32. (Threads and bulk
    copies round such numbers differently, see `codegen.cuda.bulk_copies`.)
    """
    rng = np.random.default_rng(seed)
    scale = np.float32(longest_sum(program) ** -0.5)
    arrays: dict[str, np.ndarray] = {}
    for parameter in program.parameters[:-1]:
        array = rng.standard_normal(parameter.shape, dtype=np.float32)
        if parameter.name.startswith(WEIGHTS):
            array *= scale
        odd = (array.view(np.uint32) | 1).view(np.float32)
        arrays[parameter.name] = odd.astype(parameter.dtype.numpy, copy=False)
    return arrays


def expected(program: Program, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Runs the program on the inputs `arrays` (by name), with sums in float64. Returns the contents of its last
    parameter, which is its only output. Raises EvaluateError for a program that `ir.evaluate` does not cover.
    """
    return evaluate(program, arrays, functions=FUNCTIONS)[program.parameters[-1].name]


def allowed(program: Program, *, on_tensor_cores: bool) -> float:
    """Tolerance of results on GPUs against `expected`, relative to its greatest magnitude. `on_tensor_cores`: whether
    tensor cores compute the products, in tf32 or 16-bit floats.

    The tolerance is the error bound for sums in any order, but at least `MODEL_TOLERANCE` (`codegen.cuda.tolerances`).
    Two unit roundoffs are added for each rounding to 16 bits in the program, because sums that differ slightly may be
    rounded to neighbouring numbers.
    """
    precision: Precision = "float32"
    if on_tensor_cores:
        # bfloat16 has the same bound: the reference reads factors that are rounded already.
        precision = "tf32" if is_rounded(program) else "float16"
    depth = longest_sum(program)
    return max(MODEL_TOLERANCE, tolerance(precision, depth)) + 2 * sum(
        OUTPUTS[dtype] for dtype in _roundings(program)
    )


def _roundings(program: Program) -> Iterator[DType]:
    """The 16-bit type of each cast to 16 bits in the program's statements."""
    for node in walk(program):
        for top in expressions(node):
            yield from (e.dtype for e in walk_expr(top) if isinstance(e, Cast) and e.dtype in HALVES)


def longest_sum(program: Program) -> int:
    """Number of terms of the program's longest sum, at least 1."""
    longest = 1
    for node in walk(program):
        if isinstance(node, Reduce) and node.op == "add":
            own = set().union(*map(free_vars, node.indices))
            extents = [loop.extent for loop in enclosing_loops(program, node.name) if loop.name not in own]
            longest = max(longest, math.prod(int(e.value) for e in extents if isinstance(e, Const)))
    return longest
