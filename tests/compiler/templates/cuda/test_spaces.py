"""Schedule spaces of the GPU templates for operators without data reuse. Every point gives the same results. Two points
that differ only in knobs without effect give the same program.
"""

from __future__ import annotations

from itertools import product

import every_operator
import numpy as np
import pytest
from scheduled_gpu import run_scheduled

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.ir.interp import interpret
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.float_elementwise import float_elementwise
from vdla.compiler.te.ops.float_pool import float_pool
from vdla.compiler.te.scalars import argument
from vdla.compiler.templates.columns import ESTIMATE
from vdla.compiler.templates.gpu import elementwise, pool
from vdla.compiler.templates.gpu.flat import flattened
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.workload import CudaWorkload
from vdla.compiler.templates.space import combined

TARGET = cuda_target()
ADD = argument(0) + argument(1)
PROGRAMS = {
    "sum": (elementwise, flattened(float_elementwise([(6, 64), (6, 64)], ADD))),
    "sum by row": (elementwise, flattened(float_elementwise([(6, 10), (6, 1)], ADD))),
    "odd sum": (elementwise, flattened(float_elementwise([(7, 9), (9,)], ADD))),
    "pool": (
        pool,
        flattened(
            float_pool(
                (2, 7, 9, 1),
                Window(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 0, 1)),
                "max",
            ),
            intermediates=False,
        ),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_points_are_kernels_of_the_same_results(name) -> None:
    template, program = PROGRAMS[name]
    workload = CudaWorkload(template=template.TUNED.name, expression=program)
    space, default = GPU.space(TARGET, workload), GPU.default(TARGET, workload)
    assert template.TUNED.knobs_at(workload, default) == template.choose_knobs(TARGET, program)
    points = np.concatenate([space.point(default)[None], space.sample(np.random.default_rng(0), 6)])
    found = space.cost(space.columns(points))
    assert space.allowed(found).all() and (found.quantities[ESTIMATE] >= found.bound).all()
    arrays = every_operator.arrays_of(program)
    expected = interpret(program, arrays, functions=FUNCTIONS)["Y"]
    programs: dict[tuple[int, ...], str] = {}
    for i, point in enumerate(points):
        s = GPU.schedule(TARGET, workload, space.values(point))
        np.testing.assert_array_equal(run_scheduled(program, s, arrays), expected)
        row = tuple([int(column[i]) for column in found.effective.values()])
        digest = structural_hash(s.program, alpha=True)
        assert programs.setdefault(row, digest) == digest
    assert len(set(programs.values())) == len(programs)


def test_the_estimate_prefers_wide_accesses_of_large_tensors() -> None:
    program = flattened(float_elementwise([(1 << 24,)], argument(0)))
    space = GPU.space(TARGET, CudaWorkload(template="elementwise_cuda", expression=program))
    values = [{"threads": 256, "width": width, "items": 1} for width in (1, 4)]
    points = np.stack([space.point(v) for v in values])
    narrow, wide = space.cost(space.columns(points)).quantities[ESTIMATE]
    assert wide < narrow


def test_tables_are_combined_in_order():
    tables = ([(1, 2), (3, 4), (5, 6)], [(7,)], [(8, 9), (10, 11)])
    rows = [sum(rows, ()) for rows in product(*tables)]
    assert combined(*tables).tolist() == np.array(rows).T.tolist()
