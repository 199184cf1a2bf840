"""Switching activity and power of a netlist small enough to compute by hand."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from vdla.hw.activity.expressions import parse_expression, truth_table
from vdla.hw.activity.liberty import read_library
from vdla.hw.activity.netlist import MOST_INPUTS, MemoryBlock, Netlist, ReadPort, WritePort, flatten
from vdla.hw.activity.power import CLOCK_SLEW, by_unit, electrical, energy_of
from vdla.hw.activity.simulate import MismatchError, Simulation
from vdla.hw.activity.timing_tool import PROGRAM, as_the_tool_counts, part_of, tool_power
from vdla.hw.synthesis.liberty_syntax import LibertyError

from .small import design, library

CYCLES = 16


@pytest.fixture
def netlist(tmp_path: Path) -> Netlist:
    return flatten(design(tmp_path), library(tmp_path))


def ports() -> dict[str, np.ndarray]:
    """Recorded values of the design's ports, one row for each cycle: `data` (the written bits), `bits` (the counter),
    and `word` (the bit written to the same address earlier).
    """
    cycle = np.arange(CYCLES)
    data = ((cycle // 4 + cycle) % 2).astype(np.uint8)
    # Cycle t shows the word of address t - 1 as it was before that cycle's write: that of cycle t - 5.
    word = np.where(cycle >= 5, np.roll(data, 5), 0).astype(np.uint8)
    rows = {"data": data, "bits": (cycle % 4).astype(np.uint8), "word": word}
    return {name: row.reshape(-1, 1) for name, row in rows.items()}


@pytest.mark.parametrize(
    ("text", "pins", "table"),
    [
        ("A'", "A", 0b01),
        ("(A B)+C", "ABC", 0b11111000),
        ("!(A&B)|C ^ 0", "ABC", 0b11110111),
        ("A B'", "AB", 0b0010),
        ("A ^ B ^ C", "ABC", 0b10010110),
        ("1", "", 0b1),
    ],
)
def test_expressions(text: str, pins: str, table: int) -> None:
    assert truth_table(parse_expression(text), list(pins)) == table


@pytest.mark.parametrize("text", ["", "(A", "A +", "A ) B", "A ? B", "* A"])
def test_expressions_refused(text: str) -> None:
    with pytest.raises(LibertyError):
        parse_expression(text)


def test_library(tmp_path: Path) -> None:
    found = library(tmp_path)
    assert (found.volts, found.celsius, set(found.cells)) == (2.0, 25.0, {"INV", "BUF", "XOR", "FF"})
    cell = found.cells["INV"]
    assert (cell.leakage, cell.capacitances["A"]) == (0.5, (0.1, 0.1))
    table = cell.powers[0].rise
    points = np.array([0.1, 1.1, 0.6, 2.1]), np.array([0.0, 1.0, 0.5, 0.0])
    # The first index is the load: rows of the text. Beyond its end a table goes on as a line.
    assert np.allclose(table(*points), [1, 4, 2.5, 3])
    assert found.cells["FF"].register is not None and found.cells["FF"].register.clock == "CK"


def test_bad_library(tmp_path: Path) -> None:
    path = tmp_path / "bad.lib"
    for text in (
        "",
        'library(x) { cell (A) { pin(Y) { function : "("; direction : output; } } }',
        "cell(x) {}",
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(LibertyError, match=r"bad\.lib"):
            read_library(path)
    with pytest.raises(LibertyError, match="give a Liberty file"):
        read_library(tmp_path / "none.lib")


def test_toggles_ones_and_accesses_are_counted(netlist: Netlist) -> None:
    activity = Simulation(netlist).run(ports())
    low, high = netlist.output_ports["bits"]
    assert activity.cycles == CYCLES
    # The first cycle shows the state of power-up.
    assert activity.toggles[low] == CYCLES - 1 and activity.toggles[high] == CYCLES // 2 - 1
    assert activity.ones[low] == activity.ones[high] == CYCLES // 2
    word = ports()["word"][:, 0].astype(int)
    assert activity.toggles[netlist.output_ports["word"][0]] == np.abs(np.diff(word)).sum() > 3
    assert activity.reads.tolist() == activity.writes.tolist() == [CYCLES]


@pytest.mark.parametrize("clocked", [True, False])
def test_a_write_of_half_a_word_is_half_a_write(clocked: bool) -> None:
    """The memory has two words of four bits, and the halves of a word can be written separately. A write of one half
    counts as 0.5 writes. A read port without a clock counts a read when its address changes. A clocked port also counts
    a read in the cycle after a write to the word at its address.
    """
    names = ("address", "high", "low")
    first = {name: 2 + place for place, name in enumerate(names)}
    data, shown = np.arange(5, 9, dtype=np.int32), np.arange(9, 13, dtype=np.int32)
    place = np.array([first["address"]], np.int32)
    memory = MemoryBlock(
        path="words", unit="top", words=2, width=4,
        reads=(ReadPort(clocked=clocked, enable=1, address=place, data=shown),),
        writes=(
            WritePort(
                enable=np.repeat([first["low"], first["high"]], 2).astype(np.int32), address=place, data=data
            ),
        ),
    )  # fmt: skip
    nothing, rows = np.zeros(0, np.int32), 0 if clocked else 4
    inputs = np.zeros((1, MOST_INPUTS), np.int32)
    inputs[0, 0] = -1
    netlist = Netlist(
        nets=13, kinds=(), kind=nothing, unit=nothing, units=("top",), pins=np.zeros((0, 1), np.int32), pin_names=(),
        names=(), tables=np.zeros(min(rows, 1), np.uint64), inputs=inputs[: min(rows, 1)],
        outputs=shown[: min(rows, 1)], state_tables=np.zeros(0, np.uint64),
        state_inputs=np.zeros((0, MOST_INPUTS), np.int32), states=nothing, memories=(memory,),
        input_ports={name: np.array([net], np.int32) for name, net in first.items()} | {"data": data},
        output_ports={"word": shown},
    )  # fmt: skip
    given = {
        "address": [0, 0, 0, 1, 1, 0],
        "low": [1, 1, 0, 0, 0, 0],
        "high": [1, 0, 0, 1, 0, 0],
        "data": [15, 0, 0, 15, 0, 0],
    }
    activity = Simulation(netlist).run(
        {name: np.array(row, np.uint8).reshape(-1, 1) for name, row in given.items()}
    )
    assert activity.writes.tolist() == [2.0]
    # With the clock: the first word, after each of its two writes, the second, after its write, and the first again.
    assert activity.reads.tolist() == [6 if clocked else 3]


def test_runs_follow_each_other(netlist: Netlist) -> None:
    whole = Simulation(netlist).run(ports())
    parts = Simulation(netlist)
    found = [
        parts.run({name: rows[part] for name, rows in ports().items()})
        for part in (slice(0, 7), slice(7, None))
    ]
    assert np.array_equal(whole.toggles, found[0].toggles + found[1].toggles)
    assert np.array_equal(whole.ones, found[0].ones + found[1].ones)


def test_difference_is_found(netlist: Netlist) -> None:
    wrong = ports()
    wrong["word"][9] ^= 1
    with pytest.raises(MismatchError, match=r"word\[0\] differs from the RTL's in cycle 9"):
        Simulation(netlist).run(wrong)
    Simulation(netlist).run(wrong, unchecked=10)


def test_energy_by_hand(netlist: Netlist, tmp_path: Path) -> None:
    cells = library(tmp_path)
    state = electrical(netlist, cells)
    low, high = netlist.output_ports["bits"]
    # An inverter and an exclusive or; the macro's pins count nothing.
    assert np.allclose(state.loads[[low, high]], [[0.1 + 0.2] * 2, [0.3] * 2])
    # Slews: 0.1 + load + (slew before - 0.1) / 10, as the table has it.
    assert np.allclose(state.slews[low], 0.1 + 0.3 + (CLOCK_SLEW - 0.1) / 10)
    activity = Simulation(netlist).run(ports())
    found = by_unit(netlist, cells, energy_of(netlist, cells, state, activity))
    counters = found["counters"]
    out = next(
        net for net in netlist.outputs if netlist.pins[list(netlist.names).index("inner.u0")][2] == net
    )
    changes = activity.toggles[[low, high, out]].astype(float)
    # Half the load of a flip-flop's pin at two volts; tables of 1 and 2 weighed by how often A and B changed.
    assert counters.switching == pytest.approx(changes[2] * 0.02 * 4 / 2)
    assert counters.internal == pytest.approx(
        changes[2] * (changes[0] + 2 * changes[1]) / (changes[0] + changes[1])
    )
    assert counters.clock == 0 and counters.leakage_nw == 1
    assert found["top"].clock == pytest.approx(2 * CYCLES * (0.05 * 4 + 0.75))
    assert found["top"].leakage_nw == pytest.approx(0.5 + 2 * 2)


def test_timing_tool(netlist: Netlist, tmp_path: Path) -> None:
    if shutil.which(PROGRAM) is None:
        pytest.fail(f"{PROGRAM} is not installed")
    cells = library(tmp_path)
    activity = Simulation(netlist).run(ports())
    part, own = part_of(netlist, np.arange(len(netlist.kind)), cells)
    state = electrical(part, cells)
    ours, theirs = as_the_tool_counts(part, cells, state, activity), tool_power(part, cells, activity)
    assert own.sum() == len(netlist.kind)
    assert np.allclose(ours.internal, theirs.internal, rtol=1e-4)
    assert np.allclose(ours.switching, theirs.switching, rtol=1e-4)
    assert theirs.internal.sum() > 1
