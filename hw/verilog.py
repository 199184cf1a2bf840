"""Verilog of the accelerator."""

from __future__ import annotations

import re
from dataclasses import dataclass

from amaranth.back import verilog
from amaranth.hdl import Value, ValueCastable
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from vdla.isa.config import Config

from .top import Accelerator

TOP = "vdla"
"""Name of the top module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of the Verilog module, but for clock and reset; `direction` is input or output."""

    name: str
    direction: str
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerilogModule:
    """Verilog text and the ports of its top module."""

    text: str
    ports: tuple[Port, ...]


def component_module(component: wiring.Component, name: str) -> VerilogModule:
    """Verilog of `component` as module `name`, its ports named by their path with single underscores.

    Amaranth would join paths by two, which tools mangle. The clock is `clk`, the reset `rst` (high, synchronous).
    """
    flat = _flat_ports(component)
    text = _tidy(verilog.convert(component, name=name, ports=flat, emit_src=False, strip_internal_attrs=True))
    ports = tuple(
        Port(
            name=port,
            direction="input" if direction is PortDirection.Input else "output",
            width=len(value),
        )
        for port, (value, direction) in flat.items()
    )
    return VerilogModule(text=text, ports=ports)


def _tidy(text: str) -> str:
    """`text` in the form that Verilator's lint asks for, with the same meaning.

    The negation of a vector is written as the reduction it is, and a case says that other values keep what was assigned
    before. Signals of no bits are left out: Yosys declares them as [-1:0], which in Verilog are two bits.
    """
    lines: list[str] = []
    empty: list[str] = []
    for line in text.splitlines():
        if line.startswith("module "):
            empty.clear()
        elif (found := _EMPTY.match(line)) is not None:
            empty.append(found[1])
            continue
        for name in empty:
            if name in line:
                line = _without(line, name)
        if line.startswith("  assign "):
            line = line.replace(" = ! ", " = ~| ", 1)
        elif line.strip() == "endcase" and not _has_default(lines, len(line) - len(line.lstrip())):
            lines.append(line.replace("endcase", "  default: ;"))
        lines.append(line)
    return "\n".join([*lines, ""])


_EMPTY = re.compile(r"  (?:wire|reg) \[-1:0\] (\\\S+ |\w+);")


def _without(line: str, name: str) -> str:
    """`line` without the signal `name`, which has no bits, in its concatenations."""
    exact = rf"(?<![\w$.\\]){re.escape(name)}(?![\w$])"
    line = re.sub(rf"(?<=[{{,]) {exact}\s*,", "", line)
    line = re.sub(rf",\s*{exact}\s*}}", " }", line)
    if re.search(exact, line):
        raise ValueError(f"the signal {name} of no bits is used in: {line}")
    return line


def _has_default(lines: list[str], indent: int) -> bool:
    """Whether the case statement at `indent` that the last of `lines` stand in has a default."""
    for line in reversed(lines):
        stripped = line.lstrip()
        depth = len(line) - len(stripped)
        if depth == indent and stripped.startswith("case"):
            return False
        if depth == indent + 2 and stripped.startswith("default:"):
            return True
    raise ValueError("an endcase without its case")


def component_verilog(component: wiring.Component, name: str) -> str:
    """The text of `component_module`."""
    return component_module(component, name).text


def _flat_ports(component: wiring.Component) -> dict[str, tuple[Value, PortDirection]]:
    ports: dict[str, tuple[Value, PortDirection]] = {}
    for path, member, value in component.signature.flatten(component):
        signal = value.as_value() if isinstance(value, ValueCastable) else value
        if isinstance(signal, Value):
            direction = PortDirection.Input if member.flow is In else PortDirection.Output
            ports["_".join(map(str, path))] = (signal, direction)
    return ports


def generate_module(config: Config, *, trace_ports: bool = False) -> VerilogModule:
    """Verilog of the whole accelerator, top module `vdla`; with `trace_ports` for the harness."""
    return component_module(Accelerator(config=config, trace_ports=trace_ports), TOP)


def generate_verilog(config: Config, *, trace_ports: bool = False) -> str:
    """The text of `generate_module`."""
    return generate_module(config, trace_ports=trace_ports).text
