"""Each instruction of the reference model equals whole-array numpy, which is written differently from the model's
element loops.
"""

import dataclasses

import numpy as np
import pytest

from vdla.isa.arithmetic import AddConstants, combine_add, combine_multiply, requantize, rescale
from vdla.isa.array_modes import SWEEP_MODE
from vdla.isa.assembler import assemble
from vdla.isa.config import Config, load_config
from vdla.isa.errors import EncodingError, ProgramError
from vdla.isa.layout import encode_uops
from vdla.isa.reference import ReferenceResult, run_reference

TINY = load_config("tiny")  # batch 1, 4 x 4; inp, acc and wgt elements are 4, 16 and 16 bytes
WIDE = Config(name="wide", batch=2, block_in=8, block_out=8, wgt_buffer_bytes=65536)
RNG = np.random.default_rng(7)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers_in_any_order():
    RNG.bit_generator.state = START


def run(text: str, memory: np.ndarray, config: Config = TINY) -> ReferenceResult:
    return run_reference(config, assemble(text + "\nFINISH", config), memory)


def noise(size: int = 8192) -> np.ndarray:
    return RNG.integers(0, 256, size, dtype=np.uint8)


def put_uops(memory: np.ndarray, config: Config, dst, src, wgt) -> None:
    words = encode_uops(config, np.array(dst), np.array(src), np.array(wgt))
    memory[: words.nbytes] = words.view(np.uint8)


# --- loads ----------------------------------------------------------------------------------------------


def test_load_pads_with_the_register_and_strides():
    memory = noise()
    result = run(
        "CONFIG LOAD_PAD pad_value=-7\n"
        "LOAD.INP sram_base=3 dram_base=10 y_size=2 x_size=3 x_stride=5 y_pad_0=1 y_pad_1=2 x_pad_0=2 x_pad_1=1",
        memory,
    )
    expected = np.full((5, 6, 4), -7, np.int8)
    rows = memory.view(np.int8).reshape(-1, 4)[10:].reshape(-1, 4)
    expected[1, 2:5], expected[2, 2:5] = rows[0:3], rows[5:8]
    assert np.array_equal(result.inp[3:33, 0], expected.reshape(30, 4))
    assert not result.inp[:3].any()
    assert not result.inp[33:].any()


def test_accumulator_loads_extend_and_pad():
    memory = noise()
    result = run(
        "CONFIG COMPUTE_PAD pad_value=-100000\n"
        "LOAD.ACC8 sram_base=0 dram_base=5 y_size=1 x_size=2 x_stride=2 x_pad_1=1\n"
        "LOAD.ACC sram_base=8 dram_base=3 y_size=1 x_size=1 x_stride=1 y_pad_0=1",
        memory,
    )
    assert np.array_equal(result.acc[:2, 0], memory.view(np.int8)[20:28].reshape(2, 4))
    assert (result.acc[2] == -100000).all()
    assert (result.acc[8] == -100000).all()
    assert np.array_equal(result.acc[9, 0], memory.view("<i4")[12:16])


def test_weight_micro_op_and_parameter_pads_are_zero_whatever_the_registers():
    memory = noise()
    text = "CONFIG LOAD_PAD pad_value=5\nCONFIG COMPUTE_PAD pad_value=5\n"
    for kind in ("WGT", "UOP", "PAR"):
        text += (
            f"LOAD.{kind} y_size=1 x_size=3 x_stride=3\nLOAD.{kind} y_size=1 x_size=1 x_stride=1 x_pad_0=1\n"
        )
    result = run(text, memory)
    assert np.array_equal(result.wgt[1:3].reshape(-1), memory.view(np.int8)[np.r_[0:16, 32:48]])
    assert np.array_equal(result.uop[1:3], memory.view("<u4")[[0, 2]])
    assert np.array_equal(result.par[1:3].reshape(-1), memory.view("<u4")[np.r_[0:8, 16:24]])
    assert not result.wgt[0].any()
    assert not result.uop[0]
    assert not result.par[0].any()


