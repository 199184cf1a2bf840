"""Tuning records whose knobs are legal but give no usable kernel: the network takes the template's default, and a
warning says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from float_networks import FloatNetwork, relative
from tuning_records import file_of, trial

from vdla.compiler import cpu_stages, gpu_stages
from vdla.compiler.codegen.cpu import errors as cpu_errors
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cuda.errors import CompileError, LoweringError
from vdla.compiler.codegen.cuda.machine import GpuTarget, cuda_target
from vdla.compiler.cpu_stages import CpuLowering, cpu_ahead, cpu_now
from vdla.compiler.gpu_stages import GpuLowering, gpu_ahead, gpu_emulated, gpu_emulated_ahead
from vdla.compiler.ir import verify
from vdla.compiler.pipeline import compile_kernels, network_workloads
from vdla.compiler.records import apply
from vdla.compiler.records.book import read_book
from vdla.compiler.records.record import Task
from vdla.compiler.templates.cpu.table import CPU
from vdla.compiler.templates.gpu.table import GPU
from vdla.compiler.templates.gpu.tuned import Tuned
from vdla.compiler.templates.space import Space

TARGET = cuda_target()
HERE = host_target()
GEMV = {"groups": 4, "members": 4, "vectors": 2, "unroll": 4}
ROWS = {"group": 2, "lanes": 32, "kept": 0}


def model() -> bytes:
    """A network of a matrix product of two rows, and a softmax that is fused with a Tanh."""
    net = FloatNetwork(2, 300)
    net.add("Gemm", net.weights(300, 600, deviation=0.05), net.weights(600))
    net.add("Softmax", axis=-1)
    net.add("Tanh")
    net.shape = (2, 600)
    return net.model()


FEEDS = {"x": np.random.default_rng(3).standard_normal((2, 300), dtype=np.float32)}


def records(folder: Path, **knobs: dict[str, int]) -> Path:
    """Path of a file with one GPU tuning record for each named template of the network, with the given knobs."""
    found = {w.template: w for _, w in network_workloads(GpuLowering(TARGET), model())}
    return file_of(
        folder,
        *(
            trial(0, 1e-6, Task(workload=found[name].to_dict(), target=TARGET.described), knobs=values)
            for name, values in knobs.items()
        ),
    )


def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the space of the template `rows_cuda` allow more threads than a block can have."""

    class Wide(GpuTarget):
        @property
        def threads_per_block(self) -> int:
            return 1 << 20

    space = Tuned.space_of

    def wider(self: Tuned, target: GpuTarget, *sizes: object) -> Space:
        return space(self, Wide(**asdict(target)) if self.name == "rows_cuda" else target, *sizes)

    monkeypatch.setattr(Tuned, "space_of", wider)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weakens the verifier: it no longer knows that a loop variable is below the loop's extent, only that the loop has
    an iteration.
    """

    def entered(var, extent):
        return tuple(form.offset(-1) for form in verify._least(extent))

    monkeypatch.setattr(verify, "_facts_in_loop", entered)


@pytest.mark.parametrize(
    ("prepare", "gemv", "rows", "ignored", "reason"),
    [
        (
            wide,
            GEMV,
            {**ROWS, "lanes": 1024},
            "rows_cuda",
            "block.x: 32 x 32 x 2 = 2048 threads, but a block has",
        ),
        (forgetful, {**GEMV, "unroll": 16}, ROWS, "gemv_cuda", "dense: at `a'.0.1.rest"),
    ],
    ids=["limits", "proof"],
)
def test_kernels_that_cannot_be_prepared_or_emulated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[pytest.MonkeyPatch], None],
    gemv: dict[str, int],
    rows: dict[str, int],
    ignored: str,
    reason: str,
) -> None:
    book, _ = read_book([records(tmp_path, gemv_cuda=gemv, rows_cuda=rows)])
    with compile_kernels(model(), gpu_emulated(TARGET), dump_passes=tmp_path / "plain") as plain:
        (expected,) = plain.run(FEEDS).values()
    prepare(monkeypatch)
    knobs = apply.knobs_from(book, GPU, TARGET)
    with compile_kernels(model(), gpu_emulated(TARGET), dump_passes=tmp_path / "tuned", knobs=knobs) as t:
        (result,) = t.run(FEEDS).values()
    assert relative(result, expected) < 1e-5
    assert [workload.template for workload, _ in knobs.ignored] == [ignored]
    assert knobs.ignored[0][1].startswith(reason)
    assert {workload.template for workload in knobs.applied} == {"gemv_cuda", "rows_cuda"} - {ignored}
    # What was tried first leaves nothing behind.
    kernels = sorted(path for path in (tmp_path / "plain").iterdir() if path.is_dir())
    folder = kernels[["gemv_cuda", "rows_cuda"].index(ignored)]
    texts = [
        {path.name: path.read_text() for path in (tmp_path / name / folder.name).iterdir()}
        for name in ("plain", "tuned")
    ]
    assert texts[0] == texts[1]
    ahead = apply.knobs_from(book, GPU, TARGET)
    compile_kernels(model(), gpu_emulated_ahead(TARGET, HERE), knobs=ahead)
    assert ahead.ignored == knobs.ignored


@pytest.mark.parametrize(
    ("stage", "error"), [("lower", LoweringError("no text")), ("cached_cubin", CompileError("no text\nlog"))]
)
def test_kernels_that_have_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception
) -> None:
    book, _ = read_book([records(tmp_path, gemv_cuda=GEMV, rows_cuda=ROWS)])
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: b"")
    plain = compile_kernels(model(), gpu_ahead(TARGET))
    usual, tried = getattr(gpu_stages, stage), []

    def refuse(*arguments, **more):
        tried.append(arguments)
        if len(tried) in (1, 3):
            raise error
        return usual(*arguments, **more)

    monkeypatch.setattr(gpu_stages, stage, refuse)
    knobs = apply.knobs_from(book, GPU, TARGET)
    code = compile_kernels(model(), gpu_ahead(TARGET), knobs=knobs)
    assert [module.module for module in code.modules] == [module.module for module in plain.modules]
    assert [why for _, why in knobs.ignored] == ["no text"] * 2 and not knobs.applied


@pytest.mark.parametrize(
    ("stage", "error"),
    [("build", cpu_errors.LoweringError("no code")), ("lower", verify.VerifyError("no code\nin lines"))],
)
def test_kernels_of_processors_that_have_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception
) -> None:
    _, dense = network_workloads(CpuLowering(HERE), model())[0]
    own = CPU.space(HERE, dense)
    values = own.values(own.sample(np.random.default_rng(1), 1)[0])
    task = Task(workload=dense.to_dict(), target=HERE.described)
    book, _ = read_book([file_of(tmp_path, trial(0, 1e-6, task, knobs=values))])
    knobs = apply.knobs_from(book, CPU, HERE)
    with compile_kernels(model(), cpu_now(HERE)) as plain:
        (expected,) = plain.run(FEEDS).values()
    usual, tried = getattr(cpu_stages, stage), []

    def refuse(*arguments, **more):
        tried.append(arguments)
        if len(tried) == 1:
            raise error
        return usual(*arguments, **more)

    monkeypatch.setattr(cpu_stages, stage, refuse)
    if stage == "lower":
        ahead = compile_kernels(model(), cpu_ahead(HERE), knobs=knobs)
        assert [launch.name for launch in ahead.launches] == [launch.name for launch in plain.launches]
    else:
        with compile_kernels(model(), cpu_now(HERE), knobs=knobs) as network:
            np.testing.assert_array_equal(*network.run(FEEDS).values(), expected)
    assert knobs.ignored == [(dense, "no code")] and not knobs.applied
