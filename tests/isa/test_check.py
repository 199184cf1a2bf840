import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from campaign import representatives

from vdla.isa.access import accesses, advance, start_trace
from vdla.isa.assembler import assemble
from vdla.isa.check import MOST_FINDINGS, Finding, check, require_clean
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import decode_one
from vdla.isa.errors import ProgramError
from vdla.isa.hazards import READERS, WRITERS
from vdla.isa.layout import TOKEN_QUEUES, encode_uops, unit_of
from vdla.isa.program_file import read_hex
from vdla.verify.random_programs import random_config, random_program

TINY = load_config("tiny")
BARE = Config(name="bare", extensions=())


def image_with_uops(config: Config, dst=(0,), src=(0,), wgt=(0,), size: int = 65536) -> np.ndarray:
    image = np.zeros(size, np.uint8)
    words = encode_uops(config, np.array(dst), np.array(src), np.array(wgt))
    image[: words.nbytes] = words.view(np.uint8)
    return image


def findings(text: str, config: Config = TINY, image: np.ndarray | None = None, finish: bool = True):
    words = assemble(text + ("\nFINISH" if finish else ""), config)
    return check(config, words, image_with_uops(config) if image is None else image)


def only(found: list[Finding], kind: str, *parts: str, severity: str = "error") -> Finding:
    assert [(item.kind, item.severity) for item in found] == [(kind, severity)], found
    for part in parts:
        assert part in found[0].message
    return found[0]


# --- programs that are right ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "vectors").glob("*.json")), ids=lambda p: p.stem
)
def test_vtas_programs_are_clean(path, tmp_path):
    vector = json.loads(path.read_text())
    (tmp_path / "x.hex").write_text("\n".join(vector["insns"]))
    memory = np.zeros(vector["size"], np.uint8)
    memory[:4096] = np.frombuffer(bytes.fromhex(vector["uop_hex"]), np.uint8)
    assert check(load_config("vta"), read_hex(tmp_path / "x.hex"), memory) == []


@pytest.mark.parametrize("seed", representatives(range(60), 25))
def test_random_programs_are_clean(seed):
    config = random_config(seed)
    program = random_program(config, seed)
    assert [
        item for item in check(config, program.instructions, program.image) if item.severity == "error"
    ] == []


# --- encodings and values -------------------------------------------------------------------------------


def test_memory_types_that_a_store_cannot_name():
    only(findings(f".word {1 | 2 << 7:032x}"), "encoding", "STORE cannot have memory type 2")


def test_unused_bits_are_refused_in_our_instructions_and_noted_in_vtas():
    only(findings(f".word {5 | 1 << 20:032x}"), "encoding", "instruction 0 (CONFIG)", "bit 20")
    vta = findings(f".word {3 | 1 << 100:032x}", finish=False)
    only(vta, "encoding", "FINISH", "bit 100", severity="warning")


def test_missing_finish():
    only(findings("CONFIG BASE", finish=False), "finish", "no FINISH")
    only(findings("", finish=False), "finish", "no FINISH")


def test_instructions_behind_finish():
    only(
        findings("FINISH\n.word " + "f" * 32),
        "finish",
        "2 instructions follow FINISH",
        severity="warning",
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("DEPTHWISE", "depthwise"),
        ("TAPS", "taps"),
        ("LOAD.PATCH", "patch"),
        ("LOAD.PAR", "post"),
        ("STORE.POST", "post"),
        ("LOAD.TABLE", "table"),
    ],
)
def test_missing_extension(line, name):
    only(findings(line, BARE), "extension", repr(name), "'bare'")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("CONFIG unit=1 register=9", "unit 1 has no register 9"),
        ("CONFIG unit=3 register=0", "unit 3 has no register 0"),
        ("CONFIG unit=0 register=0 value=0x100", "register LOAD_PAD: its value 0x100 sets a bit"),
        ("CONFIG RATIO ratio_self=0x7fc00000", "ratio_self = nan"),
        ("CONFIG COMBINE offset=1e20", "offset = 1.0000"),
        ("ALU alu_opcode=6", "alu_opcode 6 is unknown; known are 0 MIN"),
        ("STORE.POST operand=1", "operand = 1 needs combine = 1"),
        ("STORE.POST combine=1 multiply=1", "multiply and swap need operand = 1"),
        ("STORE.POST combine=1 swap=1", "multiply and swap need operand = 1"),
        ("STORE.POST table_index=1", "table_index needs table = 1"),
    ],
)
def test_values_that_mean_nothing(line, part):
    only(findings(line), "value", part)