def test_empty_loads_write_nothing_but_pads_of_empty_rows_do():
    memory = noise()
    base = "LOAD.INP y_size=1 x_size=4 x_stride=4\n"
    assert run(base + "LOAD.INP y_size=3 x_pad_0=2 y_pad_0=1", memory).inp[:4].any(axis=(1, 2)).all()
    assert not run(base + "LOAD.INP x_size=2 y_pad_0=1 x_pad_0=2", memory).inp[:4].any()


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_a_patch_load_forms_the_windows_of_a_convolution(config):
    """A 3x3 window, stride 2, over 3 interleaved channels of a 7x5 image, padded by one."""
    image = RNG.integers(-128, 128, (7, 5, 3), dtype=np.int8)
    memory = noise()
    memory[100:205] = image.view(np.uint8).reshape(-1)
    pitch, row = -(-27 // config.block_in), config.batch - 1
    result = run(
        "CONFIG LOAD_PAD pad_value=9\n"
        f"CONFIG PATCH run=9 step=6 pitch={pitch} pad_left=3 row_bytes=15 batch_row={row}\n"
        "LOAD.PATCH sram_base=20 dram_base=100 y_size=2 x_size=3 x_stride=15 y_pad_0=1\n"
        "LOAD.PATCH sram_base=60 dram_base=175 y_size=2 x_size=3 x_stride=15 y_pad_1=1",
        memory,
        config,
    )
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=9)
    for base, top in ((20, 0), (60, 6)):
        for w in range(3):
            window = padded[top : top + 3, 2 * w : 2 * w + 3].reshape(-1)
            got = result.inp[base + w * pitch : base + (w + 1) * pitch, row].reshape(-1)
            assert np.array_equal(got[:27], window)
            assert not got[27:].any()
    assert config.batch == 1 or not result.inp[:, 0].any()


# --- compute --------------------------------------------------------------------------------------------


def _indices(base: int, column: np.ndarray, outer: int, inner: int) -> np.ndarray:
    """Indices [3][2][micro-op] of an instruction with iter_out = 3 and iter_in = 2: `base` register plus the micro-ops'
    field `column` plus loop counters times the factors `outer` and `inner`.
    """
    return base + column + np.arange(3)[:, None, None] * outer + np.arange(2)[:, None] * inner


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
@pytest.mark.parametrize("mode", ["", "overwrite=1", "reset=1", "reset=1 overwrite=1"])
def test_gemm_and_its_bases(config, mode):
    memory = noise(65536)
    dst, src, wgt = np.array([0, 30, 60]), np.array([0, 1, 2]), np.array([2, 1, 0])
    put_uops(memory, config, dst, src, wgt)
    loops = "uop_end=3 iter_out=3 iter_in=2 dst_factor_out=8 dst_factor_in=3 src_factor_out=2 src_factor_in=1"
    loads = (
        "LOAD.UOP y_size=1 x_size=3 x_stride=3\n"
        "LOAD.INP dram_base=64 y_size=1 x_size=40 x_stride=40\n"
        "LOAD.WGT dram_base=16 y_size=1 x_size=20 x_stride=20\n"
        "LOAD.ACC dram_base=64 y_size=1 x_size=120 x_stride=120\n"
    )
    before = run(loads, memory, config)
    result = run(
        f"{loads}CONFIG BASE acc_base=5 inp_base=6 wgt_base=7\nGEMM {loops} wgt_factor_in=1 {mode}",
        memory,
        config,
    )
    d = _indices(5, dst, 8, 3).reshape(-1)
    inputs = before.inp[_indices(6, src, 2, 1).reshape(-1)].astype(np.int64)
    weights = before.wgt[_indices(7, wgt, 0, 1).reshape(-1)].astype(np.int64)
    products = np.einsum("nbk,njk->nbj", inputs, weights)
    expected = before.acc.astype(np.int64)
    assert len(set(d.tolist())) == len(d)
    if "reset" in mode:
        expected[d] = 0
    elif mode:
        expected[d] = products
    else:
        expected[d] += products
    assert np.array_equal(result.acc, expected.astype(np.int32))


