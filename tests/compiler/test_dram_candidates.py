"""Knobs that are proposed for machines with a DRAM, and the search that accepts them node by node."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vdla.codesign import models
from vdla.compiler import dram_choices
from vdla.compiler.dram_candidates import CANDIDATES, _lost_cycles, candidates, with_deeper_buffers
from vdla.compiler.node_points import Points
from vdla.compiler.pipeline import accelerator_graph
from vdla.compiler.templates.columns import ESTIMATE, Values, one_point
from vdla.compiler.templates.vdla.legalize import legalize
from vdla.compiler.templates.vdla.lower import choose_points
from vdla.compiler.templates.vdla.template import Kernel, template_of
from vdla.compiler.vdla_stages import AcceleratorNetwork
from vdla.isa.config import Memory, load_config
from vdla.isa.program import Program

CONFIG = replace(load_config("vta"), memory=Memory(kind="dram", part="MT41K256M8"))


def network(name: str) -> AcceleratorNetwork:
    model = models.build(name).SerializeToString()
    return AcceleratorNetwork(config=CONFIG, legalized=legalize(accelerator_graph(model, CONFIG), CONFIG))


def estimate(kernel: Kernel, knobs: Values) -> float:
    """The cost model's cycles for a kernel; fails if the knobs exceed a limit of the machine."""
    found = template_of(kernel.workload).space(CONFIG, kernel.workload).cost(one_point(knobs))
    assert all(kept.all() for kept in found.limits.values())
    return float(found.quantities[ESTIMATE].item())


@pytest.mark.parametrize("name", ["mlp", "small_cnn"])
def test_candidates_are_legal_and_differ(name: str) -> None:
    own = network(name)
    plain = choose_points(CONFIG, own.kernels, {}, own.virtual_threads)
    ranks: list[Points] = list(candidates(CONFIG, own.kernels, own.virtual_threads))
    assert len(ranks) == CANDIDATES - 1 and len(ranks[0]) >= 2
    for node in ranks[0]:
        kernel, *rest = own.kernels[node]
        found = [points[node][0] for points in ranks if node in points]
        costs = [estimate(kernel, knobs) for knobs in (plain[node][0], *found)]
        assert min(costs) > 0 and not rest
        copies = template_of(kernel.workload).copies
        # No candidate is the plain point, and no two candidates differ in copies of buffers alone.
        tiles = {tuple(sorted((key, knobs[key]) for key in knobs.keys() - copies.keys())) for knobs in found}
        assert len(tiles) == len(found) > 1
        assert all(knobs == with_deeper_buffers(CONFIG, [kernel], [knobs])[0] for knobs in found)


def test_few_large_tiles_come_first_where_the_bus_is_busiest() -> None:
    columns = {
        "compute cycles": np.array([100.0, 100.0, 9000.0]),
        "storing": np.array([50.0, 50.0, 50.0]),
        "traffic": np.array([1000.0, 1000.0, 1000.0]),
        "tiles": np.array([4.0, 1.0, 4.0]),
        "instructions": np.array([40.0, 10.0, 40.0]),
    }
    many, one, hidden = np.broadcast_to(_lost_cycles(columns), 3).tolist()
    # The array is busier than the bus with the third point's knobs, so that rows cost nothing.
    assert many > one > 0 == hidden
    assert _lost_cycles({"estimate": np.ones(3)}) == 0


def test_deeper_buffers_have_more_copies_and_else_the_same_knobs() -> None:
    own = network("small_cnn")
    plain = choose_points(CONFIG, own.kernels, {}, own.virtual_threads)
    raised = 0
    for node, kernels in own.kernels.items():
        after = with_deeper_buffers(CONFIG, kernels, plain[node])
        for kernel, old, new in zip(kernels, plain[node], after, strict=True):
            changed = {name for name in old if new[name] != old[name]}
            assert changed <= template_of(kernel.workload).copies.keys() and all(
                new[name] > old[name] for name in changed
            )
            assert estimate(kernel, new) > 0
            raised += len(changed)
    assert raised > 2


def test_an_option_is_kept_where_a_node_and_its_neighbours_become_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = tuple("abcdefgh")
    # With the second option node number k takes gain[k] cycles fewer, and the next node loss[k] cycles more.
    gain, loss = np.array([5, 5, -1, 3, 0, 9, 2, 4]), np.array([0, 6, 0, 1, 0, 0, 2, 0])

    def program_of(points: Points, _: Collection[str]) -> Program:
        chosen: Any = SimpleNamespace(instructions=[0], of=[points[name][0]["rows"] for name in names])
        return chosen

    def cycles_by_group(program: Any) -> tuple[int, np.ndarray]:
        second = np.array(program.of) == 2
        spent = 100 - gain * second + np.append(0, (loss * second)[:-1])
        return int(spent.sum()), spent

    monkeypatch.setattr(dram_choices, "cycles_by_group", cycles_by_group)
    trials = dram_choices._Trials(names, program_of)
    first, second = ([dram_choices._Option(({"rows": rows},), False) for _ in names] for rows in (1, 2))
    assert trials.run(first).cycles == 800
    trials.improve(second)
    assert [option.knobs[0]["rows"] for option in trials.best.options] == [2, 1, 1, 2, 1, 2, 1, 2]
    assert trials.best.cycles == 800 - 5 - 2 - 9 - 4
