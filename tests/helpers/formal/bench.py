"""A bench for proofs: components of the accelerator, what is assumed of their inputs, and what is claimed.

Every input that the bench leaves undriven is free: the solver chooses it anew in each cycle, the reset `rst` too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from amaranth.back import rtlil
from amaranth.hdl import (
    Assert,
    Assume,
    Const,
    Cover,
    Elaboratable,
    Fragment,
    Instance,
    Module,
    Mux,
    Shape,
    Signal,
    Value,
    ValueCastable,
)
from amaranth.hdl._ast import Property
from amaranth.hdl._mem import MemoryInstance
from amaranth.lib import wiring

Component = TypeVar("Component", bound=wiring.Component)
INVARIANT = "invariant"


class Bench:
    """`m` holds the bench's own logic; its registers start at their init and are cleared by `rst` with the rest."""

    def __init__(self) -> None:
        self.m = Module()
        self.m._MustUse__silence = True  # type: ignore[attr-defined]  # may be built for its list of properties alone
        self.properties: list[str] = []
        self._ports: list[Value] = []
        self._fragments: dict[str, Fragment] = {}
        self._inside: dict[str, dict[str, Signal]] = {}
        self._claims: list[tuple[str, Value]] = []
        self._assumed: list[Value] = []
        self._covers: list[tuple[str, Value]] = []

    def add(self, name: str, component: Component) -> Component:
        """Put `component` under proof; inputs that `m` does not drive are free."""
        with _watch() as signals:
            fragment = Fragment.get(component, None)
        self.m.submodules[name] = fragment
        self._fragments[name] = fragment
        self._inside[name] = dict(_paths(fragment, signals, ""))
        for _path, _member, value in component.signature.flatten(component):
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            if isinstance(signal, Signal) and len(signal):
                self._ports.append(signal)
        return component

    def inside(self, name: str, path: str) -> Signal:
        """A signal in the component added as `name`: submodules and the variable's name in the source, joined by dots.

        If several methods of a class have different signals by that name: `variable@method`.
        """
        signals = self._inside[name]
        if path not in signals:
            raise KeyError(f"no signal {path!r} in {name!r}; there are {', '.join(sorted(signals))}")
        return signals[path]

    def submodule(self, name: str, path: str) -> wiring.Component:
        """A component inside the one added as `name`, for its ports."""
        fragment = self._fragments[name]
        for part in path.split("."):
            fragment = fragment.find_subfragment(part)
        return next(origin for origin in fragment.origins or () if isinstance(origin, wiring.Component))

    def peek(self, name: str, path: str, address: Value) -> Signal:
        """The word at `address` of a memory in the component added as `name`, seen by a port of the bench's own."""
        fragment = self._fragments[name]
        for part in path.split("."):
            fragment = fragment.find_subfragment(part)
        if not isinstance(fragment, MemoryInstance):
            raise KeyError(f"{path!r} in {name!r} is no memory")
        data = fragment._data
        place, word = Signal(range(data.depth)), Signal(Shape.cast(data.shape).width)
        self.m.d.comb += place.eq(address)
        fragment.read_port(domain="comb", addr=place, data=word, en=Const(1), transparent_for=())
        return word

    def fifo(self, name: str, path: str, *, depth: int) -> Queue:
        """A SyncFIFO in the component added as `name`. Its pointers are proven to belong together."""
        level, produce, consume = (
            self.inside(name, f"{path}.{item}") for item in ("level", "produce", "consume")
        )
        self.invariant((level <= depth) & (consume < depth) & (produce == around(consume + level, depth)))
        return Queue(bench=self, name=name, path=path, depth=depth, level=level, consume=consume)

    def free(self, shape: object, name: str) -> Signal:
        """A value that the solver chooses anew in each cycle."""
        signal = Signal(shape, name=name)  # type: ignore[arg-type]
        if len(signal):
            self._ports.append(Value.cast(signal))
        return signal

    def constant(self, width: int, name: str) -> Signal:
        """A value that the solver chooses once."""
        signal = Signal(width, name=name)
        self.m.submodules[f"choose_{name}"] = Instance("$anyconst", p_WIDTH=width, o_Y=signal)
        return signal

    def before(self, value: Value, *, init: int = 0) -> Signal:
        """`value` of the cycle before; `init` in the first one and after a reset."""
        register = Signal(len(value), init=init, name="before")
        self.m.d.sync += register.eq(value)
        return register

    def same(self, value: Value) -> Value:
        """Whether `value` is what it was in the cycle before."""
        return value == self.before(value)

    def assume(self, *values: Value) -> None:
        """What the neighbours of the component promise, in every cycle."""
        self._assumed += values

    def prove(self, name: str, value: Value, *, cover: Value) -> None:
        """Property `name`: `value` holds in every cycle. `cover` is a case in which that says something."""
        self.properties.append(name)
        self._claims.append((name, value))
        self._covers.append((name, cover))

    def invariant(self, *values: Value) -> None:
        """Proven like a property; only there to make the others inductive."""
        for value in values:
            number = sum(name.startswith(INVARIANT) for name, _ in self._claims) + 1
            self._claims.append((f"{INVARIANT} {number}", value))

    def to_rtlil(self, *, only: str | None = None) -> str:
        """The bench as RTLIL, module `top`; with `only`, nothing but that property is claimed."""
        for value in self._assumed:
            self._state(Assume(value), "assumption")
        for name, value in self._claims:
            if only in (None, name):
                self._state(Assert(value), name)
        for name, value in self._covers:
            self._state(Cover(value), name)
        text = rtlil.convert(self.m, name="top", ports=self._ports, emit_src=True)
        # Amaranth takes every instance for a module of the user's; this one is a cell of Yosys.
        return text.replace("cell \\$anyconst ", "cell $anyconst ")

    def _state(self, statement: Property, name: str) -> None:
        # sby says where a claim failed or a cover was reached, up to the first space.
        statement.src_loc = (name.replace(" ", "_"), 0)
        self.m.d.comb += statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A SyncFIFO under proof."""

    bench: Bench
    name: str
    path: str
    depth: int
    level: Signal
    consume: Signal

    def entry(self, index: Value | int) -> Signal:
        """The word at `index`, 0 the head; of no meaning unless index < level."""
        return self.bench.peek(self.name, f"{self.path}.storage", around(self.consume + index, self.depth))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One item on its way through a queue, chosen by the solver: `ahead` items of those before it are still inside,
    `data` is the item, `inside` says that there is one.
    """

    inside: Signal
    ahead: Signal
    data: Signal


