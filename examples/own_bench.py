"""Your own cocotb bench of the RTL: runs a matrix product on a machine's Verilog, with a memory that stalls at random.

    pip install -e ".[bench]" && python examples/own_bench.py      (with iverilog; else Verilator builds for a minute)

The program is compiled from a schedule of own_schedule.py. With the memory of the configuration, the RTL takes exactly
the simulator's number of cycles. A memory that stalls makes the run longer, but does not change its results.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from own_schedule import MACHINE, example, schedule

import vdla

try:
    from vdla.hw import bench
except vdla.UserError as error:
    sys.exit(f"error: {error}")
import cocotb

SIZE, TILE = (4, 4, 4), (2, 4, 2)
CHANCES = (0.0, 0.5, 0.8)
BUFFERS = ("one", "two")


@cocotb.test()
@cocotb.parametrize(buffers=BUFFERS, chance=CHANCES)
async def product(dut, buffers, chance):
    """Runs a compiled program once on the RTL `dut`, and compares all of Y with the expected result. `buffers` chooses
    the program: "one" or "two" copies of each buffer. Each AXI channel (addresses, data, responses) pauses in a cycle
    with probability `chance`.
    """
    folder = Path(os.environ["FOLDER"])
    program = vdla.load_program(folder / f"{buffers}.vdla")
    inputs, expected = example(SIZE)

    bench.start_clock(dut)
    stalls = bench.Stalls(address=chance, data=chance, response=chance, seed=1)
    memory = bench.MemoryModel(dut, timing=MACHINE.memory, size=bench.memory_bytes(program), stalls=stalls)
    control = bench.ControlRegisters(dut)
    memory.start()
    await bench.reset(dut)
    bytes_of = {name: array.tobytes() for name, array in inputs.items()}
    await control.launch(bench.load_program(memory, program, inputs=bytes_of))
    status = await control.wait(cycles=100_000)
    assert status["finished"] and not status["error"]

    where = program.segment("Y")
    assert memory.read(where.address, where.size) == expected.tobytes()
    cycles = await control.cycles()
    (folder / f"{buffers} {chance}").write_text(str(cycles))


def main() -> None:
    """Build the programs with one and with two copies of each buffer, run the bench, and print the cycles of the
    simulator and of the RTL.
    """
    simulator = "icarus" if shutil.which("iverilog") else "verilator"
    inputs, expected = example(SIZE)
    simulated = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for buffers in BUFFERS:
            kernel = vdla.build(schedule(SIZE, TILE, hide=buffers == "two"), "vdla", MACHINE)
            report = vdla.simulate(kernel, inputs)
            assert np.array_equal(report.outputs["Y"], expected)
            vdla.save_program(report.program, folder / f"{buffers}.vdla")
            simulated[buffers] = report.cycles
        environment = {"FOLDER": name}
        bench.run_bench(Path(__file__), MACHINE, results=folder, simulator=simulator, environment=environment)
        print(f"cycles on the RTL ({simulator}), all results right")
        print("chance of a stall" + "".join(f"{chance:>8}" for chance in CHANCES) + "   simulator")
        for buffers in BUFFERS:
            cycles = [int((folder / f"{buffers} {chance}").read_text()) for chance in CHANCES]
            print(f"{buffers:3} of each buffer" + "".join(f"{count:8,}" for count in cycles), end="")
            print(f"   {simulated[buffers]:9,}")
            assert cycles[0] == simulated[buffers]


if __name__ == "__main__":
    main()