def test_an_overwriting_gemm_forgets_its_own_earlier_sums():
    memory = noise(65536)
    put_uops(memory, TINY, [4, 4], [0, 1], [0, 1])
    loads = "LOAD.UOP y_size=1 x_size=2 x_stride=2\nLOAD.INP y_size=1 x_size=2 x_stride=2\nLOAD.WGT y_size=1 x_size=2\n"
    result = run(
        loads.replace("x_size=2\n", "x_size=2 x_stride=2\n")
        + "GEMM uop_end=2 iter_out=1 iter_in=1 overwrite=1",
        memory,
    )
    assert np.array_equal(
        result.acc[4, 0], result.wgt[1].astype(np.int32) @ result.inp[1, 0].astype(np.int32)
    )


def test_accumulators_wrap():
    memory = np.zeros(4096, np.uint8)
    put_uops(memory, TINY, [0], [1], [0])
    memory[1024:1056].view("<i4")[:] = [2**31 - 1, -(2**31), 5, 2**30, 1, -1, 7, 2**30]
    loads = "LOAD.UOP y_size=1 x_size=1\nLOAD.ACC dram_base=64 y_size=1 x_size=2 x_stride=2\n"
    result = run(loads + "ALU uop_end=1 iter_out=1 iter_in=1 alu_opcode=ADD", memory)
    assert result.acc[0, 0].tolist() == [-(2**31), 2**31 - 1, 12, -(2**31)]


@pytest.mark.parametrize("opcode", ["MIN", "MAX", "ADD", "SHR", "MUL"])
@pytest.mark.parametrize("immediate", [None, -40, -32, -31, -3, 0, 3, 31, 32, 1000])
def test_alu(opcode, immediate):
    memory = noise()
    put_uops(memory, TINY, [1, 3], [40, 41], [0, 0])
    memory[1024:2048].view("<i4")[1::2] %= 80
    loads = "LOAD.UOP y_size=1 x_size=2 x_stride=2\nLOAD.ACC dram_base=64 y_size=1 x_size=60 x_stride=60\n"
    before = run(loads, memory)
    mode = "" if immediate is None else f"use_imm=1 imm={immediate}"
    result = run(
        f"{loads}CONFIG BASE acc_base=2\n"
        f"ALU uop_end=2 iter_out=3 iter_in=2 dst_factor_out=5 dst_factor_in=9 src_factor_out=2 src_factor_in=3 "
        f"alu_opcode={opcode} {mode}",
        memory,
    )
    d = _indices(2, np.array([1, 3]), 5, 9).reshape(-1)
    assert len(set(d.tolist())) == len(d)
    s = _indices(2, np.array([40, 41]), 2, 3).reshape(-1)
    left = before.acc[d].astype(object)
    right = before.acc[s].astype(object) if immediate is None else np.full(left.shape, immediate, object)
    function = {
        "MIN": min,
        "MAX": max,
        "ADD": lambda a, b: a + b,
        "MUL": lambda a, b: a * b,
        # Python's floor division is the arithmetic shift; a shift of 2**31 and more places empties 32 bits.
        "SHR": lambda a, n: a // 2 ** min(n, 31) if n >= 0 else a * 2 ** min(-n, 32),
    }[opcode]
    expected = before.acc.copy()
    wrapped = np.vectorize(lambda a, b: (function(a, b) + 2**31) % 2**32 - 2**31, otypes=[np.int64])
    expected[d] = wrapped(left, right)
    assert np.array_equal(result.acc, expected)


