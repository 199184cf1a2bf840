"""Distribution of buffers over the threads of a GPU grid: which elements each thread may access."""

import pytest

from vdla.compiler.ir.expr import Buffer, Const, Expr, Var, binary
from vdla.compiler.ir.grid import distribution, distribution_obstacle, grid_obstacle, owners
from vdla.compiler.ir.stmt import Alloc, Assign, For, LoopKind, Program, Stmt, nest, region, seq, whole
from vdla.compiler.ir.stmt import Copy as CopyStatement
from vdla.compiler.ir.types import DType

Y = Buffer(name="Y", shape=(8, 4, 2), dtype=DType.FLOAT32)
SUM = Buffer(name="sum", shape=(8, 4, 2), dtype=DType.FLOAT32, scope="register")


def phase(name: str, at: tuple[Expr, Expr, Expr], kinds: tuple[LoopKind, ...], *, store: bool) -> Stmt:
    """A loop nest over y (8), x (4) and r (2) that sets sum[at] = 0 or, with `store`, Y[y, x, r] = sum[at]; `kinds`:
    kinds of the loops y and x.
    """
    y, x, r = (Var(f"{name}.{v}") for v in "yxr")
    if store:
        body: Stmt = Assign(name=name, buffer=Y, indices=(y, x, r), value=SUM[at])
    else:
        body = Assign(name=name, buffer=SUM, indices=at, value=Const(0.0, DType.FLOAT32))
    for var, extent, kind in reversed(list(zip((y, x, r), (8, 4, 2), (*kinds, "serial"), strict=True))):
        body = For(var=var, extent=Const(extent), body=body, kind=kind)
    return body


def two_phases(
    second: tuple[Expr, Expr, Expr], kinds: tuple[LoopKind, ...] = ("thread.y", "thread.x")
) -> Alloc:
    first = phase("a", (Var("a.y"), Var("a.x"), Var("a.r")), ("thread.y", "thread.x"), store=False)
    return Alloc(buffer=SUM, body=seq(first, phase("b", second, kinds, store=True)))


B_Y, B_X, B_R = Var("b.y"), Var("b.x"), Var("b.r")


def test_distributed_dimensions_are_those_of_the_threads_variables() -> None:
    alloc = two_phases((B_Y, B_X, B_R))
    assert distribution(alloc) == ("thread.y", "thread.x", None)
    assert grid_obstacle(Program(name="p", parameters=(Y,), body=alloc)) is None


def test_a_phase_that_is_not_bound_yet_does_not_count() -> None:
    alloc = two_phases((B_Y, B_X, B_R), ("serial", "serial"))
    assert distribution(alloc) == ("thread.y", "thread.x", None)
    assert grid_obstacle(alloc) is None


def test_once_all_loops_are_bound_every_phase_must_keep_to_its_threads_parts() -> None:
    assert distribution_obstacle(two_phases((B_Y, B_X, B_R))) is None
    # The first thread alone works there, with what is its own.
    assert distribution_obstacle(two_phases((B_Y, Const(0), B_R), ("thread.y", "serial"))) is None
    found = distribution_obstacle(two_phases((B_Y, B_X, B_R), ("thread.y", "serial")))
    assert found is not None and "dimension 1 of sum" in found
    assert found.endswith("in no loop over it, in b.x; bind every loop over it to thread.x")


@pytest.mark.parametrize(
    ("at", "kinds", "loop"),
    [
        ((binary("-", 7, B_Y), B_X, B_R), ("thread.y", "thread.x"), "a.y"),
        ((B_Y, B_R, Const(0)), ("thread.y", "thread.x"), "a.x"),
        ((B_Y, B_X, B_R), ("thread.x", "thread.y"), "a.y"),
        ((B_Y, B_X, B_R), ("thread.z", "thread.x"), "a.y"),
    ],
)
def test_another_threads_registers_cannot_be_reached(
    at: tuple[Expr, Expr, Expr], kinds: tuple[LoopKind, ...], loop: str
) -> None:
    found = grid_obstacle(two_phases(at, kinds))
    assert found is not None and found[1] == loop
    assert found[0] == f"sum is used by all iterations of {loop}, but each thread has its own register memory"


def test_a_box_is_one_threads_if_it_is_one_element_of_the_distributed_dimensions() -> None:
    t = Var("t")
    rows = Buffer(name="rows", shape=(8, 4, 2), dtype=DType.FLOAT32, scope="register")

    def moved(*box: tuple[Expr | int, int]) -> Alloc:
        copy = CopyStatement(
            name="c", destination=region(Y, (t, 1), (0, 4), (0, 2)), source=region(rows, *box)
        )
        return Alloc(buffer=rows, body=For(var=t, extent=Const(8), body=copy, kind="thread.x"))

    assert distribution(moved((t, 1), (0, 4), (0, 2))) == ("thread.x", None, None)
    across = Alloc(
        buffer=rows,
        body=nest(
            [(t, 8)],
            CopyStatement(name="c", destination=whole(Y), source=whole(rows)),
            "thread.x",
        ),
    )
    assert distribution(across) == (None, None, None)
    assert grid_obstacle(across) is not None


def test_owners_of_a_buffer_by_its_scope() -> None:
    assert owners("dram") == owners("workspace") == ()
    assert owners("shared") == ("block",)
    assert owners("register") == owners("local") == owners("fragment.a") == ("block", "thread")
