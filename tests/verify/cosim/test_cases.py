from dataclasses import replace

import numpy as np
import pytest
from campaign import in_campaigns, representatives, some
from random_machines import random_machine

from vdla.compiler.templates.vdla.lower import CompileError
from vdla.isa.check import check
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import decode_one, format_names
from vdla.isa.extensions import DEFAULT_EXTENSIONS, EXTENSIONS
from vdla.isa.parameters import is_power_of_two
from vdla.isa.program_file import to_bytes
from vdla.isa.reference import run_reference
from vdla.verify.cosim.cases import case, launch, plan
from vdla.verify.cosim.machines import default_machines
from vdla.verify.cosim.memory_timings import TIMINGS
from vdla.verify.cosim.mutate import MOST_STEPS, mutated_program, repair
from vdla.verify.cosim.networks import GRAPHS, compiled
from vdla.verify.random_programs import random_program

MACHINES = default_machines()
TINY = load_config("tiny")
VTA = replace(load_config("vta"), extensions=("post", "patch", "depthwise"))


def test_the_machines_cover_what_the_list_promises():
    assert len(MACHINES) >= 12
    assert (
        len({machine.name for machine in MACHINES})
        == len({machine.digest for machine in MACHINES})
        == len(MACHINES)
    )
    assert {machine.block_in for machine in MACHINES} >= {4, 8, 16, 32}
    assert {machine.batch for machine in MACHINES} == {1, 2, 8}
    assert {machine.block_out for machine in MACHINES} >= {4, 8, 16, 32, 64, 128}
    assert {is_power_of_two(machine.acc_depth) for machine in MACHINES} == {True, False}
    widths = {(machine.instruction_bytes, machine.uop_bytes) for machine in MACHINES}
    assert widths == {(16, 4), (32, 4), (32, 8)}
    assert {8 * machine.memory.bus_bytes for machine in MACHINES} == {64, 128, 256, 512}
    extensions = [frozenset(machine.extensions) for machine in MACHINES]
    default = frozenset(DEFAULT_EXTENSIONS)
    assert len({found & default for found in extensions}) == 2 ** len(default)
    for other in EXTENSIONS:
        assert {other in found for found in extensions} == {True, False}
    assert {load_config("tiny"), load_config("edge8")} <= set(MACHINES)
    assert {machine.post_passes for machine in MACHINES} >= {1, 2, 4}
    assert 1 in {machine.token_queue_depth for machine in MACHINES}
    assert 1 in {machine.command_queue_depth for machine in MACHINES}


def test_programs_are_spread_over_machines_timings_and_kinds():
    groups = plan(MACHINES, 1000, 0)
    assert sum(len(group) for group in groups) == 1000
    assert min(len(group) for group in groups) >= 9
    items = [item for group in groups for item in group]
    for timing in range(len(TIMINGS)):
        mine = [item for item in items if item.timing == timing]
        assert 320 <= len(mine) <= 350
        assert 1 / 3 <= sum(item.mutated for item in mine) / len(mine) < 0.39
    assert 485 <= sum(item.random_state is not None for item in items) <= 515
    assert len({item.seed for item in items}) == 1000
    memories = {item.config.memory for item in items}
    assert (
        {memory.jitter > 0 for memory in memories}
        == {memory.stall > 0 for memory in memories}
        == {True, False}
    )
    assert {memory.read_latency for memory in memories} >= {1, 30, 120}


def test_a_case_is_the_same_whatever_the_number_of_programs():
    assert plan(MACHINES, 1000, 3)[2][:5] == plan(MACHINES, 100, 3)[2][:5]
    assert plan(MACHINES, 1000, 3)[2][0] != plan(MACHINES, 1000, 4)[2][0]


@pytest.mark.parametrize("programs", [1, 5, 12, 13, 100])
def test_small_plans_are_complete(programs: int):
    assert sum(len(group) for group in plan(MACHINES, programs, 0)) == programs


def test_timings_leave_the_hardware_as_it_is():
    for machine in MACHINES:
        for number in range(6):
            config = case(machine, number, 0).config
            memory = replace(
                config.memory,
                read_latency=30,
                write_latency=10,
                jitter=0,
                stall=0,
                seed=0,
                data_channels="shared",
            )
            assert config.with_memory(memory).digest == machine.digest


@pytest.mark.parametrize("machine", representatives(MACHINES, 5), ids=lambda machine: machine.name)
def test_launches_are_clean_and_repeat(machine):
    for number in (0, 1, 6, 7):
        item = case(machine, number, 1)
        first, second = launch(item), launch(item)
        assert to_bytes(first.program) == to_bytes(second.program)
        program = first.program
        found = check(item.config, program.instructions, program.image, uop=first.uop)
        assert [each for each in found if each.severity == "error" or each.kind == "unchecked"] == []
        result = run_reference(
            item.config, program.instructions, program.image, scratchpads=first.scratchpads
        )
        assert np.isfinite(result.par[:, 1].view(np.float32)).all()


def test_the_median_is_long_enough():
    lengths = [len(launch(item).program.instructions) for group in plan(MACHINES, 30, 2) for item in group]
    assert np.median(lengths) >= 40
    assert max(lengths) < 3000


