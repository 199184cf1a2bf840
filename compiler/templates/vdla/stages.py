"""What a node's stages are to a template: constants of the store pipeline, and the tensors its parameters stand for."""

from __future__ import annotations

from ...graph.graph import Combine, Requantize
from ...te.post import Combination, Post


def post_of(requantize: Requantize, combine: Combine | None) -> Post:
    """Stage A, and stage B where there is one."""
    return Post(
        zero_point=requantize.zero_point,
        low=requantize.low,
        high=requantize.high,
        combination=None if combine is None else combination_of(combine),
    )


def combination_of(combine: Combine) -> Combination:
    """Stage B."""
    return Combination(
        kind=combine.kind,
        ratio_self=float(combine.ratio_self),
        ratio_operand=float(combine.ratio_operand),
        offset=float(combine.offset),
        zero_point_self=combine.zero_point_self,
        zero_point_operand=combine.zero_point_operand,
        zero_point=combine.zero_point,
        unsigned=combine.unsigned,
        swap=combine.swap,
        low=combine.low,
        high=combine.high,
    )


def bound_tensors(node_data: str, output: str, combine: Combine | None) -> dict[str, str]:
    """Tensors by parameter: X, Y, and R where stage B has an operand."""
    tensors = {"X": node_data, "Y": output}
    if combine is not None and combine.operand is not None:
        tensors["R"] = combine.operand
    return tensors
