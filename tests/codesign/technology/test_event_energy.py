"""The model of energy per event: its features, the shipped coefficients, and the energy of a launch."""

import dataclasses

import numpy as np
import pytest

from vdla.benchmarks.harness import energy_fit as fit
from vdla.benchmarks.harness.energy_rows import (
    FITTED,
    RESERVED,
    fitted_machines,
    is_reserved,
    judged_machines,
    machines,
    module_of_memory,
)
from vdla.benchmarks.harness.results import read_results
from vdla.codesign.technology import dram
from vdla.codesign.technology.cell_features import MODULES
from vdla.codesign.technology.cell_model import shipped_cell_model
from vdla.codesign.technology.clock import clock_of
from vdla.codesign.technology.components import default_components, shipped_components
from vdla.codesign.technology.energy import energy_by_table, energy_by_unit
from vdla.codesign.technology.event_energy import Spread, shipped_event_energy
from vdla.codesign.technology.event_features import (
    FEATURES,
    GROUPS,
    features_of,
    part_of_module,
    part_of_path,
)
from vdla.codesign.technology.events import Events, count_events
from vdla.codesign.technology.memories import memories_of
from vdla.codesign.technology.memory_energy import accesses, memory_picojoules
from vdla.codesign.technology.modelled_energy import energy_by_model, energy_interval, is_inside, rung
from vdla.codesign.technology.operand_rates import bases_of, rates_from, shipped_rates
from vdla.codesign.technology.prediction import predict_energy
from vdla.isa.assembler import assemble, assemble_uops
from vdla.isa.config import Config, load_config
from vdla.isa.extensions import EXTENSIONS
from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import MEASURED, operand_statistics
from vdla.verify.energy_programs import energy_program

EVENTS = Events(
    cycles=100, by_mode={"gemm": 10, "depthwise": 2}, overwriting=1, alu=3, slow=1, two=1, stored=4, window_reads=5,
    combined=1, written=32, settings=2, posts=1, busy={"load": 20, "store": 30},
    read={"instruction": 160, "uop": 8, "wgt": 64, "inp": 32, "acc": 16, "par": 0, "operand": 4},
    issued={"load": 2, "compute": 4, "store": 4}, runs={"load": 3, "compute": 1, "store": 1, "written": 2},
)  # fmt: skip
CHANGES = dict.fromkeys(MEASURED, 7.0)


def test_parts_and_features_are_known():
    model, machine = shipped_event_energy(), machines()["tiny"]
    features = features_of(machine, EVENTS, CHANGES)
    assert set(model.events) == set(GROUPS) == set(FEATURES)
    for part, costs in model.events.items():
        assert set(costs) <= set(FEATURES[part]) <= set(features)
        assert all(cost > 0 for cost in costs.values())
    assert {part_of_module(module) for module in MODULES} <= set(GROUPS)
    for own in (model.clocks(machine, 1), model.leakages(machine, 1.0)):
        assert set(own) <= set(GROUPS) and all(value >= 0 for value in own.values())


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("compute$347.pipeline.array.row_3.column_0", "array"),
        ("compute$347.pipeline.lane_12.alu", "lanes"),
        ("compute$347.accumulators.bank_0", "lanes"),
        ("compute$347.pipeline", "operations"),
        ("compute$347.uops", "compute"),
        ("store$348.pipeline.stage_b_2.stages", "stage B"),
        ("store$348.writer", "store"),
        ("tokens_3", "control"),
        ("", "control"),
    ],
)
def test_every_instance_has_a_part(path: str, part: str):
    assert part_of_path(path) == part


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("compute.pipeline.accumulator_lane", "lanes"),
        ("store.pipeline.stage_b_lane.stages", "stage B"),
        ("store.pipeline.requantize_lane", "stage A"),
        ("compute.loader.fifo", "compute"),
    ],
)
def test_every_module_has_a_part(module: str, part: str):
    assert part_of_module(module) == part


def test_features_grow_with_the_machine():
    small, large = machines()["tiny"], machines()["8x8"]
    here, there = features_of(small, EVENTS, CHANGES), features_of(large, EVENTS, CHANGES)
    assert there["stored lanes"] == 2 * here["stored lanes"] == 32
    assert there["input bits"] == 2 * here["input bits"] and there["products"] == here["products"]
    assert here["beats"] == (284 + 32) / 8


