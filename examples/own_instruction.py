"""Your own instruction: XOR for the accelerator's ALU, in one file: semantics, hardware, simulation and compilation.

    pip install -e ".[rtl]" && python examples/own_instruction.py

`vdla.extend` checks first that semantics, simulator, RTL and expression give the same results. Then a tensor
expression with XOR is compiled for the new machine and simulated. This command compares the RTL of the whole machine,
with its new lanes, with the simulator:

    vdla cosim --import examples/own_instruction.py --config examples/own_instruction.toml --programs 200
"""

import numpy as np
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import vdla


class XorLane(wiring.Component):
    """One lane's XOR, between two registers of the ALU: the result follows in the same cycle."""

    left: In(signed(32))
    right: In(signed(32))
    start: In(1)
    result: Out(signed(32))

    def elaborate(self, platform: object) -> Module:
        """Returns the circuit: XOR gates between the operands and the result."""
        m = Module()
        m.d.comb += self.result.eq(self.left ^ self.right)
        return m


XOR = vdla.AluInstruction(
    name="XOR",
    compute=np.bitwise_xor,
    simulate=lambda left, right: left ^ right,
    rtl=XorLane,
    expression=lambda left, right: left ^ right,
    cost=vdla.Cost(gates=4 * 32),
)


def schedule(machine: vdla.Config, blocks: int, rows: int) -> vdla.Schedule:
    """A schedule of Y = clip(round(((A XOR B) + bias) x scale)), int8. A and B are int32: `blocks` times `rows` vectors
    of `block_out` lanes. P has the biases and the bits of the float32 scales of each block.
    """
    lanes = machine.block_out
    shape = (blocks, rows, 1, lanes)
    a, b = vdla.placeholder("A", shape, "int32"), vdla.placeholder("B", shape, "int32")
    p = vdla.placeholder("P", (blocks, 2, lanes), "int32")
    mixed = vdla.compute("mixed", shape, lambda o, m, b_, j: a[o, m, b_, j] ^ b[o, m, b_, j])
    y = vdla.compute(
        "Y", shape, lambda o, m, b_, j: vdla.post_value(mixed[o, m, b_, j] + p[o, 0, j], p[o, 1, j])
    )
    units = vdla.accelerator(machine)
    s = vdla.Schedule(vdla.program_of(y))
    s.compute_at("mixed", "Y.o")
    s.set_scope("mixed", "acc")
    for tensor, memory in (("A", "acc"), ("B", "acc"), ("P", "par")):
        s.cache_read(tensor, "Y.o", memory)
    s.update_in_place("mixed", "A.acc")  # the ALU overwrites its first operand
    s.tensorize("mixed.b_", *units.alu("XOR"))
    s.tensorize("Y.b_", *units.post())
    return s


def main() -> None:
    """Extend `tiny`, check the simulated result, and print the cycles and the number of XOR instructions."""
    tiny = vdla.config("tiny")
    machine = vdla.extend(tiny, XOR)
    blocks, rows = 4, 16
    random = np.random.default_rng(0)
    shape = (blocks, rows, 1, machine.block_out)
    a, b = (random.integers(-1000, 1000, shape, np.int32) for _ in range(2))
    scale = np.full((blocks, machine.block_out), 2.0**-3, np.float32)
    p = np.stack([np.zeros(scale.shape, np.int32), scale.view(np.int32)], 1)

    kernel = vdla.build(schedule(machine, blocks, rows), "vdla", machine)
    report = vdla.simulate(kernel, {"A": a, "B": b, "P": p})
    expected = np.clip(np.rint((a ^ b) * np.float32(2.0**-3)), -128, 127).astype(np.int8)
    assert np.array_equal(report.outputs["Y"], expected)
    print(f"{machine.name}: {report.cycles:,} cycles, every element equal to numpy's")
    print(f"XOR instructions in the program: {kernel.source('instructions').count('alu_opcode=XOR')}")


if __name__ == "__main__":
    main()
