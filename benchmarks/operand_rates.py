"""Rates at which operand bits change in a network. They are measured once; the explorer, which simulates without data,
uses them to predict energy.

    python benchmarks/operand_rates.py MODEL [--machine NAME] [--share X] [--write]

A network is compiled for a machine (accelerator configuration) and run with its own weights on seeded inputs. The
measured rates are then tested on other machines and on the networks OTHERS: energy predicted from the rates is compared
with energy predicted from each program's own operands. The root mean square of the differences, the error of the rates,
widens the intervals of predicted energy. --write stores the rates in codesign/technology/operand_rates.json, the
figures in benchmarks/results/operand_rates.json.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.command_line import WRITE, Given, Option, run_script
from vdla.benchmarks.harness.energy_rows import fitted_machines
from vdla.benchmarks.harness.results import ROOT, provenance, write_results
from vdla.codesign import models
from vdla.codesign.explore.networks import Network, load_network
from vdla.codesign.technology.event_energy import shipped_event_energy
from vdla.codesign.technology.event_features import features_of
from vdla.codesign.technology.events import Events, count_events
from vdla.codesign.technology.modelled_energy import energy_by_model
from vdla.codesign.technology.operand_rates import OperandRates, rates_from
from vdla.compiler.pipeline import compile_program
from vdla.isa.config import Config, load_config
from vdla.sim import simulate
from vdla.sim.statistics import operand_statistics
from vdla.util.files import write_whole

RATES = ROOT / "codesign" / "technology" / "operand_rates.json"
SMALL = tuple(fitted_machines()[name] for name in ("tiny", "8x8", "4x4 bus 16"))
"""Small machines on which energies predicted from the measured rates are checked."""
OTHERS = ("small_cnn", "mlp", "dqn")
"""Shipped networks on which energies predicted from the measured rates are checked."""


OPTIONS = (
    Option("model", "ONNX file of the network", Path),
    Option("--machine", "machine: a preset or a TOML file", default="vta"),
    Option("--share", "share of the program's operations whose operands are sampled", float, 0.005),
    WRITE,
)


def main(options: Given) -> None:
    network, config = load_network(options.model), load_config(options.machine)
    events, changes = sampled_activity(config, network, options.share)
    rates = OperandRates(
        network=network.name, machine=config.name, rates=rates_from(config, events, changes), spread=0.0
    )
    small = [load_network(models.build(name).SerializeToString(), name=name) for name in OTHERS]
    held = [prediction_error(other, network, rates, options.share) for other in held_out_machines(config)]
    held += [
        prediction_error(other, item, rates, 1.0)
        for item in small
        for other in (config, *held_out_machines(config), *SMALL)
    ]
    # Errors relative to the energy that the rates predict, as intervals of energy are.
    spread = round(math.sqrt(statistics.mean((1 / (1 + one["error"]) - 1) ** 2 for one in held)), 4)
    figures = {
        "network": network.name,
        "machine": config.name,
        "energy": energy_of(config, events, changes),
        "others": held,
        "spread": spread,
    }
    print(json.dumps({**figures, "rates": rates.rates}, indent=2))
    if options.write:
        document = {
            "network": network.name,
            "machine": config.name,
            "spread": spread,
            "rates": _rounded(rates.rates),
        }
        write_whole(RATES, (json.dumps({**document, "written": provenance()}, indent=2) + "\n").encode())
        write_results("operand_rates", figures)


def energy_of(config: Config, events: Events, changes: dict[str, float]) -> dict[str, Any]:
    """Energy of one run on the machine `config`, by name of the figure: the whole in microjoules, and the share of each
    unit; picojoules per multiplication on the chip (without DRAM), with and without clock pins; and the share of each
    unit in the energy of the chip without clock pins. `events`: numbers of the run's events; `changes`: numbers of
    operand bits that change.
    """
    units = energy_by_model(config, events, changes)
    chip = {unit: value for unit, value in units.items() if unit != "DRAM"}
    gated = {unit: value for unit, value in chip.items() if unit != "clock pins"}
    products = events.gemm * config.multiplies_per_cycle + events.depthwise * config.inp_bytes
    return {
        "uj": round(sum(units.values()), 1),
        "pj_a_multiplication_on_chip": round(1e6 * sum(chip.values()) / products, 2),
        "pj_a_multiplication_without_clock_pins": round(1e6 * sum(gated.values()) / products, 2),
        "shares": {unit: round(value / sum(units.values()), 4) for unit, value in units.items()},
        "shares_on_chip_without_clock_pins": {
            unit: round(value / sum(gated.values()), 4) for unit, value in gated.items()
        },
    }


def sampled_activity(config: Config, network: Network, share: float) -> tuple[Events, dict[str, float]]:
    """Runs a network on the machine `config` with seeded inputs from -127 to 127, normally distributed with standard
    deviation 32. Returns the events of the run, and the numbers of operand bits that change, estimated from a random
    `share` of the operations.
    """
    program = compile_program(network.graph, config).program
    image = program.image.copy()
    rng = np.random.default_rng(21)
    for segment in program.segments:
        if segment.kind == "input":
            values = np.clip(rng.normal(0, 32, segment.size), -127, 127).astype(np.int8)
            image[segment.address : segment.address + segment.size] = values.view(np.uint8)
    simulation = simulate(config, program.instructions, image, data=False)
    found = operand_statistics(config, program.instructions, image, share=share)
    return count_events(program, simulation), found.changes


def held_out_machines(config: Config) -> list[Config]:
    """Machines on which the rates are tested. They are changes of `config`, on which the rates were measured: another
    array, or another accumulator buffer.
    """
    return [
        dataclasses.replace(config, name=name, **fields)
        for name, fields in (
            ("8x8", {"block_in": 8, "block_out": 8}),
            ("32x32", {"block_in": 32, "block_out": 32}),
            ("acc buffer doubled", {"acc_buffer_bytes": 2 * config.acc_buffer_bytes}),
        )
    ]


def prediction_error(config: Config, network: Network, rates: OperandRates, share: float) -> dict[str, Any]:
    """Predicts the energy of changing data twice, from the program's own operands and from the rates; returns the first
    energy in microjoules, the relative error of the second, and the names of network and machine. `share`: share of the
    operations from which the changing bits are estimated.
    """
    events, changes = sampled_activity(config, network, share)
    model = shipped_event_energy()
    own = model.data(features_of(config, events, changes))
    by_rates = model.data(features_of(config, events, rates.changes(config, events)))
    return {
        "network": network.name,
        "machine": config.name,
        "uj": round(sum(own.values()) / 1e6, 1),
        "error": round(sum(by_rates.values()) / sum(own.values()) - 1, 4),
    }


def _rounded(rates: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.5g}") for name, value in rates.items()}


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
