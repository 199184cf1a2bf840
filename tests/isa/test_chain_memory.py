"""The chain memory (on-chip memory between layers): sizes, encodings, results of the reference, and errors that the
checker finds.
"""

import dataclasses

import numpy as np
import pytest

from vdla.isa.arithmetic import requantize
from vdla.isa.assembler import assemble
from vdla.isa.check import check
from vdla.isa.config import Config, load_config, parse_config
from vdla.isa.config_text import toml_text
from vdla.isa.data_path import blocks
from vdla.isa.describe import c_header, markdown
from vdla.isa.errors import ConfigError, ProgramError
from vdla.isa.layout import encode_uops, formats, uop_fields
from vdla.isa.reference import run_reference
from vdla.isa.scratchpads import scratchpad_sizes
from vdla.sim import simulate

TINY = load_config("tiny")
SQUARE = dataclasses.replace(TINY, chain_buffer_bytes=256)
WIDE_OUT = dataclasses.replace(
    TINY, block_out=16, extensions=("post",), wgt_buffer_bytes=4096, chain_buffer_bytes=256
)
WIDE_IN = dataclasses.replace(
    TINY, block_in=16, extensions=("post",), wgt_buffer_bytes=4096, chain_buffer_bytes=256
)
UOPS = "LOAD.UOP y_size=1 x_size=4 x_stride=4\n"
STORE = "STORE.POST sram_base=9 y_size=1 x_size=4 x_stride=4 chain=1"


def image(config: Config, src: tuple[int, ...] = (0, 1, 2, 3)) -> np.ndarray:
    data = np.random.default_rng(5).integers(0, 256, 16384, dtype=np.uint8)
    words = encode_uops(config, np.array([0, 1, 2, 3]), np.array(src), np.zeros(4, np.int64))
    data[: words.nbytes] = words.view(np.uint8)
    table = data[4096 : 4096 + config.par_bytes]
    table[: 4 * config.block_out] = 0
    table[4 * config.block_out :].view("<f4")[:] = 0.01
    return data


def problems(text: str, config: Config = SQUARE) -> list[str]:
    found = check(config, assemble(text + "\nFINISH", config), image(config))
    return [f"{item.kind}: {item.message}" for item in found]


@pytest.mark.parametrize("config", [SQUARE, WIDE_OUT, WIDE_IN], ids=["4x4", "4x16", "16x4"])
def test_indices_continue_behind_the_input_scratchpad(config: Config):
    assert config.chain_base >= config.inp_depth > config.chain_base // 2
    assert config.chain_depth * config.inp_bytes == config.chain_buffer_bytes
    assert 1 << config.inp_index_bits >= config.chain_base + config.chain_depth
    assert uop_fields(config)[1].width == config.inp_index_bits
    assert scratchpad_sizes(config)["chain"] == config.extra_storage["chain memory"] == 256
    assert blocks(config)[-1].name == "chain memory"
    assert parse_config(toml_text(config), "text") == config
    assert f"VDLA_CHAIN_BASE {config.chain_base}\n" in c_header(config)
    assert f"indices {config.chain_base} to {config.chain_base + config.chain_depth - 1}" in markdown(config)


def test_taps_read_vectors_of_one_memory():
    config = dataclasses.replace(SQUARE, extensions=(*SQUARE.extensions, "taps"))
    inside, there = config.inp_depth - 4, config.chain_base
    taps = "TAPS uop_end=1 iter_out=1 iter_in=1"
    for first in (inside, there, there + config.chain_depth - 4):
        assert not problems(f"CONFIG BASE inp_base={first}\n{UOPS}{taps}", config)
    for first in (inside + 1, there - 1, there + config.chain_depth - 3):
        (found,) = problems(f"CONFIG BASE inp_base={first}\n{UOPS}{taps}", config)
        assert found.startswith("bounds: instruction 2 (TAPS") and "src leads to" in found
        with pytest.raises(ProgramError, match=r"instruction 2 \(TAPS\): src leads to"):
            run_reference(
                config,
                assemble(f"CONFIG BASE inp_base={first}\n{UOPS}{taps}\nFINISH", config),
                image(config),
            )
    # The last of the four, too, is read.
    race = f"{UOPS}{taps}\nLOAD.INP sram_base=3 y_size=1 x_size=1"
    assert "inp element 3" in problems(race, config)[0]
    with pytest.raises(ConfigError, match="taps needs depthwise; add 'depthwise'"):
        dataclasses.replace(SQUARE, extensions=("post", "taps"))
    with pytest.raises(ConfigError, match="chain_buffer_bytes = 16: taps needs at least 8 positions"):
        dataclasses.replace(config, chain_buffer_bytes=16)


