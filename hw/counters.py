"""Performance counters: cycles of every unit by what it did or waited for, traffic by kind (hw/README.md section 9)."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from vdla.isa.config import Config
from vdla.isa.layout import TOKEN_QUEUES, Unit

from .interfaces import Activity, Kind, burst_layout

COUNTER_BITS = 48
"""A run of 2^48 cycles takes a month at 100 MHz."""

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
    """The simulator's name of what `unit` shows as `activity`."""
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
    """What is counted of `unit`."""
    return (*(_COMPUTE if unit is Unit.COMPUTE else (Activity.BUSY,)), *_STALLS)


CYCLE_COUNTERS = tuple(
    (unit, activity, f"{unit.name.lower()}.{_category(unit, activity)}")
    for unit in Unit
    for activity in activities(unit)
)
"""(unit, activity, name); the names are those of `vdla.sim`'s counters with the unit before them."""

COUNTERS = (
    *(name for _, _, name in CYCLE_COUNTERS),
    *(f"{kind.name.lower()}.{what}" for kind in Kind for what in ("bytes", "beats")),
)
"""Names of all counters, in the order of their registers (`control.counter_address`)."""


class Counters(wiring.Component):
    """Counts while `run`, cleared by `clear`.

    Members: `load`, `compute`, `store` the units' activities; `read_*`, `write_*` accepted bursts as shown by
    MemoryPort; `index` chooses a counter of COUNTERS, `value` shows it.
    """

    def __init__(self, *, config: Config) -> None:
        """`config` gives the bursts' layout."""
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
        """One adder a counter."""
        m = Module()
        counts = [Signal(COUNTER_BITS, name=f"count_{index}") for index in range(len(COUNTERS))]
        steps = [
            (getattr(self, unit.name.lower()) == activity) & self.run for unit, activity, _ in CYCLE_COUNTERS
        ]
        for kind in Kind:
            burst = self.write_burst if kind is Kind.OUT else self.read_burst
            accepted = self.write_accepted if kind is Kind.OUT else self.read_accepted
            counted = accepted & (burst.kind == kind) & self.run
            steps += [Mux(counted, burst.bytes, 0), Mux(counted, burst.beats, 0)]
        for count, step in zip(counts, steps, strict=True):
            m.d.sync += count.eq(Mux(self.clear, 0, count + step))
        m.d.comb += self.value.eq(Array(counts)[self.index])
        return m
