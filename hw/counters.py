"""Performance counters: each unit's cycles by activity or cause of stall, and traffic by kind (hw/README.md section
9)."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.config import Config
from vdla.isa.layout import TOKEN_QUEUES, Unit

from .interfaces import Activity, Kind, burst_layout

COUNTER_BITS = 40
"""Width of a counter in bits: 2^40 cycles take three hours at 100 MHz."""

_COMPUTE = (
    Activity.GEMM,
    Activity.ALU,
    Activity.LOAD_UOP,
    Activity.LOAD_ACC,
    Activity.OTHER,
    Activity.DRAIN,
)
_STALLS = (
    Activity.INSTRUCTION,
    Activity.TOKEN_PREV,
    Activity.TOKEN_NEXT,
    Activity.FULL_PREV,
    Activity.FULL_NEXT,
    Activity.UNIT,
    Activity.BEGIN,
)


def _category(unit: Unit, activity: Activity) -> str:
    """The name of the simulator's category (`vdla.sim.CATEGORIES`) for `activity` of `unit`: the lower-case name of the
    activity, or "token:QUEUE" or "full:QUEUE" for a stall on the token queue named QUEUE.
    """
    if activity.name.startswith(("TOKEN_", "FULL_")):
        kind, _, side = activity.name.lower().partition("_")
        for queue in TOKEN_QUEUES:
            owner, flag = (
                (queue.consumer, queue.pop_flag) if kind == "token" else (queue.producer, queue.push_flag)
            )
            if owner is unit and flag.endswith(side):
                return f"{kind}:{queue.name}"
    return activity.name.lower()


def activities(unit: Unit) -> tuple[Activity, ...]:
    """The activities of `unit` that have a counter, causes of stall last."""
    return (*(_COMPUTE if unit is Unit.COMPUTE else (Activity.BUSY,)), *_STALLS)


CYCLE_COUNTERS = tuple(
    (unit, activity, f"{unit.name.lower()}.{_category(unit, activity)}")
    for unit in Unit
    for activity in activities(unit)
)
"""The cycle counters as (unit, activity, name). The name is "unit.category", where the category is the simulator's name
of the activity.
"""

COUNTERS = (
    *(name for _, _, name in CYCLE_COUNTERS),
    *(f"{kind.name.lower()}.{what}" for kind in Kind for what in ("bytes", "beats")),
)
"""Names of all counters, in the order of their addresses (`control.counter_address`)."""


READ_CYCLES = 4
"""Cycles from a change of `Counters.index` to the selected counter on `Counters.value`."""

_GROUP = 8  # number of counters in a group; the third of these cycles selects within each group (one counter, or 0)


class Counters(wiring.Component):
    """The performance counters. They count while `run` is 1 and are cleared by `clear`, both with a delay of two
    cycles, so that the counts after a run include the run's last cycle.

    Members: `load`, `compute`, `store`: the activity of each unit in this cycle. `read_accepted`, `write_accepted`: the
    memory port has accepted a burst in this cycle; `read_burst`, `write_burst` describe it. `index` selects a counter
    of COUNTERS, and `value` shows the counter READ_CYCLES later.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` determines the widths of the fields of the inputs `read_burst` and `write_burst`."""
        self._config = config
        super().__init__(
            {
                "clear": In(1),
                "run": In(1),
                **{unit.name.lower(): In(Activity) for unit in Unit},
                "read_accepted": In(1),
                "read_burst": In(burst_layout(config)),
                "write_accepted": In(1),
                "write_burst": In(burst_layout(config)),
                "index": In(range(len(COUNTERS))),
                "value": Out(COUNTER_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Builds registers of the counted events, and for each counter a register of its increment and an adder."""
        m = Module()
        seen = {unit: Signal(Activity, name=f"seen_{unit.name.lower()}") for unit in Unit}
        accepted = {name: Signal(name=f"{name}_accepted_1") for name in ("read", "write")}
        bursts = {name: Signal(burst_layout(self._config), name=f"{name}_burst_1") for name in accepted}
        # A reset clears the counters through this register, the only wire that goes to all of them.
        clear, clearing = Signal(), Signal(init=1)
        run = Signal()
        m.d.sync += [
            run.eq(self.run),
            clear.eq(self.clear),
            clearing.eq(clear),
            *(seen[unit].eq(getattr(self, unit.name.lower())) for unit in Unit),
        ]
        for name in accepted:
            m.d.sync += [
                accepted[name].eq(getattr(self, f"{name}_accepted")),
                bursts[name].eq(getattr(self, f"{name}_burst")),
            ]
        counts: list[Signal] = []

        def count(increment: Value) -> None:
            """Adds a counter that is incremented by `increment`, one cycle later."""
            step = Signal(len(increment), name=f"step_{len(counts)}", reset_less=True)
            number = Signal(COUNTER_BITS, name=f"count_{len(counts)}", reset_less=True)
            m.d.sync += [step.eq(increment), number.eq(Mux(clearing, 0, number + step))]
            counts.append(number)

        for unit, activity, _ in CYCLE_COUNTERS:
            count(run & (seen[unit] == activity))
        for kind in Kind:
            name = "write" if kind is Kind.OUT else "read"
            counted = accepted[name] & (bursts[name].kind == kind) & run
            count(Mux(counted, bursts[name].bytes, 0))
            count(Mux(counted, bursts[name].beats, 0))
        # The index is decoded to a register of one bit for each counter, so that no wire goes to all counters.
        index, chosen = Signal.like(self.index, reset_less=True), Signal(len(counts), reset_less=True)
        m.d.sync += [index.eq(self.index), chosen.eq(1 << index)]
        masked = [Mux(bit, number, 0) for bit, number in zip(chosen, counts, strict=True)]
        groups = []
        for first in range(0, len(counts), _GROUP):
            group = Signal(COUNTER_BITS, name=f"group_{first}", reset_less=True)
            m.d.sync += group.eq(reduce(or_, masked[first : first + _GROUP]))
            groups.append(group)
        m.d.sync += self.value.eq(reduce(or_, groups))
        return m
