"""Tests the exact text of generated CUDA C++ for statements whose form matters for speed or correctness, and the errors
for programs without CUDA C++.
"""

from __future__ import annotations

import pytest

from vdla.compiler.codegen.cuda.errors import LoweringError
from vdla.compiler.codegen.cuda.intrinsics import dot_s8
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.module import CudaModule, IntegerArgument, lower
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.ir.expr import Buffer, Call, Const, Expr, Var, cast, equal, minimum
from vdla.compiler.ir.stmt import (
    Alloc,
    Assign,
    Barrier,
    Copy,
    For,
    Intrinsic,
    Program,
    Reduce,
    Stmt,
    nest,
    region,
    seq,
    whole,
)
from vdla.compiler.ir.types import DType
from vdla.compiler.ir.verify import verify

F32, I8, I32, I64 = DType.FLOAT32, DType.INT8, DType.INT32, DType.INT64
B, T, K, V = Var("b"), Var("t"), Var("k"), Var("v")


def blocks(body: Stmt, extent: int | Expr = 4, axis: str = "block.x", var: Var = B) -> For:
    return For(var=var, extent=Const(extent) if isinstance(extent, int) else extent, body=body, kind=axis)  # type: ignore[arg-type]


def threads(body: Stmt, extent: int | Expr = 32, axis: str = "thread.x", var: Var = T) -> For:
    return For(var=var, extent=Const(extent) if isinstance(extent, int) else extent, body=body, kind=axis)  # type: ignore[arg-type]


def vector(name: str, *shape: int, dtype: DType = F32, scope: str = "dram") -> Buffer:
    return Buffer(name=name, shape=shape, dtype=dtype, scope=scope)


def put(buffer: Buffer, at: Expr | int, value: Expr, name: str = "put") -> Assign:
    return Assign(name=name, buffer=buffer, indices=(Const(at) if isinstance(at, int) else at,), value=value)


def lowered(body: Stmt, *parameters: Buffer, name: str = "kernel") -> CudaModule:
    program = Program(name="program", parameters=parameters, body=body)
    verify(program)
    return lower(program, cuda_target(), name=name)


X, Y = vector("X", 128), vector("Y", 128)
COPY = put(Y, B * 32 + T, X[B * 32 + T])


# Threads


def test_threads_without_an_iteration_are_left_out():
    source = lowered(blocks(threads(COPY, minimum(32, 100 - B * 32))), X, Y).source
    assert "if (b * 32 + tx < 100) {" in source
    source = lowered(blocks(seq(threads(COPY), threads(put(Y, 3, X[V], "few"), 5, var=V))), X, Y).source
    assert "// few\n    if (tx < 5) {" in source


def test_along_axes_without_a_loop_one_thread_works():
    rows = Var("r")
    one = Reduce(name="one", op="add", buffer=Y, indices=(rows,), value=X[rows])
    grid = threads(threads(put(Y, T, X[T]), 8), 4, "thread.y", V)
    source = lowered(blocks(seq(grid, threads(one, 4, "thread.y", rows)), 1), X, Y).source
    assert "// one\n    if (tx == 0) {" in source
    assert "__launch_bounds__(32)" in source


def test_grids_of_three_axes():
    y = vector("Z", 2, 3, 5)
    i, j, k = Var("i"), Var("j"), Var("k")
    body = Assign(name="put", buffer=y, indices=(i, j, k), value=Const(1.0, F32))
    inner = blocks(blocks(blocks(threads(body, 1), 5, "block.x", k), 3, "block.y", j), 2, "block.z", i)
    module = lowered(inner, y)
    assert module.launches[0].grid == (5, 3, 2)
    assert module.launches[0].block == (1, 1, 1)
    assert "Z[i * 15 + j * 5 + k] = 1.0f;" in module.source


def test_a_guard_of_one_iteration_is_a_condition():
    guarded = For(var=K, extent=minimum(1, 100 - B * 32 - T), body=put(Y, B * 32 + T + K, X[T]))
    source = lowered(blocks(threads(guarded)), X, Y).source
    assert "if (b * 32 + tx < 100) {" in source
    assert "for (" not in source


def test_unrolled_loops_of_varying_extent_have_a_constant_bound():
    loop = For(var=K, extent=minimum(4, 30 - T), body=put(Y, T + K, X[T]), kind="unroll")
    source = lowered(blocks(threads(loop, 30), 1), X, Y).source
    assert "#pragma unroll\n        for (int k = 0; k < 4; ++k) {\n            if (tx + k < 30) {" in source


# Registers and shared memory


