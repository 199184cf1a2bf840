"""Parts and controllers of DRAM, compared with LiteDRAM's tables."""

from __future__ import annotations

import sys
from math import ceil

import pytest
from litedram import modules
from litedram.phy.lpddr4.simphy import LPDDR4SimPHY
from litedram.phy.model import get_sdram_phy_settings

from vdla.isa.dram import KINDS, PARTS, controller, part_of
from vdla.isa.errors import ConfigError

# LiteX keeps a renamed module as an object that sleeps for two seconds when anything, such as Hypothesis, which looks
# at every imported module, reads an attribute of it.
sys.modules.pop("litex.soc.interconnect.stream_sim", None)
CLOCKS = (50, 100, 125, 150, 200, 250, 300)
RATES = {"SDR": "1:1", "DDR2": "1:2", "DDR3": "1:4", "DDR4": "1:4"}
CONFIRMED = [name for name, part in PARTS.items() if KINDS[part.kind].oracle]


@pytest.mark.parametrize("name", CONFIRMED)
def test_each_part_is_litedrams(name: str) -> None:
    part, theirs = PARTS[name], getattr(modules, name)
    assert (part.kind, part.banks, part.rows, part.columns) == (
        theirs.memtype,
        theirs.nbanks if hasattr(theirs, "nbanks") else theirs.ngroups * theirs.ngroupbanks,
        theirs.nrows,
        theirs.ncols,
    )
    assert {grade or "default" for grade in part.times} == set(theirs.speedgrade_timings) - (
        {"default"} if len(theirs.speedgrade_timings) > 1 else set()
    )


@pytest.mark.parametrize("name", CONFIRMED)
def test_clocks_are_litedrams(name: str) -> None:
    compared = 0
    for mhz in CLOCKS:
        for grade in PARTS[name].times:
            try:
                phy = get_sdram_phy_settings(PARTS[name].kind, 16, mhz * 1e6)
            except ValueError:
                with pytest.raises(ConfigError, match="is too fast; give"):
                    controller(name, clock_mhz=mhz, grade=grade)
                continue
            kind = getattr(modules, name)(mhz * 1e6, RATES[PARTS[name].kind], speedgrade=grade or None)
            times = {k: v for k, v in vars(kind.timing_settings).items() if k.startswith("t")}
            write = ceil(phy.cwl / phy.nphases)
            ours = controller(name, clock_mhz=mhz, grade=grade)
            expected = {
                f"t_{key[1:].lower()}": -1 if value is None else value for key, value in times.items()
            }
            expected["t_wtp"] = expected.pop("t_wr") + write + expected["t_ccd"]
            expected["t_wtr"] += write + expected["t_ccd"]
            assert {key: getattr(ours, key) for key in expected} == expected
            assert (ours.read_latency, ours.write_latency) == (phy.read_latency + 1, phy.write_latency + 1)
            assert (ours.turnaround, ours.phases) == (phy.read_latency - 1, phy.nphases)
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize("mhz", [50, 100, 150, 200])
def test_lpddr4_is_litedrams(mhz: int) -> None:
    """The LPDDR4 part has the organisation, times and latencies of LiteDRAM's table and PHY. LiteDRAM has no model of
    LPDDR4 in which the two could be run.
    """
    part, theirs = PARTS["MT53E256M16D1"], modules.MT53E256M16D1
    assert (part.kind, part.banks, part.rows, part.columns) == (
        theirs.memtype,
        theirs.nbanks,
        theirs.nrows,
        theirs.ncols,
    )
    ours = controller("MT53E256M16D1", clock_mhz=mhz)
    times = vars(theirs(mhz * 1e6, "1:8").timing_settings)
    # LiteDRAM counts 32 clocks between column commands, for writes with masks.
    assert times["tCCD"] == 4 and ours.t_ccd == 1
    for name in ("tRP", "tRCD", "tRFC", "tRAS", "tRC", "tFAW", "tRRD"):
        assert getattr(ours, f"t_{name[1:].lower()}") == times[name], name
    phy = LPDDR4SimPHY(sys_clk_freq=mhz * 1e6).settings
    assert (ours.read_latency, ours.write_latency) == (phy.read_latency + 1, phy.write_latency + 1)
    assert ours.phases == phy.nphases


@pytest.mark.parametrize(
    ("name", "clock_mhz", "gigabytes"),
    [
        ("MT53E256M16D1", 200, 6.4),
        ("LPDDR5-8Gb", 400, 12.8),
        ("HBM2-8Gb", 500, 16.0),
        ("GDDR6-8Gb", 800, 25.6),
    ],
)
def test_peaks_of_parts_without_an_oracle(name: str, clock_mhz: int, gigabytes: float) -> None:
    """For types of DRAM that LiteDRAM cannot check: the bytes that move in a clock of the controller, times its clock,
    are the peak bandwidth (data lines x transfers a second; `gigabytes` per second), and exactly one burst moves in a
    clock of the controller.
    """
    numbers = controller(name, clock_mhz=clock_mhz)
    kind = KINDS[PARTS[name].kind]
    assert numbers.word_bytes * clock_mhz / 1e3 == pytest.approx(gigabytes)
    assert kind.phases * kind.transfers == kind.burst and not kind.oracle


def test_words_are_native_to_the_part() -> None:
    """The bus moves as many bytes in a clock as the DRAM part does: 16 for a DDR3 part with 16 data lines and a clock
    ratio of 1:4.
    """
    assert controller("MT41K128M16", clock_mhz=100).word_bytes == 16
    assert controller("MT41K128M16", clock_mhz=100, width=32).word_bytes == 32
    assert controller("MT48LC16M16", clock_mhz=100).word_bytes == 2
    assert controller("MT41K128M16", clock_mhz=100).column_bits == 7
    assert set(KINDS) == {part.kind for part in PARTS.values()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "MT41K128M17"}, "there is no DRAM part 'MT41K128M17'; give one of IS42S16160, MT48LC4M16"),
        (
            {"name": "MT41K128M16", "width": 24},
            "width = 24: give 16, the data lines of one chip, or 2, 4 or 8 times as many",
        ),
        ({"name": "MT41K128M16", "grade": "900"}, "no speed grade '900'; its grades are '800', '1066'"),
        ({"name": "MT41K128M16", "clock_mhz": 400}, "at 400 MHz is too fast; give 233 MHz at most"),
        (
            {"name": "MT48LC16M16", "clock_mhz": 5},
            "at 5 MHz is too slow for its refresh; give 13 MHz or more",
        ),
    ],
)
def test_wrong_parts_are_refused(arguments: dict[str, object], message: str) -> None:
    given = {"clock_mhz": 100.0, **arguments}
    with pytest.raises(ConfigError, match=message):
        controller(str(given.pop("name")), **given)  # type: ignore[arg-type]
    assert part_of("MT41K128M16").kind == "DDR3"
