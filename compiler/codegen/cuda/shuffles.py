"""Shuffles: each gives the sum or maximum of one register over several neighbouring threads of a warp, without shared
memory.

A shuffle of a whole warp (`shuffle_neighbours`) divides the warp into groups of `LANES_OF_ROW` neighbouring lanes, and
combines the registers of each group. The lanes of a group hold one row of the warp's sums.

Any other shuffle combines the registers of all threads of a block along x. The number of these threads is 2, 4, 8, 16
or 32 (`LANES`), so that they are in one warp. Other threads of the warp may be inactive (CUDA C++ Programming Guide,
"Warp Shuffle Functions": the mask names the threads that take part).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import Buffer
from ...ir.kernels import WARP
from ...ir.lane_elements import LANES_OF_ROW
from ...ir.printer import summarize
from ...ir.stmt import Intrinsic, IntrinsicDeclaration
from ...ir.types import DType
from ...te.rows import Operator
from ...te.threads import all_lanes, neighbouring_lanes
from .errors import LoweringError
from .text import Text, call

if TYPE_CHECKING:
    from .statements import KernelEmitter

LANES = tuple([1 << e for e in range(1, WARP.bit_length())])
"""Numbers of threads that a shuffle combines: powers of two up to a warp."""
_FUNCTION = """\
template <int LANES> __device__ __forceinline__ float warp_{name}(float x) {{
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned mask = 0xffffffffu >> (32 - LANES) << (thread % 32 / LANES * LANES);
    #pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {{
        const float other = __shfl_xor_sync(mask, x, distance);
        x = {join};
    }}
    return x;
}}
"""
_NEIGHBOURS = """\
template <int LANES> __device__ __forceinline__ float neighbours_{name}(float x) {{
    #pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {{
        const float other = __shfl_xor_sync(0xffffffffu, x, distance);
        x = {join};
    }}
    return x;
}}
"""
_JOINS = {"add": "x + other", "max": "maximum(x, other)"}
FUNCTIONS = {
    **{f"warp_{name}": _FUNCTION.format(name=name, join=join) for name, join in _JOINS.items()},
    **{f"neighbours_{name}": _NEIGHBOURS.format(name=name, join=join) for name, join in _JOINS.items()},
}


def shuffle(op: Operator, lanes: int) -> IntrinsicDeclaration:
    """The intrinsic that gives each of `lanes` threads the sum ("add") or maximum ("max") of all threads' registers."""
    own = Buffer(name="own", shape=(lanes,), dtype=DType.FLOAT32, scope="register")
    return IntrinsicDeclaration(
        name=f"warp_{op}_{lanes}", parameters=(own,), body=all_lanes("warp", op, own, ())
    )


def shuffle_neighbours(op: Operator) -> IntrinsicDeclaration:
    """The intrinsic that gives each lane of a warp the sum ("add") or maximum ("max") of a register over `LANES_OF_ROW`
    neighbouring lanes.
    """
    own = Buffer(name="own", shape=(WARP,), dtype=DType.FLOAT32, scope="register")
    body = neighbouring_lanes("neighbours", op, own, (), LANES_OF_ROW)
    return IntrinsicDeclaration(name=f"neighbours_{op}_{LANES_OF_ROW}", parameters=(own,), body=body)


def declarations() -> list[IntrinsicDeclaration]:
    """The declarations of all shuffles: sums and maxima, over all threads along x and over neighbouring lanes."""
    operators: tuple[Operator, ...] = ("add", "max")
    own = [shuffle_neighbours(op) for op in operators]
    return [*(shuffle(op, lanes) for op in operators for lanes in LANES), *own]


def emit_shuffle(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits a shuffle as a call of one of the device functions `FUNCTIONS`. A shuffle is made for a fixed number of
    threads. Raises LoweringError if blocks have another number of threads along x.
    """
    (operand,) = use.operands
    function, _, lanes = use.declaration.name.rpartition("_")
    (needed,) = use.declaration.parameters[0].shape
    if kernel.extents["x"] != needed:
        raise LoweringError(
            f"`{summarize(use)}` combines {needed} threads, but blocks have {kernel.extents['x']} along x; split the "
            f"loops bound to thread.x to {needed} iterations"
        )
    values = kernel.values
    values.used |= {function, "maximum"} if function.endswith("_max") else {function}
    storage, at = values.storages[operand.buffer.name], values.at(operand.buffer, operand.starts)
    joined = call(f"{function}<{lanes}>", values.dialect.element(storage, at))
    kernel.source.line(values.dialect.stored(storage, at, Text(joined.text)))