@pytest.mark.parametrize("mode", ["", "overwrite=1", "reset=1"])
def test_depthwise_multiplies_lane_by_lane_with_rows_of_tiles(mode):
    memory = noise(65536)
    put_uops(memory, WIDE, [0, 20], [0, 5], [3, 9])
    loads = (
        "LOAD.UOP y_size=1 x_size=2 x_stride=2\n"
        "LOAD.INP dram_base=64 y_size=1 x_size=20 x_stride=20\n"
        "LOAD.WGT dram_base=16 y_size=1 x_size=8 x_stride=8\n"
        "LOAD.ACC dram_base=64 y_size=1 x_size=60 x_stride=60\n"
    )
    before = run(loads, memory, WIDE)
    result = run(
        f"{loads}CONFIG BASE acc_base=1 inp_base=2 wgt_base=3\n"
        "DEPTHWISE uop_end=2 iter_out=3 iter_in=2 dst_factor_out=4 dst_factor_in=2 src_factor_out=1 "
        f"src_factor_in=3 wgt_factor_out=7 wgt_factor_in=1 {mode}",
        memory,
        WIDE,
    )
    d = _indices(1, np.array([0, 20]), 4, 2).reshape(-1)
    s = _indices(2, np.array([0, 5]), 1, 3).reshape(-1)
    rows = before.wgt.reshape(-1, 8)[_indices(3 * 8, np.array([3, 9]), 7, 1).reshape(-1)]
    products = before.inp[s].astype(np.int64) * rows[:, None].astype(np.int64)
    expected = before.acc.astype(np.int64)
    expected[d] = 0 if "reset" in mode else products if mode else expected[d] + products
    assert np.array_equal(result.acc, expected.astype(np.int32))


@pytest.mark.parametrize("mode", ["", "overwrite=1", "reset=1"])
def test_taps_add_four_positions(mode):
    config = dataclasses.replace(WIDE, extensions=(*WIDE.extensions, "taps", "zero_points"))
    memory = noise(65536)
    put_uops(memory, config, [0, 20], [0, 5], [3, 9])
    loads = (
        "LOAD.UOP y_size=1 x_size=2 x_stride=2\n"
        "LOAD.INP dram_base=64 y_size=1 x_size=20 x_stride=20\n"
        "LOAD.WGT dram_base=16 y_size=1 x_size=8 x_stride=8\n"
        "LOAD.ACC dram_base=64 y_size=1 x_size=60 x_stride=60\n"
    )
    before = run(loads, memory, config)
    result = run(
        f"{loads}CONFIG BASE acc_base=1 inp_base=2 wgt_base=3\nCONFIG ZERO inp_zero=-5 wgt_zero=7\n"
        "TAPS uop_end=2 iter_out=3 iter_in=2 dst_factor_out=4 dst_factor_in=2 src_factor_out=1 "
        f"src_factor_in=3 wgt_factor_out=7 wgt_factor_in=1 {mode}",
        memory,
        config,
    )
    d = _indices(1, np.array([0, 20]), 4, 2).reshape(-1)
    s = _indices(2, np.array([0, 5]), 1, 3).reshape(-1, 1) + np.arange(4)
    w = _indices(3 * 8, np.array([3, 9]), 7, 1).reshape(-1, 1) // 4 * 4 + np.arange(4)
    vectors, rows = before.inp[s].astype(np.int64) + 5, before.wgt.reshape(-1, 8)[w].astype(np.int64) - 7
    products = (vectors * rows[:, :, None]).sum(axis=1)
    expected = before.acc.astype(np.int64)
    expected[d] = 0 if "reset" in mode else products if mode else expected[d] + products
    assert np.array_equal(result.acc, expected.astype(np.int32))


