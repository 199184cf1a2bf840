"""Spaces of the accelerator's templates: every legal point is a correct program, and the cost model's statements about
it are true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from campaign import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vdla.compiler.codegen.vdla.link import Tensors, link
from vdla.compiler.graph.graph import Graph
from vdla.compiler.ir.hash import structural_hash
from vdla.compiler.pipeline import compile_program
from vdla.compiler.rewrites.fuse import fuse
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.templates.columns import ESTIMATE
from vdla.compiler.templates.space import EmptySpaceError, Space
from vdla.compiler.templates.vdla.buffer_fill import Side, transfers
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import CompileError, choose_points, kernels_of, lower_node
from vdla.compiler.templates.vdla.settings import settings_of
from vdla.compiler.templates.vdla.template import space_of, template_named, template_of
from vdla.compiler.templates.vdla.workload import Workload, workload_of_area
from vdla.compiler.tune.measure.check_vdla import agrees
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure, program_alone
from vdla.isa.config import Config, load_config

from ..random_networks import builder, machine
from ..right_programs import assert_right

VTA = load_config("vta")


def layer(template: str, channels: int, size: int, filters: int, kernel: int, stride: int) -> Workload:
    """The workload of a layer with SAME padding: its output has ceil(`size` / `stride`) rows and columns."""
    pads = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return Workload(
        template=template,
        batch=1,
        channels=channels,
        height=size,
        width=size,
        filters=filters,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        pads=(pads // 2, pads // 2, pads - pads // 2, pads - pads // 2),
    )


WORKLOADS = {
    "conv2d": layer("conv2d", 48, 13, 64, 3, 1),
    "patch_conv2d": layer("patch_conv2d", 3, 23, 40, 5, 2),
    "depthwise_conv2d": layer("depthwise_conv2d", 72, 14, 72, 3, 1),
    "max_pool": layer("max_pool", 40, 30, 40, 3, 2),
    "average_pool": layer("average_pool", 40, 14, 40, 2, 2),
    "elementwise": layer("elementwise", 64, 14, 64, 1, 1),
}


# --- whole programs -------------------------------------------------------------------------------------


def one_layer(seed: int) -> Graph:
    """A network of one convolution, depthwise convolution, pool or addition, of any shape."""
    b = builder(seed)
    kind = b.random.choice(["dense", "dense", "depthwise", "patch", "max", "average", "add"])
    channels = int(b.random.choice([1, 2, 3, 4] if kind == "patch" else [3, 8, 17, 32, 33, 64]))
    size, kernel, strides = ((int(x), int(y)) for x, y in b.random.integers(1, (14, 6, 4), size=(2, 3)).T)
    kernel = (min(kernel[0], size[0]), min(kernel[1], size[1]))
    pools = kind in ("max", "average")
    pads = tuple(int(b.random.integers(0, kernel[k % 2] if pools else 4)) for k in range(4))
    pads = (pads[0], pads[1], pads[2], pads[3])
    data = b.input(int(b.random.integers(1, 5)), channels, *size)
    match kind:
        case "dense" | "patch":
            filters = int(b.random.choice([1, 17, 40, 96]))
            return b.graph(b.convolution(data, filters, kernel, strides, pads))
        case "depthwise":
            return b.graph(b.convolution(data, channels, kernel, strides, pads, groups=channels))
        case "max":
            return b.graph(b.max_pool(data, kernel, strides, pads))
        case "average":
            return b.graph(b.average_pool(data, kernel, strides))
        case _:
            return b.graph(b.add(data, b.input(*b.tensors[data].shape)))


class Chosen:
    """Chooses knobs for a layer: `draw` returns those of a random legal point of the layer's space. The object
    remembers the last workload, its space, and the chosen point.
    """

    def __init__(self, config: Config, random: np.random.Generator) -> None:
        self.config = config
        self.random = random
        self.workload: Workload | None = None
        self.space: Space | None = None
        self.point = np.zeros(0, np.int64)

    def draw(self, workload: Workload) -> Mapping[str, int] | None:
        space = space_of(self.config, workload)
        points = space.draw(self.random, 1 << 13)
        points = points[space.legal(points)]
        if not len(points):
            return None
        self.workload, self.space, self.point = workload, space, points[0]
        return space.values(self.point)


def compiled(
    graph: Graph, config: Config, choose: Callable[[Workload], Mapping[str, int] | None]
) -> Compiled:
    """The network compiled with the knobs that `choose` returns for the workload of each node (None: the default).
    Raises CompileError if a layer does not fit.
    """
    result = compile_program(graph, config)
    legalized = legalize(graph, config)
    layers = []
    for node in legalized.graph.nodes:
        kernels = kernels_of(config, legalized, node)
        values = choose(kernels[0].workload) if kernels[0].recorded else None
        points = choose_points(config, {node.name: kernels}, {node.name: values or {}}, 2)[node.name]
        layers.append(lower_node(config, node.name, kernels, points, virtual_threads=2, check=True))
    tensors = Tensors(graph=legalized.graph, layouts=legalized.layouts, inside=legalized.places)
    linked = link(config, tensors, layers)
    return replace(result, program=linked.program, addresses=linked.addresses)


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
@example(41, 1_501_431_198)  # a window that ends before the image does, with a pad at its start
def test_every_legal_point_is_a_right_program(seed, machine_seed):
    config, graph = machine(machine_seed), fuse(one_layer(seed))
    chosen = Chosen(config, np.random.default_rng(seed))
    try:
        result = compiled(graph, config, chosen.draw)
    except CompileError:
        assert chosen.space is None, "a legal point did not fit"
        return
    cycles = assert_right(result)
    if (space := chosen.space) is None:
        return
    estimates = space.cost(space.columns(chosen.point[None]))
    assert cycles >= estimates.bound[0] - 1e-6
    assert estimates.bound[0] >= space.floor - 1e-6
    # What has no effect can be set to its first value, and nothing changes.
    row = {axis.name: int(estimates.effective[axis.name][0]) for axis in space.axes}
    assert space.legal(space.point(row)[None]).all()
    again = compiled(graph, config, lambda w: row if w == chosen.workload else None)
    assert again.program.instructions.tobytes() == result.program.instructions.tobytes()


# --- accounts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_points_of_different_rows_are_different_programs(name):
    workload = WORKLOADS[name]
    space, template = space_of(VTA, workload), template_of(workload)
    expression = template.expression(VTA, workload)
    points = space.sample(np.random.default_rng(1), 30)
    effective = space.cost(space.columns(points)).effective
    rows, hashes = set(), set()
    for k, point in enumerate(points):
        schedule = template.schedule(VTA, workload, expression, space.values(point))
        used = tuple(int(effective[axis][k]) for axis in template.copies)
        rows.add(tuple(int(effective[axis.name][k]) for axis in space.axes))
        hashes.add((structural_hash(schedule.program), used))
    assert len(rows) >= 25
    assert len(hashes) == len(rows)


@pytest.mark.parametrize("name", ["conv2d", "patch_conv2d", "depthwise_conv2d", "max_pool"])
def test_instructions_are_about_as_many_as_expected(name):
    task = AcceleratorTask.of(VTA, WORKLOADS[name])
    points = task.space.sample(np.random.default_rng(2), 8)
    expected = task.space.cost(task.space.columns(points)).quantities["instructions"]
    found = np.array([_instructions(task, task.space.values(point)) for point in points])
    assert (abs(expected / found - 1) < 0.2).mean() >= 0.75, (expected, found)


def _instructions(task: AcceleratorTask, values: Mapping[str, int]) -> int:
    return len(program_alone(task, values).instructions)


def test_transfers_of_boxes():
    """A box of complete rows is loaded in one transfer, a box of rows that are cut in one transfer for each block. A
    box with fewer columns than the buffer (`ragged`: share of these boxes) needs one transfer for each row.
    """

    def box(blocks: int, rows: int, columns: int, ragged: float = 0.0) -> float:
        sizes = (4, 8, 8)
        return float(
            transfers(
                [
                    Side(most=extent, mean=extent, size=size, whole=extent == size, ragged=share)
                    for extent, size, share in zip(
                        (blocks, rows, columns), sizes, (0, 0, ragged), strict=True
                    )
                ]
            )
        )

    assert box(4, 8, 8) == 1
    assert box(3, 5, 8) == 1
    assert box(3, 5, 6) == 3
    assert box(3, 5, 6, ragged=1.0) == 15
    assert box(3, 5, 6, ragged=0.5) == 9
    assert box(3, 5, 1) == 3
    assert box(3, 1, 1) == 1


# --- spaces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload",
    [
        layer("patch_conv2d", 3, 224, 64, 7, 2),
        layer("conv2d", 64, 56, 64, 1, 1),
        layer("conv2d", 512, 7, 512, 3, 1),
        layer("depthwise_conv2d", 1024, 7, 1024, 3, 1),
    ],
    ids=["C1", "C3", "C12", "D9"],
)
def test_the_papers_layers_have_large_spaces(workload):
    """Each space has more than 100,000 distinct legal programs. Their number is estimated from uniform draws, as their
    share of the drawn points times the size of the space.
    """
    space = space_of(VTA, workload)
    drawn = space.draw(np.random.default_rng(3), 200_000)
    points = drawn[space.legal(drawn)]
    effective = space.cost(space.columns(points)).effective
    rows = np.stack([effective[axis.name] for axis in space.axes], axis=1)
    own = (rows == np.stack([space.columns(points)[axis.name] for axis in space.axes], axis=1)).all(axis=1)
    assert own.mean() * len(points) / len(drawn) * space.size > 100_000


def test_a_space_without_legal_points_says_why(monkeypatch: pytest.MonkeyPatch):
    space = space_of(VTA, layer("max_pool", 16, 200, 16, 150, 1))
    points = space.draw(np.random.default_rng(0), 1000)
    assert not space.legal(points).any()
    assert space.obstacle(points) == "the accumulators"
    drawn: list[int] = []
    draw = Space.draw
    monkeypatch.setattr(Space, "draw", lambda *a: (drawn.append(a[-1]), draw(*a))[1])
    with pytest.raises(
        EmptySpaceError, match="max_pool: no setting of the knobs respects the limit of the accumulators"
    ):
        space.sample(np.random.default_rng(0), 8)
    # Drawing until it is sure enough takes hundreds of thousands of points.
    assert sum(drawn) <= 256


@settings(max_examples=examples(8), deadline=None)
@given(st.sampled_from(list(WORKLOADS)), st.integers(0, 1 << 40))
def test_of_capacities_the_first_values_of_the_axes_take_least(name, machine_seed):
    space = space_of(machine(machine_seed), WORKLOADS[name])
    estimates = space.cost(space.columns(space.draw(np.random.default_rng(machine_seed), 500)))
    least = space.cost(space.columns(np.zeros((1, len(space.axes)), np.int64)))
    assert len(space.capacities & estimates.limits.keys()) >= 3
    for limit in space.capacities & estimates.limits.keys():
        assert least.limits[limit][0] or not estimates.limits[limit].any(), limit


def test_what_templates_choose_is_the_cheapest_candidate():
    for workload in WORKLOADS.values():
        space, template = space_of(VTA, workload), template_of(workload)
        chosen = template.default_for(VTA, workload, 2)
        assert all(chosen[axis] <= 2 for axis in template.copies)
        point = space.point(chosen)
        assert space.legal(point[None]).all(), workload
        # Few random points are expected to be faster, none by much.
        points = space.sample(np.random.default_rng(8), 1000)
        copies = np.stack([space.columns(points)[axis] for axis in template.copies])
        points = np.concatenate([point[None], points[(copies <= 2).all(axis=0)]])
        estimates = space.cost(space.columns(points)).quantities[ESTIMATE]
        assert (estimates[1:] < estimates[0]).mean() < 0.1, workload
        assert estimates[0] <= 1.25 * estimates.min(), workload


def test_a_choice_takes_fewer_copies_or_parts_of_windows_where_memories_are_small():
    workload = WORKLOADS["conv2d"]
    template = template_named("conv2d")
    copies, windows = [], []
    for vectors in (2048, 32, 16, 8, 4, 2):
        small = replace(
            VTA, inp_buffer_bytes=vectors * VTA.inp_bytes, extensions=("post", "patch", "depthwise")
        )
        values = template.default_for(small, workload, 2)
        copies.append(values["data_copies"])
        windows.append((values["window_rows"], values["window_columns"]))
    assert copies[0] == 2 and windows[0] == (3, 3)
    assert 1 in copies and windows[-1] < (3, 3)
    pool = layer("max_pool", 16, 200, 16, 150, 1)
    assert template.fits(VTA, workload)
    assert template_named("max_pool").violated(VTA, pool) == "the accumulators"


def test_an_area_of_an_output_is_a_workload_of_its_own():
    workload = layer("average_pool", 40, 14, 40, 3, 2)
    rows, columns = workload.window.outputs(14, 14)
    assert (rows, columns) == (7, 7) and workload.pads == (0, 0, 1, 1)
    for area in ((0, 0, 7, 7), (0, 0, 3, 2), (6, 6, 7, 7), (2, 3, 7, 5)):
        part = workload_of_area(workload, area)
        assert part.window.outputs(part.height, part.width) == (area[2] - area[0], area[3] - area[1])
    corner = workload_of_area(workload, (6, 6, 7, 7))
    assert (corner.height, corner.width, corner.pads) == (2, 2, (0, 0, 1, 1))


@pytest.mark.parametrize("name", ["conv2d", "depthwise_conv2d", "max_pool"])
def test_settings_differ_where_programs_do(name):
    workload = WORKLOADS[name]
    space = space_of(VTA, workload)
    points = space.sample(np.random.default_rng(6), 12)
    moving = np.array([axis.name.endswith(("order", "_level")) for axis in space.axes])
    rows: set[tuple[int, ...]] = set()
    told: set[tuple[int | str, ...]] = set()
    for point in np.where(moving, points, points[0]):
        effective = space.cost(space.columns(point[None])).effective
        rows.add(tuple(int(column[0]) for axis, column in effective.items() if not axis.endswith("_copies")))
        settings = settings_of(VTA, workload, space.values(point))
        told.add(tuple(value for axis, value in settings.items() if not axis.endswith("_copies")))
    assert len(rows) > 4
    assert len(rows) == len(told)


def test_measured_points_of_every_template():
    for workload in WORKLOADS.values():
        task = AcceleratorTask.of(VTA, workload)
        point = task.space.sample(np.random.default_rng(4), 1)[0]
        assert np.isfinite(measure(task, task.space.values(point)).cost), workload


def test_with_separate_data_channels_reads_and_writes_overlap():
    """With separate data channels, a layer that the bus limits takes fewer cycles than its lower bound with a shared
    channel, and the cost model's estimate is within 10%.
    """
    separate = replace(VTA, memory=replace(VTA.memory, data_channels="separate"))
    workload = layer("depthwise_conv2d", 64, 40, 64, 3, 1)
    shared, apart = AcceleratorTask.of(VTA, workload), AcceleratorTask.of(separate, workload)
    values = template_of(workload).default_for(separate, workload, 2)
    cycles = measure(apart, values).cost
    assert apart.space.floor <= cycles < shared.space.floor <= measure(shared, values).cost
    point = {name: np.array([value]) for name, value in values.items()}
    estimates = [float(task.space.cost(point).quantities[ESTIMATE][0]) for task in (apart, shared)]
    assert abs(estimates[0] / cycles - 1) < 0.1 and estimates[1] > 1.25 * estimates[0]


def test_every_way_to_gather_patches_for_a_rolling_pool():
    """Cycles of every fifth point of the space, if it is legal, are not below its bound, and some of these points give
    right outputs. The knobs of the default give the same cycles as no knobs.
    """
    workload = Workload(
        template="patch_conv2d_pool",
        batch=1,
        channels=3,
        height=20,
        width=18,
        filters=24,
        kernel=(3, 3),
        strides=(1, 1),
        pads=(1, 1, 1, 1),
        pool_kernel=(3, 3),
        pool_strides=(2, 2),
        pool_pads=(1, 1, 1, 1),
    )
    task = AcceleratorTask.of(VTA, workload)
    points = np.stack(np.meshgrid(*(range(len(axis.values)) for axis in task.space.axes)), -1)
    points = points.reshape(-1, len(task.space.axes))[::5]
    legal = task.space.legal(points)
    estimates = task.space.cost(task.space.columns(points))
    assert legal.mean() > 0.5
    for point, bound in zip(points[legal], estimates.bound[legal], strict=True):
        result = measure(task, task.space.values(point))
        assert result.error is None and result.cost >= bound >= task.space.floor
    for point in points[legal][::9]:
        assert agrees(task, task.space.values(point))
    default = template_of(workload).default_for(VTA, workload, 2)
    assert measure(task, default).cost == measure(task, None).cost
    assert settings_of(VTA, workload, default) == default
