"""Look-up tables of STORE.POST: sizes, encodings, results of the reference, and errors that the checker finds."""

import dataclasses

import numpy as np
import pytest

from vdla.isa.arithmetic import combine_multiply, requantize
from vdla.isa.assembler import assemble
from vdla.isa.check import check
from vdla.isa.config import Config, load_config, parse_config
from vdla.isa.config_text import toml_text
from vdla.isa.data_path import blocks
from vdla.isa.describe import c_header, markdown
from vdla.isa.errors import ConfigError, ProgramError
from vdla.isa.layout import formats
from vdla.isa.reference import run_reference
from vdla.isa.scratchpads import scratchpad_sizes
from vdla.isa.timing import post_latency
from vdla.sim import simulate

TINY = load_config("tiny")
TABLES = dataclasses.replace(TINY, extensions=(*TINY.extensions, "table"))
LOAD = "LOAD.TABLE dram_base=2 y_size=1 x_size=2 x_stride=2\n"
ROW = "y_size=1 x_size=4 x_stride=4"


def image(config: Config) -> np.ndarray:
    data = np.random.default_rng(6).integers(0, 256, 16384, dtype=np.uint8)
    table = data[4096 : 4096 + config.par_bytes]
    table[: 4 * config.block_out] = 0
    table[4 * config.block_out :].view("<f4")[:] = 0.01
    data[8192:12288].view("<i4")[:] >>= 18  # within reach of the scale
    return data


def problems(text: str, config: Config = TABLES) -> list[str]:
    found = check(config, assemble(text + "\nFINISH", config), image(config))
    return [f"{item.kind}: {item.message}" for item in found]


def test_sizes_and_documents_of_a_machine_with_tables():
    assert TABLES.table_depth == TABLES.tables == 2
    assert scratchpad_sizes(TABLES)["table"] == 512
    assert TABLES.extra_storage["look-up tables"] == 4 * 512
    few = dataclasses.replace(TABLES, post_lanes=1, tables=3)
    (block,) = [item for item in blocks(few) if item.name == "table"]
    assert (block.lanes, block.storage_bytes) == (1, 768)
    assert post_latency(TABLES) == post_latency(TINY) + 2
    assert parse_config(toml_text(few), "text") == few
    assert "VDLA_TABLE_DEPTH 3\n" in c_header(few) and "VDLA_MEMORY_TABLE 4\n" in c_header(few)
    assert "3 look-up tables of 256 bytes" in markdown(few)


def test_machines_without_tables_do_not_mention_them():
    assert "tables" not in TINY.to_dict() and TINY.table_depth == 0
    assert "table" not in scratchpad_sizes(TINY) and "look-up tables" not in TINY.extra_storage
    assert "VDLA_TABLE_DEPTH" not in c_header(TINY) and "look-up" not in markdown(TINY)
    places = {name: formats(TINY)["STORE.POST"].field(name).low for name in ("table", "table_index")}
    assert places == {"table": 120, "table_index": 121}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tables": 0}, "tables = 0: must lie between 1 and 8"),
        ({"tables": 9}, "tables = 9"),
        ({"extensions": ("table",)}, "table is a part of the post-processing store; add 'post'"),
    ],
)
def test_impossible_machines_are_refused(change: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TABLES, **change)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("multiply", [0, 1])
def test_a_store_looks_up_and_multiplies(index: int, multiply: int):
    """All engines replace a stored value q by an entry of look-up table `index`. With `multiply`, the entry is
    multiplied by an operand; the zero point of the table's entries is then used for the entry, not that of q.
    """
    memory = image(TABLES)
    text = LOAD + (
        "LOAD.ACC dram_base=512 y_size=1 x_size=4 x_stride=4 push_next\n"
        f"LOAD.PAR dram_base={4096 // TABLES.par_bytes} y_size=1 x_size=1 x_stride=1\n"
        "CONFIG REQUANTIZE low=-128 high=127 zero_point=9 operand_zero_point=5 table_zero_point=-7\n"
        "CONFIG RATIO ratio_self=0.02\n"
        "CONFIG COMBINE low=-128 high=127 zero_point=3\n"
        "CONFIG ADDRESS x_stride=1\n"
        "CONFIG OPERAND delta=-1000\n"
        f"STORE.POST dram_base=3500 {ROW} table=1 table_index={index} combine={multiply} operand={multiply} "
        f"multiply={multiply} pop_prev\n"
    )
    words = assemble(text + "FINISH", TABLES)
    assert check(TABLES, words, memory) == []
    result = run_reference(TABLES, words, memory)
    totals = memory[8192:].view("<i4")[:16]
    q = requantize(totals, np.float32(0.01), 9, -128, 127)
    tables = memory[512:1024].view(np.int8).reshape(2, 256)
    expected = tables[index][q.astype(int) + 128]
    assert len(set(q.tolist())) > 8 and (expected != q).any()
    if multiply:
        operand = memory[10000:10016].view(np.int8)
        expected = combine_multiply(expected, operand, (-7, 5), np.float32(0.02), 3, False)
    np.testing.assert_array_equal(result.memory[14000:14016].view(np.int8), expected)
    np.testing.assert_array_equal(result.table, tables)
    simulated = simulate(TABLES, words, memory)
    assert simulated.scratchpads is not None and simulated.memory is not None
    np.testing.assert_array_equal(simulated.memory, result.memory)
    np.testing.assert_array_equal(simulated.scratchpads.table, tables)
    assert simulated.traffic["par"].bytes == 512 + TABLES.par_bytes


# --- refusals -------------------------------------------------------------------------------------------


def test_machines_without_them_refuse_the_bit_by_name():
    text = f"STORE.POST {ROW} table=1"
    (found,) = problems(text, TINY)
    assert "table = 1 needs the extension 'table', which 'tiny' lacks" in found
    words = assemble(text + "\nFINISH", TINY)
    for engine in (run_reference, simulate):
        with pytest.raises(ProgramError, match="needs the extension 'table'"):
            engine(TINY, words, image(TINY))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"STORE.POST {ROW} table=1 table_index=2", "table_index leads to table 2, outside 0..1"),
        (
            LOAD.replace("x_size=2", "x_size=2 sram_base=1"),
            "sram_base leads to table element 2, outside 0..1",
        ),
        (LOAD.replace("x_size=2", "x_size=1 y_pad_0=1"), "the pads of a table load must be 0"),
        (
            LOAD.replace("dram_base=2", "dram_base=63"),
            "reads DRAM bytes 16128..16640, outside of the memory of 16384 bytes",
        ),
    ],
)
def test_table_accesses_out_of_bounds_are_refused(text: str, message: str):
    (found,) = problems(text)
    assert found.startswith("bounds") and message in found
    words = assemble(text + "\nFINISH", TABLES)
    for engine in (run_reference, simulate):
        with pytest.raises(ProgramError):
            engine(TABLES, words, image(TABLES))
