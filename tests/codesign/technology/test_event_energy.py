"""The model of energy per event: features, and the coefficients that come with the package."""

import dataclasses

import pytest
from vdla.benchmarks.harness import energy_fit as fit
from vdla.benchmarks.harness.energy_rows import HELD_OUT, machines
from vdla.benchmarks.harness.results import read_results
from vdla.codesign.technology.event_energy import (
    FEATURES,
    GROUPS,
    STRUCTURE,
    features_of,
    shipped_event_energy,
    structure_of,
)
from vdla.codesign.technology.events import Events
from vdla.hw.synthesis.netlist import UNITS
from vdla.sim.statistics import MEASURED

EVENTS = Events(
    cycles=100, gemm=10, depthwise=2, overwriting=1, alu=3, stored=4, window_reads=5, combined=1, written=32,
    read={"instruction": 160, "uop": 8, "wgt": 64, "inp": 32, "acc": 16, "par": 0, "operand": 4},
)  # fmt: skip
CHANGES = dict.fromkeys(MEASURED, 7.0)


def test_units_and_features_are_known():
    assert sorted(unit for group in GROUPS.values() for unit in group) == sorted(UNITS)
    model, machine = shipped_event_energy(), machines()["tiny"]
    features = features_of(machine, EVENTS, CHANGES)
    assert set(model.events) == set(GROUPS) == set(FEATURES)
    for unit, costs in model.events.items():
        assert set(costs) <= set(FEATURES[unit]) <= set(features)
        assert all(cost > 0 for cost in costs.values())
    for table in (model.registers, model.leakage):
        assert all(set(own) <= set(STRUCTURE) for own in table.values())
    assert set(structure_of(machine)) == set(STRUCTURE)


def test_features_grow_with_the_machine():
    small, large = machines()["tiny"], machines()["8x8"]
    here, there = features_of(small, EVENTS, CHANGES), features_of(large, EVENTS, CHANGES)
    assert there["GEMM lanes"] == 2 * here["GEMM lanes"] == 80
    assert there["input bits"] == 2 * here["input bits"] and there["product bits"] == here["product bits"]
    assert here["bus beats"] == (284 + 32) / 8


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
    costs = fit.fit_events(fitted, known)
    model = shipped_event_energy()
    for unit, own in costs.items():
        assert own == pytest.approx(dict(model.events[unit]), rel=1e-3)
    errors = [abs(1 / fit.ratio(row, costs, known) - 1) for row in held]
    assert sum(errors) / len(errors) == pytest.approx(document["mean_error"], abs=1e-3)
    # Cycles count: a program without any costs nothing.
    nothing = dataclasses.replace(
        EVENTS, cycles=0, gemm=0, depthwise=0, alu=0, stored=0, window_reads=0, combined=0
    )
    empty = dataclasses.replace(nothing, written=0, read=dict.fromkeys(EVENTS.read, 0))
    assert sum(model.data(features_of(known["tiny"], empty, dict.fromkeys(MEASURED, 0.0))).values()) == 0
