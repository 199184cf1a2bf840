"""Programs for machines with a DRAM: right results, weights in the order of loads, stores apart from loads, and knobs
chosen by simulation.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vdla.codesign import models
from vdla.codesign.evaluate import sample_arrays
from vdla.codesign.rtl_run import run_on_rtl
from vdla.compiler import dram_choices
from vdla.compiler.codegen.vdla.dram_placement import _BOX, START, cut_boxes, order_weights, parts_of
from vdla.compiler.codegen.vdla.machine import Batch
from vdla.compiler.pipeline import compile_program
from vdla.compiler.runtime.accelerator import run
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.templates.vdla.lower import choose_points
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.decoding import decode_one
from vdla.isa.program import Program, Segment
from vdla.sim import simulate

from .random_networks import network
from .right_programs import assert_right

VTA, TINY = load_config("vta"), load_config("tiny")


def on_dram(config: Config = VTA, **fields: Any) -> Config:
    return replace(config, memory=Memory(kind="dram", part="MT41K256M8", **fields))


def shipped(name: str, config: Config, *, data: bool = True) -> Compiled:
    return compile_program(models.build(name).SerializeToString(), config, data=data)


def cycles_of(program: Program) -> int:
    return simulate(program.config, program.instructions, program.image, data=False).cycles


def instructions(program: Program) -> list[tuple[str, dict[str, int]]]:
    return [decode_one(program.config, *words) for words in program.instructions.tolist()]


def with_choices(monkeypatch: pytest.MonkeyPatch, *, apart: bool) -> None:
    """Makes the compiler choose for every node the knobs that it would choose for a memory of fixed latency. `apart`:
    whether the stores of all nodes run apart from the loads, not at the same time.
    """

    def choose(
        config: Config, kernels: Mapping[str, Any], virtual_threads: int, _: object
    ) -> dram_choices.DramChoices:
        points = choose_points(config, kernels, {}, virtual_threads)
        return dram_choices.DramChoices(points=points, apart=frozenset(kernels if apart else ()))

    monkeypatch.setattr(dram_choices, "choose", choose)


@pytest.mark.parametrize("seed", range(8))
def test_stores_apart_from_loads_give_right_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_choices(monkeypatch, apart=True)
    assert_right(compile_program(network(7100 + seed), on_dram(TINY if seed % 2 else VTA)))


@pytest.mark.parametrize("seed", range(4))
def test_chosen_programs_are_right_and_not_slower(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, config = network(7200 + seed), on_dram(TINY if seed % 2 else VTA)
    chosen = compile_program(graph, config)
    again = compile_program(graph, config)
    assert np.array_equal(chosen.program.instructions, again.program.instructions)
    with_choices(monkeypatch, apart=False)
    assert assert_right(chosen) <= cycles_of(compile_program(graph, config).program)


def test_outputs_are_those_of_a_fixed_memory() -> None:
    fixed, dram = shipped("small_cnn", VTA), shipped("small_cnn", on_dram())
    arrays = sample_arrays(fixed.graph, 1)[0]
    expected, found = run(fixed, arrays), run(dram, arrays)
    assert expected.integer_outputs.keys() == found.integer_outputs.keys() != set()
    for name, values in expected.integer_outputs.items():
        np.testing.assert_array_equal(found.integer_outputs[name], values)


def test_weights_lie_in_the_order_of_their_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    with_choices(monkeypatch, apart=False)
    loads = {}
    for config in (VTA, on_dram()):
        found = [
            fields for name, fields in instructions(shipped("mlp", config).program) if name == "LOAD.WGT"
        ]
        loads[config.memory.kind] = [
            [item[name] for name in ("dram_base", "y_size", "x_size", "x_stride")] for item in found
        ]
    assert any(rows > 1 and stride > columns for _, rows, columns, stride in loads["fixed"])
    first = loads["dram"][: len(loads["dram"]) // 2]
    assert all(rows == 1 or stride == columns for _, rows, columns, stride in loads["dram"])
    ends = [base + rows * columns for base, rows, columns, _ in first]
    assert ends[:-1] == [base for base, *_ in first[1:]]


def weights(*loads: tuple[int, int, int, int]) -> tuple[list[tuple[int, list[int]]], list[tuple[int, ...]]]:
    """`order_weights` of a segment of eight tiles and loads (dram_base, y_size, x_size, x_stride) from it: the changed
    segments, and the loads afterwards.
    """
    names, columns = ("dram_base", "y_size", "x_size", "x_stride"), np.array(loads).T
    batch = Batch(
        name="LOAD.WGT",
        numbers=np.arange(len(loads)),
        fields=dict(zip(names, columns, strict=True)),
    )
    emission: Any = SimpleNamespace(config=VTA, batches=[batch], count=len(loads))
    tile = VTA.wgt_bytes
    segment = Segment(name="W", kind="constant", address=2 * tile, size=8 * tile)
    found = order_weights(emission, [segment])
    after = emission.batches[0].fields
    return (
        [(address // tile, source.tolist()) for address, source in found],
        [tuple(row) for row in np.stack([after[name] for name in names], 1).tolist()],
    )


def test_tiles_of_a_load_become_one_run() -> None:
    changed, loads = weights((4, 2, 2, 4), (2, 2, 2, 4), (4, 2, 2, 4))
    assert changed == [(2, [2, 3, 6, 7, 0, 1, 4, 5])]
    assert loads == [(2, 2, 2, 2), (6, 2, 2, 2), (2, 2, 2, 2)]


def test_tiles_that_two_loads_share_keep_their_order() -> None:
    before = [(2, 2, 2, 4), (3, 1, 1, 1)]
    assert weights(*before) == ([], before)


def test_tiles_that_no_load_reads_are_kept_behind_the_others() -> None:
    changed, loads = weights((7, 1, 2, 2))
    assert changed == [(2, [5, 6, 0, 1, 2, 3, 4, 7])] and loads == [(2, 1, 2, 2)]


@pytest.mark.parametrize("apart", [False, True])
def test_stores_apart_overlap_no_load_but_its_last_part(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with_choices(monkeypatch, apart=apart)
    program = shipped("small_cnn", on_dram(), data=False).program
    result = simulate(program.config, program.instructions, program.image, data=False)
    most, listed = 0, instructions(program)
    for group in range(len(program.groups)):
        own = [
            (*listed[i], result.begin[i], result.end[i]) for i in np.flatnonzero(program.group_of == group)
        ]
        stores = [(begin, end) for name, _, begin, end in own if name == "STORE.POST"]
        for name, fields, begin, end in own:
            if name in ("LOAD.INP", "LOAD.WGT", "LOAD.PATCH") and any(
                a < end and begin < b for a, b in stores
            ):
                most = max(most, fields["y_size"] * fields["x_size"] * VTA.inp_bytes // 8)
    # Whole rows of up to START cycles; the first rows are longer.
    assert (most <= 2 * START) == apart


def test_a_cut_load_reads_and_writes_what_it_did() -> None:
    random = np.random.default_rng(3)
    for _ in range(200):
        fields = {name: random.integers(0, 3, 1) for name in _BOX}
        fields |= {"y_size": random.integers(1, 6, 1), "x_size": random.integers(1, 9, 1)}
        fields["x_stride"] = fields["x_size"] + random.integers(0, 3)
        tail = int(random.integers(1, 12))
        whole, cut = elements(fields), {}
        for _, _, part in cut_boxes(fields, tail, parts_of(fields, tail)):
            own = elements(part)
            assert not own.keys() & cut.keys()
            cut |= own
        assert cut == whole


def elements(fields: Mapping[str, np.ndarray]) -> dict[int, int | None]:
    """The vector of DRAM at each place of the scratchpad that a load writes; None for pads."""
    item = {name: int(value[0]) for name, value in fields.items()}
    width = item["x_pad_0"] + item["x_size"] + item["x_pad_1"]
    found: dict[int, int | None] = {}
    for y in range(item["y_pad_0"] + item["y_size"] + item["y_pad_1"]):
        for x in range(width):
            row, column = y - item["y_pad_0"], x - item["x_pad_0"]
            inside = 0 <= row < item["y_size"] and 0 <= column < item["x_size"]
            place = item["dram_base"] + row * item["x_stride"] + column
            found[item["sram_base"] + y * width + x] = place if inside else None
    return found


def test_turnarounds_become_few(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []
    for apart in (False, True):
        with_choices(monkeypatch, apart=apart)
        program = shipped("small_cnn", on_dram(), data=False).program
        dram = simulate(program.config, program.instructions, program.image, data=False).dram
        assert dram is not None
        turns.append(dram.turnarounds)
    assert 1.5 * turns[1] < turns[0]


def test_segments_begin_at_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with_choices(monkeypatch, apart=False)
    wide = replace(on_dram(), memory=Memory(kind="dram", part="MT41K128M16", width=64, bus_bytes=64))
    program = shipped("mlp", wide, data=False).program
    assert all(segment.address % 8192 == 0 for segment in program.segments)


def test_a_fixed_memory_asks_nothing_of_drams() -> None:
    text = """
import sys
from vdla.codesign import models
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import load_config
compile_program(models.build("small_cnn").SerializeToString(), load_config("vta"), data=False)
print([name for name in sys.modules if name.startswith("vdla") and "dram" in name])
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['vdla.isa.dram_memory']"


@pytest.mark.system_tools("g++")
def test_a_placed_network_takes_the_cycles_of_the_rtl(monkeypatch: pytest.MonkeyPatch) -> None:
    with_choices(monkeypatch, apart=True)
    compiled = compile_program(network(7100), on_dram(TINY))
    arrays = {
        item.name: np.random.default_rng(1).integers(0, 100, item.shape).astype(item.dtype)
        for item in compiled.graph.inputs
    }
    assert run_on_rtl(compiled, [arrays], optimize="build").differences == ()
