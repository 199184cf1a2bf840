"""Error messages for programs that deadlock name the units that wait and their reasons; messages for programs that
address something that does not exist name the instruction.
"""

import dataclasses

import numpy as np
import pytest

from vdla.isa.check import check
from vdla.isa.config import load_config
from vdla.isa.errors import EncodingError, ProgramError
from vdla.isa.layout import encode
from vdla.isa.reference import run_reference
from vdla.sim import CycleLimitError, DeadlockError, simulate

VTA = load_config("vta")
SMALL = dataclasses.replace(VTA, token_queue_depth=1, command_queue_depth=1)


def run(*instructions: tuple[int, int], config=VTA, **options):
    return simulate(config, np.array(instructions, np.uint64), np.zeros(4096, np.uint8), **options)


FINISH = encode(VTA, "FINISH")
GEMM = encode(VTA, "GEMM", uop_end=1, iter_out=1, iter_in=1, pop_prev=1)


def test_missing_token():
    with pytest.raises(DeadlockError) as caught:
        run(GEMM, FINISH)
    assert (
        "compute waits in instruction 0 (GEMM) for a load->compute token (pop_prev; load pushes it)"
        in str(caught.value)
    )
    assert "store waits for an instruction" in str(caught.value)


def test_full_token_queue():
    push = encode(VTA, "LOAD.INP", push_next=1)
    with pytest.raises(
        DeadlockError, match=r"load waits in instruction 1 \(LOAD.INP\) for room in the full load->compute"
    ):
        run(push, push, FINISH, config=SMALL)


def test_head_of_line_blocking():
    wait = encode(VTA, "STORE.OUT", pop_prev=1)
    with pytest.raises(DeadlockError) as caught:
        run(wait, wait, GEMM, FINISH, config=SMALL)
    assert "fetch waits to dispatch instruction 1 (STORE.OUT): room in the command queue of store" in str(
        caught.value
    )


def test_no_finish():
    with pytest.raises(DeadlockError, match="none is FINISH"):
        run(encode(VTA, "LOAD.INP"))


def test_no_instruction_at_all():
    with pytest.raises(DeadlockError, match="none is FINISH"):
        simulate(VTA, np.zeros((0, 2), np.uint64), np.zeros(64, np.uint8))


def test_cycle_limit():
    long = encode(VTA, "GEMM", uop_end=1, iter_out=100, iter_in=100)
    with pytest.raises(CycleLimitError, match="not finished after 5000 cycles"):
        run(long, FINISH, cycle_limit=5000)
    with pytest.raises(CycleLimitError, match="not finished after 20 cycles"):
        run(FINISH, cycle_limit=20)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (encode(VTA, "LOAD.INP", dram_base=255, y_size=1, x_size=2, x_stride=2), "DRAM bytes 4080..4112"),
        (
            encode(VTA, "LOAD.INP", sram_base=2047, y_size=1, x_size=2, x_stride=2),
            "reaches outside a scratchpad",
        ),
        (encode(VTA, "CONFIG", unit=1, register=9), "no register 9"),
        (encode(VTA, "GEMM", uop_end=1, iter_out=1, iter_in=2000, dst_factor_in=2), "outside a scratchpad"),
    ],
)
def test_registers_and_places_that_do_not_exist_are_refused(instruction: tuple[int, int], message: str):
    with pytest.raises(ProgramError, match=message):
        run(instruction, FINISH)


@pytest.mark.parametrize("kind", ["INP", "WGT", "UOP", "ACC", "ACC8", "PAR"])
@pytest.mark.parametrize("sizes", [{}, {"x_size": 3, "x_stride": 3}, {"y_size": 3}])
def test_a_load_that_moves_nothing_may_name_any_place(kind: str, sizes: dict[str, int]):
    load = encode(VTA, f"LOAD.{kind}", sram_base=65535, **sizes)
    run(load, FINISH)
    assert not check(VTA, np.array((load, FINISH), np.uint64), np.zeros(4096, np.uint8))


def test_unknown_opcode_and_extension():
    with pytest.raises(EncodingError, match="instruction 1: STORE cannot have memory type 2"):
        run(encode(VTA, "LOAD.INP"), (1 | 2 << 7, 0), FINISH)
    plain = dataclasses.replace(VTA, extensions=())
    with pytest.raises(ProgramError, match=r"instruction 0 \(DEPTHWISE\) needs the extension 'depthwise'"):
        run(encode(VTA, "DEPTHWISE"), FINISH, config=plain)


@pytest.mark.parametrize("name", ["LOAD.UOP", "LOAD.WGT", "LOAD.INP", "LOAD.ACC", "STORE.OUT"])
@pytest.mark.parametrize("sizes", [{"x_size": 3}, {"y_size": 3}, {}])
def test_empty_transfers_reach_nowhere(name: str, sizes: dict[str, int]) -> None:
    # Wherever they begin: the reference takes them, and so do the simulator and the RTL.
    program = [encode(VTA, name, sram_base=2**16 - 1, **sizes), FINISH]
    findings = check(VTA, np.array(program, np.uint64), np.zeros(4096, np.uint8))
    assert not [found for found in findings if found.severity == "error"]
    run(*program)


def test_a_patch_of_pads_alone_reads_nowhere() -> None:
    program = [
        encode(VTA, "LOAD.PATCH", dram_base=2**20, y_size=2, x_size=2, x_stride=2**10),
        FINISH,
    ]
    # The patch register is 0 after the launch: rows of no bytes.
    run(*program)
    assert run_reference(VTA, np.array(program, np.uint64), np.zeros(4096, np.uint8)) is not None