def test_scales_that_are_not_finite():
    image = image_with_uops(TINY)
    image[1024 + 48 : 1024 + 64].view("<f4")[1] = np.inf
    text = "LOAD.PAR dram_base=32 y_size=1 x_size=2 x_stride=2"
    only(findings(text, image=image), "value", "lane 1", "DRAM byte 1056", "inf")
    only(
        findings(text.replace("x_size=2", "x_size=1"), image=image)[:0] + findings(text, image=image), "value"
    )
    assert findings(text.replace("x_size=2", "x_size=1"), image=image) == []


@pytest.mark.parametrize(("at", "kinds"), [(1024, ["value"]), (1040, ["value"]), (1044, [])])
def test_only_scales_that_no_store_has_written_must_be_finite(at, kinds):
    image = image_with_uops(TINY)
    image[1040:1056].view("<f4")[1] = np.inf
    text = f"STORE.OUT dram_base={at // 4} y_size=1 x_size=1\nCONFIG COMBINE\nLOAD.PAR dram_base=32 y_size=1 x_size=1"
    assert [item.kind for item in findings(text, image=image)] == kinds


# --- bounds ---------------------------------------------------------------------------------------------

UOPS = "LOAD.UOP y_size=1 x_size=1 x_stride=1\n"
BIG = "y_size=1 x_size=2 x_stride=2"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"LOAD.INP sram_base=1023 {BIG}", ["sram_base", "inp element 1024", "0..1023"]),
        (f"LOAD.WGT sram_base=511 {BIG}", ["wgt element 512"]),
        (f"LOAD.ACC sram_base=1023 {BIG}", ["acc element 1024"]),
        (f"LOAD.ACC8 sram_base=1023 {BIG}", ["acc element 1024"]),
        (f"LOAD.UOP sram_base=2047 {BIG}", ["uop element 2048"]),
        (f"LOAD.PAR sram_base=63 {BIG}", ["par element 64"]),
        ("LOAD.INP y_size=600 x_size=1 x_stride=1 x_pad_1=1", ["inp element 1199"]),
        (
            f"LOAD.INP dram_base=16383 {BIG}",
            ["dram_base reads DRAM bytes 65532..65540, outside of the memory of 65536 bytes"],
        ),
        (
            f"STORE.OUT dram_base=16383 {BIG}",
            ["writes DRAM bytes 65532..65540", "instructions follow this memory"],
        ),
        (f"STORE.OUT sram_base=1023 {BIG}", ["accumulator 1024"]),
        (f"STORE.OUT x_pad_0=1 {BIG}", ["pads of a store must be 0"]),
        (f"CONFIG ADDRESS x_stride=1024\nSTORE.POST {BIG}", ["accumulator 1024"]),
        (
            "CONFIG OPERAND delta=-1\nSTORE.POST combine=1 operand=1 y_size=1 x_size=1",
            ["register OPERAND.delta reads DRAM bytes -4..0"],
        ),
        (
            f"CONFIG OPERAND delta=-1\nSTORE.POST combine=1 operand=1 dram_base=9 {BIG}",
            ["OPERAND.delta = -1 reads vectors that this instruction writes"],
        ),
        ("LOAD.PATCH x_pad_0=1", ["x_pad_0 and x_pad_1 must be 0 in a patch load"]),
        (
            "CONFIG PATCH run=4 batch_row=1\nLOAD.PATCH y_size=1 x_size=1",
            ["batch_row", "row 1, outside 0..0"],
        ),
        ("CONFIG PATCH run=5 pitch=2\nLOAD.PATCH y_size=1 x_size=1 sram_base=1023", ["input vector 1024"]),
        (
            "CONFIG PATCH run=4 row_bytes=4\nLOAD.PATCH y_size=1 x_size=1 dram_base=65533",
            ["reads DRAM bytes 65533..65537"],
        ),
        (UOPS + "GEMM uop_end=1 iter_out=3 iter_in=1 dst_factor_out=512", ["dst leads to accumulator 1024"]),
        (UOPS + "GEMM uop_end=1 iter_out=3 iter_in=1 src_factor_out=512", ["src leads to input vector 1024"]),
        (UOPS + "GEMM uop_end=1 iter_out=1 iter_in=3 wgt_factor_in=256", ["wgt leads to weight tile 512"]),
        ("CONFIG BASE wgt_base=512\n" + UOPS + "GEMM uop_end=1 iter_out=1 iter_in=1", ["weight tile 512"]),
        (
            "CONFIG BASE wgt_base=512\n" + UOPS + "DEPTHWISE uop_end=1 iter_out=1 iter_in=1",
            ["weight row 2048"],
        ),
        (UOPS + "ALU uop_end=1 iter_out=3 iter_in=1 src_factor_out=512", ["src leads to accumulator 1024"]),
        ("GEMM uop_bgn=2047 uop_end=2049 iter_out=1 iter_in=1", ["uop_end leads to micro-op 2048"]),
    ],
)
def test_out_of_bounds(text, parts):
    found = only(findings(text), "bounds", f"instruction {text.count(chr(10))} (", *parts)
    assert found.instructions == (text.count("\n"),)


