"""Tests the energy of a DRAM, which is computed from its commands. The energy of one chip equals a computation by hand,
the parts of an energy add up, and DRAM parts without published currents have no energy.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from vdla.codesign import models
from vdla.codesign.explore.evaluate import figures_of_machine
from vdla.codesign.explore.networks import load_network
from vdla.codesign.explore.report.layers import figures_by_layer
from vdla.codesign.explore.report.synthesized import beside_predicted
from vdla.codesign.explore.schedules.apply import NO_SETTINGS, compile_with
from vdla.codesign.explore.syntheses import Synthesis, measured_figures
from vdla.codesign.technology.area import structure_of
from vdla.codesign.technology.clock import predicted
from vdla.codesign.technology.components import default_components, shipped_components
from vdla.codesign.technology.dram import (
    DramCommands,
    activation_pj,
    energy_by_command,
    read_pj,
    refresh_pj,
    router_area,
    write_pj,
)
from vdla.codesign.technology.dram_currents import CURRENTS
from vdla.codesign.technology.energy import energy_by_unit
from vdla.codesign.technology.events import Events
from vdla.codesign.technology.modelled_energy import rung
from vdla.isa.config import Config, load_config
from vdla.isa.dram_parts import PARTS
from vdla.sim import simulate
from vdla.sim.dram_log import word_runs
from vdla.verify.cosim.dram import with_dram

TINY = load_config("tiny")


def machine_with(part: str, clock_mhz: int, bus_bytes: int, **fields: int) -> Config:
    """The machine `tiny` with a bus of `bus_bytes` and the DRAM `part`, at a clock of `clock_mhz`."""
    wide = TINY.with_memory(dataclasses.replace(TINY.memory, bus_bytes=bus_bytes))
    return with_dram(wide, clock_mhz, part=part, **fields)


WITHOUT_CURRENTS = {"MT53E256M16D1", "LPDDR5-8Gb"}


def test_a_ddr3_chip_by_hand() -> None:
    """Energies of MT41K128M16 equal values computed by hand from its data sheet: 1.5 V, a clock period of 1.25 ns, a
    row cycle of 38 clocks. An activation takes (110 * 38 - 45 * 28 - 42 * 10) mA clocks, which are 4.69 nJ.
    """
    part = CURRENTS["MT41K128M16"]
    assert activation_pj(part) == pytest.approx(1.5 * 1.25 * (110 * 38 - 45 * 28 - 42 * 10)) == 4687.5
    assert read_pj(part) == pytest.approx(1.5 * 5 * (270 - 45))
    assert write_pj(part) == pytest.approx(1.5 * 5 * (280 - 45))
    assert refresh_pj(part) == pytest.approx(1.5 * 160 * (215 - 45))


def test_standby_grows_with_the_clock_and_chips_add() -> None:
    none = DramCommands(activates=0, reads=0, writes=0, refreshes=0)
    one = machine_with("MT41K128M16", 100, 16)
    # A run of 1e5 cycles at 100 MHz is 1 ms; DDR3-800 is half the clock at which 45 mA were measured.
    assert energy_by_command(one, none, 100_000)["standby"] == pytest.approx(1e6 * 1.5 * 45 / 2)
    faster = machine_with("MT41K128M16", 200, 16)
    assert energy_by_command(faster, none, 200_000)["standby"] == pytest.approx(1e6 * 1.5 * 45)
    some = DramCommands(activates=3, reads=5, writes=7, refreshes=2)
    two = machine_with("MT41K128M16", 100, 32, width=32)
    single, double = energy_by_command(one, some, 1000), energy_by_command(two, some, 1000)
    assert double == pytest.approx({cause: 2 * value for cause, value in single.items()})


def test_every_part_has_currents_or_says_so() -> None:
    assert set(PARTS) - set(CURRENTS) == WITHOUT_CURRENTS and not set(CURRENTS) - set(PARTS)
    for name, part in CURRENTS.items():
        assert min(activation_pj(part), read_pj(part), write_pj(part), refresh_pj(part)) > 0, name
        assert part.idd2n < part.idd3n < part.idd0, name


@pytest.mark.parametrize("components", [default_components(), shipped_components()], ids=["model", "table"])
def test_layers_share_the_energy_of_a_launch(components) -> None:
    machine = with_dram(TINY, 100, part="MT41K256M8")
    network = load_network(models.build("small_cnn").SerializeToString())
    seen = []

    def energy(config: Config, events):
        found = energy_by_unit(config, events, components)
        seen.append(events)
        return found

    layers = figures_by_layer(machine, network, energy)
    for cause in ("activate", "read", "write", "refresh", "standby"):
        assert all(layer.energy[f"DRAM {cause}"] >= 0 for layer in layers)
        assert sum(layer.energy[f"DRAM {cause}"] for layer in layers) > 0
    fixed = figures_by_layer(TINY, network, energy)
    assert all("DRAM" in layer.energy and "DRAM read" not in layer.energy for layer in fixed)
    assert all(events.dram is None for events in seen[len(layers) :])


def test_row_activations_are_those_of_the_layers_own_cycles() -> None:
    machine = with_dram(TINY, 100, part="MT41K256M8")
    network = load_network(models.build("small_cnn").SerializeToString())
    seen: list[Events] = []
    layers = figures_by_layer(machine, network, lambda _, events: seen.append(events) or {})
    program = compile_with(machine, network, NO_SETTINGS).program
    runs = word_runs(machine, program.instructions, program.image)
    whole = simulate(machine, program.instructions, program.image, data=False).dram
    assert runs is not None and whole is not None
    found = [events.dram.activates for events in seen if events.dram is not None]
    expected = [
        sum(int(n) for at, n in zip(runs.start, runs.opened, strict=True) if own.begin <= at < own.end)
        for own in (layer.account for layer in layers)
    ]
    assert found == expected and abs(sum(found) - whole.opened) <= 1
    moved = np.array([layer.account.dram_bytes for layer in layers])
    assert found != [round(share) for share in whole.opened * moved / moved.sum()]


def test_a_part_without_currents_has_no_energy_and_says_so() -> None:
    machine = machine_with("LPDDR5-8Gb", 100, 32)
    assert "without DRAM (no currents of LPDDR5-8Gb are published)" in rung(machine)
    layers = figures_by_layer(
        machine,
        load_network(models.build("small_cnn").SerializeToString()),
        lambda c, e: energy_by_unit(c, e, default_components()),
    )
    assert not any(unit.startswith("DRAM") for layer in layers for unit in layer.energy)


def test_chips_of_every_channel_are_in_standby() -> None:
    commands = DramCommands(activates=10, reads=100, writes=50, refreshes=4)
    one, four = (machine_with("MT41K128M16", 100, 16, channels=channels) for channels in (1, 4))
    alone, together = (energy_by_command(machine, commands, 100_000) for machine in (one, four))
    assert together["standby"] == pytest.approx(4 * alone["standby"])
    # The counts of commands are those of all channels.
    assert {**together, "standby": 0} == {**alone, "standby": 0}


def test_shares_of_commands_add_up() -> None:
    whole = DramCommands(activates=1000, reads=8000, writes=2000, refreshes=100)
    parts = [whole.share(0.25, 0.5, 0.3), whole.share(0.75, 0.5, 0.7)]
    for name in ("activates", "reads", "writes", "refreshes"):
        assert sum(getattr(part, name) for part in parts) == getattr(whole, name)
    assert dataclasses.replace(whole, reads=0, writes=0).share(0.5, 0.5, 0.5).activates == 0
    assert whole.share(0.5, 0.5, 0.5, activates=7).activates == 7


@pytest.mark.parametrize("components", [default_components(), shipped_components()], ids=["model", "table"])
def test_a_wider_dram_needs_a_larger_phy(components) -> None:
    narrow = machine_with("MT41K128M16", 100, 16)
    wide = machine_with("MT41K128M16", 100, 32, width=32)
    fixed = narrow.with_memory(dataclasses.replace(TINY.memory, bus_bytes=16))
    areas = [structure_of(machine, components).area for machine in (narrow, wide, fixed)]
    assert areas[0]["DRAM PHY"] == pytest.approx(0.725) and areas[1]["DRAM PHY"] == pytest.approx(1.45)
    assert "DRAM PHY" not in areas[2]
    assert structure_of(machine_with("W9825G6KH6", 100, 8, width=64), components).area["DRAM PHY"] == 0
    # The PHY has no interval: in square millimetres, the interval is that of the machine without DRAM.
    if components.modelled:
        ends = [structure_of(machine, components).intervals["area"] for machine in (narrow, fixed)]
        sums = [sum(areas[0].values()), sum(areas[2].values())]
        widths = [total * (high - low) for total, (low, high) in zip(sums, ends, strict=True)]
        assert widths[0] == pytest.approx(widths[1])


def test_the_clock_of_a_machine_with_a_dram_is_the_configurations_own() -> None:
    """No model predicts the clock of a machine with a DRAM: its latency has no interval and is not called predicted,
    and a synthesis replaces its area but not its clock.
    """
    machine = machine_with("MT41K128M16", 100, 16)
    figures = figures_of_machine(machine, default_components())
    assert figures.clock_mhz == 100
    assert (
        figures.rungs["clock"] == "assumed" and figures.rungs["latency"] == "exact simulation, assumed clock"
    )
    assert "model of syntheses" in figures.rungs["area"] and set(figures.intervals) == {"area"}
    synthesis = Synthesis(
        library="cells", sha256="", node_nm=207, area={"array": 2.0}, clock_mhz=50.0, seconds=1.0
    )
    measured = measured_figures(machine, figures, synthesis)
    assert measured.clock_mhz == 100 and measured.rungs["latency"] == figures.rungs["latency"]
    assert measured.square_millimetres == 2.0 and not measured.intervals
    # The page compares the synthesis with the prediction, which the machine itself does not use.
    compared = beside_predicted(machine, synthesis, default_components())
    assert compared["clock"][0] == pytest.approx(predicted(machine).clock_mhz, rel=1e-4)
    assert compared["clock"][1] == 50.0


@pytest.mark.parametrize("components", [default_components(), shipped_components()], ids=["model", "table"])
def test_every_channel_has_a_phy_and_several_have_a_router(components) -> None:
    one, two, four = (
        structure_of(machine_with("MT41K128M16", 100, 16, channels=channels), components).area
        for channels in (1, 2, 4)
    )
    assert "DRAM router" not in one and 0 < two["DRAM router"] < four["DRAM router"]
    assert [area["DRAM PHY"] for area in (one, two, four)] == pytest.approx([0.725, 1.45, 2.9])


def test_the_area_of_the_router_is_that_of_a_synthesis() -> None:
    # Yosys with the library osu018: 54,411 square micrometres for two channels and a bus of 16 bytes.
    machine = machine_with("MT41K128M16", 100, 16, channels=2)
    memory = dataclasses.replace(machine.memory, outstanding_reads=8, outstanding_writes=4)
    assert router_area(machine.with_memory(memory))["DRAM router"] == pytest.approx(0.0544, rel=0.1)
