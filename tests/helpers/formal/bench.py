"""A bench for proofs: components of the accelerator, what is assumed of their inputs, and what is claimed.

Every input that the bench leaves undriven is free: the solver chooses it anew in each cycle, the reset `rst` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from amaranth.back import rtlil
from amaranth.hdl import (
    Assert,
    Assume,
    Const,
    Cover,
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
        self.properties: list[str] = []
        self._ports: list[Value] = []
        self._fragments: dict[str, Fragment] = {}
        self._inside: dict[str, dict[str, Signal]] = {}
        self._claims: list[tuple[str, Value]] = []
        self._assumed: list[Value] = []
        self._covers: list[tuple[str, Value]] = []

    def add(self, name: str, component: Component) -> Component:
        """Put `component` under proof; inputs that `m` does not drive are free."""
        fragment = Fragment.get(component, None)
        self.m.submodules[name] = fragment
        self._fragments[name] = fragment
        self._inside[name] = dict(_driven(fragment, ""))
        for _path, _member, value in component.signature.flatten(component):
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            if isinstance(signal, Signal) and len(signal):
                self._ports.append(signal)
        return component

    def inside(self, name: str, path: str) -> Signal:
        """A signal in the component added as `name`: submodules and the signal's name, joined by dots.

        Of two signals with the same name in a module, the second has `#2` behind it.
        """
        signals = self._inside[name]
        if path not in signals:
            raise KeyError(f"no signal {path!r} in {name!r}; there are {', '.join(sorted(signals))}")
        return signals[path]

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
        self.invariant((level <= depth) & (consume < depth) & (produce == _around(consume + level, depth)))
        return Queue(bench=self, name=name, path=path, depth=depth, level=level, consume=consume)

    def free(self, shape: object, name: str) -> Signal:
        """A value that the solver chooses anew in each cycle."""
        signal = Signal(shape, name=name)  # type: ignore[arg-type]
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
        return rtlil.convert(self.m, name="top", ports=self._ports, emit_src=True)

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
        return self.bench.peek(self.name, f"{self.path}.storage", _around(self.consume + index, self.depth))


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


def _around(place: Value, depth: int) -> Value:
    """`place`, below 2 x `depth`, modulo `depth`: a division would cost the solver too much."""
    return Mux(place >= depth, place - depth, place)


def implies(premise: Value, conclusion: Value) -> Value:
    """Premise and conclusion of one bit each."""
    return ~premise | conclusion


def _driven(fragment: Fragment, prefix: str) -> list[tuple[str, Signal]]:
    """Signals by path; of two with one name the second, in order of the text, has #2 behind it."""
    found: dict[str, Signal] = {}
    for statements in fragment.statements.values():
        for signal in (signal for statement in statements for signal in statement._lhs_signals()):
            if not any(signal is other for other in found.values()):
                number = 1 + sum(other.name == signal.name for other in found.values())
                found[signal.name if number == 1 else f"{signal.name}#{number}"] = signal
    signals = [(prefix + name, signal) for name, signal in found.items()]
    for child, name, _src_loc in fragment.subfragments:
        signals += _driven(child, f"{prefix}{name}.")
    return signals