def test_energy_follows_the_operands():
    model, machine = shipped_event_energy(), machines()["tiny"]
    still, moving = (
        sum(model.data(features_of(machine, EVENTS, dict.fromkeys(MEASURED, bits))).values())
        for bits in (0, 500)
    )
    assert moving > 1.1 * still
    clocks = [model.clocks(machine, cycles) for cycles in (1, 2)]
    assert sum(clocks[1].values()) == pytest.approx(2 * sum(clocks[0].values()))


def test_coefficients_are_those_of_the_rows():
    document, known = read_results("energy_model"), machines()
    fitted = [row for row in document["rows"] if not is_reserved(row)]
    model = shipped_event_energy()
    costs = fit.fit_events(fitted, known)
    for part, own in costs.items():
        assert own == pytest.approx(dict(model.events[part]), rel=1e-3)
    assert len(fitted) == document["fitted"]
    assert (
        model.machines == tuple(fitted_machines()) == tuple(dict.fromkeys(row["machine"] for row in fitted))
    )
    # Cycles count: a program without any costs nothing.
    nothing = Events(
        cycles=0, by_mode={}, overwriting=0, alu=0, stored=0, window_reads=0, combined=0, written=0,
        read=dict.fromkeys(EVENTS.read, 0),
    )  # fmt: skip
    assert sum(model.data(features_of(known["tiny"], nothing, dict.fromkeys(MEASURED, 0.0))).values()) == 0


def test_totals_of_machines_that_nothing_was_fitted_on():
    """The total energy, clock pins and memories included, is inside the predicted interval as often as the interval's
    coverage states.
    """
    document, known, model = read_results("energy_model"), machines(), shipped_event_energy()
    held = [row for row in document["rows"] if is_reserved(row)]
    assert {(row["machine"], row["seed"]) for row in held} == {
        (name, seed) for name in judged_machines() for seed in RESERVED
    }
    rest = fit.Rest(cells=shipped_cell_model(), clock=model.clock, scale=model.sram_scale)
    inside = 0
    for row in held:
        one = fit.judge(row, model.events, known, rest)
        low, high = fit.ends_of(one, model.spread)
        inside += low <= one.replayed.whole <= high
    assert inside / len(held) == pytest.approx(document["judged"]["inside_interval"], abs=1e-3)
    assert 0.85 <= inside / len(held) <= 0.95
    assert document["judged"]["mean_error"]["clock"] < 0.005


def test_judged_machines_have_every_bus_and_extension():
    judged, fitted = judged_machines().values(), fitted_machines().values()
    for group in (judged, fitted):
        assert {config.memory.bus_bytes for config in group} == {8, 16, 32}
        assert {name for config in group for name in config.extensions} == set(EXTENSIONS)
        assert any(config.chain_buffer_bytes for config in group)
    assert any(config.block_in == config.block_out == 16 and not config.has("fold") for config in judged)
    assert not set(FITTED) & set(RESERVED)
    shapes = [dataclasses.replace(config, name="any") for config in fitted]
    assert not any(dataclasses.replace(config, name="any") in shapes for config in judged)


@pytest.mark.parametrize("reserved", [("tiny", RESERVED[0]), (next(iter(judged_machines())), FITTED[0])])
def test_what_is_kept_for_judging_is_not_fitted_on(reserved: tuple[str, int]):
    row = read_results("energy_model")["rows"][0]
    fit.fit_events([row], machines())
    with pytest.raises(ValueError, match="reserved for evaluation"):
        fit.fit_events([row, {**row, "machine": reserved[0], "seed": reserved[1]}], machines())


def test_spread_counts_machines_alike():
    """Each machine counts once, however many programs it ran: one machine has a single program, 10% off in one part,
    the other machine nine exact programs.
    """
    exact = fit.Parts(data=1.0, clock=10.0, memories=2.0)
    off = fit.Parts(data=1.1, clock=10.0, memories=2.0)
    found = [fit.Judged(machine="a", seed=0, replayed=off, predicted=exact)]
    found += [fit.Judged(machine="b", seed=n, replayed=exact, predicted=exact) for n in range(9)]
    spread = fit.spread_of(found)
    assert spread.data == pytest.approx(0.1 / 2**0.5, abs=1e-5) and spread.clock == spread.memories == 0
    # Student's t of 95% with one degree of freedom is 6.314; the whole is off as much as its parts say.
    assert spread.reach == pytest.approx(6.3138 * 1.5**0.5, abs=1e-3)
    reach = spread.reach * spread.data
    assert fit.ends_of(found[0], spread) == pytest.approx((13 - reach, 13 + reach))


