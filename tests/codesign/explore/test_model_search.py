"""The model-based search for machines: its acquisition function against the definition, and its choices on made-up
figures.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.codesign.explore.evaluate import Figures, NetworkFigures
from vdla.codesign.explore.front import hypervolume, pareto
from vdla.codesign.explore.improvement import expected_growth, free_boxes
from vdla.codesign.explore.metrics import parse_constraint, parse_objectives
from vdla.codesign.explore.networks import load_network
from vdla.codesign.explore.records import Known
from vdla.codesign.explore.space import space_of
from vdla.codesign.explore.study import Study, explore
from vdla.codesign.models import write
from vdla.codesign.technology.area import area_by_unit
from vdla.codesign.technology.components import shipped_components
from vdla.isa.config import Config, load_config
from vdla.isa.extensions import DEFAULT_EXTENSIONS

SPACE = {
    "base": replace(load_config("vta"), extensions=DEFAULT_EXTENSIONS, store_fifo_bytes=512),
    "fields": {
        "block_in": [8, 16, 32, 64],
        "block_out": "block_in",
        "inp_buffer_bytes": [8192, 16384, 32768],
        "wgt_buffer_bytes": [65536, 131072, 262144, 524288],
        "acc_buffer_bytes": [32768, 65536, 131072],
        "bus_bytes": [8, 16, 32],
        "read_latency": [30, 100],
    },
}


def made_up(machine: Config) -> Figures:
    """Figures of a machine from formulas, not from simulation: smooth, with a knee, and different for every machine."""
    cycles = 4e6 / machine.multiplies_per_cycle + 2e5 / machine.memory.bus_bytes
    cycles *= 1 + 3e3 / machine.wgt_buffer_bytes**0.7 + machine.memory.read_latency / machine.acc_depth
    energy = 50 + 3 * machine.wgt_buffer_bytes**0.3 + 4e5 / machine.inp_buffer_bytes + cycles / 4e3
    network = NetworkFigures(cycles=int(cycles), roofline_cycles=1.0, dram_bytes=1, energy={"all": energy})
    return Figures(
        area=area_by_unit(machine, shipped_components()),
        clock_mhz=float(machine.clock_mhz),
        networks={"mlp": network},
    )


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("model") / "mlp.onnx"
    write(path, "mlp")
    return (load_network(path),)


def study(networks, strategy: str, *, seed: int = 0, budget: int = 60, constraints=()) -> Study:
    return Study(
        space=space_of(SPACE),
        networks=networks,
        components=shipped_components(),
        objectives=parse_objectives(["latency", "energy", "area"]),
        constraints=tuple(parse_constraint(text) for text in constraints),
        strategy=strategy,
        budget=budget,
        seed=seed,
        batch=10,
    )


@pytest.fixture(scope="module")
def known(networks) -> Known:
    """Records with made-up figures for every machine of the space, so that searches simulate nothing."""
    whole = study(networks, "random")
    machines = [whole.space.machine(point) for point in whole.space.points()]
    return {(whole.key, machine.digest): made_up(machine) for machine in machines}


@pytest.fixture(scope="module")
def every(networks, known: Known):
    """The exhaustive exploration of the space (864 points), from the records `known`."""
    return explore(study(networks, "exhaustive", budget=864), known=known)


def share(every, found) -> float:
    """The hypervolume of the designs `found`, divided by the hypervolume of all designs, `every`. It is computed on the
    logarithms of the objectives, each normalized by its range over all designs.
    """
    values = [np.log([d.objectives for d in item.designs if d.objectives]) for item in (every, found)]
    low, high = values[0].min(axis=0), values[0].max(axis=0)
    every_volume, volume = (hypervolume((v - low) / (high - low), [1.1] * 3) for v in values)
    return volume / every_volume


def test_the_search_finds_the_front_with_fewer_designs_than_chance(networks, known, every):
    shares: dict[str, list[float]] = {}
    for strategy in ("model", "random"):
        searches = [explore(study(networks, strategy, seed=seed), known=known) for seed in range(2)]
        assert all(found.evaluated == 0 and len(found.designs) == 60 for found in searches)
        shares[strategy] = [share(every, found) for found in searches]
    assert min(shares["model"]) > max(shares["random"])
    assert np.mean(shares["model"]) > 0.97


def test_equal_seeds_name_equal_points(networks, known):
    first, second, other = (
        [d.fields for d in explore(study(networks, "model", seed=seed, budget=30), known=known).designs]
        for seed in (1, 1, 2)
    )
    assert first == second != other


def test_machines_that_are_known_to_break_a_limit_are_never_named(networks, known):
    found = explore(study(networks, "model", budget=40, constraints=["area<2.25mm2"]), known=known)
    assert len(found.designs) == 40
    assert all(design.figures.square_millimetres < 2.25 for design in found.designs)


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_expected_growth_is_the_mean_growth_of_drawn_designs(objectives):
    random = np.random.default_rng(objectives)
    front = random.uniform(0, 1, (6, objectives))
    reference = [1.1] * objectives
    means, deviations = random.uniform(0, 1, (3, objectives)), random.uniform(0.05, 0.3, (3, objectives))
    expected = expected_growth(means, deviations, free_boxes(front[pareto(front)], reference))
    before = hypervolume(front, reference)
    for mean, deviation, value in zip(means, deviations, expected, strict=True):
        draws = mean + deviation * random.standard_normal((1500, objectives))
        grown = [hypervolume(np.vstack([front, draw]), reference) - before for draw in draws]
        assert value == pytest.approx(np.mean(grown), abs=1e-6 + 4 * np.std(grown) / len(grown) ** 0.5)


def test_searches_begin_with_the_same_machines(networks, known):
    begun = {}
    for strategy in ("random", "model", "nsga2", "tpe"):
        found = explore(study(networks, strategy, seed=7, budget=20), known=known)
        begun[strategy] = [design.machine.digest for design in found.designs if design.machine][:20]
    assert len(begun["random"]) == 20
    assert begun["model"] == begun["nsga2"] == begun["tpe"] == begun["random"]


@pytest.mark.parametrize("strategy", ["model", "tpe"])
def test_no_design_is_named_twice_though_few_are_left(networks, known, strategy):
    few = {"inp_buffer_bytes": [8192], "bus_bytes": [8], "read_latency": [30]}
    small = replace(
        study(networks, strategy, budget=96), space=space_of({**SPACE, "fields": {**SPACE["fields"], **few}})
    )
    found = explore(small, known=known)
    digests = [design.machine.digest for design in found.designs if design.machine]
    assert len(digests) == small.space.size == 48 and len(set(digests)) == 48
