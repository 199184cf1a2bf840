"""Bulk tensor copies (sm_90 and later): the hardware copies boxes (rectangular parts of arrays) to shared memory for a
whole block.

An asynchronous copy outside of all loops over threads is a bulk copy (PTX ISA, "cp.async.bulk.tensor"), which one
thread issues. The hardware finds the array by a *tensor map*, a description that the host makes and passes to the
launch. Elements outside of the array become zeros. The hardware signals completed copies on an mbarrier in shared
memory. A group of copies has an mbarrier of its own until all threads have waited for the group; then the mbarrier
serves another group.

If products of warpgroups read a buffer in rows of 32, 64 or 128 bytes (`wgmma`), these rows are swizzled: pieces of 16
bytes are permuted within their row. The copy and the product use the same permutation. No other access can use such a
buffer. If the buffer's elements are float32, the copy rounds them to tf32, the type that these products multiply.
NVIDIA does not document how ties are rounded. An H100 rounds them to even, while `te.scalars.round_tf32` rounds them
away from zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.expr import Const, Expr
from ...ir.kernels import Kernel, is_thread_loop
from ...ir.printer import format_buffer, summarize
from ...ir.simplify import simplify_form
from ...ir.stmt import Alloc, Assign, Barrier, Commit, Copy, For, Intrinsic, Reduce, Seq, Stmt, Wait
from ...ir.visit import children, expressions, loads_in, walk
from .addresses import evaluate
from .errors import LoweringError
from .indices import index
from .machine import GpuTarget
from .mma import TF32
from .wgmma import SWIZZLES, reads_swizzled

if TYPE_CHECKING:
    from .statements import KernelEmitter

ALIGNMENT = 128
"""Alignment in bytes of the destination of a bulk tensor copy (PTX ISA, "cp.async.bulk.tensor")."""
MOST_DIMENSIONS = 5
"""Largest number of dimensions of a tensor map (CUDA Driver API, "cuTensorMapEncodeTiled")."""
MOST_BOX = 256
"""Largest number of elements along each dimension of a tensor map's box. The box is the part of the array that one copy
moves ("cuTensorMapEncodeTiled").
"""
STEP = 16
"""The rows of a copied box (rectangular part of an array), and the strides of the array, must be multiples of this
number of bytes ("cuTensorMapEncodeTiled").
"""
_MOST_STEPS = 200_000
_ONE = Const(1)

_STRUCT = """\
struct alignas(64) TensorMap { unsigned char bytes[128]; };
"""
_GROUPS = """\
struct Groups {  // of bulk copies: each has an mbarrier, which they use in turn
    unsigned long long* arrived;
    bool issues;  // whether this thread issues copies
    int issued, awaited, phase, flying, bytes;
};
template <int MOST> __device__ __forceinline__ Groups begin_groups(unsigned long long* arrived, bool issues) {
    for (int i = 0; i < MOST && issues; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                     :: "r"((unsigned)__cvta_generic_to_shared(arrived + i)) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    return Groups{arrived, issues, 0, 0, 0, 0, 0};
}
template <int MOST> __device__ __forceinline__ void commit_bulk(Groups& groups) {
    if (groups.issues) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"((unsigned)__cvta_generic_to_shared(groups.arrived + groups.issued)), "r"(groups.bytes)
                     : "memory");
    }
    groups.bytes = 0;
    groups.issued = groups.issued + 1 == MOST ? 0 : groups.issued + 1;
    ++groups.flying;
}
template <int MOST, int PENDING> __device__ __forceinline__ void wait_bulk(Groups& groups) {
    for (; groups.flying > PENDING; --groups.flying) {
        asm volatile("{.reg .pred done; again: "
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again;}"
                     :: "r"((unsigned)__cvta_generic_to_shared(groups.arrived + groups.awaited)), "r"(groups.phase)
                     : "memory");
        groups.awaited = groups.awaited + 1 == MOST ? 0 : groups.awaited + 1;
        groups.phase ^= groups.awaited == 0;
    }
}
"""
FUNCTIONS = {"TensorMap": _STRUCT, "Groups": _GROUPS}
"""Definitions of device functions by name; definitions of the copies themselves are made on use (`_definition`)."""
NAMES = frozenset(
    {
        *FUNCTIONS,
        "begin_groups",
        "commit_bulk",
        "wait_bulk",
        *(f"copy_bulk_{d}d" for d in range(1, MOST_DIMENSIONS + 1)),
    }
)
"""All identifiers that the device functions of bulk copies define."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """The fields of a tensor map, except the array's address: the `shape` of the array, the bytes of an element, and
    the shape of a `box`. A box is the part of the array that one copy moves.

    The array is contiguous and row-major. In shared memory boxes are row-major; rows of `swizzle` bytes are swizzled
    (0: not swizzled). `rounds`: elements are float32, which the copy rounds to tf32.
    """

    element_bytes: int
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    rounds: bool = False


def bulk_copies(body: Stmt) -> Iterator[Copy]:
    """The asynchronous copies that a block issues as a whole, as bulk tensor copies (not thread by thread)."""
    if isinstance(body, Copy) and body.asynchronous:
        yield body
    if not (isinstance(body, For) and is_thread_loop(body)):
        for child in children(body):
            yield from bulk_copies(child)


def has_thread_copies(body: Stmt) -> bool:
    """Whether a body contains asynchronous copies that single threads issue."""
    late = sum(isinstance(n, Copy) and n.asynchronous for n in walk(body))
    return late > len(list(bulk_copies(body)))


def check_bulk_copies(kernel: Kernel, target: GpuTarget) -> None:
    """Raises LoweringError for bulk copies on a target without them, and for accesses to swizzled buffers by statements
    other than bulk copies and products of warpgroups.
    """
    copies = list(bulk_copies(kernel.body))
    if copies and not target.has("bulk copies"):
        raise LoweringError(
            f"`{summarize(copies[0])}` is not inside a loop over threads, and {target.arch} cannot copy for a whole "
            "block; distribute the copy over threads, or generate code with -arch=sm_90"
        )
    swizzled = swizzled_buffers(kernel.body)
    filled = {id(copy) for copy in copies}
    for node in walk(kernel.body):
        used: list[str] = [load.buffer.name for e in expressions(node) for load in loads_in(e)]
        match node:
            case Assign(buffer=buffer) | Reduce(buffer=buffer):
                used.append(buffer.name)
            case Copy(destination=to, source=of):
                used += [of.buffer.name] if id(node) in filled else [of.buffer.name, to.buffer.name]
            case Intrinsic() if not reads_swizzled(node.declaration):
                used += [operand.buffer.name for operand in node.operands]
        if found := sorted(swizzled & set(used)):
            raise LoweringError(
                f"`{summarize(node)}`: products of warpgroups read {found[0]} in swizzled rows; only copies of "
                "a whole block can write this buffer, and nothing else can read it"
            )


def swizzled_buffers(body: Stmt) -> frozenset[str]:
    """The buffers in shared memory that products of warpgroups read in swizzled rows."""
    return frozenset(
        operand.buffer.name
        for node in walk(body)
        if isinstance(node, Intrinsic) and reads_swizzled(node.declaration)
        for operand in node.operands
        if operand.buffer.scope == "shared"
    )


def emit_bulk_copy(kernel: KernelEmitter, copy: Copy) -> None:
    """Emits the bulk copy of a box (rectangular part of an array), which one thread issues. Raises LoweringError if no
    tensor map can express the copy.
    """
    values, to, of = kernel.values, copy.destination, copy.source
    tensor = _tensor_map(copy, kernel.swizzled)
    storage = values.storages[to.buffer.name]
    form = values.offset(to.buffer, to.starts)
    size = to.buffer.dtype.bits // 8
    room = 8 * tensor.swizzle or ALIGNMENT
    offsets = (form.constant, *form.terms.values())
    if storage.space != "shared" or any(offset * size % room for offset in offsets):
        raise LoweringError(
            f"`{summarize(copy)}` does not provably begin at a multiple of {room} bytes of shared memory; change the "
            f"shape of {to.buffer.name}"
        )
    step = 1
    for d in reversed([d for d, e in enumerate(to.extents) if e != _ONE]):
        if storage.strides[d] != step:
            raise LoweringError(
                f"`{summarize(copy)}` writes a box with gaps, but a copy of a whole block must fill its box "
                "without gaps"
            )
        step *= _constant(copy, to.extents[d])
    rank = len(tensor.shape)
    name = f"copy_bulk_{rank}d"
    values.used |= {"TensorMap", "Groups"}
    values.defined[name] = _definition(rank)
    at = [index(values, simplify_form(s, values.ranges)).text.text for s in reversed(of.starts)]
    place = values.pointer(to.buffer, form)
    kernel.source.line(
        f"{name}({kernel.groups}, {place}, &{kernel.tensor_map(of.buffer, tensor)}, {step * size}, {', '.join(at)});"
    )


def groups_needed(kernel: Kernel) -> int:
    """The number of mbarriers for the groups of a kernel's bulk copies; 0 without bulk copies.

    An mbarrier serves a group until all threads have waited for the group and met at a later barrier; then another
    group may use the mbarrier. Raises LoweringError if a loop around work of the whole block has different numbers of
    iterations in different blocks.
    """
    if not any(True for _ in bulk_copies(kernel.body)):
        return 0
    walked = _Groups()
    walked.visit(kernel.body, {})
    return walked.needed


class _Groups:
    """Visits a block's statements in order, and counts groups of bulk copies by their state: committed, awaited, or
    free for reuse. `needed`: the largest number of groups whose mbarriers are in use at the same time.
    """

    def __init__(self) -> None:
        self.needed = 1
        self.committed = 0
        self.awaited = 0
        self.free = 0
        self.steps = 0
        self.opened = False

    def visit(self, node: Stmt, values: Mapping[str, int]) -> None:
        match node:
            case For() if is_thread_loop(node):
                return
            case For():
                try:
                    count = evaluate(node.extent, values)
                except KeyError:
                    raise LoweringError(
                        f"`{summarize(node)}`: the number of iterations, and with it the number of copies, "
                        "differs between blocks; give the loop the same extent in all blocks"
                    ) from None
                for i in range(count):
                    self.visit(node.body, {**values, node.name: i})
            case Seq(statements=statements):
                for inner in statements:
                    self.visit(inner, values)
            case Alloc(body=body):
                self.visit(body, values)
            case Copy():
                self.opened = True
                self.note()
            case Commit():
                self.committed, self.opened = self.committed + 1, False
                self.note()
            case Wait(pending=pending):
                self.awaited = max(self.awaited, self.committed - pending)
            case Barrier():
                self.free = self.awaited
            case _:
                pass

    def note(self) -> None:
        """Counts the groups whose mbarriers are in use at this point; `needed` is the largest such number so far."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise LoweringError(
                f"a block executes more than {_MOST_STEPS} commits, waits and barriers, too many to count its groups"
            )
        self.needed = max(self.needed, self.committed + self.opened - self.free)


