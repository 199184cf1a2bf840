"""The model of area and clock: its memories equal those of the RTL, and predictions for held-out machines are
accurate.
"""

from collections import Counter
from dataclasses import replace
from importlib import resources

import pytest

import vdla
from vdla.benchmarks.area_model import seen
from vdla.benchmarks.cell_areas import draw
from vdla.benchmarks.harness import area_fit
from vdla.benchmarks.harness.area_rows import HELD_OUT, Synthesized, read_rows
from vdla.benchmarks.harness.results import RESULTS, read_results
from vdla.codesign.explore.evaluate import NetworkFigures, figures_of_machine, from_json, to_json
from vdla.codesign.explore.metrics import METRICS
from vdla.codesign.technology.area import basis, described
from vdla.codesign.technology.cell_model import shipped_cell_model
from vdla.codesign.technology.components import (
    ComponentsError,
    default_components,
    load_components,
    shipped_components,
)
from vdla.codesign.technology.memories import memories_of
from vdla.codesign.technology.rungs import rungs_of_machine
from vdla.hw.synthesis.cells.nodes import node_text
from vdla.hw.synthesis.cells.sram import Scale, memory_figures
from vdla.isa.config import load_config
from vdla.isa.extensions import DEFAULT_EXTENSIONS


@pytest.fixture(scope="module")
def rows() -> list[Synthesized]:
    return read_rows(RESULTS / "cell_areas_osu018_stdcells.jsonl")[1]


def test_macros_are_those_that_synthesis_found(rows: list[Synthesized]):
    for row in rows:
        ours: Counter[tuple[str, int, int]] = Counter()
        for memory in memories_of(row.config):
            if memory.is_macro:
                ours[memory.module, memory.words, memory.width] += memory.count
        found: Counter[tuple[str, int, int]] = Counter()
        for module, own in row.macros.items():
            for count, words, width in own:
                found[module, words, width] += count
        assert ours == found, f"draw {row.draw}"


def test_rows_are_of_the_machines_that_are_drawn(rows: list[Synthesized]):
    assert all(draw(row.draw) == row.config for row in rows)
    assert {row.draw < HELD_OUT for row in rows} == {True, False}


def test_machines_that_nothing_was_fitted_on_are_predicted(rows: list[Synthesized]):
    model = shipped_cell_model()
    held = [row for row in rows if row.draw >= HELD_OUT]
    for row in held:
        found = model.predict(row.config)
        assert 1e6 * sum(found.logic.values()) == pytest.approx(row.logic, rel=0.05), row.draw
        assert found.longest_ns == pytest.approx(row.longest, rel=0.05), row.draw
        assert found.area_ends[0] < 1 < found.area_ends[1]


def test_flip_flops_are_counted_module_by_module(rows: list[Synthesized]):
    model, errors = shipped_cell_model(), list[float]()
    for row in rows:
        if row.is_reserved:
            ours = sum(model.flip_flops_by_module(row.config, memories_of(row.config)).values())
            errors.append(abs(ours / sum(row.flip_flops.values()) - 1))
    assert max(errors) < 0.01 and sum(errors) / len(errors) < 0.002


def test_reserved_machines_are_not_fitted_on(rows: list[Synthesized]):
    scale, head = shipped_cell_model().scale, {"library": "", "node_nm": 0}
    few = [row for row in rows if not row.is_reserved][:3]
    area_fit.fit(few, head, scale)
    with pytest.raises(ValueError, match="reserved for evaluation"):
        area_fit.fit([*few, rows[-1]], head, scale)


def test_figures_say_what_training_had_seen(rows: list[Synthesized]):
    training = [row for row in rows if not row.is_reserved]
    held = [row for row in rows if row.is_reserved]
    found = seen(training, held)
    assert found == read_results("area_model")["seen_in_training"]
    assert seen(held, held) == {
        "logic_share": {"median": 1.0, "least": 1.0, "most": 1.0}, "longest_paths": len(held)
    }  # fmt: skip
    assert 0.8 < found["logic_share"]["median"] < 1


def test_the_longest_path_is_that_of_the_slowest_unit():
    model, vta = shipped_cell_model(), vdla.config("vta")
    without = vdla.config("vta", extensions=())
    assert model.predict(vta).slowest == "store.pipeline.stage_b_lane.stages"
    assert model.predict(without).longest_ns < model.predict(vta).longest_ns
    # The weights of a larger scratchpad come later.
    large = replace(vta, wgt_buffer_bytes=8 << 20)
    assert model.predict(large).slowest == "compute.pipeline.array"


