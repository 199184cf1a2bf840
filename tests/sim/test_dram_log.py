"""Tests the log of a DRAM, a list of runs of words that were read or written one after the other. The runs add up to
the counters of the simulation, and follow the rules for opening rows and for refreshes.
"""

from __future__ import annotations

import numpy as np
import pytest
from campaign import representatives

import vdla.sim.dram_machine as dram_machine
from vdla.isa.config import Config, load_config
from vdla.isa.dram_memory import controller_of
from vdla.sim import simulate
from vdla.sim.dram_log import word_runs
from vdla.verify.cosim.cases import case, launch
from vdla.verify.cosim.dram import dram_machines

TINY = load_config("tiny")
MACHINES = [machine for machine in dram_machines() if machine.block_in <= 8][:6]


@pytest.mark.parametrize("config", MACHINES, ids=lambda config: config.name)
@pytest.mark.parametrize("number", representatives(range(4), 0, always=[0, 1]))
def test_runs_of_words_are_those_of_the_counts(config: Config, number: int) -> None:
    start = launch(case(config, number, 0))
    program = start.program
    result = simulate(config, program.instructions, program.image, data=False, scratchpads=start.scratchpads)
    runs = word_runs(config, program.instructions, program.image, scratchpads=start.scratchpads)
    assert runs is not None and result.dram is not None
    assert (runs.start[1:] >= runs.stop[:-1]).all() and (runs.stop > runs.start).all()
    # A run that ends behind the last cycle has words that the run does not count.
    inside = np.minimum(runs.stop, result.cycles + 1) - runs.start
    assert inside.sum() == result.dram.beats
    assert abs(int(runs.opened.sum()) - result.dram.opened) <= 1


@pytest.mark.parametrize("config", MACHINES, ids=lambda config: config.name)
def test_a_row_is_opened_exactly_if_it_is_closed(config: Config) -> None:
    """A run of words opens its bank's row exactly if that row is not open. The test keeps its own account: the row of a
    bank's last run is open, unless a refresh has closed all rows since then.
    """
    start = launch(case(config, 7, 0))
    program = start.program
    runs = word_runs(config, program.instructions, program.image, scratchpads=start.scratchpads)
    assert runs is not None
    numbers, rows, used = controller_of(config), {}, 0
    for begin, bank, row, opened in zip(
        runs.start.tolist(), runs.bank.tolist(), runs.row.tolist(), runs.opened.tolist(), strict=True
    ):
        if rows.get(bank, (None, 0))[0] != row:
            assert opened, (begin, bank, row)
        elif opened:
            # Only a refresh closes a row that stays the bank's row: two runs are then as far apart as a refresh lasts.
            assert config.memory.refresh and begin - rows[bank][1] > numbers.t_rfc, (begin, bank, row)
        rows[bank] = row, begin
        used += 1
    assert used > 20


def test_machines_without_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    start = launch(case(TINY, 0, 0))
    program = start.program
    assert word_runs(TINY, program.instructions, program.image, scratchpads=start.scratchpads) is None
    machine = MACHINES[0]
    start = launch(case(machine, 0, 0))
    program = start.program
    monkeypatch.setattr(dram_machine, "FAST", False)
    assert word_runs(machine, program.instructions, program.image, scratchpads=start.scratchpads) is None
