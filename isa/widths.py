"""Widths of micro-ops and instructions: VTA's 32 and 128 bits if a machine's indices fit, else twice these widths.

The fields of a machine have as many bits as its memories need; `layout.py` has their positions. A machine with small
scratchpads has VTA's widths and runs VTA's programs unchanged.
"""

SRAM_BASE_BITS = 16
"""Width in bits of `sram_base`, the base registers and the strides of STORE.POST; memories have at most
2^16 elements.
"""

WORD_BITS = 64
"""Bits of a word of an instruction; no field crosses from one word to the next."""

VTA_UOP_BYTES = 4
VTA_INSTRUCTION_BYTES = 16
FACTOR_BITS = 64
"""Number of bits that the six loop factors of a GEMM may have together in an instruction of 128 bits (the upper 64)."""
ALU_FACTOR_BITS = 44
"""Number of bits that the four loop factors of an ALU instruction may have together in an instruction of 128 bits: the
upper 64 less those of alu_opcode, use_imm and imm.
"""
UOP_INDEX_BITS = 13
"""Largest width in bits of a micro-op index for which the lower word has room for opcode, flags, reset, uop_bgn,
uop_end, two loop counts and overwrite.
"""