def _tensor_map(copy: Copy, swizzled: frozenset[str]) -> TensorMap:
    """Tensor map of a copy (`swizzled`: names of swizzled buffers). Raises LoweringError if no tensor map can express
    the copy.
    """
    of, to = copy.source.buffer, copy.destination.buffer
    where = (
        f"`{summarize(copy)}` is not inside a loop over threads, and no tensor map can describe its source: "
    )
    size = of.dtype.bits // 8
    if copy.pad is not None and copy.pad.value != 0:
        raise LoweringError(f"{where}a bulk copy pads with 0 and cannot pad with {copy.pad.value}")
    if of.dtype is not to.dtype:
        raise LoweringError(f"{where}the copy converts {of.dtype} to {to.dtype}")
    box = tuple([_constant(copy, e) for e in copy.source.extents])
    stride = size
    for extent in reversed(of.shape[1:]):
        stride *= extent
        if stride % STEP:
            raise LoweringError(
                f"{where}rows and planes of {format_buffer(of)} must be multiples of {STEP} bytes, not {stride} bytes"
            )
    if len(box) > MOST_DIMENSIONS or max(box) > MOST_BOX or min(box) < 1:
        raise LoweringError(
            f"{where}the copied box {list(box)} must have up to {MOST_DIMENSIONS} dimensions of 1 to {MOST_BOX} "
            "elements"
        )
    row = box[-1] * size
    if row % STEP:
        raise LoweringError(
            f"{where}the rows of the copy have {row} bytes and must have a multiple of {STEP} bytes"
        )
    swizzle = row if to.name in swizzled else 0
    if swizzle and (swizzle not in SWIZZLES or to.shape[-1] != box[-1]):
        sizes = ", ".join(map(str, SWIZZLES))
        raise LoweringError(
            f"{where}swizzled rows must have {sizes} bytes and fill the buffer's rows; the copy's rows have {row} "
            f"bytes, those of {to.name} {to.shape[-1] * size}"
        )
    rounds = swizzle > 0 and of.dtype is TF32
    return TensorMap(element_bytes=size, shape=of.shape, box=box, swizzle=swizzle, rounds=rounds)


def _constant(copy: Copy, extent: Expr) -> int:
    if not isinstance(extent, Const):
        raise LoweringError(
            f"`{summarize(copy)}` is not inside a loop over threads, so its extents must be constants"
        )
    return int(extent.value)


def _definition(rank: int) -> str:
    """The text of the device function that issues a bulk copy of an array with `rank` dimensions. The function takes
    the coordinates of the box innermost first.
    """
    numbers = [f"c{d}" for d in range(rank)]
    listed = ", ".join(f"%{3 + d}" for d in range(rank))
    given = ", ".join(f'"r"({c})' for c in numbers)
    return f"""\
__device__ __forceinline__ void copy_bulk_{rank}d(
    Groups& groups, void* to, const TensorMap* map, int bytes, {", ".join(f"int {c}" for c in numbers)}) {{
    groups.bytes += bytes;
    if (groups.issues) {{
        asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {{{listed}}}], [%2];"
                     :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map),
                        "r"((unsigned)__cvta_generic_to_shared(groups.arrived + groups.issued)), {given} : "memory");
    }}
}}
"""
