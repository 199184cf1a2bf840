"""Emits products of warpgroups as C++ with inline PTX. A product is asynchronous: it runs until a wait. Descriptors
tell the hardware where the factors are.

A wait is for a group of products. A group begins with a fence and ends with a commit (PTX ISA, "wgmma.fence",
"wgmma.commit_group", "wgmma.wait_group"). A phase is code that each thread runs by itself. If a phase contains only
products, all of them form one group; otherwise each product is a group. In a loop where this is safe (`overlap`), each
iteration waits for the group of the preceding iteration. The hardware reads factors through the asynchronous proxy, so
threads that have written factors execute a fence before the next barrier (PTX ISA, "Async proxy", "fence.proxy.async").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...ir.expr import Const
from ...ir.printer import format_region, summarize
from ...ir.stmt import Assign, Copy, For, Intrinsic, IntrinsicDeclaration, Reduce, Region, Stmt
from ...ir.types import HALVES
from ...ir.visit import walk
from .errors import LoweringError
from .mma_emit import first_register
from .mma_fragments import depth_of
from .mma_functions import PTX_TYPES
from .wgmma import CORE, SWIZZLED, SWIZZLES, reads_swizzled, swizzle_mode

if TYPE_CHECKING:
    from .statements import KernelEmitter

PREFIX = "wgmma_"
"""Prefix of the names of intrinsics that are products of a warpgroup."""
_DESCRIPTOR = """\
__device__ __forceinline__ unsigned long long matrix_descriptor(
    const void* start, unsigned leading, unsigned stride, unsigned swizzle = 0) {
    const unsigned long long address = (unsigned)__cvta_generic_to_shared(start) & 0x3FFFF;
    return address >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32
        | (unsigned long long)swizzle << 62;
}
"""
_FENCE = """\
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
"""
_WAIT = """\
__device__ __forceinline__ void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
"""
_COMMIT = """\
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
"""
_FENCE_PROXY = """\
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
"""
_HOLD = """\
template <int N> __device__ __forceinline__ void hold_registers(float* c) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(c[i]) :: "memory");
}
template <int N> __device__ __forceinline__ void hold_registers(int* c) {
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(c[i]) :: "memory");
}
"""
FUNCTIONS = {
    "matrix_descriptor": _DESCRIPTOR,
    "begin_products": _FENCE,
    "finish_products": _WAIT,
    "commit_products": _COMMIT,
    "show_to_products": _FENCE_PROXY,
    "hold_registers": _HOLD,
}
"""Definitions of device functions by name; definitions of the products themselves are made on use (`definition`)."""


NAMES = frozenset({*FUNCTIONS, "wait_products"})
"""All identifiers that the device functions of warpgroup products define."""


def is_product(node: object) -> bool:
    """Whether a statement is a product of a warpgroup."""
    return isinstance(node, Intrinsic) and node.declaration.name.startswith(PREFIX)


def has_products(body: Stmt) -> bool:
    """Whether there is a product of a warpgroup in a statement."""
    return any(is_product(node) for node in walk(body))


def only_products(body: Stmt) -> list[Intrinsic]:
    """The products in a statement. The list is empty if the statement also contains other work: assignments, copies or
    other instructions.
    """
    work = [n for n in walk(body) if isinstance(n, Assign | Reduce | Copy | Intrinsic)]
    uses = [n for n in work if isinstance(n, Intrinsic) and is_product(n)]
    return uses if len(uses) == len(work) else []


@contextmanager
def products(kernel: KernelEmitter, body: Stmt) -> Iterator[None]:
    """A `with` context in which the text of a phase (code that each thread runs by itself) is emitted. If the phase
    contains only products, they form one group.
    """
    uses = only_products(body)
    if not uses:
        yield
        return
    if not kernel.overlapping:
        _hold(kernel, uses)
    _begin(kernel)
    kernel.products_begun = True
    yield
    kernel.products_begun = False
    if kernel.overlapping:
        kernel.values.used.add("commit_products")
        kernel.source.line("commit_products();")
    else:
        _finish(kernel, uses)


@contextmanager
def overlapped(kernel: KernelEmitter, loop: For) -> Iterator[None]:
    """A `with` context for emitting `loop` so that its products overlap with other work: each iteration waits for the
    products of the iteration before it, not for its own. When the context ends, it emits a wait for all products.
    """
    uses = [n for n in walk(loop.body) if isinstance(n, Intrinsic) and is_product(n)]
    _hold(kernel, uses)
    kernel.overlapping = True
    yield
    kernel.overlapping = False
    wait_products(kernel, 0)
    _hold(kernel, uses)


def wait_products(kernel: KernelEmitter, pending: int) -> None:
    """Emits a wait that leaves only the newest `pending` groups of products in flight."""
    kernel.values.used.add("commit_products")
    kernel.source.line(f"wait_products<{pending}>();")


def emit_wgmma(kernel: KernelEmitter, use: Intrinsic) -> None:
    """Emits wgmma.mma_async. The registers of the sums change between this instruction and the wait for its group."""
    name = use.declaration.name
    kernel.values.used.add("matrix_descriptor")
    kernel.values.defined[name] = definition(use.declaration)
    c, a, b = use.operands
    order_a, order_b = _orders(use.declaration)
    matrix = _swizzled_matrix if reads_swizzled(use.declaration) else _matrix
    texts = (
        first_register(kernel, use, c),
        matrix(kernel, use, a, along_depth=order_a == "rows"),
        matrix(kernel, use, b, along_depth=order_b == "columns"),
    )
    alone = not kernel.products_begun
    if alone:
        _hold(kernel, [use])
        _begin(kernel)
    kernel.source.line(f"{name}({', '.join(texts)});")
    if alone:
        _finish(kernel, [use])


def definition(declaration: IntrinsicDeclaration) -> str:
    """The definition of a product's device function, with all registers of the sums as input and output."""
    c, *factors = declaration.parameters
    a, b = (PTX_TYPES[factor.dtype] for factor in factors)
    count = c.shape[1] // 2
    listed = ", ".join(f"%{r}" for r in range(count))
    whole = c.dtype.is_integer
    letter, sums, total = ("r", "int", "s32") if whole else ("f", "float", "f32")
    outputs = ", ".join(f'"+{letter}"(c[{r}])' for r in range(count))
    kind = f"m64n{c.shape[1]}k{depth_of(factors[0].dtype)}.{total}.{a}.{b}"
    # Signs of the factors (floats), and whether their lines are across the depth (16 bits).
    flags = "" if whole else ", 1, 1"
    if factors[0].dtype in HALVES:
        order_a, order_b = _orders(declaration)
        flags += f", {int(order_a == 'columns')}, {int(order_b == 'rows')}"
    return f"""\
__device__ __forceinline__ void {declaration.name}({sums}* c, unsigned long long a, unsigned long long b) {{
    asm volatile("{{.reg .pred add; setp.ne.b32 add, %{count + 2}, 0; "
        "wgmma.mma_async.sync.aligned.{kind} {{{listed}}}, "
        "%{count}, %{count + 1}, add{flags};}}"
        : {outputs}
        : "l"(a), "l"(b), "n"(1) : "memory");
}}
"""


