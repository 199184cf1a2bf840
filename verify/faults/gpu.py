"""Faults in scheduled GPU kernels: the checks must refuse each faulty kernel, and emulation must give wrong results for
it.

A fault is a change of the loop IR of a correct tiled matrix product. The kernel copies its operands to shared memory
either by plain or asynchronous copies of its threads, or by copies that a block issues as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vdla.compiler.codegen.cpu import errors as cpu_errors
from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cuda.emulate import emulate
from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.codegen.cuda.prepare import CHECKS, prepare
from vdla.compiler.codegen.cuda.wgmma import ARCHITECTURE
from vdla.compiler.codegen.cuda.wgmma_emit import has_products
from vdla.compiler.ir.expr import Binary, Const, Expr, Var
from vdla.compiler.ir.kernels import is_block_loop, is_thread_loop, phase_at
from vdla.compiler.ir.replace_buffers import replace_buffers
from vdla.compiler.ir.stmt import (
    AXES,
    Alloc,
    Assign,
    Barrier,
    Commit,
    Copy,
    For,
    Node,
    Program,
    Reduce,
    Seq,
    Stmt,
    Wait,
    seq,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import VerifyError, verify
from vdla.compiler.ir.visit import (
    N,
    map_all_expressions,
    map_children,
    map_expr,
    map_stmt,
    substitute_expr,
    walk,
)
from vdla.compiler.te.ops.product import Matrices, product, tensor_product
from vdla.compiler.templates.gpu import gemm_wgmma, gemm_wgmma_knobs
from vdla.compiler.templates.gpu.tile import Tile, schedule_tile

ROWS, COLUMNS, DEPTH = 70, 50, 44
"""Sizes of the matrices: no tile size divides them, and there are more tiles along the depth than stages of the copy
pipeline.
"""
WHOLE_COLUMNS, WHOLE_DEPTH = 56, 136
"""Number of columns and depth of the matrices for the kernel with bulk copies (one copy for a whole block of threads).
A bulk copy needs rows with a multiple of 16 bytes, that is, of 8 float16 elements.
"""
TOLERANCE = 1e-5
"""Largest error of an element that counts as correct, relative to the largest element of the result: it allows float32
sums over `DEPTH` in any order.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault in a GPU kernel. `change` turns the correct kernel, with a copy pipeline of `stages` stages, into a
    faulty program; `breaks` describes the fault.

    `whole`: which of two correct kernels is changed. True: the kernel with bulk copies (one copy for a whole block of
    threads). False: the kernel in which every thread copies its own elements.
    """

    name: str
    stages: int
    change: Callable[[Program], Program]
    breaks: str
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome of the checks and of emulation for one fault. `check`: class of the error by which a check refused the
    kernel; `message`: text of the error; both empty if no check refused it.

    `numbers`: results of emulation without checks: "wrong", "NaN" (an undefined value was used), "refused" (not run,
    because the code could access an array out of bounds), or empty if they were correct.
    """

    check: str
    message: str
    numbers: str


def kernel(stages: int, target: GpuTarget, *, whole: bool = False) -> Program:
    """The correct kernel for `target`, with a copy pipeline of `stages` stages, scheduled and prepared for the checks.
    `whole`: which of two kernels. True: the kernel of sm_90a with warpgroups and with bulk copies (one copy for a whole
    block of threads). False: the kernel in which every thread copies its own elements.
    """
    if whole:
        half = tensor_product(Matrices(rows=ROWS, depth=WHOLE_DEPTH, columns=WHOLE_COLUMNS), DType.FLOAT16)
        knobs = gemm_wgmma_knobs.Knobs(
            rows=128, columns=32, depth=32, group_rows=64, group_columns=32, stages=stages, bulk=True
        )
        return prepare(gemm_wgmma.schedule(target, half, knobs).program, target)
    program = product(Matrices(rows=ROWS, depth=DEPTH, columns=COLUMNS), staged="by depth")
    tile = Tile(rows=32, columns=32, depth=8, thread_rows=4, thread_columns=4, stages=stages)
    return prepare(schedule_tile(program, tile).program, target)


def run_fault(fault: Fault) -> Verdict:
    """Runs the checks on the faulty kernel, then emulates the faulty kernel without checks. Returns what both found."""
    target = cuda_target(ARCHITECTURE) if fault.whole else cuda_target()
    faulty = fault.change(kernel(fault.stages, target, whole=fault.whole))
    check, message = "", ""
    try:
        verify(faulty)
        for checking in CHECKS:
            checking(faulty, target)
    except (VerifyError, LoweringError) as error:
        check, message = type(error).__name__, str(error)
    return Verdict(check=check, message=message, numbers=numbers(faulty))