def test_distributed_registers_are_each_threads_own():
    held = vector("held", 32, 4, scope="register")
    other = Var("u")
    fill = Assign(name="fill", buffer=held, indices=(T, K), value=X[T])
    use = put(Y, other, held[other, 3])
    body = Alloc(buffer=held, body=seq(threads(nest([(K, 4)], fill)), threads(use, var=other)))
    source = lowered(blocks(body, 1), X, Y).source
    assert "float held[4];" in source
    assert "held[k] = X[tx];" in source
    assert "#pragma unroll\n        for (int k" in source
    assert "Y[tx] = held[3];" in source


def test_buffers_that_live_one_after_the_other_share_memory():
    first, second = vector("first", 32, scope="shared"), vector("second", 64, scope="shared")
    around = vector("around", 8, scope="shared")
    t, u, v = Var("t1"), Var("u1"), Var("v1")
    body = seq(
        Alloc(buffer=first, body=threads(put(first, t, X[t]), var=t)),
        Barrier(),
        Alloc(buffer=second, body=threads(put(second, u, X[u]), var=u)),
        threads(put(around, v, X[v]), 8, var=v),
    )
    source = lowered(blocks(Alloc(buffer=around, body=body), 1), X).source
    assert "__shared__ __align__(128) unsigned char shared[384];" in source
    assert "float* const around = (float*)(shared + 0);" in source
    assert "float* const first = (float*)(shared + 128);" in source
    assert "float* const second = (float*)(shared + 128);" in source


def test_more_shared_memory_than_is_static_is_asked_for_at_launch():
    held = vector("held", 12289, scope="shared")
    module = lowered(blocks(Alloc(buffer=held, body=threads(put(held, T, X[T]))), 1), X)
    assert module.launches[0].shared_bytes == 12289 * 4 + 124
    assert "extern __shared__ __align__(128) unsigned char shared[];" in module.source
    held = vector("held", 12288, scope="shared")
    module = lowered(blocks(Alloc(buffer=held, body=threads(put(held, T, X[T]))), 1), X)
    assert module.launches[0].shared_bytes == 0
    assert "__shared__ alignas(128) float held[12288];" in module.source


# Indices