def test_machines_without_one_do_not_mention_it():
    assert "chain_buffer_bytes" not in TINY.to_dict() and TINY.chain_depth == 0
    assert "chain" not in scratchpad_sizes(TINY) and "chain memory" not in TINY.extra_storage
    assert (1 << TINY.inp_index_bits) == TINY.inp_depth
    assert "VDLA_CHAIN_BASE" not in c_header(TINY) and "chain memory" not in markdown(TINY)
    assert formats(TINY)["STORE.POST"].field("chain").low == 119


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"chain_buffer_bytes": 4},
            "chain_buffer_bytes = 4: must be 0, or at least 8 and a multiple of 4.* 8 and 12 are",
        ),
        ({"chain_buffer_bytes": 6}, "multiple of 4.* 8 and 12 are"),
        ({"chain_buffer_bytes": -4}, "expected a number of bytes"),
        ({"chain_buffer_bytes": True}, "expected a number of bytes"),
        ({"chain_buffer_bytes": 8, "extensions": ("patch",)}, "add 'post' to `extensions`"),
        ({"chain_buffer_bytes": 1 << 18}, "cannot be addressed by 16 bits; at most"),
        (
            {"chain_buffer_bytes": 8, "inp_buffer_bytes": 4 << 16, "block_out": 4},
            "use a smaller inp_buffer_bytes",
        ),
    ],
)
def test_impossible_sizes_are_refused(change: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TINY, **change)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("config", [SQUARE, WIDE_OUT, WIDE_IN], ids=["4x4", "4x16", "16x4"])
def test_outputs_are_inputs_of_the_next_product(config: Config):
    """The bytes of consecutive output vectors in the chain memory are read as input vectors."""
    memory = image(config)
    vectors = config.chain_buffer_bytes // config.out_bytes
    count = min(vectors, config.acc_depth)
    text = (
        UOPS
        + f"LOAD.ACC dram_base={8192 // config.acc_bytes} y_size=1 x_size={count} x_stride={count} push_next\n"
        "LOAD.WGT dram_base=40 y_size=1 x_size=1 x_stride=1 push_next\n"
        f"LOAD.PAR dram_base={4096 // config.par_bytes} y_size=1 x_size=1 x_stride=1\n"
        "CONFIG REQUANTIZE low=-128 high=127\n"
        "CONFIG ADDRESS x_stride=1\n"
        f"STORE.POST y_size=1 x_size={count} x_stride={count} chain=1 pop_prev push_prev\n"
        f"CONFIG BASE inp_base={config.chain_base} pop_next\n"
        "LOAD.UOP pop_prev\n"
        "GEMM uop_bgn=0 uop_end=4 iter_out=1 iter_in=1 overwrite=1"
    )
    memory[8192 : 8192 + count * config.acc_bytes].view("<i4")[:] >>= 19  # within reach of the scale
    words = assemble(text + "\nFINISH", config)
    assert [item for item in check(config, words, memory) if item.severity == "error"] == []
    result = run_reference(config, words, memory)
    accumulators = memory[8192 : 8192 + count * config.acc_bytes].view("<i4").reshape(count, -1)
    outputs = requantize(accumulators, np.full(config.block_out, 0.01, np.float32), 0, -128, 127)
    chain = np.zeros(config.chain_buffer_bytes, np.int8)
    chain[: outputs.size] = outputs.reshape(-1)
    np.testing.assert_array_equal(result.chain.reshape(-1), chain)
    np.testing.assert_array_equal(result.memory, memory)
    assert len(np.unique(chain)) > 20
    expected = chain.reshape(-1, config.block_in)[:4].astype(np.int64) @ result.wgt[0].astype(np.int64).T
    np.testing.assert_array_equal(result.acc[:4, 0], expected)
    simulated = simulate(config, words, memory)
    assert simulated.scratchpads is not None
    np.testing.assert_array_equal(simulated.scratchpads.chain, result.chain)
    np.testing.assert_array_equal(simulated.scratchpads.acc, result.acc)
    assert simulated.dram_write_bytes == 0 and simulated.traffic["out"].beats == 0


