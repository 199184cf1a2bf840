"""A bench for formal proofs: components of the accelerator, assumptions about their inputs, and claimed properties.

Every input that the bench does not drive is free: the solver chooses its value in each cycle, also for the reset `rst`.
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
    """A proof bench. `m`: module with the bench's own logic; its registers start at their initial values and are reset
    by `rst`.
    """

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
        """Adds a component to be proven, as submodule `name` of `m`; its inputs that `m` does not drive are free.
        Returns the component.
        """
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
        """The internal signal at `path` in the component added as `name`: names of submodules and the variable's name
        in the source, joined by dots. Raises KeyError if there is none.

        The path ends in `variable@method` if several methods of a class have different signals with the variable's
        name.
        """
        signals = self._inside[name]
        if path not in signals:
            raise KeyError(f"no signal {path!r} in {name!r}; there are {', '.join(sorted(signals))}")
        return signals[path]

    def submodule(self, name: str, path: str) -> wiring.Component:
        """A part of the design under test, for access to its ports: the submodule at `path` (names joined by dots) of
        the component that was added under the name `name`.
        """
        fragment = self._fragments[name]
        for part in path.split("."):
            fragment = fragment.find_subfragment(part)
        return next(origin for origin in fragment.origins or () if isinstance(origin, wiring.Component))

    def peek(self, name: str, path: str, address: Value) -> Signal:
        """The word at `address` of the memory at `path` (names of submodules, joined by dots) in the component added as
        `name`, read without delay by a port that the bench adds. Raises KeyError if `path` is no memory.
        """
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
        """The SyncFIFO of `depth` words at `path` in the component added as `name`. Adds an invariant on its level and
        pointers.
        """
        level, produce, consume = (
            self.inside(name, f"{path}.{item}") for item in ("level", "produce", "consume")
        )
        self.invariant((level <= depth) & (consume < depth) & (produce == around(consume + level, depth)))
        return Queue(bench=self, name=name, path=path, depth=depth, level=level, consume=consume)

    def free(self, shape: object, name: str) -> Signal:
        """A value of `shape`, named `name`, that the solver chooses anew in each cycle."""
        signal = Signal(shape, name=name)  # type: ignore[arg-type]
        if len(signal):
            self._ports.append(Value.cast(signal))
        return signal

    def constant(self, width: int, name: str) -> Signal:
        """A value of `width` bits, named `name`, that the solver chooses once for all cycles."""
        signal = Signal(width, name=name)
        self.m.submodules[f"choose_{name}"] = Instance("$anyconst", p_WIDTH=width, o_Y=signal)
        return signal

    def before(self, value: Value, *, init: int = 0) -> Signal:
        """A register that delays `value` by one cycle. In the first cycle and after a reset it holds `init`."""
        register = Signal(len(value), init=init, name="before")
        self.m.d.sync += register.eq(value)
        return register

    def same(self, value: Value) -> Value:
        """Whether `value` equals its value in the previous cycle."""
        return value == self.before(value)

    def assume(self, *values: Value) -> None:
        """Tells the prover that each of `values` is true in every cycle: for example, guarantees that neighbouring
        components give.
        """
        self._assumed += values

    def prove(self, name: str, value: Value, *, cover: Value) -> None:
        """Claims property `name`: `value` is true in every cycle. `cover`: a situation that must be reachable, so that
        the property is not vacuous.
        """
        self.properties.append(name)
        self._claims.append((name, value))
        self._covers.append((name, cover))

    def invariant(self, *values: Value) -> None:
        """Claims that `values` are true in every cycle. Invariants are proven like properties, and serve only to make
        the properties inductive.
        """
        for value in values:
            number = sum(name.startswith(INVARIANT) for name, _ in self._claims) + 1
            self._claims.append((f"{INVARIANT} {number}", value))

    def to_rtlil(self, *, only: str | None = None) -> str:
        """The bench as RTLIL text with the module `top`, with all assumptions and covers. `only`: name of the single
        claim, a property or invariant, to include (None: all).
        """
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
    """A SyncFIFO in a component under proof."""

    bench: Bench
    name: str
    path: str
    depth: int
    level: Signal
    consume: Signal

    def entry(self, index: Value | int) -> Signal:
        """The word at `index` of the FIFO, 0 is the head; meaningless unless index < level."""
        return self.bench.peek(self.name, f"{self.path}.storage", around(self.consume + index, self.depth))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """An item followed through a queue, chosen by the solver. `inside`: whether an item is being followed; `ahead`:
    number of older items still in the queue; `data`: the item.
    """

    inside: Signal
    ahead: Signal
    data: Signal


def tag(bench: Bench, *, enters: Value, data: Value, leaves: Value, level: Value) -> Tag:
    """Returns logic that follows one item through a queue with `level` items: the item `data` enters in a cycle with
    `enters`, and `leaves` items leave in a cycle.

    The caller claims that when the followed item leaves (`inside`, and `ahead` is 0), the data that leave equal the
    tag's `data`. As the solver may choose any item, this proves that items leave in the order of entering, and that
    none is lost or duplicated.
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
    """`place` modulo `depth`, for `place` below 2 x `depth`; a general division would cost the solver too much."""
    return Mux(place >= depth, place - depth, place)


def implies(premise: Value, conclusion: Value) -> Value:
    """The one-bit implication `premise` -> `conclusion`; both have one bit."""
    return ~premise | conclusion


@contextmanager
def _watch() -> Iterator[dict[int, dict[str, Signal]]]:
    """A context that collects the internal signals of components: by id of the component, the signals in local
    variables of its methods when they return.

    The RTL's registers have names only in its source; this makes them accessible without changes of the RTL. A signal
    has the key `variable` if only one method has a signal with this name, and always the key `variable@method`.
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
