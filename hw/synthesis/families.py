"""FPGA families: Yosys' commands, the resources that cells take, and the resources of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

RESOURCES: Final = ("lut", "ff", "dsp", "block_ram")
"""Resources in reports, in this order. `block_ram` counts the family's largest blocks (36 Kbit on xc7, 18 on ECP5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An FPGA: its `name`, nextpnr's options for it, and its `capacity`, the amount of each resource."""

    name: str
    options: tuple[str, ...]
    capacity: MappingProxyType[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of FPGAs.

    `script`: Yosys commands that flatten and map the design with top module {top}. `cells`: resources that a cell of
    the mapped netlist takes, by kind; other cells take none. `device`: the device for placement; None if there is none.
    """

    name: str
    script: tuple[str, ...]
    cells: MappingProxyType[str, MappingProxyType[str, float]]
    device: Device | None


def _cells(**table: Mapping[str, float]) -> MappingProxyType[str, MappingProxyType[str, float]]:
    return MappingProxyType({cell: MappingProxyType(takes) for cell, takes in table.items()})


XC7: Final = Family(
    name="xc7",
    # Without -flatten synth_xilinx leaves a hierarchy that its own later steps do not finish.
    script=("synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {top}",),
    # LUTs of a distributed RAM: Xilinx UG474, table "Distributed RAM configuration". Two RAMB18 are in a RAMB36: UG473.
    cells=_cells(
        **{f"LUT{n}": {"lut": 1} for n in range(1, 7)},
        INV={"lut": 1},
        **{name: {"ff": 1} for name in ("FDRE", "FDSE", "FDCE", "FDPE")},
        SRL16E={"lut": 1},
        SRLC32E={"lut": 1},
        RAM32X1S={"lut": 1},
        RAM32X1D={"lut": 2},
        RAM64X1S={"lut": 1},
        RAM64X1D={"lut": 2},
        RAM128X1S={"lut": 2},
        RAM128X1D={"lut": 4},
        RAM256X1S={"lut": 4},
        RAM32M={"lut": 4},
        RAM64M={"lut": 4},
        DSP48E1={"dsp": 1},
        RAMB18E1={"block_ram": 0.5},
        RAMB36E1={"block_ram": 1},
    ),
    device=None,
)

ECP5: Final = Family(
    name="ecp5",
    # ABC's default delay of 0.3 ns for a wire makes it prefer one more level of logic to one more cell; in a device
    # more than half full a wire takes about 1 ns.
    script=("scratchpad -set synth_ecp5.abc9.W 1000", "synth_ecp5 -top {top}"),
    # Lattice FPGA-TN-02204 and the nextpnr packer: a carry cell is a slice (two LUTs); a 16x4 distributed RAM takes
    # four LUTs and, for its write port, the two of a third slice. PFUMX and L6MUX21 are multiplexers beside the LUTs.
    cells=_cells(
        LUT4={"lut": 1},
        CCU2C={"lut": 2},
        TRELLIS_DPR16X4={"lut": 6},
        TRELLIS_FF={"ff": 1},
        MULT18X18D={"dsp": 1},
        DP16KD={"block_ram": 1},
        PDPW16KD={"block_ram": 1},
    ),
    # Capacity of an LFE5U-85: Lattice FPGA-DS-02012, table of the family; nextpnr prints the same numbers.
    # The option gives timing three times its default weight in placement; routing then takes less time, too.
    device=Device(
        name="LFE5U-85F, speed grade 6, CABGA756",
        options=(
            *("--85k", "--speed", "6", "--package", "CABGA756"),
            *("--placer-heap-timingweight", "30", "--placer-heap-critexp", "3"),
        ),
        capacity=MappingProxyType({"lut": 83640, "ff": 83640, "dsp": 156, "block_ram": 208}),
    ),
)

FAMILIES: Final = MappingProxyType({family.name: family for family in (XC7, ECP5)})
