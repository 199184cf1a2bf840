"""Statistics of changing operand bits equal a count bit by bit."""

import dataclasses

import numpy as np
import pytest

from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.assembler import assemble, assemble_uops
from vdla.isa.config import load_config
from vdla.isa.reference import run_reference
from vdla.sim import decode, execute, simulate, statistics
from vdla.sim.statistics import operand_statistics
from vdla.verify.random_programs import random_program

TINY = load_config("tiny")
INP, WGT, ACC = 1024, 2048, 3072


def _ones(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1).bit_count()


def _program(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The instructions and the memory image of a program with two micro-ops, eight vectors and four tiles, which adds
    to loaded accumulators.
    """
    image = rng.integers(0, 256, 4096).astype(np.uint8)
    uops = assemble_uops("UOP dst=0 src=0 wgt=1\nUOP dst=1 src=2 wgt=3\n", TINY)
    image[: uops.nbytes] = uops.view(np.uint8)
    loads = "\n".join(
        f"LOAD.{kind} dram_base={start // size} y_size=1 x_size={count} x_stride={count}"
        for kind, start, size, count in (
            ("UOP", 0, 4, 2), ("INP", INP, 4, 8), ("WGT", WGT, 16, 4), ("ACC", ACC, 16, 8),
        )
    )  # fmt: skip
    gemm = "GEMM uop_end=2 iter_out=2 iter_in=3 src_factor_in=1 dst_factor_out=1"
    return assemble(f"{loads}\n{gemm}\nGEMM uop_end=1 iter_out=1 iter_in=1 overwrite=1\nFINISH", TINY), image


def _rows(x: int, y: int) -> list[int]:
    """The four partial products (rows) of Booth's algorithm for x times y, 9 bits each."""
    digits = [-2 * (y >> 2 * k + 1 & 1) + (y >> 2 * k & 1) + ((y << 1) >> 2 * k & 1) for k in range(4)]
    rows = []
    for k, digit in enumerate(digits):
        negative = y >> 2 * k + 1 & 1
        rows.append((abs(digit) * x ^ -negative) & 0x1FF)
    return rows


def _expected(image: np.ndarray) -> dict[str, int]:
    inp = image[INP : INP + 32].view(np.int8).reshape(8, 4).astype(int)
    wgt = image[WGT : WGT + 64].view(np.int8).reshape(4, 4, 4).astype(int)
    acc = image[ACC : ACC + 128].view(np.int32).reshape(8, 4).astype(np.int64)
    order = [(u + y, 2 * u + x, 1 + 2 * u, 1) for y in range(2) for x in range(3) for u in range(2)]
    found = dict.fromkeys(EXPECTED, 0)
    for before, after in zip(np.vstack([np.zeros((1, 4), np.int64), acc[:-1]]), acc, strict=True):
        found["loaded"] += sum(_ones(int(x ^ y), 32) for x, y in zip(before, after, strict=True))
    found["loaded_lanes"] = acc.size
    vector, tile = np.zeros(4, int), np.zeros((4, 4), int)
    written, read = np.zeros(4, np.int64), np.zeros(4, np.int64)
    trees = [[0] * 3 for _ in range(4)]
    for d, s, w, adds in [*order, (0, 0, 1, 0)]:
        for k in range(4):
            found["inputs"] += _ones(int(vector[k] ^ inp[s, k]), 8)
        for o in range(4):
            products = [int(wgt[w, o, k] * inp[s, k]) for k in range(4)]
            before = [int(tile[o, k] * vector[k]) for k in range(4)]
            for k in range(4):
                found["weights"] += _ones(int(tile[o, k] ^ wgt[w, o, k]), 8)
                found["products"] += _ones(products[k] ^ before[k], 16)
                now, last = _rows(int(inp[s, k]), int(wgt[w, o, k])), _rows(int(vector[k]), int(tile[o, k]))
                found["partial_products"] += sum(_ones(a ^ b, 9) for a, b in zip(now, last, strict=True))
            pairs = [products[0] + products[1], products[2] + products[3]]
            tree = [*pairs, sum(pairs)]
            found["sums"] += sum(_ones(new ^ old, 24) for new, old in zip(tree, trees[o], strict=True))
            trees[o] = tree
            if adds:
                found["reads"] += _ones(int(acc[d, o] ^ read[o]), 32)
                read[o] = acc[d, o]
            acc[d, o] = adds * acc[d, o] + tree[2]
            found["results"] += _ones(int(acc[d, o] ^ written[o]), 32)
            written[o] = acc[d, o]
        vector, tile = inp[s], wgt[w]
    return found


EXPECTED: tuple[str, ...] = (
    "inputs", "weights", "partial_products", "products", "sums", "results", "reads", "loaded", "loaded_lanes",
)  # fmt: skip


def test_changes_equal_a_count_of_every_bit():
    rng = np.random.default_rng(5)
    instructions, image = _program(rng)
    # Accumulators far from wrapping.
    image[ACC : ACC + 128].view(np.int32)[:] = rng.integers(-(1 << 20), 1 << 20, 32)
    found = operand_statistics(TINY, instructions, image)
    assert found.operations == found.looked_at == 13
    assert {name: found.changes[name] for name in EXPECTED} == _expected(image)
    # Nothing is stored; the port shows the banks that are read, all of them being the first.
    assert all(found.changes[name] == 0 for name in ("store_reads", "totals", "outputs", "written_words"))
    assert found.changes["seen"] == found.changes["reads"]
    fetched = instructions.view(np.uint8).reshape(-1, TINY.memory.bus_bytes)
    moved = np.bitwise_xor(fetched, np.vstack([np.zeros_like(fetched[:1]), fetched[:-1]]))
    assert found.changes["fetched"] == np.unpackbits(moved).sum()


def test_arguments_that_cannot_be_written_compile_nothing_more():
    program = random_program(load_config("tiny"), 0)
    assert not program.instructions.flags.writeable
    for instructions in (program.instructions, program.instructions.copy()):
        for memory in (program.image, program.image.copy()):
            operand_statistics(program.config, instructions, memory)
            simulate(program.config, instructions, memory, data=False)
    for code in (statistics._observe, decode._decode, execute._trace_uops):
        assert len(code.signatures) == 1


def test_a_part_stands_for_all():
    """The statistics may count bit changes in a random part of the operations only. This estimate is unbiased: its mean
    over many seeds equals the count over all operations.
    """
    instructions, image = _program(np.random.default_rng(6))
    whole = operand_statistics(TINY, instructions, image)
    parts = [operand_statistics(TINY, instructions, image, share=0.4, seed=seed) for seed in range(400)]
    assert all(part.operations == 13 for part in parts)
    assert len({part.looked_at for part in parts}) > 3
    for name in ("weights", "products", "sums"):
        mean = sum(part.changes[name] * part.looked_at / (0.4 * 13) for part in parts) / len(parts)
        assert 0.93 < mean / whole.changes[name] < 1.07
        assert {part.changes["results"] for part in parts} == {whole.changes["results"]}


def test_stores_are_followed():
    """The statistics count how many bits change from one value to the next while two vectors pass through STORE.POST.
    There is a count for the sums with the bias, for the rounded results, and for the stored bytes.
    """
    rng = np.random.default_rng(7)
    image = rng.integers(0, 256, 4096).astype(np.uint8)
    acc = rng.integers(-1000, 1000, (2, 4)).astype(np.int32)
    image[ACC : ACC + 32] = acc.view(np.uint8).reshape(-1)
    table = np.zeros((2, 4), np.uint32)
    table[0] = 5
    table[1] = np.full(4, 0.0625, np.float32).view(np.uint32)
    image[512 : 512 + 32] = table.view(np.uint8).reshape(-1)
    text = f"""LOAD.ACC dram_base={ACC // 16} y_size=1 x_size=2 x_stride=2 push_next
LOAD.PAR dram_base=16 y_size=1 x_size=1 x_stride=1
CONFIG ADDRESS x_stride=1 y_stride=2
CONFIG REQUANTIZE low=-128 high=127
STORE.POST dram_base=256 y_size=1 x_size=2 x_stride=2 pop_prev push_prev
FINISH pop_next"""
    found = operand_statistics(TINY, assemble(text, TINY), image).changes
    # A pass after the other on the lanes that there are.
    width = 4 // TINY.post_passes
    totals = np.vstack([np.zeros((1, width), np.int32), (acc + 5).reshape(-1, width)])
    pairs = zip(totals[:-1].flat, totals[1:].flat, strict=True)
    assert found["totals"] == sum(_ones(int(a ^ b), 32) for a, b in pairs)
    results = np.clip(np.rint((acc + 5) * np.float32(0.0625)), -128, 127).astype(int)
    stored = np.vstack([np.zeros((1, 4), int), results])
    bits = sum(_ones(int(a ^ b), 8) for a, b in zip(stored[:-1].flat, stored[1:].flat, strict=True))
    assert found["outputs"] == bits
    passed = np.vstack([np.zeros((1, width), int), results.reshape(-1, width)])
    pairs = zip(passed[:-1].flat, passed[1:].flat, strict=True)
    assert found["requantized"] == sum(_ones(int(a ^ b), 8) for a, b in pairs)


def test_operands_are_those_from_before_the_results_take_their_places():
    """A STORE.POST writes its results to the memory from which it read its second operand. The statistics count the
    changing bits of the old values as operands, not those of the results.
    """
    image = np.random.default_rng(8).integers(0, 256, 4096).astype(np.uint8)
    image[512:544] = 0
    text = f"""LOAD.PAR dram_base=16 y_size=1 x_size=1 x_stride=1
CONFIG ADDRESS x_stride=1 y_stride=6
CONFIG COMBINE low=3 high=3
CONFIG OPERAND delta=0
STORE.POST dram_base={WGT // 4} y_size=1 x_size=6 x_stride=6 combine=1 operand=1
FINISH"""
    found = operand_statistics(TINY, assemble(text, TINY), image).changes
    operands = np.vstack([np.zeros((1, 4), np.int64), image[WGT : WGT + 24].reshape(6, 4)])
    pairs = zip(operands[:-1].flat, operands[1:].flat, strict=True)
    assert found["operands"] == sum(_ones(int(a ^ b), 8) for a, b in pairs)


def test_zero_points_come_off_what_the_array_multiplies():
    machine = dataclasses.replace(TINY, extensions=(*TINY.extensions, "zero_points", "taps"))
    rng = np.random.default_rng(8)
    for name in ("GEMM", "DEPTHWISE", "TAPS"):
        image = rng.integers(0, 256, 4096).astype(np.uint8)
        uops = assemble_uops("UOP dst=3 src=1 wgt=4\n", machine)
        image[: uops.nbytes] = uops.view(np.uint8)
        text = f"""LOAD.UOP y_size=1 x_size=1 x_stride=1
LOAD.INP dram_base={INP // 4} y_size=1 x_size=8 x_stride=8 push_next
LOAD.WGT dram_base={WGT // 16} y_size=1 x_size=8 x_stride=8 push_next
CONFIG ZERO inp_zero=-101 wgt_zero=77
{name} uop_end=1 iter_out=1 iter_in=1 overwrite=1 pop_prev
GEMM pop_prev
FINISH"""
        instructions = assemble(text, machine)
        lanes = run_reference(machine, instructions, image).acc[3].reshape(-1)
        assert lanes.any()
        found = operand_statistics(machine, instructions, image).changes
        assert found["results"] == sum(_ones(int(value), 32) for value in lanes)


@pytest.mark.parametrize(("block_in", "block_out"), [(8, 8), (8, 16), (16, 4)])
def test_sweeps_multiply_what_they_hold(block_in, block_out):
    """In the array mode `sweep`, the first operation only keeps its input vector in the array and changes no result.
    The next operation multiplies two vectors: the kept one and its own.
    """
    sizes = {
        "inp": block_in * 64,
        "wgt": block_in * block_out * 16,
        "acc": 4 * block_out * 64,
        "par": 8 * block_out,
    }
    machine = dataclasses.replace(
        TINY,
        block_in=block_in,
        block_out=block_out,
        extensions=(*TINY.extensions, "taps", "sweep", "zero_points"),
        **{f"{name}_buffer_bytes": size for name, size in sizes.items()},
    )
    rng = np.random.default_rng(9)
    image = rng.integers(0, 256, 1 << 14).astype(np.uint8)
    group, part = SWEEP_MODE.group(machine), machine.position_outputs - 1
    rows = [part + group // 2, part]
    text = "".join(f"UOP dst=3 src={5 + 16 * k} wgt={row}\n" for k, row in enumerate(rows))
    uops = assemble_uops(text, machine)
    image[: uops.nbytes] = uops.view(np.uint8)
    text = """LOAD.UOP y_size=1 x_size=2 x_stride=2
LOAD.INP dram_base=64 y_size=1 x_size=48 x_stride=48 push_next
LOAD.WGT dram_base=16 y_size=1 x_size=8 x_stride=8 push_next
CONFIG ZERO inp_zero=-101 wgt_zero=77
CONFIG SWEEP on=1
CONFIG BASE wgt_base=2
TAPS uop_end=2 iter_out=1 iter_in=1 overwrite=1 pop_prev
GEMM pop_prev
FINISH"""
    instructions = assemble(text, machine)
    lanes = run_reference(machine, instructions, image).acc[3].reshape(-1)
    assert lanes.any()
    found = operand_statistics(machine, instructions, image).changes
    assert found["results"] == sum(_ones(int(value), 32) for value in lanes)
