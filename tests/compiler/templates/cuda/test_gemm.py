"""Matrix products on a GPU without tuning: the chosen knobs, the cost model, and their legality."""

from __future__ import annotations

import numpy as np
import pytest
from scheduled_gpu import run_scheduled

from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.prepare import prepare
from vdla.compiler.te.ops.product import Matrices, product
from vdla.compiler.templates.columns import ESTIMATE
from vdla.compiler.templates.gpu import gemm, gemv
from vdla.compiler.templates.gpu import gemm as template
from vdla.compiler.templates.gpu.gemm_cost import Problem, choose_tile, estimate_cost, problem_of
from vdla.compiler.templates.gpu.tile import Tile
from vdla.compiler.templates.gpu.workload import CudaWorkload

TARGET = cuda_target("sm_90")


def accounted(problem: Problem, tile: Tile):
    names = ("rows", "columns", "depth", "thread_rows", "thread_columns", "row_groups", "column_groups")
    columns = {name: np.array([getattr(tile, name)]) for name in (*names, "stages", "splits")}
    return estimate_cost(TARGET, problem, columns)


@pytest.mark.parametrize("size", [1024, 2048, 4096, 8192])
def test_large_products_have_tiles_that_keep_the_lanes_busy(size: int) -> None:
    problem = Problem(rows=size, columns=size, depth=size, along_depth=True)
    tile = choose_tile(TARGET, problem)
    found = accounted(problem, tile)
    assert tile.rows * tile.columns >= 64 * 64
    # Of 1024 x 1024 sums two blocks a multiprocessor have 128 x 64.
    assert tile.splits == 1 or size == 1024
    assert found.quantities["products a load"][0] >= 8
    assert found.bound[0] / found.quantities[ESTIMATE][0] > 0.6


# Filters, output positions, channels times window of the convolutions of ResNet-18 (C2, C6, C9, C12).
LAYERS = [(64, 3136, 576), (128, 784, 1152), (256, 196, 2304), (512, 49, 4608)]


@pytest.mark.parametrize(("rows", "columns", "depth"), LAYERS)
def test_few_positions_are_made_up_for_by_splits(rows: int, columns: int, depth: int) -> None:
    problem = Problem(rows=rows, columns=columns, depth=depth)
    tile = choose_tile(TARGET, problem)
    found = accounted(problem, tile)
    assert found.quantities["blocks"][0] >= 0.75 * TARGET.multiprocessors
    assert found.quantities["products a load"][0] >= 4
    whole = -(-rows // tile.rows) * tile.rows * -(-columns // tile.columns) * tile.columns
    assert whole < 1.5 * rows * columns
    if columns == 49:
        assert tile.splits > 1


def test_more_of_what_costs_costs_more() -> None:
    problem = Problem(rows=2048, columns=2048, depth=2048)
    sizes = {"rows": 128, "columns": 128, "depth": 16, "thread_rows": 8, "thread_columns": 8}
    good = Tile(**sizes, row_groups=2, column_groups=2, stages=3)
    seconds = float(accounted(problem, good).quantities[ESTIMATE][0])

    def worse(tile: Tile, problem: Problem = problem) -> bool:
        return float(accounted(problem, tile).quantities[ESTIMATE][0]) > 1.01 * seconds

    assert worse(Tile(**sizes, row_groups=2, column_groups=2, stages=1))
    assert worse(Tile(**sizes, row_groups=2, column_groups=1, stages=3))
    assert worse(Tile(**sizes | {"thread_rows": 2, "thread_columns": 2}, stages=3))
    assert worse(Tile(**sizes, row_groups=2, column_groups=2, stages=3, splits=8))
    assert worse(good, Problem(rows=2048, columns=2048, depth=2048, copy_instructions=40))
    assert worse(good, Problem(rows=2048, columns=2048, depth=4096))


def test_few_rows_are_not_tiled() -> None:
    few = product(Matrices(rows=gemv.MOST_ROWS, depth=512, columns=1000), staged="by depth")
    assert isinstance(template.choose_knobs(TARGET, few), gemv.Knobs)
    more = product(Matrices(rows=gemv.MOST_ROWS + 1, depth=512, columns=1000), staged="by depth")
    assert isinstance(template.choose_knobs(TARGET, more), Tile)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "constants"),
    [(35, 65, 260, ("W",)), (64, 100, 49, ()), (3, 300, 18, ("W",))],
)
def test_defaults_as_machine_code(rows, depth, columns, constants) -> None:
    program = product(Matrices(rows=rows, depth=depth, columns=columns), staged="by depth")
    rng = np.random.default_rng(rows)
    x, w = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
    s = template.schedule(TARGET, program, constants=constants)
    result = run_scheduled(program, s, {"X": x, "W": w}, native=True)
    np.testing.assert_allclose(result, x @ w, rtol=1e-5, atol=1e-5 * np.sqrt(depth))


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(4096, 4096, 4096), (512, 4608, 49), (3, 50, 7)])
def test_points_of_the_space_are_legal(arch, rows, depth, columns) -> None:
    target = cuda_target(arch)
    program = product(Matrices(rows=rows, depth=depth, columns=columns), staged="by depth")
    tuned, workload = gemm.TUNED, CudaWorkload(template="gemm_cuda", expression=program)
    space, default = tuned.space(target, workload), tuned.default(target, workload)
    assert space.legal(space.point(default)[None])[0]
    tile = tuned.knobs_at(workload, default)
    assert tile == choose_tile(target, problem_of(program))
    points = space.sample(np.random.default_rng(rows), 2)
    found = space.cost(space.columns(points))
    assert (found.bound <= found.quantities[ESTIMATE]).all()
    for point in points:
        tile = tuned.knobs_at(workload, space.values(point))
        assert tile.obstacle() is None and tile.shared_bytes <= target.shared_bytes_per_block
        prepare(template.schedule(target, program, tile, constants=("W",)).program, target)