def test_figures_follow_from_the_model_or_from_the_table():
    vta = vdla.config("vta")
    modelled, table = (figures_of_machine(vta, each) for each in (default_components(), shipped_components()))
    assert modelled.clock_mhz != table.clock_mhz == vta.clock_mhz
    assert modelled.square_millimetres > 20 * table.square_millimetres
    assert METRICS["area"].rung == "" and table.rungs["area"] == "assumed: table of components"
    assert table.rungs["latency"] == "exact simulation, assumed clock"
    assert "model of" in modelled.rungs["area"] and "clock by model" in modelled.rungs["latency"]
    low, high = modelled.intervals["area"]
    assert 0.9 < low < 1 < high < 1.1
    run = NetworkFigures(cycles=1, roofline_cycles=1.0, dram_bytes=1, energy={"array": 1.0})
    launched = replace(modelled, networks={"network": run})
    assert from_json(to_json(launched)) == launched
    assert load_components("45nm-published") == shipped_components()
    (first, second), (table_alone,) = described(default_components()), described(shipped_components())
    assert "osu018" in first and "clock tree" in first and "replays" in second and "45 nm" in table_alone


def test_an_array_that_folds_has_the_columns_that_are_there():
    whole = vdla.config("vta", block_in=32, block_out=32, acc_buffer_bytes=262144)
    narrow = replace(whole, block_out=8, acc_buffer_bytes=65536, extensions=("post", "patch"))
    folded = replace(whole, folds=4, extensions=(*whole.extensions, "fold"))
    assert memories_of(folded) != memories_of(whole)
    assert [m.width for m in memories_of(folded) if m.module == "wgt"] == [8 * 32 * 8]
    model = shipped_cell_model()
    # Rows and products of the narrow array, with multiplexers; lanes of the wide one.
    array = "compute.pipeline.array"
    of = {
        name: model.logic_by_module(config, memories_of(config))
        for name, config in (("whole", whole), ("narrow", narrow), ("folded", folded))
    }
    columns, lanes = f"{array}.array_row.array_column", "compute.pipeline.accumulator_lane"
    assert of["narrow"][columns] < of["folded"][columns] < 1.3 * of["narrow"][columns]
    assert of["folded"][columns] < 0.35 * of["whole"][columns]
    assert of["folded"][lanes] == pytest.approx(of["whole"][lanes])
    assert of["narrow"][array] < of["folded"][array] < of["whole"][array]
    # The table of components has an adder for each lane that has no column.
    tables = [figures_of_machine(config, shipped_components()).area["array"] for config in (narrow, folded)]
    adders = (32 - 8) * shipped_components().area["int32_add"] / 1e6
    assert tables[1] - tables[0] == pytest.approx(adders)


def test_every_legal_machine_has_figures():
    for fields in (
        {"block_in": 128, "block_out": 128, "par_buffer_bytes": 16384, "wgt_buffer_bytes": 1 << 20},
        {"batch": 8, "acc_banks": 16, "command_queue_depth": 1, "fetch_buffer_depth": 2},
        {"block_in": 4, "block_out": 4, "multiplier_stages": 4},
        {"chain_buffer_bytes": 4096},
        {
            "block_in": 64,
            "block_out": 64,
            "folds": 16,
            "extensions": (*DEFAULT_EXTENSIONS, "fold", "taps", "sweep"),
        },
    ):
        found = shipped_cell_model().predict(vdla.config("vta", **fields))
        assert all(area > 0 for area in found.area.values()) and 20 < found.clock_mhz < 200
        assert ("chain memory" in found.area) == ("chain_buffer_bytes" in fields)


def test_a_library_has_one_node_everywhere():
    """The process node must be the one that the library's maker states. Earlier some places showed 207 nm, the node to
    which areas are scaled.
    """
    told = [
        *rungs_of_machine(load_config("vta"), default_components()).values(),
        *described(default_components()),
    ]
    assert all("180 nm" in text for text in told if " nm" in text) and not any("207" in text for text in told)
    assert node_text("osu018_stdcells", 207) == "180 nm" and node_text("mine", 64.6) == "about 65 nm"
    assert basis(default_components())["node"] == "180 nm"


def test_the_table_has_the_memories_of_the_syntheses(tmp_path):
    macro = memory_figures(4096, 64, Scale())
    assert shipped_components().sram_area(32 << 10) == pytest.approx(macro.area)
    text = (resources.files("vdla.codesign.technology") / "components.toml").read_text(encoding="utf-8")
    for written, wanted in (("0.5", 0.5), ('"cacti"', None)):
        (tmp_path / "own.toml").write_text(text.replace('"cacti-45nm"', written))
        if wanted is not None:
            assert load_components(tmp_path / "own.toml").sram_area(1) == 8 * wanted
            continue
        with pytest.raises(ComponentsError, match=r"sram: area_um2_per_bit = 'cacti': expected a number"):
            load_components(tmp_path / "own.toml")
