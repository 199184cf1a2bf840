"""cocotb benches of the accelerator on Verilator and on Icarus Verilog."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from campaign import representatives
from stages import graph

from vdla.codesign import models
from vdla.compiler.graph.graph import quantized_tensor
from vdla.compiler.pipeline import compile_program
from vdla.hw.bench import Simulator, run_bench
from vdla.isa.config import Config, load_config
from vdla.isa.layout import Opcode
from vdla.isa.program import Program
from vdla.isa.program_file import save_program
from vdla.sim import simulate
from vdla.verify.random_programs import random_program
from vdla.verify.small_networks import QUANTIZATION, NetworkBuilder

TINY = load_config("tiny")
BENCHES = Path(__file__).parent / "benches"
SIMULATORS: tuple[Simulator, ...] = ("verilator", "icarus")


def with_inputs(program: Program, seed: int) -> Program:
    """The program with random bytes in its input segments."""
    image, rng = program.image.copy(), np.random.default_rng(seed)
    for segment in program.segments:
        if segment.kind == "input":
            image[segment.address : segment.address + segment.size] = rng.integers(
                0, 256, segment.size, np.uint8
            )
    return Program(
        config=program.config,
        instructions=program.instructions,
        image=image,
        segments=program.segments,
        groups=program.groups,
        group_of=program.group_of,
    )


def write_case(folder: Path, program: Program, name: str = "case") -> None:
    """Writes the files NAME.vdla, NAME.npz and NAME.json that `cases.load_case` reads into `folder`: the program and
    its simulated results.
    """
    simulated = simulate(program.config, program.instructions, program.image)
    assert simulated.memory is not None
    counters = {
        f"{unit}.{category}": int(count)
        for unit, kinds in simulated.units.items()
        for category, count in {**kinds.busy, **kinds.stalls}.items()
    }
    for kind, traffic in simulated.traffic.items():
        counters |= {f"{kind}.bytes": int(traffic.bytes), f"{kind}.beats": int(traffic.beats)}
    save_program(program, folder / f"{name}.vdla")
    np.savez(folder / f"{name}.npz", memory=simulated.memory, begin=simulated.begin, end=simulated.end)
    document = {"cycles": int(simulated.cycles), "counters": counters}
    (folder / f"{name}.json").write_text(json.dumps(document))


def short_random_program(config: Config = TINY) -> Program:
    """A random program of at least 40 instructions that takes less than 1,500 cycles: an interpreted simulator takes a
    second for 1,000 cycles.
    """
    for seed in range(100):
        program = random_program(config, seed, length=16)
        ends = bool(program.instructions[-1, 0] & np.uint64(7) == Opcode.FINISH)
        cycles = simulate(config, program.instructions, program.image).cycles
        if ends and len(program.instructions) >= 40 and cycles < 1500:
            return program
    raise AssertionError("no random program is short")


def small_network() -> Program:
    return with_inputs(compile_program(graph(), TINY).program, 1)


def smallest_network() -> Program:
    """A program of one convolution that takes 500 cycles, for benches that run it repeatedly."""
    tensors = {"input": quantized_tensor("input", (1, 4, 6, 5), QUANTIZATION)}
    network = NetworkBuilder(rng=np.random.default_rng(0), tensors=tensors)
    last = network.convolution("input", 4, 3)
    return with_inputs(compile_program(network.graph("smallest", ("input",), last), TINY).program, 1)


def run(bench: str, folder: Path, simulator: Simulator, config: Config = TINY, **environment: str) -> None:
    # Icarus is slow: some benches run less of themselves there.
    short = {"VDLA_SHORT": "1"} if simulator == "icarus" else {}
    run_bench(
        BENCHES / bench,
        config,
        results=folder / "run",
        simulator=simulator,
        environment={"VDLA_CASE": str(folder), **short, **environment},
    )


@pytest.mark.parametrize(
    ("simulator", "stalls"),
    representatives(
        itertools.product(SIMULATORS, (None, "0.2,0", "0.6,1")),
        0,
        always=[("verilator", None), ("icarus", "0.6,1")],
    ),
)
def test_random_program(simulator: Simulator, stalls: str | None, tmp_path: Path) -> None:
    write_case(tmp_path, short_random_program())
    run("bench_run.py", tmp_path, simulator, **({} if stalls is None else {"VDLA_STALLS": stalls}))


@pytest.mark.parametrize("simulator", representatives(SIMULATORS, 0, always=["verilator"]))
def test_separate_data_channels(simulator: Simulator, tmp_path: Path) -> None:
    memory = replace(TINY.memory, data_channels="separate", jitter=9, stall=3)
    config = replace(TINY, name="separate", memory=memory)
    write_case(tmp_path, short_random_program(config))
    run("bench_run.py", tmp_path, simulator, config)


@pytest.mark.parametrize("simulator", representatives(SIMULATORS, 0, always=["verilator"]))
def test_small_network(simulator: Simulator, tmp_path: Path) -> None:
    write_case(tmp_path, small_network())
    run("bench_run.py", tmp_path, simulator)


@pytest.mark.campaign
def test_whole_model(tmp_path: Path) -> None:
    program = compile_program(models.build("mlp").SerializeToString(), TINY).program
    write_case(tmp_path, with_inputs(program, 2))
    run("bench_run.py", tmp_path, "verilator")


@pytest.mark.parametrize("simulator", representatives(SIMULATORS, 0, always=["verilator"]))
def test_models_of_cocotbext_axi(simulator: Simulator, tmp_path: Path) -> None:
    write_case(tmp_path, short_random_program())
    write_case(tmp_path, small_network(), "network")
    run("bench_axi.py", tmp_path, simulator)


@pytest.mark.parametrize("simulator", representatives(SIMULATORS, 0, always=["verilator"]))
def test_control_registers(simulator: Simulator, tmp_path: Path) -> None:
    write_case(tmp_path, short_random_program())
    run("bench_control.py", tmp_path, simulator)


@pytest.mark.parametrize("simulator", representatives(SIMULATORS, 0, always=["verilator"]))
def test_reset_errors_and_stop(simulator: Simulator, tmp_path: Path) -> None:
    write_case(tmp_path, smallest_network(), "network")
    run("bench_reset.py", tmp_path, simulator)
