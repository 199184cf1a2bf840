"""The top module: units, token queues, scratchpads, memory port and control registers, on two AXI ports."""

from __future__ import annotations

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.layout import TOKEN_QUEUES, Unit

from .axi import axi4, axi4_lite
from .compute import ComputeUnit
from .control import Control
from .counters import Counters
from .fetch import FetchUnit
from .interfaces import Activity, Client, load_members, trace
from .load import LoadUnit
from .memory_port import MemoryPort
from .scratchpads import BankedScratchpad, Scratchpad
from .store import StoreUnit
from .tokens import TokenCounter


class Accelerator(wiring.Component):
    """The whole accelerator.

    Members: `axi`: AXI4 master to memory. `control`: AXI4-Lite slave of the control registers (map in `control.py`).

    Members that exist only with `trace_ports`: `running` is 1 in the cycles 1 to the end of the run. `trace_UNIT`, one
    for each unit, shows the begin and end of its instructions (`interfaces.trace`). `trace_UNIT_activity` shows the
    activity that the performance counters count.
    """

    def __init__(self, *, config: Config, trace_ports: bool = False) -> None:
        """`trace_ports`: adds the ports that the harness reads; synthesis leaves them out."""
        self._config, self._trace = config, trace_ports
        members: dict[str, In | Out] = {
            "axi": Out(axi4(config.memory.bus_bytes)),
            "control": In(axi4_lite()),
        }
        if trace_ports:
            members["running"] = Out(1)
            members |= {f"trace_{unit.name.lower()}": Out(trace()) for unit in Unit}
            members |= {f"trace_{unit.name.lower()}_activity": Out(Activity) for unit in Unit}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        """Connects all parts of the accelerator. The units are in reset while no program runs; memories keep their
        contents.
        """
        m = Module()
        config = self._config
        m.submodules.control = control = Control(config=config)
        m.submodules.memory_port = port = MemoryPort(config=config)
        m.submodules.counters = counters = Counters(config=config)
        hold = ResetInserter(control.resting)
        units = {
            Unit.LOAD: LoadUnit(config=config),
            Unit.COMPUTE: ComputeUnit(config=config),
            Unit.STORE: StoreUnit(config=config),
        }
        fetch = FetchUnit(config=config)
        m.submodules.fetch = hold(fetch)
        for unit, component in units.items():
            m.submodules[unit.name.lower()] = hold(component)
        for number, queue in enumerate(TOKEN_QUEUES):
            counter = TokenCounter(config=config)
            m.submodules[f"tokens_{number}"] = hold(counter)
            connect(m, getattr(units[queue.producer], queue.push_flag), counter.push)
            connect(m, getattr(units[queue.consumer], queue.pop_flag), counter.pop)
        for unit, component in units.items():
            connect(m, getattr(fetch, unit.name.lower()), component.commands)
            connect(m, getattr(port, unit.name.lower()), component.read)
            m.d.comb += getattr(counters, unit.name.lower()).eq(component.activity)
        connect(m, fetch.read, getattr(port, Client.FETCH.name.lower()))
        connect(m, units[Unit.STORE].write, port.write)
        connect(m, units[Unit.STORE].accumulators, units[Unit.COMPUTE].accumulators)
        inputs, positions = Scratchpad, {}
        if ArrayShape.of(config).banks > 1:
            inputs, positions = BankedScratchpad, {"parts": config.position_inputs}
        if config.inp_step_vectors > 1:
            positions["neighbours"] = config.inp_step_vectors
        for name in ("inp", "wgt"):
            write = load_members(config)[name].signature.members
            width = 8 * getattr(config, f"{name}_bytes")
            count = config.inp_step_vectors if name == "inp" else 1
            scratchpad = (inputs if name == "inp" else Scratchpad)(
                depth=getattr(config, f"{name}_depth"),
                width=width,
                lanes=write["enable"].shape // count,
                repeats=width * count // write["data"].shape,
                **(positions if name == "inp" else {}),
            )
            m.submodules[name] = scratchpad
            connect(m, getattr(units[Unit.LOAD], name), scratchpad.write)
            connect(m, getattr(units[Unit.COMPUTE], name), scratchpad.read)
        if config.chain_buffer_bytes:
            lanes, width = config.chain_word_bytes // config.out_bytes, 8 * config.chain_word_bytes
            depth = config.chain_buffer_bytes // config.chain_word_bytes
            m.submodules.chain = chain = inputs(depth=depth, width=width, lanes=lanes, repeats=lanes)
            connect(m, units[Unit.STORE].chain, chain.write)
            connect(m, units[Unit.COMPUTE].chain, chain.read)
        connect(m, flipped(self.axi), port.axi)
        connect(m, flipped(self.control), control.bus)
        idle = [
            units[unit].idle & ~getattr(fetch, unit.name.lower()).valid for unit in (Unit.LOAD, Unit.STORE)
        ]
        m.d.comb += [
            units[Unit.COMPUTE].others_idle.eq(idle[0] & idle[1]),
            control.finished.eq(units[Unit.COMPUTE].finished),
            control.quiet.eq(port.quiet),
            control.error.eq(port.error),
            control.written.eq(port.written),
            port.stop.eq(control.stop),
            port.base.eq(control.base),
            fetch.program.eq(control.program),
            fetch.count.eq(control.count),
            counters.run.eq(control.running),
            counters.clear.eq(control.launch),
            counters.index.eq(control.counter_index),
            control.counter_value.eq(counters.value),
        ]
        for name in ("read_accepted", "read_burst", "write_accepted", "write_burst"):
            m.d.comb += getattr(counters, name).eq(getattr(port, name))
        if self._trace:
            m.d.comb += self.running.eq(control.running)
            for unit, component in units.items():
                connect(m, flipped(getattr(self, f"trace_{unit.name.lower()}")), component.trace)
                m.d.comb += getattr(self, f"trace_{unit.name.lower()}_activity").eq(component.activity)
        return m
