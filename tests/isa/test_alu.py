"""The table of ALU operations is complete, and simulator, RTL and documents follow it."""

import dataclasses

import numpy as np
import pytest

from vdla.hw.compute.lane import CYCLES, lane_controls
from vdla.isa.alu import ALU_CODES, ALU_OPERATIONS, AluOpcode, alu_codes
from vdla.isa.assembler import assemble, disassemble
from vdla.isa.check import check
from vdla.isa.config import load_config
from vdla.isa.describe import c_header, markdown
from vdla.isa.errors import ProgramError
from vdla.isa.extensions import EXTENSION_TABLE, EXTENSIONS
from vdla.isa.reference import run_reference
from vdla.isa.timing import alu_cycles
from vdla.sim import simulate
from vdla.sim.alu import operate

TINY = load_config("tiny")
EVERYTHING = dataclasses.replace(TINY, extensions=tuple(name for name in EXTENSIONS if name != "fold"))
EDGES = (0, 1, -1, 31, -31, 32, -32, 33, -33, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31))


def test_codes_are_dense_and_fit_the_field():
    assert sorted(ALU_OPERATIONS) == list(range(len(AluOpcode))) and len(AluOpcode) <= 8


@pytest.mark.parametrize("opcode", AluOpcode, ids=lambda opcode: opcode.name)
def test_the_simulators_handler_is_the_references_operation(opcode: AluOpcode):
    rng = np.random.default_rng(3)
    values = np.array([*EDGES, *rng.integers(-(2**31), 2**31, 40)], np.int64)
    left, right = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    expected = ALU_OPERATIONS[opcode].compute(left, right) & 0xFFFFFFFF
    handler, none = getattr(operate, "py_func", operate), np.zeros(ALU_CODES, np.int64)
    with np.errstate(over="ignore"):
        results = [handler(int(opcode), a, b, none) for a, b in zip(left, right, strict=True)]
    got = [int(result) & 0xFFFFFFFF for result in results]
    assert got == expected.tolist()


@pytest.mark.parametrize("opcode", AluOpcode, ids=lambda opcode: opcode.name)
def test_the_rtl_has_control_signals_for_it(opcode: AluOpcode):
    assert alu_cycles(EVERYTHING, opcode, True) == CYCLES.get(opcode, 1)
    chosen = [name for name, codes in lane_controls(EVERYTHING).items() if opcode in codes]
    assert chosen or opcode is AluOpcode.MUL


def test_documents_list_the_operations_of_the_machine():
    for config in (TINY, EVERYTHING):
        header, page = c_header(config), markdown(config)
        for opcode in AluOpcode:
            there = opcode in [code.value for code in alu_codes(config)]
            assert (f"#define VDLA_ALU_{opcode.name} {int(opcode)}" in header) == there
            assert (f"{opcode.name} {int(opcode)}" in page.partition("`alu_opcode`")[2][:200]) == there


def test_an_extension_names_its_operations():
    for opcode, operation in ALU_OPERATIONS.items():
        if operation.extension is not None:
            assert opcode.name in EXTENSION_TABLE[operation.extension].meaning.replace(",", "").split()


@pytest.mark.parametrize(
    "opcode",
    [code for code in AluOpcode if code not in [item.value for item in alu_codes(TINY)]],
    ids=lambda opcode: opcode.name,
)
def test_operations_of_an_extension_are_refused_without_it(opcode: AluOpcode):
    lines = f"ALU uop_end=1 iter_out=1 iter_in=1 alu_opcode={opcode.name} use_imm=1 imm=3\nFINISH\n"
    words, image = assemble(lines, TINY), np.zeros(4096, np.uint8)
    extension = ALU_OPERATIONS[opcode].extension
    assert disassemble(words, TINY) == lines
    (finding,) = check(TINY, words, image)
    assert finding.kind == "extension" and f"needs the extension '{extension}'" in finding.message
    for run in (run_reference, simulate):
        with pytest.raises(ProgramError, match=f"instruction 0 .ALU.:? needs the extension '{extension}'"):
            run(TINY, words, image)
    there = dataclasses.replace(TINY, extensions=(*TINY.extensions, extension))
    assert not check(there, words, image)
    result, reference = simulate(there, words, image), run_reference(there, words, image)
    np.testing.assert_array_equal(result.scratchpads.acc, reference.acc)
    assert reference.acc.any()
