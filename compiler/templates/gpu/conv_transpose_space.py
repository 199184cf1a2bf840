"""The space of transposed convolutions on a GPU: one tile for all of their products, see `gemm_space`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...ir.stmt import Program
from ...target.cuda.machine import CudaTarget
from ..space import ESTIMATE, Account, Columns, Space, Values
from . import gemm_space
from .conv2d import problem_of
from .conv_transpose import Knobs, products
from .gemm_account import Problem, choose_tile


def space(target: CudaTarget, program: Program) -> Space:
    """The space of `te.ops.gemm_conv_transpose`; costs are seconds. ValueError where no output has a tap."""
    parts = [gemm_space.space_of(target, problem) for problem in _problems(program).values()]
    if not parts:
        raise ValueError(f"{program.name} has no products: no output has a tap")
    return Space(
        template="conv_transpose_cuda",
        axes=gemm_space.AXES,
        account=partial(_account, parts),
        floor=sum(part.floor for part in parts),
        slack=gemm_space.SLACK,
    )


def knobs_of(target: CudaTarget, program: Program, values: Values) -> Knobs:
    """The knobs of a point's values."""
    return Knobs(
        tiles={tag: gemm_space.tile_at(problem, values) for tag, problem in _problems(program).items()}
    )


def default_values(target: CudaTarget, program: Program) -> dict[str, int]:
    """The point of `gemm_account.choose_tile` for the product that takes longest, which others need not have."""
    longest = max(_problems(program).values(), key=lambda p: p.batch * p.rows * p.columns * p.depth)
    return gemm_space.values_of(choose_tile(target, longest))


def _problems(program: Program) -> dict[str, Problem]:
    return {tag: problem_of(program, tag) for tag in products(program)}


def _account(parts: Sequence[Space], points: Columns) -> Account:
    """All limits, and costs one after the other."""
    found = [part.account(points) for part in parts]

    def total(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.add.reduce(list(values))

    effective = [account.effective for account in found]
    # A value changes nothing where it changes none of the products.
    alike = {
        name: np.where(
            np.logical_and.reduce([e[name] == effective[0][name] for e in effective]),
            effective[0][name],
            points[name],
        )
        for name in effective[0]
    }
    quantities = {
        name: total([account.quantities[name] for account in found]) for name in found[0].quantities
    }
    assert ESTIMATE in quantities
    return Account(
        limits={
            name: np.logical_and.reduce([account.limits[name] for account in found])
            for name in found[0].limits
        },
        bound=total([account.bound for account in found]),
        quantities=quantities,
        effective=alike,
    )