def test_a_post_store_without_strides_stays_at_its_accumulator():
    assert findings(f"STORE.POST sram_base=1023 {BIG}") == []


def test_reset_and_immediate_ignore_what_they_do_not_use():
    assert findings(UOPS + "GEMM reset=1 uop_end=1 iter_out=3 iter_in=1 src_factor_out=512") == []
    assert findings(UOPS + "ALU use_imm=1 uop_end=1 iter_out=3 iter_in=1 src_factor_out=512") == []


def test_an_operand_in_place_or_ahead_is_no_conflict():
    for delta in (0, 1, -2):
        text = f"CONFIG OPERAND delta={delta}\nSTORE.POST combine=1 operand=1 dram_base=9 {BIG}"
        assert findings(text) == []


def test_micro_ops_that_the_program_writes_are_unchecked():
    text = (
        "STORE.OUT y_size=1 x_size=1 push_prev\n"
        "LOAD.UOP y_size=1 x_size=1 pop_next\n"
        "GEMM uop_end=1 iter_out=1 iter_in=1"
    )
    found = only(findings(text), "unchecked", "micro-op 0", severity="warning")
    assert found.instructions == (2,)


def test_an_endless_list_is_cut():
    found = findings(f"LOAD.INP sram_base=1023 {BIG}\n" * (MOST_FINDINGS + 5))
    assert len(found) == MOST_FINDINGS + 1
    assert "more findings" in found[-1].message


def test_huge_loops_cost_nothing():
    text = UOPS + "GEMM uop_end=1 iter_out=16383 iter_in=16383\n" + "STORE.OUT y_size=65535 x_size=65535"
    only(findings(text), "bounds", "instruction 2")


# --- tokens ---------------------------------------------------------------------------------------------


def test_a_token_that_nothing_pushes():
    found = only(
        findings("LOAD.INP push_next\nLOAD.UOP pop_prev\nLOAD.UOP pop_prev"),
        "token",
        "compute waits at instruction 2 (LOAD.UOP pop_prev) for token 2 of load->compute",
        "pushes only 1",
    )
    assert found.instructions[0] == 2


def test_units_that_wait_for_each_other():
    text = "LOAD.INP pop_next\nLOAD.INP push_next\nLOAD.UOP pop_prev\nLOAD.UOP push_prev"
    only(
        findings(text),
        "deadlock",
        "load waits at instruction 0 (LOAD.INP pop_next) for token 1 of compute->load",
        "compute waits at instruction 2 (LOAD.UOP pop_prev) for token 1 of load->compute",
    )


def test_head_of_line_blocking_in_fetch():
    config = Config(command_queue_depth=2)
    text = "LOAD.INP pop_next\nLOAD.INP\nLOAD.INP\nLOAD.UOP push_prev"
    only(
        findings(text, config),
        "deadlock",
        "fetch waits at instruction 2 (LOAD.INP) for room in the command queue of load, which holds 2 instructions",
        "load waits at instruction 0",
    )
    assert findings(text, Config(command_queue_depth=3)) == []


def test_a_token_queue_that_is_full():
    config = Config(token_queue_depth=1)
    text = "LOAD.INP push_next\nLOAD.INP push_next"
    only(
        findings(text, config),
        "deadlock",
        "for room in the token queue load->compute, which holds 1 tokens",
        "FINISH",
    )
    assert findings(text, Config(token_queue_depth=2)) == []