def test_memories_by_module():
    """Accesses count only for memory macros; a memory of less than 1,024 bits is made of flip-flops and has no access
    energy.
    """
    machine, scale = machines()["tiny"], shipped_event_energy().sram_scale
    counts = accesses(machine, EVENTS)
    assert counts["wgt"] == (12, 64 / machine.wgt_bytes) and counts["store"][0] == 2 * EVENTS.stored
    whole = memory_picojoules(machine, counts, scale)
    assert {"uop scratchpad", "wgt scratchpad", "FIFOs and queues", "parameter table"} <= set(whole)
    small = dataclasses.replace(machine, command_queue_depth=1, fetch_buffer_depth=2)
    assert not any(m.is_macro for m in memories_of(small) if m.module == "fetch.load_queue")
    assert memory_picojoules(small, {"fetch.load_queue": (9.0, 9.0)}, scale) == {}
    assert module_of_memory("load$346.patches.window_0") == "load.patches"
    assert module_of_memory("store$348.tables.lane_3.words") == "store.tables.lane"


def test_rates_give_back_what_they_were_measured_on():
    machine = load_config("vta")
    changes = {name: 3.0 + place for place, name in enumerate(MEASURED)}
    rates, bases = rates_from(machine, EVENTS, changes), bases_of(machine, EVENTS)
    for name in MEASURED:
        assert rates[name] * bases[name] == pytest.approx(changes[name] if bases[name] else 0)
    shipped = shipped_rates()
    assert 0 < shipped.rates["inputs"] < 8 and 0 < shipped.rates["products"] < 16
    doubled = dataclasses.replace(EVENTS, by_mode={"gemm": 22, "depthwise": 2})
    few, many = (shipped.changes(machine, events)["products"] for events in (EVENTS, doubled))
    assert many == pytest.approx(2 * few)


def _folded_program(machine: Config, text: str, uops: str) -> Program:
    image = np.random.default_rng(3).integers(0, 256, 1 << 13).astype(np.uint8)
    words = assemble_uops(uops, machine)
    image[: words.nbytes] = words.view(np.uint8)
    instructions = assemble(text, machine)
    return Program(
        config=machine,
        instructions=instructions,
        image=image,
        group_of=np.full(len(instructions), -1, np.int32),
    )


@pytest.mark.parametrize(("shape", "adding", "kept"), [(0, 0, 12), (1, 3, 8), (2, 5, 0)])
def test_operations_of_arrays_that_fold(shape: int, adding: int, kept: int):
    """Counts of events on arrays with the extension `fold`, which multiply a weight tile part by part. The program has
    six overwriting operations: parts 0 to 3 of one weight tile, and parts 1 and 2 of the next tile. Parts differ in the
    inputs that they use. An operation on a part that is not the first of these adds to the accumulators, although it is
    marked as overwriting. `shape`: the array's fold; `adding`: how many of the six add; `kept`: accumulator lanes that
    each of nine operations leaves unchanged.
    """
    machine = dataclasses.replace(
        machines()["tiny"], block_in=16, block_out=16, folds=4, extensions=("post", "fold"),
        inp_buffer_bytes=2048, wgt_buffer_bytes=2048, acc_buffer_bytes=4096, par_buffer_bytes=256,
    )  # fmt: skip
    text = f"""LOAD.UOP y_size=1 x_size=3 x_stride=3
CONFIG FOLD shape={shape}
GEMM uop_end=2 iter_out=1 iter_in=2 wgt_factor_in=2 overwrite=1
CONFIG BASE wgt_base=4
GEMM uop_bgn=1 uop_end=3 iter_out=1 iter_in=1 overwrite=1
GEMM reset=1 uop_end=1 iter_out=1 iter_in=5
GEMM uop_end=3 iter_out=1 iter_in=1
FINISH"""
    program = _folded_program(machine, text, "UOP wgt=0\nUOP wgt=1 dst=1\nUOP wgt=2 dst=2\n")
    found = count_events(program, simulate(machine, program.instructions, program.image, data=False))
    assert found.gemm == 14 and found.overwriting == 6 - adding + 5
    assert found.kept_lanes == 9 * kept
    # Each of these lanes is a write of an accumulator less, of one in 16 lanes.
    for components in (default_components(), shipped_components()):
        ours, fewer_writes, fewer_reads = (
            energy_by_unit(machine, dataclasses.replace(found, **more), components)["acc scratchpad"]
            for more in (
                {},
                {"kept_lanes": found.kept_lanes + 16},
                {"overwriting": found.overwriting + 1},
            )
        )
        assert fewer_writes < ours and fewer_reads < ours
    statistics = operand_statistics(machine, program.instructions, program.image)
    assert statistics.operations == 9