def numbers(program: Program) -> str:
    """Emulates a kernel; returns how its results compare with numpy's: "" (correct), "wrong", "NaN" or "refused"."""
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.standard_normal(p.shape).astype(p.dtype.numpy) for p in program.parameters}
    arrays["Y"] = np.full_like(arrays["Y"], np.nan)
    try:
        build(emulate(program))(**arrays)
    except (VerifyError, cpu_errors.LoweringError):
        return "refused"
    result = arrays["Y"]
    if np.isnan(result).any():
        return "NaN"
    wanted = arrays["X"].astype(np.float64) @ arrays["W"].astype(np.float64)
    return "wrong" if np.abs(result - wanted).max() > TOLERANCE * np.abs(wanted).max() else ""


# Changes

Pick = Callable[[Stmt], bool]


def _edit(node: N, pick: Pick, new: Callable[[Stmt], Stmt], nth: int = 0) -> N:
    """A copy of the tree `node` in which `new` replaces statement number `nth` (from 0) of the statements that `pick`
    accepts; statements inside accepted statements are not counted. Raises LookupError if fewer statements are accepted.
    """
    count = -1

    def visit(statement: Stmt) -> Stmt:
        nonlocal count
        if pick(statement):
            count += 1
            return new(statement) if count == nth else statement
        return map_children(statement, visit)

    changed = map_children(node, visit)
    if count < nth:
        raise LookupError(
            f"this fault can be injected into only {count + 1} statements of the kernel, not into statement {nth + 1}"
        )
    return changed


def _is(*kinds: type) -> Pick:
    return lambda node: isinstance(node, kinds)


def _along_depth(node: Stmt) -> bool:
    """Whether a node is the loop over the depth of the sums: a loop, not over blocks, with barriers inside."""
    return (
        isinstance(node, For)
        and not is_block_loop(node)
        and any(isinstance(inner, Barrier) for inner in walk(node))
    )


def _phase(writes: str) -> Pick:
    """Predicate on statements: whether a statement is a phase (a loop over threads) that writes the buffer named
    `writes`.
    """

    def pick(node: Stmt) -> bool:
        return is_thread_loop(node) and any(_target(inner) == writes for inner in walk(node))

    return pick


def _target(node: Node) -> str | None:
    match node:
        case Assign(buffer=buffer) | Reduce(buffer=buffer):
            return buffer.name
        case Copy(destination=destination):
            return destination.buffer.name
    return None


def _nothing(_: Stmt) -> Stmt:
    return Seq(statements=())


def _in_loop(pick: Pick, new: Callable[[Stmt], Stmt], nth: int = 0) -> Callable[[Program], Program]:
    return lambda program: _edit(program, _along_depth, lambda loop: _edit(loop, pick, new, nth))


def _in_phase(writes: str, new: Callable[[For], Stmt], nth: int = 0) -> Callable[[Program], Program]:
    def change(phase: Stmt) -> Stmt:
        assert isinstance(phase, For)
        return new(phase)

    return lambda program: _edit(program, _phase(writes), change, nth)


def _unpadded(node: Stmt) -> Stmt:
    assert isinstance(node, Copy)
    return replace(node, pad=None)


def _unguarded(phase: For) -> Stmt:
    """Returns `phase` without its guards (loops of zero or one iteration): they become loops of one iteration."""

    def visit(node: Stmt) -> Stmt:
        node = map_children(node, visit)
        guard = isinstance(node, For) and not isinstance(node.extent, Const)
        return replace(node, extent=Const(1)) if guard else node

    return visit(phase)


def _result_index(change: Callable[[tuple[Var, ...], Expr], Expr], d: int) -> Callable[[Program], Program]:
    """A program transformation that replaces index `d` of the store to Y by the result of `change`. The arguments of
    `change` are the variables of the loops over blocks and threads around the store (outermost first), and the old
    index.
    """

    def visit(node: Stmt, loops: tuple[Var, ...]) -> Stmt:
        if isinstance(node, Assign) and node.buffer.name == "Y":
            indices = list(node.indices)
            indices[d] = change(loops, indices[d])
            return replace(node, indices=tuple(indices))
        if isinstance(node, For) and node.kind in AXES:
            loops = (*loops, node.var)
        return map_children(node, lambda child: visit(child, loops))

    return lambda program: map_children(program, lambda body: visit(body, ()))


