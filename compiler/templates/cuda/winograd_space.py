"""The space of Winograd's method on a GPU: sizes of its tiles, and for each that of `gemm_space`.

Of a program, in which the tiles' size is decided, `space_of_products` is what is left.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from ...ir.stmt import Program
from ...target.cuda.machine import CudaTarget
from ...te.ops.winograd import OUTPUTS, TAPS
from ..space import ESTIMATE, Account, Axis, Columns, Space, Values
from . import gemm_space
from .gemm_account import choose_tile
from .winograd import Knobs, problem_of
from .winograd_account import Convolution, transform_seconds

AXIS = Axis(name="m", values=OUTPUTS)


def space(target: CudaTarget, convolution: Convolution) -> Space:
    """The space of a convolution that `te.ops.winograd.fits`; costs are seconds."""
    parts = {m: gemm_space.space_of(target, convolution.problem(m)) for m in OUTPUTS}
    transforms = {m: transform_seconds(target, convolution, m) for m in OUTPUTS}

    def account(points: Columns) -> Account:
        tiles = {name: values for name, values in points.items() if name != AXIS.name}
        found = {m: part.account(tiles) for m, part in parts.items()}

        def of(values: dict[int, np.ndarray]) -> np.ndarray:
            return np.select([points[AXIS.name] == m for m in OUTPUTS], [values[m] for m in OUTPUTS])

        first = found[OUTPUTS[0]]
        effective = {n: of({m: f.effective[n] for m, f in found.items()}) for n in first.effective}
        quantities = {n: of({m: f.quantities[n] for m, f in found.items()}) for n in first.quantities}
        added = of({m: np.full(points[AXIS.name].shape, transforms[m]) for m in OUTPUTS})
        return Account(
            limits={n: of({m: f.limits[n] for m, f in found.items()}) for n in first.limits},
            bound=of({m: f.bound for m, f in found.items()}) + added,
            quantities={**quantities, ESTIMATE: quantities[ESTIMATE] + added, "transforms": added},
            effective={AXIS.name: points[AXIS.name], **effective},
        )

    return Space(
        template="winograd_cuda",
        axes=(AXIS, *gemm_space.AXES),
        account=account,
        floor=min(part.floor + transforms[m] for m, part in parts.items()),
        slack=gemm_space.SLACK,
    )


def knobs_of(convolution: Convolution, values: Values) -> Knobs:
    """The knobs of a point's values."""
    m = values[AXIS.name]
    tile = {name: value for name, value in values.items() if name != AXIS.name}
    return Knobs(m=m, tile=gemm_space.tile_at(convolution.problem(m), tile))


def default_values(target: CudaTarget, convolution: Convolution, m: int = OUTPUTS[0]) -> dict[str, int]:
    """The point of `gemm_account.choose_tile` for tiles of m x m outputs."""
    return {AXIS.name: m, **gemm_space.values_of(choose_tile(target, convolution.problem(m)))}


def space_of_products(target: CudaTarget, program: Program) -> Space:
    """The space of the products of a `te.ops.winograd`, whose tiles have their size; costs are seconds.

    The estimate is that of the products: the transforms take as long at every point.
    """
    return replace(gemm_space.space_of(target, problem_of(program)), template="winograd_cuda")


def knobs_of_products(target: CudaTarget, program: Program, values: Values) -> Knobs:
    """The knobs of a point of `space_of_products`."""
    problem = problem_of(program)
    # A product for every element of a tile of inputs.
    return Knobs(m=isqrt(problem.batch) + 1 - TAPS, tile=gemm_space.tile_at(problem, values))


def default_values_of_products(target: CudaTarget, program: Program) -> dict[str, int]:
    """The point of `gemm_account.choose_tile`."""
    return gemm_space.values_of(choose_tile(target, problem_of(program)))