def _orders(declaration: IntrinsicDeclaration) -> tuple[str, str]:
    """The storage orders of factors A and B ("rows" or "columns"). The name of the declaration contains them."""
    a, b = declaration.name.removesuffix(SWIZZLED).split("_")[-2:]
    return a, b


def _begin(kernel: KernelEmitter) -> None:
    kernel.values.used.add("begin_products")
    kernel.source.line("begin_products();")


def _finish(kernel: KernelEmitter, uses: Sequence[Intrinsic]) -> None:
    kernel.values.used.add("finish_products")
    kernel.source.line("finish_products();")
    _hold(kernel, uses)


def _hold(kernel: KernelEmitter, uses: Sequence[Intrinsic]) -> None:
    """Emits code that keeps NVRTC from moving reads of the sums of `uses` in front of the wait for the products. NVRTC
    does not know that products are asynchronous: it assumes that sums are complete as soon as a product is issued.
    """
    kernel.values.used.add("hold_registers")
    for name in dict.fromkeys(use.operands[0].buffer.name for use in uses):
        storage = kernel.values.storages[name]
        kernel.source.line(f"hold_registers<{storage.elements}>({storage.name});")


def _matrix(kernel: KernelEmitter, use: Intrinsic, region: Region, *, along_depth: bool) -> str:
    """The C++ text of the descriptor of a wgmma factor, operand `region` of `use`, that is stored as core matrices (8
    contiguous lines of 16 bytes each). `along_depth`: whether the lines run along the depth. Raises LoweringError for a
    factor in another layout.
    """
    form = kernel.values.offset(region.buffer, region.starts)
    storage = kernel.values.storages[region.buffer.name]
    size = region.buffer.dtype.bits // 8
    if storage.space != "shared" or storage.strides[-2:] != (CORE, 1):
        raise LoweringError(
            f"`{summarize(use)}`: {format_region(region)} is not in core matrices of {CORE}x{CORE} elements in shared "
            "memory; make a core matrix its last two dimensions"
        )
    outer, inner = (stride * size for stride in storage.strides[-4:-2])
    line = 16
    if storage.vector_elements(form, line // size) * size < line or outer % line or inner % line:
        raise LoweringError(
            f"`{summarize(use)}`: core matrices of {format_region(region)} do not provably begin at multiples of "
            f"{line} bytes of shared memory"
        )
    leading, stride = (inner, outer) if along_depth else (outer, inner)
    return f"matrix_descriptor({kernel.values.pointer(region.buffer, form)}, {leading}, {stride})"


def _swizzled_matrix(kernel: KernelEmitter, use: Intrinsic, region: Region, *, along_depth: bool) -> str:
    """The C++ text of the descriptor of a wgmma factor, operand `region` of `use`, that is stored in swizzled rows of
    32, 64 or 128 bytes. `along_depth`: whether these rows run along the depth. Raises LoweringError for a factor in
    another layout.
    """
    values, storage = kernel.values, kernel.values.storages[region.buffer.name]
    size = region.buffer.dtype.bits // 8
    row = region.buffer.shape[-1] * size
    lines = storage.strides[-2] == region.buffer.shape[-1]
    if storage.space != "shared" or row not in SWIZZLES or not lines:
        raise LoweringError(
            f"`{summarize(use)}`: rows of {format_region(region)} ({row} bytes) must follow one another in shared "
            f"memory and have one of the sizes {', '.join(map(str, SWIZZLES))} bytes"
        )
    # The hardware swizzles by address bits, so each group of 8 lines must begin at a multiple of its size.
    whole = (*region.starts[:-1], Const(0))
    forms = values.offset(region.buffer, whole), values.offset(region.buffer, region.starts)
    steps = zip(forms, (8 * row, 16 if along_depth else 8 * row), strict=True)
    if any(n * size % step for form, step in steps for n in (form.constant, *form.terms.values())):
        raise LoweringError(
            f"`{summarize(use)}`: {format_region(region)} does not provably begin at a multiple of 8 rows of {row} "
            "bytes; read at a multiple of 8 rows"
        )
    leading = 16 if along_depth else storage.strides[-3] * size
    mode = swizzle_mode(row)
    values.used.add("matrix_descriptor")
    return f"matrix_descriptor({values.pointer(region.buffer, forms[1])}, {leading}, {8 * row}, {mode})"
