"""The model that runs CUDA C++ on the CPU, on kernels written by hand: its results, and the faults that it reports."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from campaign import representatives
from cuda_on_host import HostLaunch, HostRunError, Place, Sparse, UnknownText, run_source

COPIES = r"""
__device__ __forceinline__ void copy_16(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
"""

GEMM = (
    COPIES
    + r"""
// C[n, n] = A[n, k] B[k, n]: tiles of 16 x 16, four elements along a row a thread, k in two slots of 8.
extern "C" __global__ void __launch_bounds__(64) gemm(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n, int k) {
    __shared__ alignas(16) float a[2][16][8];
    extern __shared__ __align__(16) float b[];   // [2][8][16]
    const int tx = threadIdx.x, ty = threadIdx.y, thread = tx + 4 * ty;
    const int row = blockIdx.y * 16, column = blockIdx.x * 16;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    auto fetch = [&](int slot, int at) {
        if (thread < 32) {
            const int i = thread / 2, j = thread % 2 * 4;
            const bool inside = row + i < n;
            copy_16(&a[slot][i][j], inside ? A + (row + i) * k + at + j : A, inside ? 16 : 0);
        } else {
            const int i = (thread - 32) / 4, j = thread % 4 * 4;
            const int left = min(4, max(0, n - column - j));
            copy_16(&b[slot * 128 + i * 16 + j], left > 0 ? B + (at + i) * n + column + j : B, left * 4);
        }
        commit();
    };
    fetch(0, 0);
    for (int at = 0; at < k; at += 8) {
        const int slot = at / 8 % 2;
        if (at + 8 < k) {
            fetch(1 - slot, at + 8);
            wait<1>();
        } else {
            wait<0>();
        }
        __syncthreads();  // visible
        for (int p = 0; p < 8; ++p)
            for (int c = 0; c < 4; ++c)
                sum[c] += a[slot][ty][p] * b[slot * 128 + p * 16 + 4 * tx + c];
        __syncthreads();  // read
    }
    for (int c = 0; c < 4; ++c)
        if (row + ty < n && column + 4 * tx + c < n) C[(row + ty) * n + column + 4 * tx + c] = sum[c];
}
"""
)


def gemm(source: str = GEMM, shared_bytes: int = 1024) -> None:
    rng = np.random.default_rng(6)
    n, k = 20, 24
    a, b = rng.standard_normal((n, k), np.float32), rng.standard_normal((k, n), np.float32)
    launch = HostLaunch(
        function="gemm",
        grid=(2, 2, 1),
        block=(4, 16, 1),
        arguments=("A", "B", "C", n, k),
        shared_bytes=shared_bytes,
    )
    out = run_source(source, [launch], {"A": a, "B": b, "C": np.full((n, n), np.nan, np.float32)}, seconds=1)
    np.testing.assert_allclose(out["C"], a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out["A"], a)


def test_a_pipelined_gemm_runs() -> None:
    gemm()


FAULTS = [
    ("__syncthreads();  // visible", "", "not equal|depends on the order"),
    ("__syncthreads();  // read", "", "not equal|depends on the order"),
    ("wait<1>", "wait<2>", "not equal|depends on the order"),
    ("if (row + ty < n && ", "if (", "outside of all arrays"),
    ("float b[]", "float4 b_[]; float* b = (float*)b_ + 1", "not a multiple of 16"),
    ("float a[2][16][8]", "float a[2][15][8]", "index 15 out of bounds"),
    (
        "float sum[4]",
        "if (row + ty >= n) return; float sum[4]",
        "threads 0 to 15 wait .* 16 to 63 have ended",
    ),
    ("wait<0>();", "if (ty < 8) __syncthreads();", "at different places"),
    ("at += 8", "at += 0", "no end of it"),
]


# Of barriers and waits that are not enough, one always.
@pytest.mark.parametrize(("old", "new", "said"), representatives(FAULTS, 0, always=[FAULTS[0], *FAULTS[3:]]))
def test_faults_of_a_kernel_are_seen(old: str, new: str, said: str) -> None:
    assert GEMM.count(old) == 1
    with pytest.raises((HostRunError, AssertionError), match=f"(?is){said}"):
        gemm(GEMM.replace(old, new))


MATRICES = r"""
// C[16, 8] = A[16, k] B[8, k] transposed: fragments as ldmatrix deals them, which are those of mma.
extern "C" __global__ void product_TYPE_kK(const unsigned* A, const unsigned* B, ACC* C) {
    __shared__ alignas(16) unsigned a[16][WORDS], b[8][WORDS];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * WORDS; i += 32) a[i / WORDS][i % WORDS] = A[i];
    for (int i = lane; i < 8 * WORDS; i += 32) b[i / WORDS][i % WORDS] = B[i];
    __syncwarp();
    unsigned x[WORDS / 2], y[WORDS / 4];
    ACC c[4] = {0, 0, 0, 0};
    const unsigned at = (unsigned)__cvta_generic_to_shared(&a[lane % 16][WORDS == 8 ? lane / 16 * 4 : 0]);
    const unsigned bt = (unsigned)__cvta_generic_to_shared(&b[lane % 8][WORDS == 8 ? lane / 8 % 2 * 4 : 0]);
#if WORDS == 8
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(bt));
    asm volatile("mma.sync.aligned.m16n8kK.row.col.ACT.TYPE.TYPE.ACT {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+LETTER"(c[0]), "+LETTER"(c[1]), "+LETTER"(c[2]), "+LETTER"(c[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(y[0]) : "r"(bt));
    asm volatile("mma.sync.aligned.m16n8kK.row.col.ACT.TYPE.TYPE.ACT {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                 "{%0, %1, %2, %3};"
                 : "+LETTER"(c[0]), "+LETTER"(c[1]), "+LETTER"(c[2]), "+LETTER"(c[3])
                 : "r"(x[0]), "r"(x[1]), "r"(y[0]));
#endif
    for (int i = 0; i < 4; ++i) C[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}
"""
KINDS = [
    ("tf32", 4, np.float32),
    ("tf32", 8, np.float32),
    ("f16", 8, np.float16),
    ("f16", 16, np.float16),
    ("bf16", 8, ml_dtypes.bfloat16),
    ("bf16", 16, ml_dtypes.bfloat16),
    ("s8", 16, np.int8),
    ("s8", 32, np.int8),
    ("u8", 32, np.uint8),
]


def test_matrices_of_a_warp_are_multiplied() -> None:
    """The CPU model of ldmatrix and mma multiplies matrices right: the kernels use the layouts' formulas (rows in
    memory, indices along k) independently of the model's.
    """
    rng = np.random.default_rng(7)
    source, launches, arrays, expected = "", [], {}, {}
    for kind, k, dtype in KINDS:
        whole = kind in ("s8", "u8")
        a, b = (rng.integers(0 if kind == "u8" else -128, 128, (rows, k)) for rows in (16, 8))
        a, b = (
            (a.astype(dtype), b.astype(dtype)) if whole else ((a / 64).astype(dtype), (b / 64).astype(dtype))
        )
        names = {
            "ACC": "int" if whole else "float",
            "ACT": "s32" if whole else "f32",
            "LETTER": "r" if whole else "f",
        }
        text = MATRICES.replace("WORDS", str(a.nbytes // 64)).replace("kK", f"k{k}")
        for old, new in (*names.items(), ("TYPE", kind)):
            text = text.replace(old, new)
        source += text
        name = f"{kind}_{k}"
        arrays |= {
            f"A{name}": a,
            f"B{name}": b,
            f"C{name}": np.zeros((16, 8), np.int32 if whole else np.float32),
        }
        expected[f"C{name}"] = a.astype(np.float64) @ b.astype(np.float64).T
        launches.append(
            HostLaunch(
                function=f"product_{kind}_k{k}",
                grid=(1, 1, 1),
                block=(32, 1, 1),
                arguments=(f"A{name}", f"B{name}", f"C{name}"),
            )
        )
    out = run_source(source, launches, arrays)
    for name, values in expected.items():
        np.testing.assert_array_equal(out[name], values, err_msg=name)


CONVERSIONS = r"""
extern "C" __global__ void convert(
    const float* x, unsigned short* half, unsigned short* brain, unsigned* tf32, float* back) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half[i]) : "f"(x[i]));
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(brain[i]) : "f"(x[i]));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32[i]) : "f"(x[i]));
    asm("cvt.f32.f16 %0, %1;" : "=f"(back[i]) : "h"(half[i]));
}
extern "C" __global__ void columns(const unsigned* given, unsigned* taken, unsigned* back) {
    __shared__ alignas(16) unsigned tile[8][4], other[8][4];
    const int lane = threadIdx.x;
    tile[lane / 4][lane % 4] = given[lane];
    __syncwarp();
    unsigned value;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(value) : "r"((unsigned)__cvta_generic_to_shared(tile[lane % 8])));
    taken[lane] = value;
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%1], {%0};"
                 :: "r"(value), "r"((unsigned)__cvta_generic_to_shared(other[lane % 8])));
    back[lane] = other[lane / 4][lane % 4];
}
extern "C" __global__ void sums(const float* x, float* y, int* z) {
    float sum = x[threadIdx.x];
    for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(0xffffffff, sum, bits);
    y[threadIdx.x] = sum;
    z[threadIdx.x] = __dp4a(0x7f80ff01, 0x02030405, (int)threadIdx.x);
}
"""


def test_conversions_transposes_and_shuffles() -> None:
    rng = np.random.default_rng(8)
    x = (rng.standard_normal(128) * np.exp2(rng.integers(-26, 18, 128))).astype(np.float32)
    x[:8] = [np.inf, -np.inf, 0.0, -0.0, 65519.0, 65520.0, 1 + 2**-11, 1 + 2**-8]
    given = rng.integers(0, 2**16, (8, 8)).astype(np.uint16)
    arrays = {
        "x": x,
        "half": np.zeros(128, np.float16),
        "brain": np.zeros(128, ml_dtypes.bfloat16),
        "tf32": np.zeros(128, np.float32),
        "back": np.zeros(128, np.float32),
        "given": given,
        "taken": np.zeros((8, 8), np.uint16),
        "again": np.zeros((8, 8), np.uint16),
        "total": np.zeros(32, np.float32),
        "dots": np.zeros(32, np.int32),
    }
    one = {"grid": (1, 1, 1), "block": (32, 1, 1)}
    launches = [
        HostLaunch(
            function="convert",
            grid=(4, 1, 1),
            block=(32, 1, 1),
            arguments=("x", "half", "brain", "tf32", "back"),
        ),
        HostLaunch(function="columns", arguments=("given", "taken", "again"), **one),
        HostLaunch(function="sums", arguments=(Place(array="x", offset=4 * 96), "total", "dots"), **one),
    ]
    out = run_source(CONVERSIONS, launches, arrays)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    np.testing.assert_array_equal(out["half"].view(np.uint16), half.view(np.uint16))
    np.testing.assert_array_equal(out["brain"], x.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(out["back"], half.astype(np.float32))
    # To tf32: a half of the eleventh bit of the fraction more, then cut.
    fraction, exponent = np.frexp(x.astype(np.float64))
    steps = np.copysign(np.floor(np.abs(fraction) * 2**11 + 0.5), fraction)
    np.testing.assert_array_equal(out["tf32"], np.where(np.isfinite(x), np.ldexp(steps, exponent - 11), x))
    np.testing.assert_array_equal(out["taken"], given.T)
    np.testing.assert_array_equal(out["again"], given)
    np.testing.assert_allclose(out["total"], x[96:].astype(np.float64).sum(), rtol=1e-5)
    np.testing.assert_array_equal(out["dots"], 127 * 2 - 128 * 3 - 1 * 4 + 1 * 5 + np.arange(32))


def test_an_instruction_without_a_model_is_named() -> None:
    source = """extern "C" __global__ void f(float* x) {
        asm("sqrt.rn.f32 %0, %1;" : "=f"(x[0]) : "f"(x[1]));
    }"""
    launch = HostLaunch(function="f", grid=(1, 1, 1), block=(1, 1, 1), arguments=("x",))
    with pytest.raises(UnknownText, match=r"line 2: the instruction sqrt\.rn\.f32 has no model"):
        run_source(source, [launch], {"x": np.ones(2, np.float32)})


def test_arrays_may_be_larger_than_memory() -> None:
    source = """extern "C" __global__ void f(const signed char* x, int* y, INDEX step) {
        y[threadIdx.x] = x[step * (INDEX)threadIdx.x];
    }"""
    step = 2**27 - 1
    x = Sparse(bytes=31 * step + 1, pieces={t * step: np.array([t], np.int8) for t in range(32)})
    launch = HostLaunch(function="f", grid=(1, 1, 1), block=(32, 1, 1), arguments=("x", "y", step))
    given = {"x": x, "y": np.zeros(32, np.int32)}
    out = run_source(source.replace("INDEX", "long long"), [launch], given)
    np.testing.assert_array_equal(out["y"], np.arange(32))
    with pytest.raises(HostRunError, match="signed integer overflow"):
        run_source(source.replace("INDEX", "int"), [launch], given)
