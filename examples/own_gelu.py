"""Your own instruction of several cycles: a GELU unit for the accelerator's ALU, a pipeline of three multipliers.

    pip install -e ".[rtl]" && python examples/own_gelu.py

The unit computes I-BERT's polynomial (Kim et al., 2021, equations 7 and 8) on fixed-point numbers of 8 fractional bits:
gelu(x) = x/2 (1 + L(x / sqrt 2)), L(v) = sign(v) (a (min(|v|, -b) + b)^2 + 1) with a = -0.2888, b = -1.769. The script
also prints the error against the exact GELU.
"""

from math import erf

import numpy as np
from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import vdla

FRACTION = 8
LARGEST = (1 << 15) - 1
"""Inputs are clipped to +-LARGEST / 2^FRACTION, nearly +-128, where gelu(x) is x or 0."""
EDGE = round(1.769 * 2**0.5 * (1 << FRACTION))
"""The constant -b times sqrt 2, with FRACTION fractional bits. The factor sqrt 2 is needed because the polynomial in
this file reads x instead of x / sqrt 2.
"""
CURVE = round(0.2888 / 2 * (1 << 12))
"""The constant -a / 2 of the polynomial, with 12 fractional bits."""
ONE = 1 << 15


def compute(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """GELU of each number of the array `left`; argument and result are fixed-point numbers with FRACTION fractional
    bits. `right` is ignored.
    """
    x = np.clip(left, -LARGEST, LARGEST)
    below = np.minimum(np.abs(x), EDGE) - EDGE
    curve = ONE - ((below * below * CURVE) >> 13)
    return (x * (ONE + np.where(x < 0, -curve, curve))) >> 16


def simulate(left: int, right: int) -> int:
    """GELU of the fixed-point number `left`, with FRACTION fractional bits like the result; `right` is ignored."""
    x = min(max(left, -LARGEST), LARGEST)
    distance = abs(x) if abs(x) < EDGE else EDGE
    curve = ONE - (((EDGE - distance) * (EDGE - distance) * CURVE) >> 13)
    return (x * (ONE - curve if x < 0 else ONE + curve)) >> 16


class GeluLane(wiring.Component):
    """One lane: clip and square in the first cycle, curve in the second, product in the third, result in the fourth."""

    left: In(signed(32))
    right: In(signed(32))
    start: In(1)
    result: Out(signed(32))

    def elaborate(self, platform: object) -> Module:
        """Returns the circuit: three stages of registers, which one operation at a time passes through."""
        m = Module()
        clipped, x = Signal(signed(16)), Signal(signed(16))
        size, below = Signal(16), Signal(range(EDGE + 1))
        square, curve = Signal(20), Signal(signed(18))
        product = Signal(signed(33))
        m.d.comb += [
            clipped.eq(
                Mux(
                    self.left > LARGEST,
                    LARGEST,
                    Mux(self.left < -LARGEST, -LARGEST, self.left[:16].as_signed()),
                )
            ),
            size.eq(Mux(clipped < 0, -clipped, clipped)),
            below.eq(Mux(size < EDGE, EDGE - size, 0)),
            self.result.eq(product >> 16),
        ]
        with m.If(self.start):
            m.d.sync += [x.eq(clipped), square.eq(below * below)]
        m.d.sync += [
            curve.eq(ONE - ((square * CURVE) >> 13)),
            product.eq(x * (ONE + Mux(x < 0, -curve, curve))),
        ]
        return m


def expression(left, right):
    """GELU of `left` as an expression of the loop IR, with which `tensorize` matches loops; `right` is ignored."""
    x = vdla.minimum(vdla.maximum(left, -LARGEST), LARGEST)
    size = vdla.maximum(x, x * -1)
    below = vdla.minimum(size, EDGE) - EDGE
    curve = ((below * below * CURVE) >> 13) * -1 + ONE
    return (x * (vdla.select(x < 0, curve * -1, curve) + ONE)) >> 16


GELU = vdla.AluInstruction(
    name="GELU",
    compute=compute,
    simulate=simulate,
    rtl=GeluLane,
    cycles=4,
    immediates=(0, 0),
    expression=expression,
    cost=vdla.Cost(gates=2500, flops=87),
)


def schedule(machine: vdla.Config, rows: int) -> vdla.Schedule:
    """A schedule of Y = clip(round((256 gelu(X / 256) + bias) x scale)), int8. X has `rows` int32 vectors of
    `block_out` numbers; P has a bias and the bits of a float32 scale for each lane.
    """
    shape = (1, rows, 1, machine.block_out)
    x, p = vdla.placeholder("X", shape, "int32"), vdla.placeholder("P", (1, 2, machine.block_out), "int32")
    g = vdla.compute("G", shape, lambda o, m, b, j: expression(x[o, m, b, j], 0))
    y = vdla.compute("Y", shape, lambda o, m, b, j: vdla.post_value(g[o, m, b, j] + p[o, 0, j], p[o, 1, j]))
    units = vdla.accelerator(machine)
    s = vdla.Schedule(vdla.program_of(y))
    s.compute_at("G", "Y.o")
    s.set_scope("G", "acc")
    s.cache_read("X", "Y.o", "acc")
    s.cache_read("P", "Y.o", "par")
    s.update_in_place("G", "X.acc")
    s.tensorize("G.b", *units.alu("GELU", 0))
    s.tensorize("Y.b", *units.post())
    return s


def main() -> None:
    """Extend the preset `vta`, run the unit on numbers from -8 to 8, and print error, cycles and area."""
    machine = vdla.extend("vta", GELU)
    rows = 256
    x = np.linspace(-8 * 256, 8 * 256, rows * machine.block_out).astype(np.int32).reshape(1, rows, 1, -1)
    scale = np.full((1, machine.block_out), 16 / 256, np.float32)
    p = np.stack([np.zeros(scale.shape, np.int32), scale.view(np.int32)], 1)
    kernel = vdla.build(schedule(machine, rows), "vdla", machine)
    report = vdla.simulate(kernel, {"X": x, "P": p})
    exact = np.array([v / 2 * (1 + erf(v / 2**0.5)) for v in (x / 256).ravel()]).reshape(x.shape)
    unit = compute(x.astype(np.int64), x) / 256
    steps = report.outputs["Y"] - np.clip(np.rint(exact * 16), -128, 127)
    print(
        f"largest error of the unit: {abs(unit - exact).max():.3f}; in steps of 1/16: {abs(steps).max():.0f}"
    )
    print(f"{x.size:,} elements in {report.cycles:,} cycles of {machine.name}")


if __name__ == "__main__":
    main()
