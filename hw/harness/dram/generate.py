"""Writes the Verilog of LiteDRAM's controller with a model of a DRAM part and AXI ports. Run in a process of its own:

    python generate.py PART MEGAHERTZ WIDTH GRADE BANK_BYTES REFRESH_CLOCKS MASTERS WRITE_FIFO READ_FIFO FILE

BANK_BYTES: consecutive bytes in one bank; 0 for a row. REFRESH_CLOCKS: controller clocks between two refreshes. The top
module is `litedram_top`; its ports are those of AXI with the prefix m0_, m1_ ... for each master, and the commands to
the part with the prefix p0_, p1_ ... for each DRAM clock in a controller clock. The Verilog contains
LiteDRAM's checker of timings, which prints a line with the word "violation" for each broken rule.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

RATES = {"SDR": "1:1", "DDR2": "1:2", "DDR3": "1:4", "DDR4": "1:4"}
"""Controller clocks to DRAM clocks by generation, as LiteDRAM writes the ratio: "1:4" is 4 DRAM clocks in a controller
clock.
"""
CHANNELS = ("ar", "aw", "w", "r", "b")
COMMAND = ("cs_n", "ras_n", "cas_n", "we_n", "bank", "address")
"""Signals of a command to the part, in each phase of the interface between controller and PHY (DFI)."""


def _package(name: str) -> Any:
    return import_module(name)


def main(words: list[str]) -> None:
    """Writes the Verilog. `words`: the arguments of the command line, PART to FILE."""
    # These packages are an extra, slow to import, and without types.
    names = ("modules", "core", "core.controller", "frontend.axi", "phy.model")
    modules, cores, settings_of, bridges, model = (_package(f"litedram.{name}") for name in names)
    verilog, axi_bus, migen = map(_package, ("litex.gen.fhdl.verilog", "litex.soc.interconnect.axi", "migen"))

    part, megahertz, width, grade, bank_bytes, refresh_clocks, masters, write_fifo, read_fifo, path = words
    clock = float(megahertz) * 1e6
    kind = getattr(modules, part)

    top = migen.Module()
    top.clock_domains.cd_sys = migen.ClockDomain("sys")
    module = kind(clock, RATES[kind.memtype], speedgrade=grade or None)
    module.timing_settings.tREFI = int(refresh_clocks)
    settings = model.get_sdram_phy_settings(module.memtype, int(width), clock)
    top.submodules.phy = phy = model.SDRAMPHYModel(module, settings, clk_freq=clock, verbosity=1)
    controls = settings_of.ControllerSettings()
    controls.bank_byte_alignment = int(bank_bytes)
    top.submodules.core = core = cores.LiteDRAMCore(
        phy,
        module.geom_settings,
        module.timing_settings,
        clock,
        controller_settings=controls,
    )
    ports = {top.cd_sys.clk, top.cd_sys.rst}
    for master in range(int(masters)):
        port = core.crossbar.get_port()
        axi = axi_bus.AXIInterface(
            data_width=core.crossbar.controller.data_width, address_width=32, id_width=1
        )
        bridge = bridges.LiteDRAMAXI2Native(
            axi, port, w_buffer_depth=int(write_fifo), r_buffer_depth=int(read_fifo)
        )
        top.submodules += bridge
        for channel in CHANNELS:
            endpoint = getattr(axi, channel)
            ports.update(endpoint.flatten())
            names = ["valid", "ready", "first", "last"]
            names += [name for name, *_ in endpoint.description.payload_layout]
            names += [name for name, *_ in endpoint.description.param_layout]
            for name in names:
                getattr(endpoint, name).name_override = f"m{master}_{channel}_{name}"
    for number, phase in enumerate(phy.dfi.phases):
        for name in COMMAND:
            signal = getattr(phase, name)
            signal.name_override = f"p{number}_{name}"
            ports.add(signal)
    verilog.convert(top, ports, name="litedram_top").write(path)


if __name__ == "__main__":
    main(sys.argv[1:])