@pytest.mark.parametrize(("name", "count"), [("DEPTHWISE", 1), ("TAPS", 4)])
@pytest.mark.parametrize(("block_in", "block_out"), [(4, 16), (16, 4)])
def test_positions_of_arrays_that_are_not_square(block_in, block_out, name, count):
    """Channel c of a position is in the same place, however the position is divided into vectors; one operation
    computes all of its channels or a fourth. The instruction `name` multiplies by `count` consecutive rows of weights.
    """
    shape = {"block_in": block_in, "block_out": block_out, "inp_buffer_bytes": 2048, "wgt_buffer_bytes": 4096}
    config = dataclasses.replace(WIDE, **shape, extensions=(*WIDE.extensions, "taps"))
    memory = noise(65536)
    put_uops(memory, config, [2], [8], [37])
    inputs, outputs = config.position_inputs, config.position_outputs
    loads = (
        "LOAD.UOP y_size=1 x_size=1 x_stride=1\n"
        "LOAD.INP dram_base=64 y_size=1 x_size=30 x_stride=30\n"
        "LOAD.WGT dram_base=16 y_size=1 x_size=8 x_stride=8\n"
    )
    before = run(loads, memory, config)
    result = run(f"{loads}CONFIG BASE wgt_base=3\n{name} uop_end=1 iter_out=1 iter_in=1", memory, config)
    # Of 16 channels each: vector 8 begins position 8 or 2, tile 3 begins tap 12, and row 37 behind it is in tap 21.
    first, tap, part = 8 // inputs, 21 // count * count, 37 % outputs
    channels = before.inp.reshape(-1, inputs, WIDE.batch, block_in).transpose(0, 2, 1, 3)
    channels = channels.reshape(len(channels), WIDE.batch, 16).astype(np.int64)
    taps = before.wgt.reshape(-1, 16).astype(np.int64)
    total = sum(channels[first + t] * taps[tap + t] for t in range(count))
    expected = np.zeros_like(before.acc)
    expected[2] = total[:, part * block_out : (part + 1) * block_out]
    assert np.array_equal(result.acc, expected)