def test_features_of_arrays_that_fold():
    """A bit of an input reaches as many multipliers as the folded array has columns; products are counted for the
    folded array.
    """
    whole = dataclasses.replace(
        machines()["8x8"], extensions=("post", "patch", "depthwise"), wgt_buffer_bytes=16384
    )
    folded = dataclasses.replace(whole, folds=2, extensions=(*whole.extensions, "fold"))
    here, there = features_of(whole, EVENTS, CHANGES), features_of(folded, EVENTS, CHANGES)
    halves = {"input bits", "row bits"}
    assert all(there[name] == here[name] / (2 if name in halves else 1) for name in here)
    here, there = bases_of(whole, EVENTS), bases_of(folded, EVENTS)
    halves = {"products", "sums", "partial_products", "carries", "weights", "digits"}
    assert all(there[name] == here[name] / (2 if name in halves else 1) for name in here)
    assert is_inside(folded) and not is_inside(
        dataclasses.replace(folded, folds=4, block_in=16, block_out=16)
    )


def test_energy_of_a_launch():
    machine = load_config("vta")
    found = energy_by_model(machine, EVENTS)
    assert {"array", "lanes", "post", "clock pins", "leakage", "wgt scratchpad", "DRAM"} <= set(found)
    assert all(value >= 0 for value in found.values())
    own = energy_by_model(machine, EVENTS, dict.fromkeys(MEASURED, 0.0))
    assert own["array"] < found["array"] and own["DRAM"] == found["DRAM"]
    bytes_read, rows = sum(EVENTS.read.values()), 7 + (284 + 32) / dram.ROW_BYTES
    expected = bytes_read * dram.READ_PJ_A_BYTE + 32 * dram.WRITE_PJ_A_BYTE + rows * dram.ACTIVATION_PJ
    assert found["DRAM"] == pytest.approx(expected / 1e6)
    # Of the table, or of the model: whichever the components say.
    hertz = clock_of(machine, default_components()).hertz
    assert energy_by_unit(machine, EVENTS, default_components()) == energy_by_model(
        machine, EVENTS, hertz=hertz
    )
    table = shipped_components()
    assert energy_by_unit(machine, EVENTS, table) == energy_by_table(machine, EVENTS, table) != found


def test_intervals_are_of_the_whole():
    small, large = machines()["tiny"], load_config("vta")
    assert is_inside(small) and not is_inside(large)
    assert rung(large).startswith(rung(small)) and rung(large) != rung(small)
    spread, rates = shipped_event_energy().spread, shipped_rates().spread
    assert spread.reach > 0 and rates > 0
    # Clock pins alone have an interval, and DRAM alone has none.
    assert energy_interval({"clock pins": 2.0}) == pytest.approx(
        (1 - spread.reach * spread.clock, 1 + spread.reach * spread.clock)
    )
    assert energy_interval({"DRAM": 1.0}) == (1.0, 1.0) == energy_interval({})
    low, high = energy_interval({"array": 1.0, "DRAM": 1.0, "wgt scratchpad": 2.0})
    off = np.hypot(np.hypot(spread.data, rates), 2 * spread.memories) / 4
    assert (low, high) == pytest.approx((1 - spread.reach * off, 1 + spread.reach * off))


def test_parts_are_off_by_themselves():
    spread = Spread(data=0.3, clock=0.0, memories=0.4, reach=2.0)
    assert spread.deviation(1.0, 7.0, 1.0) == pytest.approx(0.5)
    assert spread.deviation(1.0, 7.0, 0.0, rates=0.4) == pytest.approx(0.5)


def test_a_program_is_predicted_with_its_data():
    program = energy_program(machines()["tiny"], 4)
    whole, part = predict_energy(program), predict_energy(program, looked_at=40)
    assert whole.low < whole.whole < whole.high
    assert whole.clock == part.clock and whole.data["store"] == part.data["store"]
    assert 0.5 < part.data["array"] / whole.data["array"] < 2 and part.data != whole.data
    # Held against the replay of the same program, which the coefficients were fitted on.
    row = next(
        row for row in read_results("energy_model")["rows"] if (row["machine"], row["seed"]) == ("tiny", 4)
    )
    assert sum(whole.data.values()) == pytest.approx(sum(fit.measured(row).values()) / 1e6, rel=0.1)
    assert sum(whole.clock.values()) == pytest.approx(fit.measured_clock(row) / 1e6, rel=0.005)
