"""The package `vdla`: each task of a user in a few lines of Python, on every target."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.codesign import models
from vdla.codesign.cli.main import main


def matmul(rows: int = 12, depth: int = 9, columns: int = 20) -> vdla.Schedule:
    a, b = vdla.placeholder("A", (rows, depth)), vdla.placeholder("B", (depth, columns))
    k = vdla.reduce_axis("k", depth)
    c = vdla.compute("C", (rows, columns), lambda i, j: vdla.reduce_sum(a[i, k] * b[k, j], k))
    return vdla.Schedule(vdla.program_of(c))


def test_every_name_is_there_and_typed() -> None:
    for name in vdla.__all__:
        assert getattr(vdla, name).__doc__, name
    assert set(vdla.__all__) <= set(dir(vdla))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vdla.nothing  # type: ignore[attr-defined]
    assert (Path(vdla.__file__).parent / "py.typed").exists()


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import vdla; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = eval(done.stdout)
    assert not [name for name in loaded if name.split(".")[0] in ("numpy", "numba", "onnx", "llvmlite")]
    assert [name for name in loaded if name.startswith("vdla")] == ["vdla"]


@pytest.mark.parametrize("target", ["vdla", "llvm", "vdla,llvm", "cuda"])
def test_a_network_on_every_target(target: str) -> None:
    model = models.build("mlp")
    network = vdla.compile(model, target, config="tiny", device="emulated" if target == "cuda" else None)
    inputs = {port.name: np.full(port.shape, 0.5, port.dtype) for port in network.inputs}
    outputs = network.run(inputs)
    reference = vdla.compile(model, "llvm").run(inputs)
    assert [port.name for port in network.outputs] == list(outputs)
    for port in network.outputs:
        assert (outputs[port.name].shape, outputs[port.name].dtype) == (port.shape, port.dtype)
        np.testing.assert_allclose(outputs[port.name], reference[port.name], rtol=0.02, atol=0.02)
    network.close()


def test_a_report_says_where_cycles_went() -> None:
    network = vdla.compile(models.build("mlp"), config="tiny")
    report = vdla.simulate(network)
    frame = report.to_dataframe()
    assert report.cycles == frame["end"].max()
    stalls = [name for name in frame.columns if name.startswith("stalls.")]
    assert (frame["gemm_cycles"] + frame[stalls].sum(axis=1) == frame["cycles"]).all()
    assert 0 < report.utilization <= 1
    assert f"{report.cycles:,}" in str(report)
    assert len(report.plot().axes) == 2
    assert report.plot("roofline").axes
    with pytest.raises(vdla.UserError, match="choose one of layers, roofline"):
        report.plot("pie")


def test_inputs_give_outputs_and_the_same_cycles() -> None:
    network = vdla.compile(models.build("mlp"), config="tiny")
    inputs = {port.name: np.zeros(port.shape, port.dtype) for port in network.inputs}
    report = vdla.simulate(network, inputs)
    assert report.cycles == vdla.simulate(network).cycles
    for name, array in network.run(inputs).items():
        np.testing.assert_array_equal(report.outputs[name], array)


def test_a_report_prints_warnings_and_the_absence_of_data() -> None:
    """The line about missing data is printed only for runs without inputs; warnings about the configuration are always
    printed.
    """
    small = vdla.config("tiny", read_latency=400, load_fifo_bytes=64)
    assert small.warnings
    network = vdla.compile(models.build("mlp"), config=small)
    inputs = {port.name: np.zeros(port.shape, port.dtype) for port in network.inputs}
    for report, computed in ((vdla.simulate(network, inputs), True), (vdla.simulate(network), False)):
        assert f"warning: {'; '.join(small.warnings)}" in str(report)
        assert ("no data was computed" in str(report)) != computed


def test_fifo_sizes_that_a_machine_leaves_out_follow_its_new_memory() -> None:
    """A slower memory needs deeper FIFOs; a size that the machine gives stays."""
    machine = replace(vdla.config("tiny"), load_fifo_bytes=None, store_fifo_bytes=64)
    slow = vdla.config(machine, read_latency=400)
    assert slow.fifo_bytes("load") > machine.fifo_bytes("load")
    assert slow.fifo_bytes("store") == 64


def test_any_field_can_be_replaced_and_compared() -> None:
    slow = vdla.config("tiny", read_latency=200)
    assert slow.memory.read_latency == 200
    assert vdla.config(slow, inp_buffer_bytes=slow.inp_buffer_bytes * 2).memory.read_latency == 200
    model = models.build("mlp")
    cycles = [vdla.simulate(vdla.compile(model, config=c)).cycles for c in (vdla.config("tiny"), slow)]
    assert cycles[0] < cycles[1]
    with pytest.raises(vdla.UserError, match="did you mean 'read_latency'"):
        vdla.config("tiny", read_latancy=3)


@pytest.mark.parametrize(("target", "device"), [("llvm", None), ("cuda", "emulated")])
def test_an_expression_runs_where_it_is_built(target: str, device: str | None) -> None:
    s = matmul()
    if target == "llvm":
        s.tile("C.i", "C.j", 4, 5)
    kernel = vdla.build(s if target == "llvm" else s.program, target, device=device)
    generator = np.random.default_rng(1)
    arrays = {port.name: generator.standard_normal(port.shape).astype(port.dtype) for port in kernel.inputs}
    np.testing.assert_allclose(kernel.run(arrays)["C"], arrays["A"] @ arrays["B"], rtol=1e-5, atol=1e-5)
    kernel.close()


def accelerated(config: vdla.Config, rows: int, depth: int, columns: int) -> vdla.Schedule:
    """A schedule of an int8 matrix product with requantization, in the accelerator's blocks; `rows`, `depth` and
    `columns` are numbers of blocks.
    """
    ci, co = config.block_in, config.block_out
    x = vdla.placeholder("X", (rows, depth, 1, ci), "int8")
    w = vdla.placeholder("W", (columns, depth, co, ci), "int8")
    p = vdla.placeholder("P", (columns, 2, co), "int32")
    kb, k = vdla.reduce_axis("kb", depth), vdla.reduce_axis("k", ci)

    def product(n, m, b, j):  # type: ignore[no-untyped-def]
        element = vdla.cast(x[m, kb, b, k], "int32") * vdla.cast(w[n, kb, j, k], "int32")
        return vdla.reduce_sum(element, kb, k)

    acc = vdla.compute("acc", (columns, rows, 1, co), product)
    y = vdla.compute(
        "Y",
        (columns, rows, 1, co),
        lambda n, m, b, j: vdla.post_value(acc[n, m, b, j] + p[n, 0, j], p[n, 1, j]),
    )
    s = vdla.Schedule(vdla.program_of(y))
    units = vdla.accelerator(config)
    s.reorder("acc.n", "acc.m", "acc.kb", "acc.b", "acc.j", "acc.k")
    s.set_scope("acc", "acc")
    s.cache_read("X", "acc.n", "inp")
    s.cache_read("W", "acc.n", "wgt")
    s.cache_read("P", "Y.n", "par")
    s.tensorize("acc.b", units.gemm)
    s.tensorize("Y.b", *units.post())
    return s


@pytest.mark.parametrize("config", ["tiny", "vta"])
def test_an_expression_runs_on_the_accelerator(config: str) -> None:
    machine = vdla.config(config)
    s = accelerated(machine, rows=5, depth=2, columns=3)
    kernel = vdla.build(s, "vdla", machine)
    generator = np.random.default_rng(2)
    arrays = {
        port.name: generator.integers(-128, 128, port.shape).astype(port.dtype) for port in kernel.inputs
    }
    arrays["P"][:, 1] = np.float32(2.0**-9).view(np.int32)
    report = vdla.simulate(kernel, arrays)
    x, w = (arrays[name].astype(np.int64) for name in ("X", "W"))
    sums = np.einsum("mkbi,nkji->nmbj", x, w) + arrays["P"][:, 0][:, None, None, :]
    np.testing.assert_array_equal(report.outputs["Y"], np.clip(np.rint(sums * 2.0**-9), -128, 127))
    assert report.cycles == vdla.simulate(kernel).cycles
    assert vdla.simulate(report.program).cycles == report.cycles


def test_what_the_accelerator_cannot_run_is_refused_in_a_line() -> None:
    with pytest.raises(vdla.UserError, match="tensorized"):
        vdla.build(matmul(), "vdla", "tiny")
    with pytest.raises(vdla.UserError, match='target "gpu"'):
        vdla.build(matmul(), "gpu")
    with pytest.raises(vdla.UserError, match="one target"):
        vdla.build(matmul(), "vdla,llvm")
    with pytest.raises(vdla.UserError, match="not compiled for the accelerator"):
        vdla.simulate(vdla.build(matmul(), "llvm"))


def test_a_raw_program_from_a_file(tmp_path: Path) -> None:
    program = vdla.compile(models.build("mlp"), config="tiny").program  # type: ignore[attr-defined]
    vdla.save_program(program, tmp_path / "mlp.vdla")
    report = vdla.simulate(tmp_path / "mlp.vdla")
    assert report.memory is not None
    assert {row["name"] for row in report.rows()} == {"load", "compute", "store"}
    assert report.utilization is None
    report.timeline(tmp_path / "trace.pftrace")
    assert (tmp_path / "trace.pftrace").stat().st_size > 1000


def test_what_the_command_line_compiled_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models.write(tmp_path / "mlp.onnx", "mlp")
    monkeypatch.setattr(
        sys,
        "argv",
        ["vdla", "compile", str(tmp_path / "mlp.onnx"), "--target", "llvm", "-o", str(tmp_path / "mlp.tar")],
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    inputs = {port.name: np.ones(port.shape, port.dtype) for port in vdla.load(tmp_path / "mlp.tar").inputs}
    expected = vdla.compile(tmp_path / "mlp.onnx", "llvm").run(inputs)
    for name, array in vdla.load(tmp_path / "mlp.tar").run(inputs).items():
        np.testing.assert_array_equal(array, expected[name])


def test_tuning_leaves_records_that_compile_takes(tmp_path: Path) -> None:
    models.write(tmp_path / "mlp.onnx", "mlp")
    tuned = vdla.tune(
        tmp_path / "mlp.onnx",
        config="tiny",
        records=tmp_path / "r.jsonl",
        trials=40,
        strategy="evolution",
        workers=0,
    )
    before, after = (
        vdla.simulate(vdla.compile(tmp_path / "mlp.onnx", config="tiny", records=records)).cycles
        for records in (None, tuned.book)
    )
    assert after <= before
    assert all(task["best"] <= task["default"] for task in tuned.tasks if task["best"] is not None)
    assert any(task["best"] is not None and task["best"] < task["default"] for task in tuned.tasks)
    with pytest.raises(vdla.UserError, match="contains records already"):
        vdla.tune(tmp_path / "mlp.onnx", config="tiny", records=tmp_path / "r.jsonl", strategy="genetic")


def test_verilog_is_one_text() -> None:
    text = vdla.verilog(vdla.config("tiny", extensions=()))
    assert "module vdla(" in text
    assert text.count("endmodule") > 10


def test_targets_describe_themselves() -> None:
    from vdla.compiler.backends.backend import CompileOptions
    from vdla.compiler.backends.registry import BACKENDS, backend_of

    for name in BACKENDS:
        assert backend_of(name).name == name
        assert backend_of(name).describe(CompileOptions(target=name))["target"] == name