def _halved(position: int) -> Callable[[tuple[Var, ...], Expr], Expr]:
    """Returns a function for the argument `change` of `_result_index`. The function replaces, in an index, the variable
    of the grid loop number `position` (0 and 1 are loops over blocks, 2 and 3 over threads) by half of it, rounded
    down.
    """
    return lambda loops, index: substitute_expr(index, {loops[position].name: loops[position] // 2})


def _later_slot(steps: int) -> Callable[[Stmt], Stmt]:
    """A transformation of a phase (a loop over threads): each index k % n of a slot (a stage's copy of a buffer)
    becomes (k + steps) % n.
    """

    def later(expr: Expr) -> Expr:
        if isinstance(expr, Binary) and expr.op == "%" and isinstance(expr.a, Var):
            return Binary("%", expr.a + steps, expr.b)
        return expr

    return lambda phase: map_all_expressions(phase, lambda expr: map_expr(expr, later))


def _multiplies(node: Stmt) -> bool:
    """Whether a node is a phase (a loop over threads) in which warpgroups multiply."""
    return is_thread_loop(node) and has_products(node)


def _others_registers(phase: For) -> Stmt:
    """Returns `phase`, changed so that thread (y, x) uses the partial sums of thread (x, y) in place of its own."""
    y, x = phase_at(phase).threads[:2]

    def swap(node: Stmt) -> Stmt:
        if not isinstance(node, Reduce):
            return node
        names = {y.name: x.var, x.name: y.var}
        return replace(node, indices=tuple([substitute_expr(i, names) for i in node.indices]))

    return map_stmt(phase, swap)


def _smaller(program: Program) -> Program:
    """Returns the program with the buffer `a` in shared memory made one row too small."""
    old = next(n.buffer for n in walk(program) if isinstance(n, Alloc) and n.buffer.name == "a")
    shape = (*old.shape[:-2], old.shape[-2] - 1, old.shape[-1])
    return replace_buffers(program, {"a": replace(old, shape=shape)})


def _barrier_inside(phase: For) -> Stmt:
    inner = phase_at(phase)
    result: Stmt = seq(inner.body, Barrier())
    for loop in reversed(inner.threads):
        result = replace(loop, body=result)
    return result


def _barrier_after_copies(loop: Stmt) -> Stmt:
    """Returns `loop` with the barrier that precedes an iteration's copies moved to after the copies."""
    return _edit(_edit(loop, _is(Barrier), _nothing), _is(Commit), lambda commit: seq(commit, Barrier()))


def _waits_for(pending: int) -> Callable[[Stmt], Stmt]:
    return lambda _: Wait(pending=pending)


def _fault(
    name: str, stages: int, change: Callable[[Program], Program], breaks: str, *, whole: bool = False
) -> Fault:
    return Fault(name=name, stages=stages, change=change, breaks=breaks, whole=whole)


FAULTS: Final = (
    _fault(
        "missing barrier before use",
        1,
        _in_loop(_is(Barrier), _nothing, 1),
        "threads multiply what others have not yet brought into shared memory",
    ),
    _fault(
        "missing barrier before refill",
        1,
        _in_loop(_is(Barrier), _nothing, 0),
        "the next tile is brought in while others still use this one",
    ),
    _fault(
        "missing barrier behind a wait",
        2,
        _in_loop(_is(Barrier), _nothing),
        "a thread waits for its own copies, but uses those of others too",
    ),
    _fault(
        "missing barrier before copies",
        2,
        lambda program: _edit(program, _along_depth, _barrier_after_copies),
        "copies into a slot are issued while others still use it",
    ),
    _fault(
        "wrong wait count", 3, _in_loop(_is(Wait), _waits_for(2)), "the tile in use may still be under way"
    ),
    _fault("missing wait", 2, _in_loop(_is(Wait), _nothing), "nothing is waited for in the loop"),
    _fault(
        "missing commit",
        2,
        _in_loop(_is(Commit), _nothing),
        "copies are in no group when they are waited for",
    ),
    _fault(
        "missing first commit",
        2,
        lambda program: _edit(program, _is(Commit), _nothing),
        "the first tile's copies fall into the second one's group",
    ),
    _fault(
        "tile out of bounds",
        1,
        lambda program: _edit(program, lambda n: _target(n) == "a", _unpadded),
        "the copies of a tile leave the matrix, and nothing is read as 0 there",
    ),
    _fault("missing guard", 1, _in_phase("Y", _unguarded), "threads beyond the last row store there"),
    _fault(
        "two threads, one element",
        1,
        _result_index(_halved(3), 1),
        "neighbouring threads store into the same column",
    ),
    _fault("blocks overlap", 1, _result_index(_halved(0), 0), "neighbouring blocks store into the same rows"),
    _fault("wrong slot", 2, _in_phase("sum", _later_slot(1), 1), "the slot that is being filled is used"),
    _fault(
        "registers of another thread",
        1,
        _in_phase("sum", _others_registers, 1),
        "a thread adds to sums that another one holds",
    ),
    _fault("shared buffer too small", 1, _smaller, "the last row lies behind the buffer's end"),
    _fault(
        "barrier in a loop over threads",
        1,
        _in_phase("sum", _barrier_inside, 1),
        "threads wait where not all of them come by",
    ),
    _fault(
        "sums not cleared",
        1,
        _in_phase("sum", _nothing, 0),
        "sums start from what the registers happen to hold",
    ),
    _fault(
        "missing barrier, whole block",
        4,
        _in_loop(_is(Barrier), _nothing),
        "a slot is filled for the block while some of its warps still multiply it",
        whole=True,
    ),
    _fault(
        "wrong wait count, whole block",
        4,
        _in_loop(_is(Wait), _waits_for(2)),
        "the slice in use may still be under way",
        whole=True,
    ),
    _fault(
        "wrong slot, whole block",
        4,
        lambda program: _edit(program, _multiplies, _later_slot(2)),
        "the slot that is being filled is multiplied",
        whole=True,
    ),
)
