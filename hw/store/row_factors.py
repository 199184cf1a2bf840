"""Computes the factor by which a softmax or a normalization scales a row, from the row's sums: a reciprocal or a
reciprocal square root. Accepts a new row every cycle (`vdla.isa.rows`).
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.isa.rows import (
    FACTOR_BITS,
    LENGTH_BITS,
    MANTISSA_BITS,
    QUOTIENT_SHIFT,
    SHIFT_BITS,
    SUM_BITS,
    TOTAL_BITS,
    VALUE_BITS,
)
from vdla.isa.timing import ROW_FACTOR_CYCLES

from .pipeline import delay, register

_RADICAND_CYCLES = 4
_SQUARES = 30  # bits of a sum of squares
_QUOTIENT = QUOTIENT_SHIFT - MANTISSA_BITS + 3  # bits: a mantissa is 2^(MANTISSA_BITS - 2) or more
_ROOT = (_QUOTIENT + 1) // 2
_STEPS = 2  # bits of quotient and of root a cycle
_DIVISION_CYCLES = -(-_QUOTIENT // _STEPS)
_ROOT_CYCLES = -(-_ROOT // _STEPS)

assert _RADICAND_CYCLES + 3 + _DIVISION_CYCLES + _ROOT_CYCLES + 1 == ROW_FACTOR_CYCLES


class RowFactors(wiring.Component):
    """Computes the factor by which a softmax or a normalization scales a row; accepts a new row every cycle.

    Members:

    - `sum`: sum over the row, of table entries (softmax) or of squares (normalization). `total`: sum of the
      differences. Both enter in the same cycle.
    - `look_up`, `centre`, `length`, `epsilon`, `epsilon_shift`: fields of register ROWS, which must not change.
    - `factor`, `shift`: the packed factor, ROW_FACTOR_CYCLES later. It is `isa.rows.reciprocal` of `sum` if `look_up`
      is 1. Otherwise it is `isa.rows.reciprocal_root` of length * sum - total^2 + (epsilon << epsilon_shift), without
      total^2 if `centre` is 0.
    """

    sum: In(SUM_BITS)
    total: In(signed(VALUE_BITS))
    look_up: In(1)
    centre: In(1)
    length: In(LENGTH_BITS)
    epsilon: In(16)
    epsilon_shift: In(5)
    factor: Out(FACTOR_BITS)
    shift: Out(SHIFT_BITS)

    def elaborate(self, platform: object) -> Module:
        """Builds the stages of the pipeline: radicand, normalization, division, root, packing."""
        m = Module()
        radicand = self._radicand(m)
        mantissa, places = self._normalized(m, radicand)
        quotient = self._divided(m, mantissa)
        root = self._root(m, quotient)
        reciprocal = delay(m, quotient[16:], _ROOT_CYCLES, "reciprocal")
        places = delay(m, places, _DIVISION_CYCLES + _ROOT_CYCLES, "places_late")
        chosen = Signal(max(len(root), len(reciprocal)))
        largest = (1 << FACTOR_BITS) - 1
        left = Signal(SHIFT_BITS)
        m.d.comb += [
            chosen.eq(Mux(self.look_up, reciprocal, root)),
            left.eq(TOTAL_BITS - places),
        ]
        m.d.sync += [
            self.factor.eq(Mux(chosen > largest, largest, chosen)),
            self.shift.eq(Mux(self.look_up, left, left >> 1)),
        ]
        return m

    def _radicand(self, m: Module) -> Signal:
        """The number from which the row's factor is computed: the sum if `look_up` (softmax), else length * sum -
        total^2 + epsilon (`RowFactors`), at least 0. It comes four cycles after its inputs.
        """
        half = LENGTH_BITS // 2
        squares = self.sum[:_SQUARES]
        first = [
            register(m, squares * part, f"weighted_{k}_1")
            for k, part in enumerate((self.length[:half], self.length[half:]))
        ]
        middle = VALUE_BITS // 2
        second = [
            register(m, self.total * self.total[:middle], "square_0_1"),
            register(m, self.total * self.total[middle:].as_signed(), "square_1_1"),
        ]
        wide = signed(TOTAL_BITS + 2)
        weighted_2, square_2, difference_3 = (
            Signal(wide, name=name, reset_less=True) for name in ("weighted_2", "square_2", "difference_3")
        )
        epsilon = Signal(TOTAL_BITS, reset_less=True)
        m.d.sync += [
            weighted_2.eq(first[0] + (first[1] << half)),
            square_2.eq(Mux(self.centre, second[0] + (second[1] << middle), 0)),
            difference_3.eq(weighted_2 - square_2),
            epsilon.eq(self.epsilon << self.epsilon_shift),
        ]
        late_3 = delay(m, self.sum, 3, "sum_3")
        whole = Signal(wide)
        m.d.comb += whole.eq(difference_3 + epsilon)
        found = Mux(self.look_up, late_3, Mux(whole[-1], 0, whole[:TOTAL_BITS]))
        return register(m, found, "radicand_4")

    def _normalized(self, m: Module, total: Value) -> tuple[Value, Value]:
        """Shifts `total` left until its highest 1 is at the top; a `total` of 0 counts as 1. Returns (mantissa, number
        of places shifted), three cycles later. For a square root the number of places is even, so the top bit may stay
        0.
        """
        value: Value = Cat(total[0] | (total == 0), total[1:])
        places: list[Value] = []
        for stage, steps in enumerate(((32, 16), (8, 4), (2, 1))):
            found: list[Value] = []
            for step in steps:
                moves = Signal(name=f"moves_{step}")
                moved = Signal(TOTAL_BITS, name=f"moved_{step}")
                zeros = ~value[-step:].any()
                m.d.comb += [
                    moves.eq(zeros & self.look_up if step == 1 else zeros),
                    moved.eq(Mux(moves, value << step, value)),
                ]
                value, found = moved, [moves, *found]
            value = register(m, value, f"normalized_{stage}")
            places = [register(m, Cat(*found, *places), f"places_{stage}")]
        return value[-MANTISSA_BITS:], places[0]

    def _divided(self, m: Module, mantissa: Value) -> Value:
        """Computes floor(2^QUOTIENT_SHIFT / mantissa); the result is valid _DIVISION_CYCLES later."""
        rest: Value = Const(1 << (MANTISSA_BITS - 2), MANTISSA_BITS + 1)
        quotient: Value = Const(0, 0)
        left = _QUOTIENT
        for cycle in range(_DIVISION_CYCLES):
            for step in range(min(_STEPS, left)):
                less = Signal(signed(MANTISSA_BITS + 2), name=f"less_{cycle}_{step}")
                m.d.comb += less.eq(rest - mantissa)
                bit = ~less[-1]
                rest = Cat(0, Mux(bit, less[:MANTISSA_BITS], rest[:MANTISSA_BITS]))
                quotient = Cat(bit, quotient)
                left -= 1
            quotient = register(m, quotient, f"quotient_{cycle}")
            if cycle < _DIVISION_CYCLES - 1:
                rest = register(m, rest, f"rest_{cycle}")
                mantissa = register(m, mantissa, f"mantissa_{cycle}")
        return quotient

    def _root(self, m: Module, value: Value) -> Value:
        """Computes the integer square root floor(sqrt(value)); the result is valid _ROOT_CYCLES later."""
        bits = 2 * _ROOT
        left: Value = Cat(value, Const(0, bits - len(value))) if bits > len(value) else value
        rest: Value = Const(0, _ROOT + 2)
        root: Value = Const(0, 0)
        done = 0
        for cycle in range(_ROOT_CYCLES):
            for step in range(min(_STEPS, _ROOT - done)):
                here = Cat(left[-2:], rest)[: _ROOT + 2]
                trial = Cat(Const(1, 2), root)
                less = Signal(signed(_ROOT + 3), name=f"under_{cycle}_{step}")
                m.d.comb += less.eq(here - trial)
                bit = ~less[-1]
                rest = Mux(bit, less[: _ROOT + 2], here)
                root, left = Cat(bit, root), left[:-2]
                done += 1
            root = register(m, root, f"root_{cycle}")
            if done < _ROOT:
                rest, left = register(m, rest, f"root_rest_{cycle}"), register(m, left, f"root_left_{cycle}")
        return root
