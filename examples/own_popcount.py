"""Your own instruction for binary networks: 32 products of +-1 a lane, by XNOR and a count of ones.

    pip install -e ".[rtl]" && python examples/own_popcount.py

A word of 32 bits has the signs of 32 numbers (1 for -1). The dot product of two words is 32 minus twice the number of
bits that differ. The script compiles a dense layer with binary inputs and weights for the machine with this
instruction, and the same layer in int8 for the array, and compares the cycles.
"""

import numpy as np
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import vdla

WORD = 32


def compute(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The dot product of each pair of words in the arrays `left` and `right`."""
    differ = (left ^ right).astype(np.uint32)
    return WORD - 2 * np.unpackbits(differ.view(np.uint8)).reshape(-1, WORD).sum(1, dtype=np.int64).reshape(
        left.shape
    )


def simulate(left: int, right: int) -> int:
    """The dot product of the words `left` and `right`."""
    differ, ones = (left ^ right) & 0xFFFFFFFF, 0
    while differ:
        differ &= differ - 1
        ones += 1
    return 32 - 2 * ones


class BinaryLane(wiring.Component):
    """One lane: differing bits are counted in groups of four in the first cycle, added in the second."""

    left: In(signed(32))
    right: In(signed(32))
    start: In(1)
    result: Out(signed(32))

    def elaborate(self, platform: object) -> Module:
        """Returns the circuit: eight counts of four bits, a register for each count, and their sum."""
        m = Module()
        differ = Signal(WORD)
        counts = [Signal(3, name=f"count_{k}") for k in range(WORD // 4)]
        m.d.comb += differ.eq(self.left ^ self.right)
        for k, count in enumerate(counts):
            m.d.sync += count.eq(sum(differ[4 * k + bit] for bit in range(4)))
        m.d.comb += self.result.eq(WORD - (sum(counts) << 1))
        return m


def expression(left, right):
    """The dot product of the words `left` and `right` as an expression, with which `tensorize` matches loops. The ones
    of their XOR are counted by adding neighbouring counts of 1, 2, 4, 8 and 16 bits.
    """
    v = left ^ right
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    return ((v * 0x01010101) >> 24) * -2 + WORD


BINARY = vdla.AluInstruction(
    name="XNORPOP",
    compute=compute,
    simulate=simulate,
    rtl=BinaryLane,
    cycles=2,
    expression=expression,
    cost=vdla.Cost(gates=330, flops=24),
)


def binary_layer(machine: vdla.Config, outputs: int, words: int) -> vdla.Schedule:
    """A schedule of Y = clip(round((sum over words of X . W + bias) x scale)), int8, for a layer of `outputs` numbers
    and 32 x `words` inputs. X[word, lane] holds the same word for all lanes, W is [block of outputs, word, lane], and P
    has the biases and the bits of the float32 scales.
    """
    lanes = machine.block_out
    blocks = outputs // lanes
    x = vdla.placeholder("X", (1, words, 1, lanes), "int32")
    w = vdla.placeholder("W", (blocks, words, 1, lanes), "int32")
    p = vdla.placeholder("P", (blocks, 2, lanes), "int32")
    word = vdla.reduce_axis("word", words)
    dots = vdla.compute(
        "dots", (blocks, words, 1, lanes), lambda o, k, b, j: expression(w[o, k, b, j], x[0, k, b, j])
    )
    total = vdla.compute(
        "total", (blocks, 1, 1, lanes), lambda o, m, b, j: vdla.reduce_sum(dots[o, word, b, j], word)
    )
    y = vdla.compute(
        "Y",
        (blocks, 1, 1, lanes),
        lambda o, m, b, j: vdla.post_value(total[o, m, b, j] + p[o, 0, j], p[o, 1, j]),
    )
    units = vdla.accelerator(machine)
    s = vdla.Schedule(vdla.program_of(y))
    s.compute_at("total", "Y.o")
    s.set_scope("total", "acc")
    s.compute_at("dots", "total.o")
    s.set_scope("dots", "acc")
    s.cache_read("X", None, "acc")
    s.cache_read("W", "total.o", "acc")
    s.cache_read("P", "Y.o", "par")
    s.update_in_place("dots", "W.acc")
    s.reorder("total.word", "total.b", "total.j")
    s.decompose_reduction("total", "total.m")
    s.tensorize("dots.b", *units.alu("XNORPOP"))
    s.tensorize("total.b", *units.alu("ADD"))
    s.tensorize("Y.b", *units.post())
    return s


def int8_layer(machine: vdla.Config, outputs: int, inputs: int) -> vdla.Schedule:
    """A schedule of the same dense layer as `binary_layer`, but computed by the accelerator's array: it maps `inputs`
    numbers to `outputs` numbers. Each input and each weight is an int8, +1 or -1.
    """
    n = machine.block_in
    blocks, depth = outputs // machine.block_out, inputs // n
    x = vdla.placeholder("X", (1, depth, 1, n), "int8")
    w = vdla.placeholder("W", (blocks, depth, machine.block_out, n), "int8")
    p = vdla.placeholder("P", (blocks, 2, machine.block_out), "int32")
    block, k = vdla.reduce_axis("block", depth), vdla.reduce_axis("k", n)

    def products(o, m, b, j):
        factors = vdla.cast(x[m, block, b, k], "int32") * vdla.cast(w[o, block, j, k], "int32")
        return vdla.reduce_sum(factors, block, k)

    total = vdla.compute("total", (blocks, 1, 1, machine.block_out), products)
    y = vdla.compute(
        "Y",
        (blocks, 1, 1, machine.block_out),
        lambda o, m, b, j: vdla.post_value(total[o, m, b, j] + p[o, 0, j], p[o, 1, j]),
    )
    units = vdla.accelerator(machine)
    s = vdla.Schedule(vdla.program_of(y))
    s.compute_at("total", "Y.o")
    s.set_scope("total", "acc")
    s.reorder("total.block", "total.b", "total.j", "total.k")
    s.cache_read("X", None, "inp")
    s.cache_read("W", "Y.o", "wgt")
    s.cache_read("P", "Y.o", "par")
    s.tensorize("total.b", units.gemm)
    s.tensorize("Y.b", *units.post())
    return s


def main() -> None:
    """Run a layer of 512 inputs and 256 outputs both ways on `vta` with the instruction, and compare."""
    machine = vdla.extend("vta", BINARY)
    outputs, inputs, lanes = 256, 512, machine.block_out
    random = np.random.default_rng(0)
    weights, x = random.choice((-1, 1), (outputs, inputs)), random.choice((-1, 1), inputs)
    expected = (
        np.clip(np.rint((weights @ x) / 8), -128, 127).astype(np.int8).reshape(outputs // lanes, 1, 1, lanes)
    )
    scale = np.full((outputs // lanes, lanes), 1 / 8, np.float32)
    p = np.stack([np.zeros(scale.shape, np.int32), scale.view(np.int32)], 1)

    def words(signs: np.ndarray) -> np.ndarray:
        """Packs the signs of 32 numbers along the last axis into each int32 word: 1 for a negative number."""
        return np.packbits(signs < 0, axis=-1, bitorder="little").view(np.int32)

    by_word = words(weights).reshape(outputs // lanes, lanes, -1, 1).transpose(0, 2, 3, 1)
    binary = vdla.simulate(
        vdla.build(binary_layer(machine, outputs, inputs // WORD), "vdla", machine),
        {"X": np.repeat(words(x).reshape(1, -1, 1, 1), lanes, 3), "W": np.ascontiguousarray(by_word), "P": p},
    )
    blocks = weights.reshape(outputs // lanes, lanes, -1, machine.block_in).transpose(0, 2, 1, 3)
    plain = vdla.simulate(
        vdla.build(int8_layer(machine, outputs, inputs), "vdla", machine),
        {"X": x.reshape(1, -1, 1, machine.block_in).astype(np.int8), "W": blocks.astype(np.int8), "P": p},
    )
    assert np.array_equal(binary.outputs["Y"], expected) and np.array_equal(plain.outputs["Y"], expected)
    print(f"{inputs} x {outputs} products of +-1 on {machine.name}, equal to numpy's")
    print(f"int8 on the array: {plain.cycles:,} cycles; {BINARY.name} on the ALU: {binary.cycles:,} cycles")


if __name__ == "__main__":
    main()