def test_every_machine_has_networks_to_mutate():
    for machine in some(MACHINES, 6):
        assert all(compiled(machine, source, 2) is not None for source in GRAPHS[:-1])


def test_a_network_that_does_not_fit_is_none_and_another_mistake_an_error():
    two_accumulators = replace(TINY, acc_buffer_bytes=2 * TINY.acc_bytes, acc_banks=1)
    assert compiled(two_accumulators, "pools", 1) is None
    assert compiled(two_accumulators, "dense", 1) is not None
    with pytest.raises(CompileError, match="virtual threads = 0"):
        compiled(TINY, "mlp", 0)


def test_mutated_programs_use_the_whole_machine_and_end():
    kinds: set[str] = set()
    for seed in range(12):
        program = mutated_program(TINY, seed)
        names = format_names(program.instructions)
        assert names.count("FINISH") == 1 and names[-1] == "FINISH"
        kinds |= set(names)
        for low, high in program.instructions.tolist():
            name, values = decode_one(TINY, low, high)
            if name in ("GEMM", "DEPTHWISE", "ALU"):
                count = max(0, values["uop_end"] - values["uop_bgn"])
                assert values["iter_out"] * values["iter_in"] * count <= MOST_STEPS
    assert kinds >= {
        "GEMM",
        "DEPTHWISE",
        "STORE.POST",
        "LOAD.PAR",
        "LOAD.INP",
        "LOAD.WGT",
        "LOAD.UOP",
        "CONFIG",
    }
    assert len({to_bytes(mutated_program(TINY, seed)) for seed in range(12)}) == 12


def test_mutations_change_programs():
    whole = compiled(TINY, "dense", 2)
    assert whole is not None
    words = {tuple(word) for source in GRAPHS[:-1] for threads in (1, 2) for word in _words(source, threads)}
    new = [tuple(word) for seed in range(8) for word in mutated_program(TINY, seed).instructions.tolist()]
    assert 5 < sum(word not in words for word in new) < len(new)


def _words(source: str, threads: int) -> list[list[int]]:
    program = compiled(TINY, source, threads)
    assert program is not None
    return program.instructions.tolist()


def test_repair_adds_the_tokens_that_are_missing_and_drops_what_leaves_a_memory():
    image = np.zeros(8192, np.uint8)
    load = ("LOAD.INP", {"y_size": 1, "x_size": 4, "x_stride": 4})
    gemm = ("GEMM", {"uop_end": 1, "iter_out": 1, "iter_in": 4, "src_factor_in": 1})
    far = ("LOAD.INP", {"y_size": 1, "x_size": 4, "x_stride": 4, "dram_base": 1 << 20})
    store = ("STORE.OUT", {"y_size": 1, "x_size": 4, "x_stride": 4})
    program = repair(TINY, [load, gemm, far, store], image)
    names = format_names(program.instructions)
    assert names == ["LOAD.INP", "GEMM", "STORE.OUT", "FINISH"]
    first, second, third, _ = (decode_one(TINY, low, high)[1] for low, high in program.instructions.tolist())
    assert first["push_next"] and second["pop_prev"]
    assert second["push_next"] and third["pop_prev"]
    assert [item for item in check(TINY, program.instructions, image) if item.severity == "error"] == []


def test_repair_leaves_sound_programs_alone():
    for seed in range(5):
        program = mutated_program(TINY, seed)
        decoded = [decode_one(TINY, low, high) for low, high in program.instructions.tolist()]
        again = repair(TINY, decoded, program.image)
        assert np.array_equal(again.instructions, program.instructions)


def test_a_machine_that_no_network_fits_has_random_programs():
    # One parameter entry, where a position of a block of channels is eight output vectors.
    machine = replace(TINY, name="narrow", block_in=32, par_buffer_bytes=TINY.par_bytes, extensions=("post",))
    assert mutated_program(machine, 0) is None
    first = case(machine, 0, 0)
    assert first.mutated and launch(first).program.config == first.config


@pytest.mark.parametrize("part", range(5))
def test_every_valid_machine_has_programs(part: int):
    """Random programs can be drawn for every valid machine. Regression: the fields of some instructions did not fit the
    machine's encoding, and scratchpads of a few entries stopped the generator. `part`: number of the part of the seeds.
    """
    count = in_campaigns(200, 4)
    for seed in range(part * count, (part + 1) * count):
        machine = random_machine(seed)
        for number in range(2):
            program = random_program(machine, seed * 10 + number, length=20)
            assert len(program.instructions), (seed, number)


@pytest.mark.parametrize(
    "machine",
    [
        replace(VTA, name="few micro-ops", uop_buffer_bytes=128),
        replace(VTA, name="few input vectors", inp_buffer_bytes=64),
        replace(VTA, name="few accumulators", acc_buffer_bytes=512, acc_banks=1),
        replace(VTA, name="much chain memory", chain_buffer_bytes=65536),
    ],
    ids=lambda machine: machine.name,
)
def test_the_smallest_memories_have_programs(machine: Config):
    for seed in some(range(30), 12):
        assert len(random_program(machine, seed, length=20).instructions)