def test_indices_have_32_bits_where_they_fit():
    large = vector("large", 2**20, 4096, dtype=I8)
    small = vector("small", 2**19, 4095, dtype=I8)
    for buffer, wide in ((large, True), (small, False)):
        rows, columns = buffer.shape
        at = (B, K * 32 + T)
        body = Assign(name="put", buffer=buffer, indices=at, value=Const(1, I8))
        source = lowered(blocks(threads(nest([(K, columns // 32)], body)), rows), buffer).source
        assert ("(long long)b * 4096" in source) is wide
        assert ("b * 4095 + " in source) is not wide
        compile_cubin(source, "sm_90")


def test_divisions_are_plain_where_nothing_is_negative():
    body = seq(
        put(Y, (B * 32 + T) // 5, X[(B * 32 + T) % 7]),
        put(Y, (B * 32 + T) // 8 + (T % 16), X[0]),
        put(Y, 0, cast(cast((T - B * 40) // 7 + (T - B * 40) % 7, I32), F32)),
    )
    source = lowered(blocks(threads(body)), X, Y).source
    assert "Y[(b * 32 + tx) / 5] = X[(b * 32 + tx) % 7];" in source
    assert "Y[b * 4 + (tx >> 3) + (tx & 15)] = X[0];" in source
    assert "floor_modulo(tx - b * 40, 7) + floor_divide(tx - b * 40, 7)" in source
    compile_cubin(source, "sm_90")


def test_divisions_that_recur_get_a_name():
    at = B * 32 + T
    image = vector("image", 5, 7)
    body = put(Y, at, image[at // 7 % 5, at % 7] + image[at // 7 % 5, 6 - at % 7])
    source = lowered(blocks(threads(body)), image, Y).source
    assert "const int rest = (b * 32 + tx) % 7;" in source
    assert "const int rest_2 = (b * 32 + tx) / 7 % 5;" in source
    assert "Y[b * 32 + tx] = image[rest_2 * 7 + rest] + image[rest_2 * 7 - rest + 6];" in source
    box = Copy(
        name="move",
        destination=region(Y, (T * 4, 4)),
        source=region(image, (at // 7 % 5, 1), (at % 7 - 2, 4)),
        pad=Const(0.0, F32),
    )
    source = lowered(blocks(threads(box)), image, Y).source
    assert "const int rest = (b * 32 + tx) % 7;" in source
    assert (
        "1 < rest + move_0 && rest + move_0 < 9 ? image[(b * 32 + tx) / 7 % 5 * 7 + rest + move_0 - 2]"
        in " ".join(source.split())
    )


# Names, parameters, launches


def test_names_become_legal_and_stay_apart():
    x, y = vector("float", 32), vector("maximum", 32)
    t = Var("int")
    body = threads(put(y, t, x[t]), var=t)
    source = lowered(blocks(body, 2, var=Var("b.1")), x, y, name="3 kernels?").source
    assert "v3_kernels(" in source
    assert "const float* float_2, float* __restrict__ maximum_2" in source
    assert "maximum_2[tx] = float_2[tx];" in source
    compile_cubin(source, "sm_90")


def test_comments_end_with_their_line():
    body = threads(put(Y, T, X[T], name="put \\"))
    source = lowered(blocks(body, 1), X, Y).source
    assert "// put _\n" in source
    assert "\\" not in source


def test_what_is_only_read_is_constant():
    add = Reduce(name="add", op="add", buffer=Y, indices=(T,), value=X[T])
    source = lowered(blocks(threads(add), 1), X, Y, vector("unused", 4)).source
    assert "const float* X, float* __restrict__ Y)" in source


def test_loops_of_the_host_hand_their_iteration_on():
    held = vector("held", 32)
    inner = Alloc(buffer=held, body=blocks(threads(put(held, T, X[K * 32 + T])), 1))
    other = vector("other", 64)
    outer = Alloc(buffer=other, body=blocks(threads(put(other, V, X[V]), var=V), 1, var=Var("c")))
    module = lowered(seq(nest([(K, 3)], inner), outer), X)
    assert [launch.function for launch in module.launches] == ["kernel_0"] * 3 + ["kernel_1"]
    numbers = [
        a.value for launch in module.launches for a in launch.arguments if isinstance(a, IntegerArgument)
    ]
    assert numbers == [0, 1, 2]
    # Both lie at the beginning of the workspace, one after the other.
    assert module.workspace_bytes == 256
    assert "int k)" in module.source
    assert module.outputs == frozenset()


# Instructions


def test_an_instruction_of_one_thread():
    x, w = vector("A", 64, dtype=I8, scope="dram"), vector("W", 64, dtype=I8, scope="dram")
    y = vector("S", 8, dtype=I32)
    a, b = vector("a", 64, dtype=I8, scope="shared"), vector("w", 64, dtype=I8, scope="shared")
    total = vector("total", 1, dtype=I32, scope="register")
    fill = [
        threads(Copy(name=n, destination=region(to, (v * 8, 8)), source=region(of, (v * 8, 8))), 8, var=v)
        for n, to, of, v in (("fa", a, x, Var("p")), ("fw", b, w, Var("q")))
    ]
    use = Intrinsic(
        name="dot",
        declaration=dot_s8(scope="shared"),
        operands=(whole(total), region(a, (T * 8 + K * 4, 4)), region(b, (T * 8 + K * 4, 4))),
    )
    work = Alloc(
        buffer=total, body=seq(put(total, 0, Const(0, I32)), nest([(K, 2)], use), put(y, T, total[0], "out"))
    )
    body = Alloc(buffer=a, body=Alloc(buffer=b, body=seq(*fill, Barrier(), threads(work, 8))))
    source = lowered(blocks(body, 1), x, w, y).source
    assert (
        "total = __dp4a(*(const int*)&a[tx * 8 + k * 4], *(const int*)&w[tx * 8 + k * 4], total);" in source
    )
    compile_cubin(source, "sm_90")
    crooked = Intrinsic(
        name="dot",
        declaration=dot_s8(scope="shared"),
        operands=(whole(total), region(a, (T * 2, 4)), region(b, (T * 8, 4))),
    )
    work = Alloc(buffer=total, body=seq(put(total, 0, Const(0, I32)), crooked))
    body = Alloc(buffer=a, body=Alloc(buffer=b, body=threads(work, 8)))
    with pytest.raises(LoweringError, match=r"a\[t \* 2:t \* 2 \+ 4\] is not provably aligned to 4 bytes"):
        lowered(blocks(body, 1))


# Refusals


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (threads(put(Y, T, X[T])), "contains the kernels"),
        (blocks(put(Y, 0, X[B])), "is not inside a loop over threads"),
        (blocks(threads(seq(put(Y, T, X[T]), Barrier()))), "is inside a loop over threads"),
        (
            blocks(threads(put(Y, T, Call("power", (X[T], X[T]), F32)))),
            "function power is not supported on this target",
        ),
    ],
)
def test_statements_without_code_are_refused(body: Stmt, says: str):
    with pytest.raises(LoweringError, match=says):
        lowered(body, X, Y)


def test_a_copy_whose_pad_is_not_zero_is_synchronous():
    held = vector("held", 32, 4, scope="shared")
    copy = Copy(
        name="ahead",
        destination=region(held, (T, 1), (0, 4)),
        source=region(X, (T * 4 - 2, 4)),
        pad=Const(1.0, F32),
        asynchronous=True,
    )
    text = lowered(blocks(Alloc(buffer=held, body=threads(copy)), 1), X).source
    assert "copy_async" not in text
    assert ": Vector<float, 2>{{1.0f, 1.0f}};" in text


@pytest.mark.parametrize(
    ("shape", "starts", "ahead", "says"),
    [
        # All of it inside, at multiples of 16 bytes.
        ((128,), (T * 4,), True, "copy_async_16(&held[tx * 4], &X[tx * 4], 16);"),
        # The row ends within the last vector: fewer bytes are read.
        ((70,), (T * 4,), True, "&X[tx * 4], max(0, min(16, (70 - tx * 4) * 4)));"),
        # It ends between vectors: all or nothing.
        ((72,), (T * 4,), True, "&X[tx * 4], tx * 4 < 72 ? 16 : 0);"),
        # Rows of 70 begin at multiples of 8 bytes only.
        (
            (40, 70),
            (T, B * 4),
            True,
            "copy_async_8(&held[tx * 4 + ahead_0 * 2], &X[b * 4 + tx * 70 + ahead_0 * 2], 8);",
        ),
        # What begins before the row cannot be cut.
        (
            (128,),
            (T * 4 - 2,),
            True,
            "copy_async_8(&held[tx * 4 + ahead_0 * 2], &X[tx * 4 + ahead_0 * 2 - 2], ",
        ),
        ((128,), (T * 3,), True, "copy_async_4(&held[tx * 4 + ahead_0], &X[tx * 3 + ahead_0], 4);"),
        ((72,), (T * 4,), False, "tx * 4 < 72 ? *(const Vector<float, 4>*)&X[tx * 4] : Vector<float, 4>{};"),
        (
            (70,),
            (T * 4,),
            False,
            "tx * 4 + ahead_0 * 2 < 70 ? *(const Vector<float, 2>*)&X[tx * 4 + ahead_0 * 2] : ",
        ),
    ],
)
def test_copies_are_as_wide_as_alignment_allows(
    shape: tuple[int, ...], starts: tuple[Expr, ...], ahead: bool, says: str
):
    x = vector("X", *shape)
    held = vector("held", 32, 4, scope="shared")
    boxes = [(start, 1) for start in starts[:-1]] + [(starts[-1], 4)]
    copy = Copy(
        name="ahead",
        destination=region(held, (T, 1), (0, 4)),
        source=region(x, *boxes),
        pad=Const(0.0, F32),
        asynchronous=ahead,
    )
    source = lowered(blocks(Alloc(buffer=held, body=threads(copy)), 2), x).source
    assert says in " ".join(source.split())  # long lines are broken
    compile_cubin(source, "sm_90")


def test_more_than_a_threads_memory():
    held = vector("held", 2**18, scope="local")
    body = Alloc(buffer=held, body=seq(put(held, T, X[T]), put(Y, T, held[T], "get")))
    with pytest.raises(LoweringError, match="more than a thread's 512 KiB; allocate it around the kernel"):
        lowered(blocks(threads(body), 1), X, Y)


def test_sums_begin_without_reading_what_is_there():
    """Generated code begins a sum with its first term, and does not read the register before. This is so even if a loop
    inside the summing loop chooses the register.
    """
    held = vector("held", 4, scope="register")
    total = Reduce(name="sum", op="add", buffer=held, indices=(V,), value=X[T] * X[K], first=equal(K, 0))
    body = Alloc(buffer=held, body=seq(nest([(K, 8), (V, 4)], total), put(Y, T, held[0])))
    source = lowered(blocks(threads(body), 1), X, Y).source
    assert "held[v] = fmaf(X[tx], X[k], k == 0 ? 0.0f : held[v]);" in source


@pytest.mark.parametrize(
    ("count", "arch", "overlaps"), [(528, "sm_90", True), (529, "sm_90", False), (8, "sm_80", False)]
)
def test_kernels_of_few_blocks_wait_for_the_one_before_themselves(
    count: int, arch: str, overlaps: bool
) -> None:
    x, y = vector("X", count), vector("Y", count)
    body = blocks(threads(put(y, B, x[B]), extent=1), extent=count)
    program = Program(name="one", parameters=(x, y), body=body)
    module = lower(program, cuda_target(arch))
    (launch,) = module.launches
    assert launch.overlaps == overlaps
    kernel = module.source[module.source.index("__global__") :]
    lines = [line.strip() for line in kernel.splitlines()]
    assert ("wait_for_kernels();" in lines) == overlaps
    # An array that another kernel still writes must not be read through a cache that is not coherent.
    assert ("const float* __restrict__ X" in kernel) == (not overlaps)
    if overlaps:
        assert lines.index("wait_for_kernels();") < min(i for i, line in enumerate(lines) if "X[" in line)
