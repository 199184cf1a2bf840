"""The space of Winograd's method on a GPU: sizes of its tiles, and for each that of `gemm_space`."""

from __future__ import annotations

import numpy as np

from ...target.cuda.machine import CudaTarget
from ...te.ops.winograd import OUTPUTS
from ..space import ESTIMATE, Account, Axis, Columns, Space, Values
from . import gemm_space
from .gemm_account import choose_tile
from .winograd import Knobs
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
