"""Runs Yosys on modules one after the other, in a separate process: `python -m vdla.hw.synthesis.cells.worker`.

The only argument is a JSON file: the Liberty file, ABC's constraints and a list of jobs. A job has the Verilog of a
module, whether inner modules are merged into it (`flatten`), and the path for the mapped netlist, Yosys' JSON. Memories
of `macro_bits` bits or more become instances of black boxes, whose parameters are written to a JSON file beside the
netlist; smaller memories become flip-flops.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

from .memories import Macro, macro_of
from .modules import OWN_NAME

STEP: Final = "module:"
"""Prefix of an output line that names the job that begins."""

BEFORE_MEMORIES: Final = (
    f"hierarchy -top {OWN_NAME}",
    "proc",
    "opt_expr",
    "opt_clean",
    # Finds the enables of registers first; otherwise a memory's read register is not merged into the memory.
    "opt_dff",
    "opt -fast",
    "wreduce",
    "peepopt",
    "opt_clean",
    "opt_mem",
    "memory_dff",
    # Lanes of a word are written by separate ports with one address.
    "memory_share -nosat",
    "memory_collect",
)
FLATTEN: Final = ("flatten", "opt_clean", "opt_expr", "opt_clean", "opt -fast")
"""Yosys' steps between BEFORE_MEMORIES and AFTER_MEMORIES, for a job that merges a whole design into one module."""
AFTER_MEMORIES: Final = (
    "memory_map",
    "opt -fast",
    # Booth multipliers are smaller than the default multipliers of `techmap`, and as fast.
    "booth",
    "alumacc",
    "opt -fast",
    "techmap",
    "opt -fast",
    "dfflibmap -liberty {liberty}",
    "opt -fast",
    "abc -liberty {liberty} -constr {constraints}",
    "setundef -zero",
    "opt_clean -purge",
)
"""Yosys' steps after large memories have become macros: they map a module to cells. The module's inner modules are
black boxes unless the job has `flatten`. If the job has constraints, ABC adds buffers after cells whose load exceeds
their limit.
"""


def main(path: str) -> None:
    """Maps the modules of all jobs in the JSON file at `path`, and writes a netlist and a file of macros for each."""
    libyosys: Any = importlib.import_module("pyosys.libyosys")

    jobs = json.loads(Path(path).read_text(encoding="utf-8"))
    places = {name: f'"{jobs[name]}"' for name in ("liberty", "constraints")}
    for number, job in enumerate(jobs["modules"], 1):
        print(f"{STEP} {number} of {len(jobs['modules'])}, {job['name']}", flush=True)
        design = libyosys.Design()

        def run(command: str, design: Any = design) -> None:
            libyosys.run_pass(command, design)

        run(f"read_verilog {job['source']}")
        for command in (*BEFORE_MEMORIES, *(FLATTEN if job["flatten"] else ())):
            run(command)
        macros = _macros(run, job["netlist"], jobs["macro_bits"])
        for command in AFTER_MEMORIES:
            run(command.format(**places))
        run(f"write_json {job['netlist']}")
        Path(job["macros"]).write_text(json.dumps(macros), encoding="utf-8")


def _macros(run: Any, scratch: str, least: int) -> dict[str, dict[str, int]]:
    """Replaces memories of `least` bits or more by instances of black boxes; returns the fields of the `Macro` of each
    black box, by its name. `run` runs a Yosys command; `scratch`: path of a file that is overwritten.
    """
    run(f"write_json {scratch}")
    module = json.loads(Path(scratch).read_text(encoding="utf-8"))["modules"][OWN_NAME]
    found: dict[str, Macro] = {}
    for name, cell in module["cells"].items():
        if not cell["type"].startswith("$mem"):
            continue
        macro = macro_of(cell)
        if macro is None or macro.bits < least:
            continue
        found[macro.name] = macro
        selected = f"{OWN_NAME}/{name if name.startswith('$') else chr(92) + name}"
        unset = " ".join(f"-unset {parameter}" for parameter in cell["parameters"])
        run(f"setparam -type {macro.name} {unset} {selected}")
    return {name: macro.parameters() for name, macro in found.items()}


if __name__ == "__main__":
    main(sys.argv[1])