def test_leftover_tokens_are_fine():
    assert findings("LOAD.INP push_next push_prev\nSTORE.OUT push_prev push_next\nLOAD.UOP push_next") == []


def test_all_six_queues_carry_tokens():
    carrier = {"LOAD": "LOAD.INP", "COMPUTE": "LOAD.UOP", "STORE": "STORE.OUT"}
    for queue in TOKEN_QUEUES:
        push = f"{carrier[queue.producer.name]} {queue.push_flag}"
        pop = f"{carrier[queue.consumer.name]} {queue.pop_flag}"
        assert findings(f"{push}\n{pop}") == []
        only(findings(pop), "token", f"token 1 of {queue.name}")


# --- races ----------------------------------------------------------------------------------------------

INP = "LOAD.INP sram_base=0 dram_base=64 y_size=1 x_size=1 x_stride=1"
GEMM = UOPS + "GEMM uop_end=1 iter_out=1 iter_in=1"
OUT = "STORE.OUT dram_base=9000 y_size=1 x_size=1 x_stride=1"


@pytest.mark.parametrize(
    ("text", "kind", "where", "queue"),
    [
        (f"{INP}\n{GEMM}", "RAW", "inp element 0", "load->compute"),
        (f"{GEMM}\n{INP}", "WAR", "inp element 0", "compute->load"),
        (f"{INP.replace('INP', 'WGT')}\n{GEMM}", "RAW", "wgt element 0", "load->compute"),
        (
            f"{INP.replace('INP', 'WGT')}\n{GEMM.replace('GEMM', 'DEPTHWISE')}",
            "RAW",
            "wgt element 0",
            "load->compute",
        ),
        (f"{GEMM}\n{OUT}", "RAW", "acc element 0", "compute->store"),
        (f"{OUT}\n{INP.replace('INP', 'ACC8')}", "WAR", "acc element 0", "store->compute"),
        (
            f"{OUT}\nLOAD.INP dram_base=9000 y_size=1 x_size=1",
            "RAW",
            "DRAM bytes 36000..36004",
            "store->load",
        ),
        (
            f"LOAD.INP dram_base=9000 y_size=1 x_size=1\n{OUT}",
            "WAR",
            "DRAM bytes 36000..36004",
            "load->store",
        ),
        (
            f"{OUT}\nLOAD.UOP dram_base=9000 y_size=1 x_size=1",
            "RAW",
            "DRAM bytes 36000..36004",
            "store->compute",
        ),
    ],
)
def test_races_name_both_instructions_and_the_place(text, kind, where, queue):
    image = image_with_uops(TINY)
    found = only(findings(text, image=image), "race", kind, where, f"push one of {queue}")
    second, first = found.instructions
    assert first < second
    assert f"instruction {first} (" in found.message
    assert f"instruction {second} (" in found.message
    ordered = assemble(f"{text}\nFINISH", TINY)
    item = next(item for item in TOKEN_QUEUES if item.name == queue)
    bit = {"pop_prev": 3, "pop_next": 4, "push_prev": 5, "push_next": 6}
    ordered[first, 0] |= np.uint64(1 << bit[item.push_flag])
    ordered[second, 0] |= np.uint64(1 << bit[item.pop_flag])
    assert check(TINY, ordered, image) == []


LOAD_STORED = f"{OUT}\n{{}}LOAD.PAR dram_base=1125 y_size=1 x_size=1"


def test_a_load_of_parameters_does_not_wait_for_stores_in_flight():
    found = only(findings(LOAD_STORED.format("")), "race", "DRAM bytes 36000..36004", "put a CONFIG between")
    assert found.instructions == (1, 0)


@pytest.mark.parametrize("between", ["CONFIG WINDOW", "STORE.OUT dram_base=9100"])
def test_what_waits_for_all_stores_lets_parameters_see_them(between: str):
    assert findings(LOAD_STORED.format(f"{between}\n")) == []


def test_an_order_against_the_program_is_a_race_too():
    text = f"{UOPS}GEMM uop_end=1 iter_out=1 iter_in=1 pop_prev\n{INP} push_next"
    only(findings(text), "race", "the opposite way")


def test_require_clean_raises_or_lets_races_pass():
    words = assemble(f"{INP}\n{GEMM}\nFINISH", TINY)
    image = image_with_uops(TINY)
    with pytest.raises(ProgramError, match="race: instruction 2"):
        require_clean(TINY, words, image)
    assert len(require_clean(TINY, words, image, allow_races=True)) == 1


