"""The model of energy per event: features, coefficients that come with the package, and what follows for a launch."""

import dataclasses

import numpy as np
import pytest

from vdla.benchmarks.harness import energy_fit as fit
from vdla.benchmarks.harness.energy_rows import HELD_OUT, VALIDATION, machines
from vdla.benchmarks.harness.results import read_results
from vdla.codesign.technology import dram
from vdla.codesign.technology.clock import clock_of
from vdla.codesign.technology.components import default_components, shipped_components
from vdla.codesign.technology.energy import energy_by_table, energy_by_unit
from vdla.codesign.technology.event_energy import STRUCTURE, shipped_event_energy, structure_of
from vdla.codesign.technology.event_features import FEATURES, GROUPS, features_of, part_of_path
from vdla.codesign.technology.events import Events, count_events
from vdla.codesign.technology.modelled_energy import energy_by_model, energy_interval, is_inside, rung
from vdla.codesign.technology.operand_rates import bases_of, rates_from, shipped_rates
from vdla.codesign.technology.prediction import predict_energy
from vdla.isa.assembler import assemble, assemble_uops
from vdla.isa.config import Config, load_config
from vdla.isa.program import Program
from vdla.sim import simulate
from vdla.sim.statistics import MEASURED, operand_statistics
from vdla.verify.energy_programs import energy_program

EVENTS = Events(
    cycles=100, gemm=10, depthwise=2, overwriting=1, alu=3, slow=1, two=1, stored=4, window_reads=5, combined=1,
    written=32, settings=2, posts=1, busy={"load": 20, "store": 30},
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
    for table in (model.registers, model.leakage):
        assert all(set(own) <= set(STRUCTURE) for own in table.values())
    assert set(structure_of(machine)) == set(STRUCTURE)


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
    fitted = [row for row in document["rows"] if row["seed"] not in HELD_OUT]
    held = [row for row in document["rows"] if row["seed"] in HELD_OUT]
    assert len(held) == len(known) * len(HELD_OUT) and not set(VALIDATION) & set(HELD_OUT)
    costs = fit.fit_events(fitted, known)
    model = shipped_event_energy()
    for part, own in costs.items():
        assert own == pytest.approx(dict(model.events[part]), rel=1e-3)
    errors = [abs(1 / fit.ratio(row, costs, known) - 1) for row in held]
    assert sum(errors) / len(errors) == pytest.approx(document["mean_error"], abs=1e-3)
    assert document["mean_error"] < 0.08
    assert 0.85 <= document["inside_interval"] <= 1.0
    # Cycles count: a program without any costs nothing.
    nothing = Events(
        cycles=0, gemm=0, depthwise=0, overwriting=0, alu=0, stored=0, window_reads=0, combined=0, written=0,
        read=dict.fromkeys(EVENTS.read, 0),
    )  # fmt: skip
    assert sum(model.data(features_of(known["tiny"], nothing, dict.fromkeys(MEASURED, 0.0))).values()) == 0


def test_conformal_interval():
    ratios = [float(number) for number in range(1, 100)]
    assert fit.interval_of(ratios) == (5.0, 95.0)


def test_rates_give_back_what_they_were_measured_on():
    machine = load_config("vta")
    changes = {name: 3.0 + place for place, name in enumerate(MEASURED)}
    rates, bases = rates_from(machine, EVENTS, changes), bases_of(machine, EVENTS)
    for name in MEASURED:
        assert rates[name] * bases[name] == pytest.approx(changes[name] if bases[name] else 0)
    shipped = shipped_rates()
    assert 0 < shipped.rates["inputs"] < 8 and 0 < shipped.rates["products"] < 16
    doubled = dataclasses.replace(EVENTS, gemm=22, depthwise=2)
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
    """Of six overwriting operations with parts 0 to 3 of a tile and 1 and 2 of the next, those add to accumulators
    whose part of the inputs is not the first."""
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
    """An input's bit reaches as many rows as there are columns; products are those of the array that is there."""
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


def test_intervals_are_of_the_data():
    small, large = machines()["tiny"], load_config("vta")
    assert is_inside(small) and not is_inside(large)
    assert rung(large).startswith(rung(small)) and rung(large) != rung(small)
    model = shipped_event_energy()
    assert energy_interval(small, {"array": 1.0}) == pytest.approx(model.interval)
    low, high = energy_interval(small, {"array": 1.0, "DRAM": 1.0, "clock pins": 2.0})
    assert (low, high) == pytest.approx(tuple(1 + (end - 1) / 4 for end in model.interval))
    assert energy_interval(large, {"array": 1.0}) == pytest.approx(model.interval_outside)


def test_a_program_is_predicted_with_its_data():
    program = energy_program(machines()["tiny"], 4)
    whole, part = predict_energy(program), predict_energy(program, looked_at=40)
    assert whole.low < sum(whole.data.values()) < whole.high
    assert whole.clock == part.clock and whole.data["store"] == part.data["store"]
    assert 0.5 < part.data["array"] / whole.data["array"] < 2 and part.data != whole.data
    # Held against the replay of the same program, which the coefficients were fitted on.
    row = next(
        row for row in read_results("energy_model")["rows"] if (row["machine"], row["seed"]) == ("tiny", 4)
    )
    assert sum(whole.data.values()) == pytest.approx(sum(fit.measured(row).values()) / 1e6, rel=0.1)
