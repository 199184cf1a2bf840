"""Simulator and the model in C++ have the timing of LiteDRAM's RTL, which runs in Verilator."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from vdla.hw.harness.dram import design
from vdla.hw.harness.dram.design import Design
from vdla.hw.harness.dram.oracle import choose_oracle
from vdla.hw.harness.dram.streams import run_on_litedram, run_on_model
from vdla.isa.dram import PARTS, Controller
from vdla.isa.dram_streams import S_EARLIEST, S_WORD, S_WORDS, T_ACCEPTED, T_END, T_FIRST, Streams
from vdla.isa.errors import ConfigError
from vdla.sim.dram_streams import run_streams
from vdla.util.errors import UserError
from vdla.verify.dram import compare, streams_of

DDR3 = Design("MT41K128M16", 100.0, 16, "800", masters=2)
SDR = Design("MT48LC4M16", 100.0, 32)
DESIGNS = (
    Design("MT41K128M16", 100.0, 16, "800", masters=2, bank_bytes=1 << 14, refresh=False),
    Design("MT41K256M16", 100.0, 8 * 4, "1600"),
    Design("MT47H64M16", 125.0, 16, masters=2),
    Design("MT48LC16M16", 100.0, 16, masters=2),
    Design("MT40A1G8", 250.0, 8, "2400", masters=2),
)


@pytest.fixture(scope="module")
def ddr3() -> tuple[list[Streams], list[NDArray[np.int64]]]:
    """Random streams of requests from two masters to a DDR3 memory, and the cycles in which LiteDRAM's RTL served each
    request. Asserts that the RTL's timing checker found no violation.
    """
    streams = streams_of(DDR3, 24, 300, seed=1)
    found, violations = run_on_litedram(DDR3, streams)
    assert not violations
    return streams, found


def test_two_masters_on_ddr3_take_the_cycles_of_the_rtl(
    ddr3: tuple[list[Streams], list[NDArray[np.int64]]],
) -> None:
    numbers = DDR3.controller
    for streams, rtl in zip(*ddr3, strict=True):
        np.testing.assert_array_equal(run_streams(numbers, streams), rtl)
        assert (rtl[..., T_END] > rtl[..., T_ACCEPTED]).all()


def test_two_masters_on_the_model_take_the_cycles_of_the_rtl(
    ddr3: tuple[list[Streams], list[NDArray[np.int64]]],
) -> None:
    for found, rtl in zip(run_on_model(DDR3.controller, ddr3[0]), ddr3[1], strict=True):
        np.testing.assert_array_equal(found, rtl)


@pytest.mark.parametrize(
    "part",
    [
        "LPDDR5-8Gb",
        *(pytest.param(name, marks=pytest.mark.campaign) for name in ("MT53E256M16D1", "HBM2-8Gb")),
    ],
)
def test_model_and_simulator_agree_on_parts_without_an_oracle(part: str) -> None:
    """LiteDRAM has no model of these parts. The model in C++ obeys the same rules, with the numbers of the part."""
    assert choose_oracle(part) == "model"
    design = Design(part, 100.0, PARTS[part].width)
    streams = streams_of(design, 4, 300, seed=2)
    for stream, found in zip(streams, run_on_model(design.controller, streams), strict=True):
        np.testing.assert_array_equal(found, run_streams(design.controller, stream))


def test_litedram_is_the_oracle_where_it_has_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_oracle(DDR3.part) == "litedram"
    assert choose_oracle(DDR3.part, "model") == "model"
    monkeypatch.setattr(design, "PACKAGES", ("no-such-package",))
    assert choose_oracle(DDR3.part) == "model"
    assert choose_oracle(DDR3.part, "litedram") == "litedram"


def test_a_master_on_sdr_takes_the_cycles_of_the_rtl() -> None:
    found = compare(SDR, streams_of(SDR, 16, 200, seed=1))
    assert found.cycles > 40_000
    assert not found.differences, found.differences[0]
    assert not found.violations


@pytest.mark.campaign
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_random_streams_on_other_parts(design: Design) -> None:
    found = compare(design, streams_of(design, 40, 2000, seed=3))
    assert not found.differences, found.differences[0]


FIELDS = [item.name for item in dataclasses.fields(Controller)]
UNUSED = {
    "word_bytes": "is for users of the controller",
    "write_fifo": "is never full with eight bursts in flight",
    "t_zqcs": "calibrations are a second apart",
    "zqcs_period": "calibrations are a second apart",
    "t_rc": "is shorter than t_ras and t_rp together",
    "t_faw": "two masters open two banks at a time",
}


@pytest.mark.parametrize("field", [name for name in FIELDS if name not in UNUSED])
def test_a_fault_in_any_number_is_noticed(
    field: str, ddr3: tuple[list[Streams], list[NDArray[np.int64]]]
) -> None:
    """A wrong parameter of the DRAM model changes the cycles of some stream: twice the number of banks, one DRAM clock
    in each controller clock, or any other parameter increased by one.
    """
    exact = DDR3.controller
    wrong = {"banks": 2 * exact.banks, "phases": 1}.get(field, getattr(exact, field) + 1)
    changed = dataclasses.replace(exact, **{field: wrong})
    assert any((run_streams(changed, streams) != rtl).any() for streams, rtl in zip(*ddr3, strict=True))


QUICK = ("t_rcd", "queue")
"""Numbers with a fault that `make test` seeds in the model in C++; each takes a compilation of some seconds."""


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.campaign)
        for name in FIELDS
        if name not in UNUSED
    ],
)
def test_a_fault_in_any_number_of_the_model_is_noticed(
    field: str, ddr3: tuple[list[Streams], list[NDArray[np.int64]]]
) -> None:
    """A wrong number of the model in C++ changes the cycles of some stream, like one of the simulator."""
    exact = DDR3.controller
    wrong = {"banks": 2 * exact.banks, "phases": 1}.get(field, getattr(exact, field) + 1)
    found = run_on_model(dataclasses.replace(exact, **{field: wrong}), ddr3[0])
    assert any((times != rtl).any() for times, rtl in zip(found, ddr3[1], strict=True))


def test_the_first_difference_is_named(ddr3: tuple[list[Streams], list[NDArray[np.int64]]]) -> None:
    slower = dataclasses.replace(DDR3.controller, t_rcd=DDR3.controller.t_rcd + 1)
    found = compare(DDR3, ddr3[0][:2], slower)
    for engine in ("simulator", "model"):
        first = next(item for item in found.differences if item.engine == engine)
        text = rf"stream 0, master \d, burst \d+: accepted, .* of the RTL, .* of the {engine}"
        assert re.fullmatch(text, str(first))


def test_row_hits_misses_and_conflicts() -> None:
    """The DRAM model's times of reads of one word, 100 cycles apart, differ as the parameters say: reads of an open
    row, of closed rows, and of a bank with another open row.
    """
    numbers = DDR3.controller
    row = 1 << numbers.column_bits
    words = np.array([2 * row, 0, 1, row, numbers.banks * row])
    requests = np.zeros((1, 5, 5), np.int64)
    requests[0, :, S_WORD], requests[0, :, S_WORDS], requests[0, :, S_EARLIEST] = words, 1, np.arange(5) * 100
    times = run_streams(numbers, Streams(requests=requests, stalls=np.zeros(1, np.int64)))[0]
    # The first read also moves the bridge's grant from writes to reads.
    closed, hit, other_bank, conflict = (times[:, T_FIRST] - np.arange(5) * 100)[1:].tolist()
    assert closed - hit > numbers.t_rcd
    assert other_bank == closed
    assert conflict == closed + numbers.t_rp
    assert (times[:, T_END] == times[:, T_FIRST]).all()


def test_missing_packages_and_unknown_parts_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"there is no DRAM part 'MT41K128M17'; give one of"):
        design.litedram_verilog(Design("MT41K128M17", 100.0, 16))
    monkeypatch.setattr(design, "PACKAGES", ("litedram", "no-such-package"))
    with pytest.raises(UserError, match=r'needs the package no-such-package: pip install "vdla\[dram\]"'):
        design.litedram_verilog(DDR3)
