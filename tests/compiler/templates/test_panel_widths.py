"""Panels of weights that products of many lengths share: few kinds, tiles nearly as fast as each length's own."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.options import parse_target
from vdla.compiler.te.blocks import Window
from vdla.compiler.templates.cpu.dense_space import default_values, space
from vdla.compiler.templates.cpu.panel_widths import LEAST_SUMS, SLOWER, Panels, PanelWidths
from vdla.compiler.templates.cpu.workload import Conv2dCpu, DenseCpu

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
TARGETS = {name: parse_target(X86 + name) for name in ("icelake-server", "haswell", "nehalem")}
LENGTHS = (512, *range(1, 24), *range(24, 512, 37))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("depth", "columns"), [(384, 1536), (768, 768), (64, 50)])
def test_few_kinds_of_panels_serve_all_lengths(name: str, depth: int, columns: int) -> None:
    target, held, kinds, alone = TARGETS[name], Panels(), set(), []
    widths = PanelWidths(target, held)
    for rows in LENGTHS:
        workload = DenseCpu(rows=rows, depth=depth, columns=columns)
        program = workload.program()
        points, own = space(target, program), default_values(target, program)
        chosen = widths.choose(workload) or own
        kinds.add(chosen["vectors"])
        alone.append(own["vectors"])
        costs = []
        for values in (chosen, own):
            account = points.account({axis: np.array([value]) for axis, value in values.items()})
            assert points.allowed(account).all()
            costs.append(float(account.quantities["estimated cycles"][0]))
        assert costs[0] <= SLOWER * costs[1]
        least = min(LEAST_SUMS, own["rows"] * own["vectors"])
        assert chosen["rows"] * chosen["vectors"] >= least
    assert kinds == set(held[depth, columns])
    assert len(kinds) <= len(set(alone))
    if target.vector_bits == 512 and columns > 100:
        # One for most lengths, and one each for those of one and two tokens.
        assert len(kinds) <= 3 < len(set(alone))


def test_other_workloads_keep_their_own() -> None:
    sizes = {"channels": 16, "height": 8, "width": 8, "filters": 16, "window": Window(kernel=(2, 2))}
    convolution = Conv2dCpu(batch=1, **sizes, block_in=16, block_out=16)
    assert PanelWidths(host_target(), {}).choose(convolution) is None
