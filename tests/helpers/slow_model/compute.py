"""Operations of the compute unit in the slow model (hw/README.md, section 7): their length, and the accumulators' read
ports.
"""

from __future__ import annotations

from vdla.isa.decoding import decode_uops
from vdla.isa.layout import Unit
from vdla.isa.timing import alu_cycles, alu_latency, alu_read_stage, gemm_latency, gemm_read_stage

from .finish import finish
from .instructions import Instruction
from .model import Model


def begin_operations(model: Model, instruction: Instruction, now: int) -> None:
    config, values = model.config, instruction.values
    dst, src, wgt = decode_uops(config, model.uops[values["uop_bgn"] : values["uop_end"]])
    base = instruction.registers["BASE"]["acc_base"]
    operations = [
        (
            base + int(d) + y * values["dst_factor_out"] + x * values["dst_factor_in"],
            base + int(s) + y * values["src_factor_out"] + x * values["src_factor_in"],
        )
        for y in range(values["iter_out"])
        for x in range(values["iter_in"])
        for d, s in zip(dst, src, strict=True)
    ]
    bank = config.acc_bank_depth
    count = len(operations)
    if instruction.name == "ALU":
        each = alu_cycles(config, values["alu_opcode"], values["use_imm"])
        for number, (d, s) in enumerate(operations):
            cycle = now + 1 + number * each + alu_read_stage(config)
            if not values["use_imm"]:
                model.port.setdefault(cycle, set()).add(s // bank)
                cycle += 1
            model.port.setdefault(cycle, set()).add(d // bank)
        instruction.issues = count * each
        finish(model, instruction, now + count * each + alu_latency(config) if count else now + 1)
        return
    parts = _input_parts(model, instruction, wgt.tolist())
    for number, ((d, _s), part) in enumerate(zip(operations, parts, strict=True)):
        if not values["reset"] and not (values["overwrite"] and part == 0):
            model.port.setdefault(now + 1 + number + gemm_read_stage(config), set()).add(d // bank)
    instruction.issues = count
    ends = [i.end for i in model.units[Unit.COMPUTE] if i.end is not None]
    finish(model, instruction, now + count + gemm_latency(config) if count else max([now + 1, *ends]))


def _input_parts(model: Model, instruction: Instruction, tiles: list[int]) -> list[int]:
    """For each operation of a GEMM, which part of the input vector it multiplies (extension `fold`); 0 if it multiplies
    the whole vector. `tiles`: weight tiles of the micro-ops.
    """
    values, base = instruction.values, instruction.registers["BASE"]["wgt_base"]
    groups = 1 << instruction.registers["FOLD"]["shape"] if instruction.name == "GEMM" else 1
    return [
        (base + tile + y * values["wgt_factor_out"] + x * values["wgt_factor_in"])
        % model.config.tile_parts
        % groups
        for y in range(values["iter_out"])
        for x in range(values["iter_in"])
        for tile in tiles
    ]