@pytest.mark.parametrize(("block_in", "block_out"), [(16, 16), (8, 16), (32, 8)])
@pytest.mark.parametrize("mode", ["", "overwrite=1", "reset=1"])
def test_sweeps_add_up_what_operations_before_read(block_in, block_out, mode):
    """In the array mode `sweep`, operations go down a column of inputs, and the array keeps the vectors of the last
    operations. Every second operation only keeps its vector and has no result. The others multiply their own vector and
    the kept ones, and add up the products. If outputs have several parts, the weights belong to part 1, else to part 0.
    """
    shape = {
        "block_in": block_in,
        "block_out": block_out,
        "inp_buffer_bytes": 8192,
        "wgt_buffer_bytes": 16384,
    }
    extensions = (*WIDE.extensions, "taps", "sweep", "zero_points")
    config = dataclasses.replace(WIDE, **shape, extensions=extensions)
    memory = noise(65536)
    inputs, outputs, group = config.position_inputs, config.position_outputs, SWEEP_MODE.group(config)
    count, part = 8, min(1, outputs - 1)
    first, start = config.tile_rows // group + 1, [4 * inputs * k + inputs - 1 for k in range(count)]
    rows = [group * first + part + group // 2 * (k % 2) for k in range(count)]
    put_uops(memory, config, [3 + k for k in range(count)], start, rows)
    loads = (
        f"LOAD.UOP y_size=1 x_size={count} x_stride={count}\n"
        f"LOAD.INP dram_base=64 y_size=1 x_size={64 * inputs} x_stride={64 * inputs}\n"
        "LOAD.WGT dram_base=16 y_size=1 x_size=8 x_stride=8\n"
        "LOAD.ACC dram_base=16 y_size=1 x_size=30 x_stride=30\n"
    )
    before = run(loads, memory, config)
    result = run(
        f"{loads}CONFIG ZERO inp_zero=-5 wgt_zero=7\nCONFIG SWEEP on=1\n"
        f"TAPS uop_end={count} iter_out=1 iter_in=1 {mode}",
        memory,
        config,
    )
    channels = before.inp.reshape(-1, inputs, WIDE.batch, block_in).transpose(0, 2, 1, 3).astype(np.int64) + 5
    lanes = channels.reshape(len(channels), WIDE.batch, -1)[:, :, part * block_out : (part + 1) * block_out]
    weights = before.wgt.reshape(-1, min(block_in, block_out))[group * first :].astype(np.int64) - 7
    weights = weights[: 4 * SWEEP_MODE.operations(config) * inputs].reshape(
        SWEEP_MODE.operations(config), 4, block_out
    )
    expected = before.acc.astype(np.int64)
    for k in range(count):
        total = np.zeros((WIDE.batch, block_out), np.int64)
        for age in range(min(SWEEP_MODE.operations(config), k + 1)):
            read = lanes[4 * (k - age) : 4 * (k - age) + 4]
            total += (read * weights[SWEEP_MODE.operations(config) - 1 - age][:, None]).sum(axis=0)
        if "reset" in mode:
            expected[3 + k] = 0
        elif k % 2 == 0:
            expected[3 + k] = total if mode else expected[3 + k] + total
    assert np.array_equal(result.acc, expected.astype(np.int32))


# --- stores ---------------------------------------------------------------------------------------------


def test_store_out_truncates():
    memory = noise()
    loads = "LOAD.ACC dram_base=16 y_size=1 x_size=8 x_stride=8\n"
    result = run(loads + "STORE.OUT sram_base=1 dram_base=500 y_size=2 x_size=3 x_stride=10", memory)
    stored = result.acc[1:7, 0].astype(np.int8).reshape(2, 12).view(np.uint8)
    expected = memory.copy()
    expected[2000:2012], expected[2040:2052] = stored
    assert np.array_equal(result.memory, expected)


def bits(value: float) -> str:
    return f"{np.float32(value).view(np.uint32):#x}"


FLAGS = [
    "",
    "combine=1",
    "combine=1 operand=1",
    "combine=1 operand=1 swap=1",
    "combine=1 operand=1 unsigned=1",
    "combine=1 operand=1 swap=1 unsigned=1",
    "combine=1 operand=1 multiply=1",
    "combine=1 operand=1 multiply=1 swap=1 unsigned=1",
]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("reduce", ["max", "sum"])
@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_store_post(config, reduce, flags):
    """STORE.POST of the reference model equals numpy for 3x2 windows that move over a grid of accumulators, 4 rows of
    6. `reduce`: the store adds the accumulators of a window, or takes their maximum; `flags`: further fields.
    """
    memory = noise(65536)
    lanes = config.block_out
    memory[:256].view("<i4")[: 2 * lanes] = RNG.integers(-3000, 3000, 2 * lanes)
    for entry in range(2):
        table = memory[entry * config.par_bytes : (entry + 1) * config.par_bytes]
        table[: 4 * lanes].view("<i4")[:] = RNG.integers(-500, 500, lanes)
        table[4 * lanes :].view("<f4")[:] = RNG.uniform(0.01, 0.03, lanes)
    start = 4096
    grid = RNG.integers(-2000, 2000, (4, 6, config.batch, lanes)).astype("<i4") - (
        1500 if reduce == "max" else 0
    )
    memory[start : start + grid.nbytes] = grid.view(np.uint8).reshape(-1)
    ratios = (np.float32(0.02 if "multiply" in flags else 0.7), np.float32(0.6), np.float32(-3.25))
    text = (
        f"LOAD.ACC sram_base=10 dram_base={start // config.acc_bytes} y_size=1 x_size=24 x_stride=24\n"
        "LOAD.PAR y_size=1 x_size=2 x_stride=2\n"
        "CONFIG ADDRESS y_stride=6 x_stride=2\n"
        f"CONFIG WINDOW rows_minus_1=2 columns_minus_1=1 row_stride=6 column_stride=1 sum={int(reduce == 'sum')}\n"
        "CONFIG REQUANTIZE zero_point=-5 low=-100 high=90 operand_zero_point=11\n"
        f"CONFIG RATIO ratio_self={bits(ratios[0])} ratio_operand={bits(ratios[1])}\n"
        f"CONFIG COMBINE offset={bits(ratios[2])} low=-120 high=115 zero_point=4\n"
        "CONFIG OPERAND delta=300\n"
        f"STORE.POST sram_base=10 dram_base=2000 par_index=1 y_size=2 x_size=3 x_stride=7 {flags}"
    )
    result = run(text, memory, config)
    windows = np.lib.stride_tricks.sliding_window_view(grid, (3, 2), axis=(0, 1))[:, ::2]
    reduced = getattr(np, reduce)(windows, axis=(-2, -1)).astype(np.int32)
    bias, scale = result.par[1, 0].view(np.int32), result.par[1, 1].view(np.float32)
    q = requantize(reduced + bias, scale, -5, -100, 90)
    place = (2000 + 7 * np.arange(2)[:, None] + np.arange(3))[..., None] * config.out_bytes + np.arange(
        config.out_bytes
    )
    r = memory[place + 300 * config.out_bytes].view(np.int8).reshape(q.shape)
    unsigned = "unsigned" in flags
    if "multiply" in flags:
        first, second = ((r, 11), (q, -5)) if "swap" in flags else ((q, -5), (r, 11))
        q = combine_multiply(first[0], second[0], (first[1], second[1]), ratios[0], 4, unsigned, -120, 115)
    elif "operand" in flags:
        first, second = (
            ((r, ratios[1]), (q, ratios[0])) if "swap" in flags else ((q, ratios[0]), (r, ratios[1]))
        )
        constants = AddConstants(ratio_a=first[1], ratio_b=second[1], offset=ratios[2], unsigned=unsigned)
        q = combine_add(first[0], second[0], constants, -120, 115)
    elif flags:
        q = rescale(q, -5, ratios[0], 4, -120, 115)
    assert len(np.unique(q)) > 8  # not everything saturates
    expected = memory.copy()
    expected[place] = q.view(np.uint8).reshape(place.shape)
    assert np.array_equal(result.memory, expected)


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("LOAD.INP sram_base=1023 y_size=1 x_size=2", "sram_base leads to inp element 1024, outside 0..1023"),
        (
            "LOAD.INP dram_base=4096 y_size=1 x_size=1",
            "dram_base reads DRAM bytes 16384..16388, outside of the memory of 8192 bytes",
        ),
        ("STORE.OUT dram_base=4096 y_size=1 x_size=1", "dram_base writes DRAM bytes 16384..16388"),
        ("STORE.OUT x_size=1 x_pad_0=1", "pads of a store must be 0"),
        ("LOAD.PATCH x_pad_1=1", "x_pad_0 and x_pad_1"),
        ("CONFIG BASE acc_base=1024\nGEMM uop_end=1 iter_out=1 iter_in=1", "dst leads to accumulator 1024"),
        ("ALU alu_opcode=7", "alu_opcode 7 is unknown"),
        ("CONFIG unit=2 register=77", "unit 2 has no register 77"),
        ("GEMM uop_bgn=2047 uop_end=2049 iter_out=1 iter_in=1", "uop_end leads to micro-op 2048"),
    ],
)
def test_errors_name_instruction_and_field(line, part):
    with pytest.raises(ProgramError) as error:
        run(f"CONFIG BASE\n{line}", noise())
    assert f"instruction {line.count(chr(10)) + 1} (" in str(error.value)
    assert part in str(error.value)


def test_a_missing_extension_finish_or_encoding_is_refused():
    bare = Config(name="bare", extensions=())
    for name in ("LOAD.PATCH", "LOAD.PAR", "STORE.POST", "DEPTHWISE", "TAPS"):
        with pytest.raises(ProgramError, match=rf"instruction 0 \({name}\): needs the extension"):
            run(name, noise(), bare)
    with pytest.raises(ProgramError, match="no FINISH"):
        run_reference(TINY, assemble("GEMM", TINY), noise())
    with pytest.raises(EncodingError, match="instruction 1: STORE cannot have memory type 2"):
        run(f"GEMM\n.word {1 | 2 << 7:032x}", noise())


def test_nothing_behind_finish_executes():
    memory = noise()
    result = run("FINISH\nLOAD.INP y_size=1 x_size=1\n.word " + "f" * 32, memory)
    assert result.executed == 1
    assert not result.inp.any()
