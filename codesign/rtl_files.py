"""The files with a machine's RTL: Verilog, C header, metadata, and waivers for warnings of Verilator's lint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from vdla.hw.axi_router import ROUTER, router_of
from vdla.hw.control import REGISTERS, counter_address
from vdla.hw.counters import COUNTER_BITS, COUNTERS
from vdla.hw.synthesis.lint import WAIVERS
from vdla.hw.verilog import TOP, VerilogModule, component_verilog, generate_module
from vdla.isa.config import Config
from vdla.isa.describe import c_header


def rtl_files(
    machine: Config, report: Callable[[str], None] = lambda text: None
) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns the texts of the files by file name, and the JSON object in vdla.json. For a machine whose DRAM has
    several channels, one more file has the router between the accelerator's port and the controllers. `report` is
    called with a line of text for each step.
    """
    module = generate_module(machine, report=report)
    document = _metadata(machine, module)
    contents = {
        "vdla.v": module.text,
        "vdla.h": c_header(machine),
        "vdla.json": json.dumps(document, indent=2) + "\n",
        "vdla.vlt": WAIVERS,
    }
    if machine.memory.channels > 1:
        contents[f"{ROUTER}.v"] = component_verilog(router_of(machine.memory), ROUTER)
    return contents, document


def _metadata(config: Config, module: VerilogModule) -> dict[str, Any]:
    """The JSON object in vdla.json: the configuration and its digest, ports, control registers and counters by byte
    address.
    """
    return {
        "top": TOP,
        "clock": "clk",
        "reset": "rst",
        "digest": config.digest,
        "parameters": config.to_dict(),
        "ports": [asdict(port) for port in module.ports],
        "registers": REGISTERS,
        "counter_bits": COUNTER_BITS,
        "counters": {name: counter_address(name) for name in COUNTERS},
    }
