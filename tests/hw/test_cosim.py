"""Random programs on the simulator and on the Verilated RTL: everything that both know must be equal."""

import dataclasses

import numpy as np
import pytest
from vdla.codesign import models
from vdla.compiler.driver import compile_model
from vdla.hw.harness.engine import RtlError, RtlResult, simulate_rtl
from vdla.isa.assembler import assemble
from vdla.isa.config import Config, Memory, load_config
from vdla.isa.layout import encode
from vdla.isa.random_programs import random_config, random_program
from vdla.sim import SimulationResult, simulate

TINY = load_config("tiny")
NOISY = dataclasses.replace(TINY, memory=Memory(bus_bytes=8, read_latency=3, jitter=50, stall=5, seed=7))
"""The same hardware: only the memory behind it differs."""


def differences(simulated: SimulationResult, run: RtlResult) -> list[str]:
    found = []
    if simulated.cycles != run.cycles:
        found.append(f"cycles: simulator {simulated.cycles}, RTL {run.cycles}")
    for name in ("begin", "end"):
        left, right = getattr(simulated, name), getattr(run, name)
        for index in np.flatnonzero(left != right)[:1]:
            found.append(f"{name} of instruction {index}: simulator {left[index]}, RTL {right[index]}")
    expected = {
        f"{unit}.{name}": count
        for unit, counters in simulated.units.items()
        for name, count in {**counters.busy, **counters.stalls}.items()
    }
    for kind, traffic in simulated.traffic.items():
        expected |= {f"{kind}.bytes": traffic.bytes, f"{kind}.beats": traffic.beats}
    assert not expected.keys() - run.counters.keys()
    for name, count in run.counters.items():
        if expected.get(name, 0) != count:
            found.append(f"counter {name}: simulator {expected.get(name, 0)}, RTL {count}")
    assert simulated.memory is not None and simulated.scratchpads is not None
    for place in np.flatnonzero(simulated.memory != run.memory)[:1]:
        found.append(f"memory byte {place}: simulator {simulated.memory[place]}, RTL {run.memory[place]}")
    for kind, contents in run.scratchpads.items():
        left = np.ascontiguousarray(getattr(simulated.scratchpads, kind)).view(np.uint8).reshape(-1)
        for place in np.flatnonzero(left[: len(contents)] != contents)[:1]:
            found.append(f"byte {place} of {kind}: simulator {left[place]}, RTL {contents[place]}")
    return found


def check(config: Config, seed: int) -> None:
    program = random_program(config, seed)
    simulated = simulate(config, program.instructions, program.image)
    run = simulate_rtl(config, program.instructions, program.image, cycle_limit=4 * simulated.cycles + 1000)
    assert differences(simulated, run) == []


@pytest.mark.parametrize("seed", range(100))
def test_random_program(seed: int):
    check(TINY, seed)


@pytest.mark.parametrize("seed", range(100, 130))
def test_random_program_random_memory(seed: int):
    check(NOISY, seed)


def test_loads_in_flight_are_bounded():
    fill = "LOAD.INP y_pad_0=15 y_pad_1=15 x_size=3\n"
    text = fill * 40 + "CONFIG LOAD_PAD pad_value=1\n" + fill * 3 + "FINISH\n"
    instructions, image = assemble(text, TINY), np.zeros(64, np.uint8)
    simulated = simulate(TINY, instructions, image)
    assert differences(simulated, simulate_rtl(TINY, instructions, image)) == []


def test_every_unit_and_kind_is_exercised():
    totals: dict[str, int] = {}
    for seed in range(12):
        program = random_program(TINY, seed)
        for name, count in simulate_rtl(TINY, program.instructions, program.image).counters.items():
            totals[name] = totals.get(name, 0) + count
    idle = {name for name, count in totals.items() if not count}
    # Queues of 64 places never fill in programs of 60 instructions; load and store are busy whenever their unit's own
    # condition fails.
    assert {name for name in idle if ".full:" not in name} <= {"load.unit", "store.unit"}


def test_a_program_that_never_finishes_names_what_waits():
    words = [encode(TINY, "LOAD.INP", pop_next=1), encode(TINY, "FINISH")]
    waiting = r"not finished after 500 cycles.*load waits in instruction 0 .LOAD.INP. for a compute->load token"
    with pytest.raises(RtlError, match=waiting):
        RtlError,
        match=r"not finished after 500 cycles.*load waits in instruction 0 .LOAD.INP. for a compute->load token",
    ):
        simulate_rtl(TINY, np.array(words, np.uint64), np.zeros(64, np.uint8), cycle_limit=500)


def test_addresses_outside_memory_are_reported():
    words = [
        encode(TINY, "LOAD.INP", dram_base=1 << 20, y_size=1, x_size=1, x_stride=1),
        encode(TINY, "FINISH"),
    ]
    with pytest.raises(RtlError, match="outside the program's in cycle"):
        simulate_rtl(TINY, np.array(words, np.uint64), np.zeros(64, np.uint8))


@pytest.mark.parametrize("name", ["mlp", "small_cnn"])
def test_whole_network(name: str):
    program = compile_model(models.build(name).SerializeToString(), TINY).program
    image = program.image.copy()
    rng = np.random.default_rng(0)
    for segment in program.segments:
        if segment.kind == "input":
            image[segment.address : segment.address + segment.size] = rng.integers(
                0, 256, segment.size, np.uint8
            )
    simulated = simulate(TINY, program.instructions, image)
    run = simulate_rtl(TINY, program.instructions, image)
    assert differences(simulated, run) == []


@pytest.mark.parametrize("machine", [6])
def test_random_machine(machine: int):
    config = random_config(machine)
    for seed in range(25):
        check(config, seed)
