"""Verilog of the accelerator."""

from __future__ import annotations

from amaranth.back import verilog
from amaranth.hdl import Value, ValueCastable
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from vdla.isa.config import Config

from .top import Accelerator

TOP = "vdla"
"""Name of the top module."""


def component_verilog(component: wiring.Component, name: str) -> str:
    """Verilog of `component` as module `name`, its ports named by their path with single underscores.

    Amaranth would join paths by two, which tools mangle. The clock is `clk`, the reset `rst` (high, synchronous).
    """
    ports: dict[str, tuple[Value, PortDirection]] = {}
    for path, member, value in component.signature.flatten(component):
        signal = value.as_value() if isinstance(value, ValueCastable) else value
        if isinstance(signal, Value):
            direction = PortDirection.Input if member.flow is In else PortDirection.Output
            ports["_".join(map(str, path))] = (signal, direction)
    return verilog.convert(component, name=name, ports=ports, emit_src=False, strip_internal_attrs=True)


def generate_verilog(config: Config, *, trace_ports: bool = False) -> str:
    """Verilog of the whole accelerator, top module `vdla`; with `trace_ports` for the harness."""
    return component_verilog(Accelerator(config=config, trace_ports=trace_ports), TOP)
