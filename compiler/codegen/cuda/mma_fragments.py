"""Fragments: matrices distributed over the registers of a warp's lanes (`mma.sync`) or of a warpgroup's lanes
(`wgmma`).

In loop programs a fragment is a buffer in one of the scopes below. The buffer's last two dimensions are a whole matrix.
Earlier dimensions count the matrices of a warp, or the warps (`ir.grid`). Only hardware operations access the buffer,
with one exception: each lane may access its own elements of a warp's sums (`ir.lane_elements`).

This file defines in which lane and register each element is; only emission needs this placement. The placement follows
the figures of "Matrix Fragments for mma.m16n8k8, m16n8k16, m16n8k32" (PTX ISA, section "Warp Level Matrix
Multiply-Accumulate Instructions"). These figures agree with each other if elements are counted in registers of 32 bits.
The sums of a warpgroup consist of the sums of its four warps, each with 16 rows (same document, "Register Fragments and
Shared Memory Matrix Layouts" of wgmma).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ...ir.expr import Buffer, Expr
from ...ir.kernels import WARP, WARPGROUP, WARPGROUP_FRAGMENT
from ...ir.lane_elements import SUMS
from ...ir.types import DType
from .errors import LoweringError

MATRIX_A, MATRIX_B, MATRIX_C = "fragment.a", "fragment.b", SUMS
"""Scopes of the left factor [16, depth], the right factor [depth, 8] and the sums [16, 8]."""
MATRIX_D = WARPGROUP_FRAGMENT
"""Scope of a warpgroup's sums [64, columns], with 8 to 256 columns, a multiple of 8."""
ROWS, COLUMNS = 16, 8
"""The shape of the product of one `mma`."""
GROUP_ROWS, MOST_GROUP_COLUMNS = 64, 256
"""Rows of the product of one `wgmma`, and its largest number of columns."""

T = TypeVar("T", int, Expr)


def depth_of(dtype: DType) -> int:
    """The depth of one `mma` with factors of type `dtype`, always 256 bits: 8 elements of tf32 (stored as float32), 16
    of 16-bit floats, 32 of int8.
    """
    return 256 // dtype.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """One matrix in the registers of a warp or warpgroup: each lane has `registers` registers, each with `packed`
    elements of `dtype`.
    """

    scope: str
    dtype: DType
    rows: int
    columns: int

    @staticmethod
    def of(buffer: Buffer) -> Fragment:
        """The fragment that a buffer in a fragment scope holds. Raises LoweringError if no operation supports the
        buffer's type and shape in this scope.
        """
        rows, columns = buffer.shape[-2:] if len(buffer.shape) >= 2 else (0, 0)
        fragment = Fragment(scope=buffer.scope, dtype=buffer.dtype, rows=rows, columns=columns)
        wanted = shape_of(buffer.scope, buffer.dtype, columns)
        if wanted != (rows, columns):
            have = "x".join(str(size) for size in buffer.shape)
            want = "x".join(str(size) for size in wanted)
            raise LoweringError(
                f"buffer {buffer.name} @ {buffer.scope} holds {buffer.dtype}[{have}]; the last two dimensions in this "
                f"scope must be {want} (pack the buffer into matrices)"
            )
        return fragment

    @property
    def packed(self) -> int:
        """Number of elements in one 32-bit register. A register holds one element of a matrix of sums, or as many
        elements of a factor as fit 32 bits. The elements of a factor in one register are adjacent along the depth.
        """
        return 1 if self.scope in (MATRIX_C, MATRIX_D) else 32 // self.dtype.bits

    @property
    def lanes(self) -> int:
        """The number of lanes that share the fragment."""
        return WARPGROUP if self.scope == MATRIX_D else WARP

    @property
    def registers(self) -> int:
        """Number of 32-bit registers of each lane."""
        return self.rows * self.columns // (self.lanes * self.packed)

    @property
    def c_type(self) -> str:
        """The CUDA C++ type of a register: float or int for sums; for factors "unsigned", which holds the bits of
        `packed` elements.
        """
        if self.scope in (MATRIX_C, MATRIX_D):
            return "float" if self.dtype is DType.FLOAT32 else "int"
        return "unsigned"

    def position(self, group: T, thread: T, register: int, part: int = 0) -> tuple[T, T]:
        """Row and column, as numbers or as index expressions, of element number `part` in register number `register` of
        a lane. The lane has the number 4 * `group` + `thread` (groupID and threadID_in_group in the PTX ISA).
        """
        step = self.packed
        match self.scope:
            case "fragment.a":
                return group + 8 * (register % 2), thread * step + (4 * step * (register // 2) + part)
            case "fragment.b":
                return thread * step + (4 * step * register + part), group + 0
            case "fragment.d":
                # A warp's 8 groups have 16 rows; four registers are 8 columns.
                row = group // 8 * ROWS + group % 8 + 8 * (register // 2 % 2)
                return row, thread * 2 + (register // 4 * 8 + register % 2)
            case _:
                return group + 8 * (register // 2), thread * 2 + register % 2


def shape_of(scope: str, dtype: DType, columns: int = COLUMNS) -> tuple[int, int]:
    """Numbers of rows and columns of a matrix with elements of `dtype` in the fragment scope `scope`.

    `columns` is used only for the sums of a warpgroup, which may have various numbers of columns. Their number is
    `columns` rounded down to a multiple of 8, but at least 8 and at most 256. Raises LoweringError if no `mma` has such
    fragments.
    """
    factors = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8)
    if scope == MATRIX_A and dtype in factors:
        return ROWS, depth_of(dtype)
    if scope == MATRIX_B and dtype in factors:
        return depth_of(dtype), COLUMNS
    if scope == MATRIX_C and dtype in (DType.FLOAT32, DType.INT32):
        return ROWS, COLUMNS
    if scope == MATRIX_D and dtype in (DType.FLOAT32, DType.INT32):
        whole = max(COLUMNS, min(columns // COLUMNS * COLUMNS, MOST_GROUP_COLUMNS))
        return GROUP_ROWS, whole
    raise LoweringError(f"tensor cores have no fragments of {dtype} @ {scope}")


def matrix_row(lane: T, *, columns_first: bool) -> tuple[T, T]:
    """Returns (row, column) of the 16 bytes whose address a lane gives to `ldmatrix.x4`; a column is 16 bytes wide. The
    instruction loads four matrices of 8 rows each. Lanes 8q .. 8q + 7 give the rows of matrix q, whose data goes to
    register q.

    If `columns_first` is False, the matrices form a fragment of A in order "rows": matrices 0 and 2 are the upper 8
    rows, matrices 1 and 3 the lower 8 rows. If `columns_first` is True, matrices 0 and 1 are the upper rows, matrices 2
    and 3 the lower rows. Then the matrices form two fragments of B: the first is the transpose of matrices 0 and 1, the
    second the transpose of matrices 2 and 3.
    """
    if columns_first:
        return lane % 8 + (lane // 16) * 8, (lane // 8) % 2
    return lane % 16, lane // 16
