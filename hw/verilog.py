"""Verilog of the accelerator."""

from __future__ import annotations

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
    text = verilog.convert(component, name=name, ports=flat, emit_src=False, strip_internal_attrs=True)
    ports = tuple(
        Port(
            name=port,
            direction="input" if direction is PortDirection.Input else "output",
            width=len(value),
        )
        for port, (value, direction) in flat.items()
    )
    return VerilogModule(text=text, ports=ports)


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
