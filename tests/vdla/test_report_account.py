"""A report's account of its layers: computed once, at the first access, and with the same cost for each layer in any
network.
"""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla.codesign import models
from vdla.codesign.report import account_run, traffic
from vdla.isa.config import load_config
from vdla.isa.layout import encode
from vdla.isa.program import Program, instruction_address


def test_layers_wait_until_they_are_looked_at(monkeypatch) -> None:
    network = vdla.compile(models.build("mlp"), config="tiny")
    calls: list[object] = []
    known = account_run.group_traffic
    monkeypatch.setattr(account_run, "group_traffic", lambda *a: calls.append(a) or known(*a))
    report = vdla.simulate(network)
    assert report.cycles and not calls
    assert report.network is report.network and len(calls) == 1
    assert sum(layer.cycles for layer in report.network.layers) == report.cycles


def one_by_one(program: Program, unread: list[traffic.Unread]) -> list[traffic.Traffic]:
    """The result of `group_traffic`, computed byte by byte."""
    runs = traffic.find_runs(
        program.config, np.asarray(program.instructions), instruction_address(len(program.image))
    )
    owner = traffic.owners(program)[runs.instruction]
    result = []
    for group in range(len(program.groups)):
        moved, distinct, never = {}, {}, {}
        for index, kind in enumerate(traffic.KINDS):
            mine = (owner == group) & (runs.kind == index)
            touched: set[int] = set()
            for start, length in zip(runs.start[mine].tolist(), runs.length[mine].tolist(), strict=True):
                touched.update(range(start, start + length))
            moved[kind], distinct[kind] = int(runs.length[mine].sum()), len(touched)
            if kind in traffic.INPUTS:
                item = unread[group]
                skipped = {item.start + place for place in np.flatnonzero(item.mask).tolist()}
                never[kind] = len(touched & skipped)
        result.append(traffic.Traffic(moved=moved, distinct=distinct, unread=never))
    return result


@pytest.mark.parametrize("seed", range(6))
def test_traffic_of_all_groups_is_that_of_each(seed: int) -> None:
    vta, rng = load_config("vta"), np.random.default_rng(seed)
    words = []
    for _ in range(60):
        kind = rng.choice(["LOAD.INP", "LOAD.WGT", "LOAD.ACC", "STORE.OUT"])
        rows, width = int(rng.integers(0, 4)), int(rng.integers(0, 5))
        stride = width + int(rng.integers(0, 3))
        place = int(rng.integers(0, 40))
        words.append(encode(vta, kind, dram_base=place, y_size=rows, x_size=width, x_stride=stride))
    made = Program(
        config=vta,
        instructions=np.array(words, np.uint64),
        image=np.zeros(5000, np.uint8),
        groups=("a", "b", "c", "d"),
        group_of=rng.integers(-1, 4, 60).astype(np.int32),
    )
    masks = [rng.random(size) < 0.5 for size in (0, 300, 900, 1)]
    unread = [traffic.Unread(start=int(rng.integers(0, 500)), mask=mask) for mask in masks]
    assert traffic.group_traffic(made, unread) == one_by_one(made, unread)