def _pairwise_races(
    config: Config, words: np.ndarray, image: np.ndarray, before: np.ndarray
) -> set[tuple[int, int]]:
    """Pairs (later, earlier) of indices of instructions of two units in `words` that conflict and are not ordered,
    found by comparing all pairs. `image`: DRAM at launch. `before`[i, j]: whether instruction i ends before instruction
    j begins.
    """
    trace, seen, races = start_trace(config, image), [], set()
    for index, row in enumerate(words.tolist()):
        name, values = decode_one(config, *row)
        touched = accesses(trace, name, values)
        unit = unit_of(name, values)
        mine = {
            (item.resource, item.write, element)
            for item in touched
            for element in np.arange(2**20)[item.elements].tolist()
            if unit == WRITERS[item.resource] or unit in READERS[item.resource]
        }
        for other, (other_unit, theirs) in enumerate(seen):
            clash = any((place, not write, element) in theirs for place, write, element in mine)
            if other_unit != unit and clash and not before[other, index]:
                races.add((index, other))
        seen.append((unit, mine))
        advance(trace, name, values, touched)
    return races


def _happens_before(config: Config, words: np.ndarray) -> np.ndarray:
    """Bool matrix [i, j]: whether instruction i ends before instruction j begins. Each unit runs in order, and the n-th
    push of a queue precedes its n-th pop; all other entries follow from these (transitive closure).
    """
    decoded = [decode_one(config, *row) for row in words.tolist()]
    units = [unit_of(*item) for item in decoded]
    count = len(words)
    before = np.array([[i < j and units[i] == units[j] for j in range(count)] for i in range(count)])
    for queue in TOKEN_QUEUES:
        pushes = [i for i in range(count) if units[i] == queue.producer and decoded[i][1][queue.push_flag]]
        pops = [i for i in range(count) if units[i] == queue.consumer and decoded[i][1][queue.pop_flag]]
        for push, pop in zip(pushes, pops, strict=False):
            before[push, pop] = True
    for middle in range(count):
        before |= before[:, middle : middle + 1] & before[middle]
    return before


@pytest.mark.parametrize("seed", representatives(range(30), 10))
def test_races_are_found_exactly_where_a_pairwise_comparison_finds_them(seed):
    """Removes all push and pop flags of one token queue from a program without races. The checker finds a race exactly
    if the slow definition does, and reports no pair that the definition does not have.
    """
    config = random_config(seed)
    program = random_program(config, seed, length=30)
    words = program.instructions.copy()
    end = int(np.flatnonzero((words[:, 0] & np.uint64(7)) == 3)[0]) + 1
    words = words[:end]
    rng = np.random.default_rng(seed)
    queue = TOKEN_QUEUES[rng.integers(len(TOKEN_QUEUES))]
    bit = {"pop_prev": 3, "pop_next": 4, "push_prev": 5, "push_next": 6}
    for index, row in enumerate(words.tolist()):
        unit = unit_of(*decode_one(config, *row))
        for side, flag in ((queue.producer, queue.push_flag), (queue.consumer, queue.pop_flag)):
            if unit == side:
                words[index, 0] &= ~np.uint64(1 << bit[flag])
    found = [item for item in check(config, words, program.image) if item.severity == "error"]
    assert {item.kind for item in found} <= {"race"}
    races = _pairwise_races(config, words, program.image, _happens_before(config, words))
    assert bool(found) == bool(races)
    assert {item.instructions for item in found if len(item.instructions) == 2} <= races


ODD = replace(load_config("tiny"), acc_buffer_bytes=16 * 100, acc_banks=4)


@pytest.mark.parametrize(
    ("window", "part"),
    [
        ("columns_minus_1=1 column_stride=100", "register WINDOW.column_stride = 100: must be less than 100"),
        ("rows_minus_1=1 row_stride=107", "register WINDOW.row_stride = 107"),
        ("rows_minus_1=1 row_stride=99", None),
        ("column_stride=100 row_stride=100", None),  # of a window of one vector they mean nothing
    ],
)
def test_windows_wrap_once_where_the_accumulators_are_no_power_of_two(window: str, part: str | None):
    text = f"CONFIG WINDOW {window}\nSTORE.POST sram_base=98 y_size=1 x_size=1 x_stride=1"
    found = findings(text, ODD)
    if part is None:
        assert found == []
    else:
        only(found, "bounds", part, "must be less")