def tag(bench: Bench, *, enters: Value, data: Value, leaves: Value, level: Value) -> Tag:
    """Follow one item of a queue with `level` items: `data` enters in a cycle with `enters`, `leaves` items leave.

    What leaves while `inside` and `ahead` is 0 must be `data`. As the solver may choose any item, that says
    that everything leaves in the order in which it entered, nothing is lost and nothing comes twice.
    """
    m = bench.m
    choose = bench.free(1, "choose")
    inside, ahead, chosen = Signal(name="inside"), Signal(8, name="ahead"), Signal(len(data), name="chosen")
    with m.If(inside):
        m.d.sync += [ahead.eq(ahead - leaves), inside.eq(ahead >= leaves)]
    with m.Elif(enters & choose):
        m.d.sync += [inside.eq(1), ahead.eq(level - leaves), chosen.eq(data)]
    bench.invariant(implies(inside, ahead < level))
    return Tag(inside=inside, ahead=ahead, data=chosen)


def around(place: Value, depth: int) -> Value:
    """`place`, below 2 x `depth`, modulo `depth`: a division would cost the solver too much."""
    return Mux(place >= depth, place - depth, place)


def implies(premise: Value, conclusion: Value) -> Value:
    """Premise and conclusion of one bit each."""
    return ~premise | conclusion


@contextmanager
def _watch() -> Iterator[dict[int, dict[str, Signal]]]:
    """Collects, by the id of the component, the signals that are local variables of its methods when they return.

    The RTL's registers have names only in its source; so proofs can speak of them without changing it. A signal is
    under `variable` if only one method has a signal by that name, and always under `variable@method`.
    """
    found: dict[int, dict[str, Signal]] = {}
    shared: dict[int, set[str]] = {}

    def note(frame: FrameType, event: str, _value: object) -> None:
        owner = frame.f_locals.get("self")
        if event != "return" or not isinstance(owner, Elaboratable) or isinstance(owner, Module):
            return
        names, several = found.setdefault(id(owner), {}), shared.setdefault(id(owner), set())
        for name, value in frame.f_locals.items():
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            if isinstance(signal, Signal):
                names[f"{name}@{frame.f_code.co_name}"] = signal
                if names.setdefault(name, signal) is not signal:
                    several.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
        for owner, names in shared.items():
            for name in names:
                del found[owner][name]


def _paths(
    fragment: Fragment, signals: dict[int, dict[str, Signal]], prefix: str
) -> Iterator[tuple[str, Signal]]:
    for origin in fragment.origins or ():
        for name, signal in signals.get(id(origin), {}).items():
            yield prefix + name, signal
        for name, value in vars(origin).items():  # a FIFO's level is its attribute
            if isinstance(value, Signal):
                yield prefix + name, value
    for statements in fragment.statements.values():
        for signal in (signal for statement in statements for signal in statement._lhs_signals()):
            if not signal.name.startswith("$"):  # it has a name of its own
                yield prefix + signal.name, signal
    for child, name, _src_loc in fragment.subfragments:
        yield from _paths(child, signals, f"{prefix}{name}.")
