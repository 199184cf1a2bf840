"""Speed of the simulator: thread CPU seconds from encoded program to counters, with data and without (timing only).

    python benchmarks/simulator.py [PROGRAM.vdla] [--repeat 5] [--json] [--write]

Without a program it makes one the size of ResNet-18 on `vta` (about 7.1 M cycles): 3x3 convolution tiles with 64 input
channels, double-buffered loads, and stores with post-processing that overlap with the next tile's GEMM.
The first run, which loads the compiled code, is not counted; nothing else is carried over between runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.harness.command_line import OUTPUT, RUNS, Given, Option, run_script
from vdla.benchmarks.harness.output import finish
from vdla.codesign.timing import REPEAT, median_seconds
from vdla.isa.config import Config, load_config
from vdla.isa.layout import encode, encode_uops
from vdla.isa.program import Program, bare_program
from vdla.isa.program_file import load_program
from vdla.isa.registers import register_value
from vdla.sim import SimulationResult, simulate

SIDE, CHANNEL_BLOCKS, TAPS = 14, 4, 9
HALO = SIDE + 2


def tiles_program(config: Config, tiles: int) -> Program:
    """A program of `tiles` convolution tiles, each with 14x14 outputs, 3x3 taps, 4 input blocks and one
    output block.
    """
    uops = CHANNEL_BLOCKS * TAPS
    vectors = HALO * HALO * CHANNEL_BLOCKS
    taps = [(block, ky, kx) for block in range(CHANNEL_BLOCKS) for ky in range(3) for kx in range(3)]
    source = np.array([(block * HALO + ky) * HALO + kx for block, ky, kx in taps])
    words = encode_uops(config, np.zeros(uops, np.int64), source, np.arange(uops))
    rng = np.random.default_rng(0)
    activations = rng.integers(-128, 128, 64 * vectors * config.inp_bytes).astype(np.int8)
    weights = rng.integers(-128, 128, 256 * uops * config.wgt_bytes).astype(np.int8)
    bias = np.zeros(config.block_out, np.int32)
    scale = np.full(config.block_out, 2e-4, np.float32)
    parts: list[NDArray[np.generic]] = [weights, activations, words, bias, scale]
    starts, at = [], 0
    for part in parts:
        at = -(-at // 4096) * 4096
        starts.append(at)
        at += part.nbytes
    out_start = -(-at // 4096) * 4096
    image = np.zeros(out_start + 64 * SIDE * SIDE * config.out_bytes, np.uint8)
    for start, part in zip(starts, parts, strict=True):
        image[start : start + part.nbytes] = part.view(np.uint8)
    wgt_at, inp_at, uop_at, par_at, _ = starts
    code = [
        encode(
            config, "LOAD.UOP", dram_base=uop_at // config.uop_bytes, y_size=1, x_size=uops, x_stride=uops
        ),
        encode(config, "LOAD.PAR", dram_base=par_at // config.par_bytes, y_size=1, x_size=1, x_stride=1),
        encode(
            config, "CONFIG", unit=2, register=0, value=register_value("ADDRESS", y_stride=SIDE, x_stride=1)
        ),
        encode(
            config,
            "CONFIG",
            unit=2,
            register=2,
            value=register_value("REQUANTIZE", zero_point=0, low=-128, high=127),
        ),
    ]
    for tile in range(tiles):
        half, later = tile % 2, int(tile >= 2)
        acc = half * config.acc_bank_depth
        inp, wgt = half * config.inp_depth // 2, half * uops
        code += [
            encode(
                config,
                "LOAD.INP",
                pop_next=later,
                sram_base=inp,
                dram_base=inp_at // config.inp_bytes + tile % 64 * vectors,
                y_size=vectors // HALO,
                x_size=HALO,
                x_stride=HALO,
            ),
            encode(
                config,
                "LOAD.WGT",
                push_next=1,
                sram_base=wgt,
                dram_base=wgt_at // config.wgt_bytes + tile % 256 * uops,
                y_size=1,
                x_size=uops,
                x_stride=uops,
            ),
            encode(
                config,
                "CONFIG",
                unit=1,
                register=0,
                value=register_value("BASE", acc_base=acc, inp_base=inp, wgt_base=wgt),
            ),
        ]
        # The first micro-op of a position replaces the accumulator; the others add to it.
        for first, last, overwrite in ((0, 1, 1), (1, uops, 0)):
            code.append(
                encode(
                    config,
                    "GEMM",
                    pop_prev=overwrite,
                    pop_next=overwrite * later,
                    push_prev=1 - overwrite,
                    push_next=1 - overwrite,
                    uop_bgn=first,
                    uop_end=last,
                    iter_out=SIDE,
                    iter_in=SIDE,
                    overwrite=overwrite,
                    dst_factor_out=SIDE,
                    dst_factor_in=1,
                    src_factor_out=HALO,
                    src_factor_in=1,
                )
            )
        code.append(
            encode(
                config,
                "STORE.POST",
                pop_prev=1,
                push_prev=1,
                sram_base=acc,
                dram_base=out_start // config.out_bytes + tile % 64 * SIDE * SIDE,
                y_size=SIDE,
                x_size=SIDE,
                x_stride=SIDE,
            )
        )
    code.append(encode(config, "FINISH"))
    return bare_program(config, np.array(code, np.uint64), image)


def measure(program: Program, data: bool, repeat: int) -> dict[str, float]:
    """Simulates the program once without counting the time and then `repeat` times; returns its cycles, the median
    thread CPU seconds, and million cycles per second. `data`: also computes the outputs.
    """

    def run() -> SimulationResult:
        return simulate(program.config, program.instructions, program.image, data=data)

    cycles, median = run().cycles, median_seconds(run, repeat)
    return {"cycles": cycles, "seconds": median, "million_cycles_per_second": cycles / median / 1e6}


OPTIONS = (
    Option("program", "file of a saved program (default: convolution tiles on vta)", nargs="?"),
    Option("--tiles", "number of convolution tiles, if no program is given", int, 1000),
    RUNS.but(default=REPEAT),
    *OUTPUT,
)


def main(options: Given) -> None:
    program = (
        load_program(options.program) if options.program else tiles_program(load_config("vta"), options.tiles)
    )
    result = {
        "with data": measure(program, True, options.repeat),
        "timing alone": measure(program, False, options.repeat),
    }
    lines = [
        f"{len(program.instructions)} instructions, {int(result['with data']['cycles']):,} cycles",
        *(
            f"{name:14} {row['seconds']:8.4f} s  {row['million_cycles_per_second']:8.1f} M cycles/s"
            for name, row in result.items()
        ),
    ]
    finish(options, "simulator", result, lines=lines)


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
