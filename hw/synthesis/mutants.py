"""Makes mutations of the generated Verilog by Yosys: one netlist contains all of them, and a number selects one at the
start of a simulation.
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ..verilog import TOP
from . import cache
from .netlist import plain_path
from .tools import Report, ToolError, tool_version
from .yosys import PACKAGE, run_script

SELECTION: Final = "mutation.txt"
"""Name of the file, in the working directory of a simulation, with the number of its mutation, from 1; 0 for none."""

_BITS: Final = 16
_PORT: Final = "mutation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A change of bit `bit` of port `port` of the cell named `cell`; Yosys' `help mutate` defines `mode`.

    `number`: number of the mutation, from 1. `module`: Yosys' name of the mutated module; `path`: its instance.
    `command`: the Yosys command of the mutation. `line`: number of the line of Verilog, from 1, 0 if unknown; `code`:
    text of the line.
    """

    number: int
    mode: str
    cell: str
    port: str
    bit: int
    module: str
    path: str
    command: str
    line: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutants:
    """Verilog with all `mutations`, for `hw.harness`: top module vdla, which reads the number of its mutation from
    SELECTION. `netlist`: the RTLIL from which the mutations were drawn.
    """

    verilog: str
    netlist: str
    mutations: tuple[Mutation, ...]


def make_mutants(verilog: str, *, count: int, seed: int, report: Report) -> Mutants:
    """Makes `count` mutations of `verilog` (top module vdla), drawn by Yosys with `seed`. `report`: called with lines
    of progress.

    The mutated netlist is the result of the coarse part of Yosys' `synth`: optimized, with operators and memories not
    mapped to gates; mutation 0 is this netlist without change. Yosys spreads mutations over modules, cells and lines.
    Raises ToolError if Yosys is missing or fails.
    """
    prepare = [
        "read_verilog vdla.v",
        f"synth -top {TOP} -noalumacc -run begin:fine",
    ]
    draw = "\n".join(
        [*prepare, f"mutate -list {count} -seed {seed} -o mutations.txt", "write_rtlil vdla.il", ""]
    )
    name = cache.key("mutants-7", verilog, draw, tool_version(PACKAGE))
    text, listed, plain = (cache.load(name, f"mutants.{suffix}") for suffix in ("v", "json", "il"))
    if text is not None and listed is not None and plain is not None:
        mutations = tuple(Mutation(**values) for values in json.loads(listed))
        return Mutants(verilog=text.decode(), netlist=plain.decode(), mutations=mutations)
    with tempfile.TemporaryDirectory(prefix="vdla-mutants-") as directory:
        work = Path(directory)
        (work / "vdla.v").write_text(verilog, encoding="utf-8")
        run_script(draw, work, report)
        netlist = (work / "vdla.il").read_text(encoding="utf-8")
        commands = (work / "mutations.txt").read_text(encoding="utf-8").splitlines()
        mutations = tuple(_mutation(number, line, verilog) for number, line in enumerate(commands, 1))
        apply = ["read_rtlil vdla.il"]
        apply += [f"{line} -ctrl {_PORT} {_BITS} {number}" for number, line in enumerate(commands, 1)]
        apply += ["write_verilog -noattr -norename mutants.v", ""]
        run_script("\n".join(apply), work, report)
        mutated = _choose_by_file(_keep_counters((work / "mutants.v").read_text(encoding="utf-8")))
    cache.save(name, "mutants.v", mutated.encode())
    cache.save(name, "mutants.il", netlist.encode())
    cache.save(name, "mutants.json", json.dumps([asdict(mutation) for mutation in mutations]).encode())
    return Mutants(verilog=mutated, netlist=netlist, mutations=mutations)


def _mutation(number: int, command: str, verilog: str) -> Mutation:
    options = dict(re.findall(r"-(\w+) (\S+)", command))
    # The last source line is the innermost one: that of the statement, after those of the wires' declarations.
    lines = [int(line) for line in re.findall(r"-src vdla\.v:(\d+)", command)]
    line = lines[-1] if lines else 0
    return Mutation(
        number=number,
        mode=options["mode"],
        cell=options["cell"],
        port=options["port"],
        bit=int(options["portbit"]),
        module=options["module"],
        path=plain_path(options["module"].partition(".")[2]),
        command=re.sub(r" -src \S+", "", command),
        line=line,
        code=verilog.splitlines()[line - 1].strip() if line else "",
    )


_MODULE = re.compile(r"^module \\vdla\.(?:counters|control) .*?^endmodule$", re.MULTILINE | re.DOTALL)
_COUNTED = re.compile(r"^  assign \{.*?\b(count_\d+|cycles) ?\[.*?\} = (\\\S+ ?|\w+);$", re.MULTILINE)


def _keep_counters(verilog: str) -> str:
    """Returns `verilog` with the original names of the registers of the performance counters. Yosys has moved the name
    of a mutated register to the mutated signal, but the harness sets these registers by name.
    """

    def module(match: re.Match[str]) -> str:
        text = match[0]
        for name, register in [(match[1], match[2].strip()) for match in _COUNTED.finditer(text)]:
            text = re.sub(rf"\b{name}\b", f"{name}_mutated", text)
            text = text.replace(f"{register} ", f"{name} ") if register.startswith("\\") else text
        return text

    return _MODULE.sub(module, verilog)


def _choose_by_file(verilog: str) -> str:
    """Replaces the input `mutation` of the top module in `verilog` by a register that is set from the file SELECTION
    at time 0; returns the new text.
    """
    start = verilog.index(f"module {TOP}(")
    end = verilog.index("endmodule", start)
    declared = f"  input [{_BITS - 1}:0] {_PORT};\n  wire [{_BITS - 1}:0] {_PORT};\n"
    chosen = (
        f"  reg [{_BITS - 1}:0] {_PORT};\n"
        "  integer selection, found;\n"
        "  initial begin\n"
        f'    selection = $fopen("{SELECTION}", "r");\n'
        f'    found = $fscanf(selection, "%d", {_PORT});\n'
        "    $fclose(selection);\n"
        "  end\n"
    )
    ports, closing, body = verilog[start:end].partition(");")
    if declared not in body:
        raise ToolError("Yosys wrote the control input of the mutations in a form that is not known")
    ports = re.sub(rf"\b{_PORT}, |, {_PORT}\b", "", ports)
    return verilog[:start] + ports + closing + body.replace(declared, chosen) + verilog[end:]
