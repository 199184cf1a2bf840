"""Reference results for workloads of processors and GPUs, and the tolerance of candidates' results against them.

The reference is the result of the workload's unscheduled program, evaluated nest by nest (`ir.evaluate`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...codegen.cuda.tolerances import MODEL_TOLERANCE, tolerance
from ...ir.evaluate import evaluate
from ...ir.expr import Const
from ...ir.named_nodes import enclosing_loops
from ...ir.stmt import Program, Reduce
from ...ir.visit import free_vars, walk
from ...te.functions import FUNCTIONS
from ...templates.gpu.tensor_float import is_rounded

WEIGHTS = "W"
"""Prefix of the names of weight parameters, the constant factors of sums, in every operator."""


def inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays for all parameters of a workload's program except the last, by name: float32, normally distributed.

    Weights are scaled so that sums are about 1; otherwise functions fused after the sums would amplify rounding errors.
    The last bit of every number is set, so that no number is half way between two numbers of tf32: threads and bulk
    copies round such ties differently (`codegen.cuda.bulk_copies`).
    """
    rng = np.random.default_rng(seed)
    scale = np.float32(longest_sum(program) ** -0.5)
    arrays: dict[str, np.ndarray] = {}
    for parameter in program.parameters[:-1]:
        array = rng.standard_normal(parameter.shape, dtype=np.float32)
        if parameter.name.startswith(WEIGHTS):
            array *= scale
        arrays[parameter.name] = (array.view(np.uint32) | 1).view(np.float32)
    return arrays


def expected(program: Program, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The program's result: float32, sums in float64. Raises EvaluateError for a program that `ir.evaluate` does not
    cover.
    """
    return evaluate(program, arrays, functions=FUNCTIONS)[program.parameters[-1].name]


def allowed(program: Program, *, on_tensor_cores: bool) -> float:
    """Tolerance of results on GPUs against `expected`, relative to its greatest magnitude.

    The tolerance is the error bound for sums in any order, and at least `MODEL_TOLERANCE` (`codegen.cuda.tolerances`).
    """
    rounded = on_tensor_cores and is_rounded(program)
    depth = longest_sum(program)
    return max(MODEL_TOLERANCE, tolerance("tf32" if rounded else "float32", depth))


def longest_sum(program: Program) -> int:
    """Number of terms of the program's longest sum, at least 1."""
    longest = 1
    for node in walk(program):
        if isinstance(node, Reduce) and node.op == "add":
            own = set().union(*map(free_vars, node.indices))
            extents = [loop.extent for loop in enclosing_loops(program, node.name) if loop.name not in own]
            longest = max(longest, math.prod(int(e.value) for e in extents if isinstance(e, Const)))
    return longest
