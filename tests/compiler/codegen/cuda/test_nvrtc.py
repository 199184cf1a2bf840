"""NVRTC and the cache of compiled cubins; no GPU is needed."""

from __future__ import annotations

import sys

import cuda_texts
import pytest
from campaign import representatives

from vdla.compiler.codegen.cuda import cubin_cache, nvrtc
from vdla.compiler.codegen.cuda.cubin_cache import cached_cubin
from vdla.compiler.codegen.cuda.errors import CompileError, CudaTargetError, MissingCudaError
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin, compile_ptx

EMPTY = 'extern "C" __global__ void empty() {}\n'


# Copies of a whole block are there from sm_90 on.
ARCHITECTURES = ("sm_90", "sm_90a", "sm_80")
CUBINS = [
    (name, arch)
    for arch in ARCHITECTURES
    for name in cuda_texts.CASES
    if (name, arch) != ("whole-blocks", "sm_80")
]
TURNS = [(name, ARCHITECTURES[i % 3]) for i, name in enumerate(cuda_texts.CASES)]


@pytest.mark.parametrize(
    ("name", "arch"),
    # Every text, by turns for one of the architectures.
    representatives(CUBINS, 3, always=[case for case in TURNS if case in CUBINS]),
)
def test_cubins(name: str, arch: str):
    module = cuda_texts.module(name, arch)
    cubin = compile_cubin(module.source, arch)
    assert cubin.startswith(b"\x7fELF")
    for launch in module.launches:
        assert launch.function.encode() in cubin


def test_accesses_are_as_wide_as_the_text_says():
    ptx = compile_ptx(cuda_texts.module("element-wise", "sm_80").source, "sm_80")
    assert "ld.global.nc.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx


def test_sums_stay_in_registers():
    """The 4 x 4 sums of a thread use no local memory, and the innermost loop is fully unrolled."""
    ptx = compile_ptx(cuda_texts.module("pipelined-gemm", "sm_80").source, "sm_80")
    assert ".local" not in ptx
    assert ptx.count("fma.rn.f32") == 16 * 8
    assert "cp.async.cg.shared.global" in ptx
    assert "cp.async.wait_group" in ptx


def test_a_text_that_is_refused_is_our_defect_and_shows_the_log():
    with pytest.raises(CompileError, match=r'kernel\.cu\(1\): error: identifier "x" is undefined'):
        compile_cubin("__global__ void f() { x = 1; }", "sm_90")


def test_architectures():
    with pytest.raises(CudaTargetError, match="unknown GPU architecture 'sm_5'"):
        compile_cubin(EMPTY, "sm_5")
    refused = pytest.raises(CudaTargetError, match="does not compile for sm_19")
    with nvrtc._Compilation(nvrtc._load(), EMPTY) as compilation, refused:
        compilation.run("sm_19")


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A fixture that gives the test an empty cache; returns the list of architectures compiled so far, and the cache's
    folder of cubins.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def compiler(source: str, arch: str) -> bytes:
        calls.append(arch)
        return compile_cubin(source, arch)

    monkeypatch.setattr(cubin_cache, "compile_cubin", compiler)
    return calls, tmp_path / "vdla" / "cubins"


def test_each_cubin_is_compiled_once(counted):
    calls, folder = counted
    first = cached_cubin(EMPTY, "sm_80")
    assert cached_cubin(EMPTY, "sm_80") == first == compile_cubin(EMPTY, "sm_80")
    assert calls == ["sm_80"]
    cached_cubin(EMPTY, "sm_90")
    cached_cubin(EMPTY + "// another\n", "sm_90")
    assert calls == ["sm_80", "sm_90", "sm_90"]
    assert len(list(folder.glob("*.cubin"))) == 3


def test_another_nvrtc_compiles_anew(counted, monkeypatch):
    calls, _ = counted
    cached_cubin(EMPTY, "sm_80")
    monkeypatch.setattr(cubin_cache, "nvrtc_version", lambda: "99.0")
    cached_cubin(EMPTY, "sm_80")
    assert calls == ["sm_80", "sm_80"]


def test_a_damaged_entry_is_made_again(counted):
    calls, folder = counted
    cubin = cached_cubin(EMPTY, "sm_80")
    (path,) = folder.glob("*.cubin")
    for damaged in (path.read_bytes()[:-1], b"", path.read_bytes()[:40] + b"?" + path.read_bytes()[41:]):
        path.write_bytes(damaged)
        assert cached_cubin(EMPTY, "sm_80") == cubin
    assert len(calls) == 4


def test_a_failed_compilation_leaves_nothing(counted):
    _, folder = counted
    with pytest.raises(CompileError):
        cached_cubin("no", "sm_80")
    assert not list(folder.glob("*.cubin"))
    assert not list(folder.glob("*.partial"))


@pytest.mark.parametrize("missing", ["cuda", "cuda.bindings"])
def test_without_the_extra_one_line_says_what_to_install(monkeypatch, missing: str):
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "cuda":
        for name in [n for n in sys.modules if n.startswith("cuda.")]:
            monkeypatch.delitem(sys.modules, name)
    else:
        monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    nvrtc._load.cache_clear()
    try:
        with pytest.raises(MissingCudaError) as caught:
            compile_cubin(EMPTY, "sm_80")
    finally:
        nvrtc._load.cache_clear()
    assert str(caught.value) == 'CUDA code needs NVRTC, which is not installed: pip install "vdla[cuda]"'


def test_without_the_library_one_line_says_what_to_install(monkeypatch):
    class Module:
        def nvrtcVersion(self):
            raise RuntimeError("libnvrtc.so not found")

    monkeypatch.setattr(nvrtc.importlib, "import_module", lambda name: Module())
    nvrtc._load.cache_clear()
    try:
        with pytest.raises(MissingCudaError, match="pip install"):
            compile_cubin(EMPTY, "sm_80")
    finally:
        nvrtc._load.cache_clear()