def test_the_operand_comes_from_dram():
    memory = image(SQUARE)
    text = (
        f"LOAD.PAR dram_base={4096 // SQUARE.par_bytes} y_size=1 x_size=1 x_stride=1\n"
        "CONFIG REQUANTIZE low=-128 high=127\n"
        "CONFIG RATIO ratio_operand=1.0\n"
        "CONFIG COMBINE low=-128 high=127\n"
        "CONFIG OPERAND delta=1000\n"
        "STORE.POST dram_base=3 y_size=2 x_size=2 x_stride=4 chain=1 combine=1 operand=1"
    )
    words = assemble(text + "\nFINISH", SQUARE)
    assert check(SQUARE, words, memory) == []
    result = run_reference(SQUARE, words, memory)
    places = [3, 4, 7, 8]
    dram = memory.view(np.int8).reshape(-1, 4)
    np.testing.assert_array_equal(result.chain[places, 0], dram[[1000 + place for place in places]])


# --- refusals -------------------------------------------------------------------------------------------


def test_machines_without_one_refuse_the_bit_by_name():
    words = assemble(STORE + "\nFINISH", TINY)
    assert "extension: instruction 0 (STORE.POST" in problems(STORE, TINY)[0]
    assert "chain = 1 needs a chain memory, which configuration 'tiny' lacks" in problems(STORE, TINY)[0]
    for engine in (run_reference, simulate):
        with pytest.raises(ProgramError, match="needs a chain memory"):
            engine(TINY, words, image(TINY))


BASE = f"CONFIG BASE inp_base={SQUARE.chain_base}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{STORE} dram_base=61", "dram_base leads to output vector of the chain memory 64, outside 0..63"),
        (
            STORE.replace("y_size=1 x_size=4 x_stride=4", "y_size=2 x_size=4 x_stride=61"),
            "dram_base leads to output vector of the chain memory 64",
        ),
        (
            f"{BASE}{UOPS}GEMM uop_end=1 iter_out=2 iter_in=1 src_factor_out=64",
            f"src leads to input vector {SQUARE.chain_base + 64}, outside 0..{SQUARE.chain_base + 63}",
        ),
        (f"LOAD.INP sram_base={SQUARE.chain_base} y_size=1 x_size=1 x_stride=1", "leads to inp element"),
    ],
)
def test_accesses_outside_of_the_memory_are_refused(text: str, message: str):
    (found,) = problems(text)
    assert found.startswith("bounds") and message in found
    words = assemble(text + "\nFINISH", SQUARE)
    for engine in (run_reference, simulate):
        with pytest.raises(ProgramError):
            engine(SQUARE, words, image(SQUARE))


def test_indices_between_scratchpad_and_chain_memory_are_refused():
    config = dataclasses.replace(SQUARE, inp_buffer_bytes=4 * 77)
    assert config.chain_base == 128
    text = UOPS + "CONFIG BASE inp_base={}\nGEMM uop_end=1 iter_out=2 iter_in=1 src_factor_out={}"
    assert problems(text.format(0, 128), config) == problems(text.format(76, 52 + 63), config) == []
    for base, step in ((77, 60), (76, 1), (0, 127), (130, 70)):
        (found,) = problems(text.format(base, step), config)
        assert "src leads to input vector" in found
        words = assemble(text.format(base, step) + "\nFINISH", config)
        for engine in (run_reference, simulate):
            with pytest.raises(ProgramError):
                engine(config, words, image(config))
    (found,) = problems(text.format(76, 1), config)
    assert "0..76 of the input scratchpad and 128..191 of the chain memory" in found


def test_store_and_compute_must_be_ordered():
    read = UOPS + f"CONFIG BASE inp_base={SQUARE.chain_base + 2}\nGEMM uop_end=2 iter_out=1 iter_in=1"
    (found,) = problems(f"{STORE}\n{read}")
    assert found.startswith("race") and "reads chain memory bytes 8..12" in found and "(RAW)" in found
    assert "push one of store->compute" in found
    (found,) = problems(f"{read}\n{STORE} dram_base=1")
    assert "writes chain memory bytes 8..12" in found and "(WAR)" in found
    # Other vectors of the same memory are nobody's business.
    assert problems(f"{STORE} dram_base=8\n{read}") == []
