"""Networks for GPUs on a computer without one: emulated, run as CUDA C++ on the CPU, and stored in archives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from archives import members, rewrite
from fake_gpu import HostDevice
from float_networks import FloatNetwork, reference, rounded_network, runtime
from onnx import TensorProto, helper, numpy_helper
from shipped import shipped

import vdla
from vdla.benchmarks.harness.case import relative_error
from vdla.benchmarks.harness.float64 import float64_outputs
from vdla.benchmarks.harness.gpu_models import inputs_of, operator_cases
from vdla.codesign.models import sample_inputs
from vdla.codesign.models.transformers import (
    BertSizes,
    Gpt2Sizes,
    LlamaSizes,
    bert,
    gpt2,
    gpt2_decode,
    llama,
    llama_decode,
)
from vdla.compiler import gpu_stages
from vdla.compiler.backends.registry import gpu_of
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cuda.cubin_cache import cached_cubin
from vdla.compiler.codegen.cuda.errors import CompileError
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.gpu_stages import gpu_ahead, gpu_emulated, gpu_emulated_ahead
from vdla.compiler.graph.operators import DotProductAttention
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernel, compile_kernels
from vdla.compiler.runtime import cuda_archive
from vdla.compiler.runtime.archive import ArchiveError
from vdla.compiler.runtime.cuda_archive import load_cuda_network, save_cuda_network
from vdla.compiler.runtime.cuda_memory import Places
from vdla.compiler.runtime.cuda_network import CudaNetwork
from vdla.compiler.runtime.network_archive import load_network, save_network
from vdla.compiler.te.ops.product import Matrices, tensor_product
from vdla.compiler.templates.gpu import gemm_wgmma

SHAPE = (1, 5, 9, 9)
TARGET = cuda_target()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def model() -> bytes:
    """A model of three convolutions; two have the same kernel with different weights, the third adds a residual."""
    net = FloatNetwork(*SHAPE)
    net.convolution(5, (3, 3), pads=[1] * 4)
    first = net.add("Relu")
    net.convolution(5, (3, 3), pads=[1] * 4)
    net.add("Relu")
    net.convolution(5, (3, 3), pads=[1] * 4)
    net.add("Add", first)
    net.shape = SHAPE
    return net.model()


def sample(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces compilation to cubins: a "cubin" is the CUDA C++ text itself, which the fake device runs."""
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: source.encode())


def test_the_generated_text_computes_the_network(texts, tmp_path: Path):
    code = compile_kernels(model(), gpu_ahead(TARGET), dump_passes=tmp_path / "dumps")
    assert len(code.modules) < len(code.launches)
    device = HostDevice()
    with CudaNetwork(code, device) as network:
        (got,) = network.run({"x": sample()}).values()
    assert not device.open
    (expected,) = float64_outputs(onnx.load_from_string(model()), {"x": sample()}).values()
    assert relative_error(got, expected) < 1e-6
    with compile_kernels(model(), gpu_emulated(TARGET)) as emulated:
        (same,) = emulated.run({"x": sample()}).values()
    assert relative_error(got, same) < 1e-6
    stages = {path.name for path in (tmp_path / "dumps").iterdir() if path.is_file()}
    assert {"00-import.txt"} < stages and any("memory-plan" in name for name in stages)
    folders = sorted(path for path in (tmp_path / "dumps").iterdir() if path.is_dir())
    assert len(folders) == len(code.launches)
    first = [path.name.partition("-")[2] for path in sorted(folders[0].iterdir())]
    assert first[:2] == ["tensor-expression.txt", "schedule.txt"] and first[-1] == "cuda.txt"
    assert "insert_barriers.txt" in first
    assert "__global__" in next(folders[0].glob("*-cuda.txt")).read_text()


def test_what_the_compiler_of_cubins_refuses_is_said(monkeypatch: pytest.MonkeyPatch):
    def refuse(source: str, arch: str) -> bytes:
        raise CompileError(f"no cubin for {arch}")

    monkeypatch.setattr(gpu_stages, "cached_cubin", refuse)
    with pytest.raises(CompileError, match="no cubin for sm_"):
        compile_kernels(model(), gpu_ahead(TARGET))


def test_loops_of_the_host_through_their_text(texts):
    """An LSTM's CUDA C++ gives the right outputs: each step is a launch, which gets the number of the step as an
    argument.
    """
    (case,) = [case for case in operator_cases() if case.name == "lstm"]
    exported = case.make(True)
    inputs = inputs_of(exported)
    with CudaNetwork(
        compile_kernels(exported.SerializeToString(), gpu_ahead(TARGET)), HostDevice()
    ) as network:
        got = network.run(inputs)
    for output, values in float64_outputs(exported, inputs).items():
        assert relative_error(got[output], values) < 1e-6


def test_tensor_maps_through_an_archive(texts, tmp_path: Path):
    """A product whose factors are loaded by bulk copies is saved in an archive, loaded with its tensor maps, and gives
    the right result.
    """
    target = cuda_target("sm_90a")
    program = tensor_product(Matrices(rows=40, depth=72, columns=48), DType.FLOAT16)
    schedule = gemm_wgmma.schedule(target, program)
    code = compile_kernel(
        schedule.program, gpu_ahead(target), operator="product", operations=2 * 40 * 48 * 72
    )
    save_cuda_network(tmp_path / "product.tar", code)
    again = load_cuda_network(tmp_path / "product.tar")
    assert [m.module.launches for m in again.modules] == [m.module.launches for m in code.modules]
    assert "tensor_map" in {
        a.kind for m in again.modules for launch in m.module.launches for a in launch.arguments
    }
    rng = np.random.default_rng(4)
    given = {
        name: rng.integers(-9, 9, shape).astype(np.float16)
        for name, shape in (("X", (40, 72)), ("W", (72, 48)))
    }
    with CudaNetwork(again, HostDevice()) as network:
        np.testing.assert_array_equal(network.run(given)["Y"], given["X"].astype(np.float32) @ given["W"])


def test_guards_of_ragged_pieces_are_followed_in_some_order_of_the_threads():
    """The compiler proves that all accesses of this convolution are in bounds, and the result is right. Pieces of 3 x
    10 x 4 vectors are distributed over 16 x 11 threads. The proof succeeds only if guards are applied in a suitable
    order.
    """
    net = FloatNetwork(1, 17, 23, 25)
    net.convolution(5, (2, 5), strides=[2, 3], pads=[1, 0, 0, 0])
    data = net.model()
    with compile_kernels(data, gpu_emulated(TARGET)) as network:
        (got,) = network.run({"x": sample((1, 17, 23, 25))}).values()
    (expected,) = float64_outputs(onnx.load_from_string(data), {"x": sample((1, 17, 23, 25))}).values()
    assert relative_error(got, expected) < 1e-6


def test_a_shipped_model_emulated():
    exported = onnx.load_model_from_string(shipped("dqn", "float"))
    feeds = {"input": sample_inputs("dqn", 1)}
    with compile_kernels(exported.SerializeToString(), gpu_emulated(TARGET)) as network:
        got = network.run(feeds)
        rows = network.profile(feeds, repeat=1)
    assert [row.name for row in rows] == [launch.name for launch in network.launches]
    assert relative_error(got["output"], float64_outputs(exported, feeds)["output"]) < 1e-5


_GPT2 = Gpt2Sizes(layers=2, width=16, heads=2, vocabulary=24)
_LLAMA = LlamaSizes(layers=2, width=32, heads=4, groups=2, inner=32, vocabulary=24)
TRANSFORMERS = {
    "bert": lambda: bert(0, 2, 9, BertSizes(layers=2, width=16, heads=2, inner=32, vocabulary=24)),
    "gpt2": lambda: gpt2(0, 1, 9, _GPT2),
    "gpt2_decode": lambda: gpt2_decode(0, 1, 9, _GPT2),
    "llama": lambda: llama(0, 1, 9, _LLAMA),
    "llama_decode": lambda: llama_decode(0, 1, 9, _LLAMA),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_attention_is_one_kernel_a_layer(name: str):
    """Attention is one kernel in each layer: with an added mask (BERT), a causal one (GPT-2), shared keys and values
    (Llama), and in a step with a cache.
    """
    exported = TRANSFORMERS[name]()
    data, rng = exported.SerializeToString(), np.random.default_rng(1)
    feeds: dict[str, np.ndarray] = {}
    for entry in exported.graph.input:
        shape = [d.dim_value for d in entry.type.tensor_type.shape.dim]
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT:
            feeds[entry.name] = rng.standard_normal(shape, dtype=np.float32)
        else:
            feeds[entry.name] = rng.integers(0, 2, shape)
    if "attention_mask" in feeds:
        feeds["attention_mask"][:, :2] = 1
    with compile_kernels(data, gpu_emulated(TARGET)) as network:
        got = network.run(feeds)
        operators = [launch.operator for launch in network.launches]
    assert operators.count("DotProductAttention") == 2
    assert not {"MatrixProduct", "Softmax"} & set(operators)
    # Permutations around attention are part of it; GPT-2 and Llama also return keys and values, Llama turns them.
    assert operators.count("Permute") <= {"bert": 0, "gpt2": 4, "llama": 6}.get(name, 0)
    for output, values in runtime(data, feeds).items():
        assert relative_error(got[output], values) < 1e-5


LEAST = float(np.finfo(np.float32).min)
_SEEN = np.tri(40, dtype=np.bool_)
MASKS = {
    "causal": (_SEEN, "Where", 0),
    "causal, by hidden keys": (~_SEEN, "Where, hidden", 0),
    "causal, added": (np.where(_SEEN, 0, LEAST).astype(np.float32), "Add", 0),
    "three keys ahead": (np.tri(40, k=3, dtype=np.bool_), "Where", 3),
    "a row that sees nothing": (_SEEN & (np.arange(40) != 7)[:, None], "Where", None),
    "a small number added": (np.where(_SEEN, 0, -2).astype(np.float32), "Add", None),
    "the last keys alone": (_SEEN[::-1].copy(), "Where", None),
}


@pytest.mark.parametrize("name", MASKS)
def test_causal_masks_skip_keys(name: str):
    mask, operator, ahead = MASKS[name]
    net = FloatNetwork(1, 2, 40, 8)
    query = net.last
    keys = net.add("Transpose", inputs=[query], perm=[0, 1, 3, 2])
    net.add("MatMul", inputs=[query, keys])
    hidden = net.constant(np.float32(LEAST))
    if operator == "Add":
        net.add("Add", inputs=[net.last, net.constant(mask)])
    else:
        sides = [hidden, net.last] if operator == "Where, hidden" else [net.last, hidden]
        net.add("Where", inputs=[net.constant(mask), *sides])
    net.add("Softmax", axis=-1)
    net.add("MatMul", inputs=[net.last, query])
    net.shape = (1, 2, 40, 8)
    data, feeds = net.model(), {"x": sample((1, 2, 40, 8))}
    with compile_kernels(data, gpu_emulated(TARGET)) as network:
        nodes = [n for n in network.graph.nodes if isinstance(n.operator, DotProductAttention)]
        assert [n.operator.ahead for n in nodes] == [ahead]  # type: ignore[union-attr]
        # Indices are compared instead of reading a mask that hides later keys and no others.
        assert [len(n.inputs) for n in nodes] == [4 if ahead is None else 3]
        (got,) = network.run(feeds).values()
    assert relative_error(got, next(iter(runtime(data, feeds).values()))) < 1e-5


@pytest.mark.parametrize("tokens", [5, 20], ids=["few rows", "tiles"])
def test_an_embedding_used_twice_is_stored_once(texts, tmp_path: Path, tokens: int):
    """The archive and the device's memory hold GPT-2's embeddings once, although its logits are products with the
    embeddings, which exporters write as a transposed weight.
    """
    sizes = Gpt2Sizes(layers=1, width=16, heads=2, vocabulary=500)
    data = gpt2(0, 1, tokens, sizes).SerializeToString()
    embedding = 500 * 16 * 4
    path = tmp_path / "net.tar"
    code = compile_kernels(data, gpu_ahead(TARGET))
    save_cuda_network(path, code)
    # All other constants together are smaller than the embedding.
    assert embedding < len(members(path)["constants.bin"]) < 2 * embedding
    loaded = load_cuda_network(path)
    for network in (code, loaded):
        on_device = Places.of(network).workspace - network.plan.bytes
        assert embedding < on_device < 2 * embedding
    feeds = {"input_ids": np.random.default_rng(0).integers(0, 500, (1, tokens))}
    with CudaNetwork(code, HostDevice()) as network:
        got = network.run(feeds)
    for output, values in runtime(data, feeds).items():
        assert relative_error(got[output], values) < 1e-5


@pytest.mark.parametrize("change", ["an output", "a second reader", "another axis", "an operator behind"])
def test_attention_that_is_not_whole(change: str):
    """Two products and a softmax along the rows between them become one attention kernel, also if another operator
    follows. They must stay separate if another node or an output reads a result between them, or if the softmax has
    another axis.
    """
    net = FloatNetwork(1, 2, 5, 8)
    query = net.last
    keys = net.add("Transpose", inputs=[query], perm=[0, 1, 3, 2])
    product = net.add("MatMul", inputs=[query, keys])
    shares = net.add("Softmax", inputs=[product], axis=2 if change == "another axis" else -1)
    outputs = {"an output": {shares: (1, 2, 5, 5)}, "a second reader": {}}.get(change, {})
    net.add("MatMul", inputs=[shares, query])
    if change == "a second reader":
        net.add("Concat", inputs=[net.last, product], axis=-1)
    if change == "an operator behind":
        net.add("Mul", inputs=[net.last, net.constant(np.arange(8, dtype=np.float32))])
    net.shape = (1, 2, 5, 13 if change == "a second reader" else 8)
    data, feeds = net.model(**outputs), {"x": sample((1, 2, 5, 8))}
    with compile_kernels(data, gpu_emulated(TARGET)) as network:
        got = network.run(feeds)
        operators = [launch.operator for launch in network.launches]
    assert operators.count("DotProductAttention") == (change == "an operator behind")
    for output, values in runtime(data, feeds).items():
        assert relative_error(got[output], values) < 1e-5


def test_quantized_models_round_as_their_pairs_say():
    feeds = {"x": sample((2, 8))}
    with compile_kernels(rounded_network(), gpu_emulated(TARGET)) as network:
        (got,) = network.run(feeds).values()
    (expected,) = reference(rounded_network(), feeds).values()
    # Sums that fall between two steps may go to either.
    steps = np.abs(got - expected) / 0.1
    assert steps.max() < 1.01 and (steps < 0.01).sum() >= steps.size - 1


def integer_product(operator: str, names: list[str], dtype: int) -> bytes:
    """The bytes of a model of a quantized input ("q") and an operator on integers with the inputs `names`; if the
    output type `dtype` is FLOAT, the result is dequantized.
    """
    constants = {"s": np.float32(0.5), "z": np.uint8(0), "w": np.ones((4, 3), np.uint8)}
    real = dtype == TensorProto.FLOAT
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "round"),
        helper.make_node(operator, names, ["p" if real else "y"], "product"),
        *([helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"], "back")] if real else []),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", dtype, [2, 3])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


QLINEAR = ["q", "s", "z", "w", "s", "z", "s", "z"]


def test_operators_on_integers_are_computed_in_steps():
    model = integer_product("QLinearMatMul", QLINEAR, TensorProto.FLOAT)
    feeds = {"x": np.random.default_rng(0).uniform(0, 4, (2, 4)).astype(np.float32)}
    with compile_kernels(model, gpu_emulated(TARGET)) as network:
        np.testing.assert_array_equal(network.run(feeds)["y"], runtime(model, feeds)["y"])


@pytest.mark.parametrize(
    ("operator", "names", "dtype"),
    [
        ("QLinearMatMul", QLINEAR, TensorProto.UINT8),
        ("MatMulInteger", ["q", "w", "z", "z"], TensorProto.INT32),
    ],
)
def test_operators_on_integers_return_integers(operator: str, names: list[str], dtype: int):
    model = integer_product(operator, names, dtype)
    feeds = {"x": np.random.default_rng(0).uniform(0, 4, (2, 4)).astype(np.float32)}
    with compile_kernels(model, gpu_emulated(TARGET)) as network:
        np.testing.assert_array_equal(network.run(feeds)["y"], runtime(model, feeds)["y"])


def test_networks_without_kernels(texts):
    net = FloatNetwork(2, 3)
    same = net.add("Identity")
    held = net.add("Identity", inputs=[net.constant(np.array([1.5, -2], np.float32))])
    data = net.model(**{same: (2, 3), held: (2,)})
    with CudaNetwork(compile_kernels(data, gpu_ahead(TARGET)), HostDevice()) as network:
        got = network.run({"x": sample((2, 3))})
        assert network.time({"x": sample((2, 3))}, repeat=2) == [0.0, 0.0]
        assert network.profile({"x": sample((2, 3))}) == ()
    for name, array in runtime(data, {"x": sample((2, 3))}).items():
        np.testing.assert_array_equal(got[name], array)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of an archive of a network with real cubins."""
    path = tmp_path_factory.mktemp("saved") / "net.tar"
    save_cuda_network(path, compile_kernels(model(), gpu_ahead(TARGET)))
    return path.read_bytes()


@pytest.fixture
def path(saved: bytes, tmp_path: Path) -> Path:
    (tmp_path / "net.tar").write_bytes(saved)
    return tmp_path / "net.tar"


def test_archives_hold_the_whole_network(path: Path, tmp_path: Path):
    code, loaded = compile_kernels(model(), gpu_ahead(TARGET)), load_cuda_network(path)
    assert gpu_of(path) == "cuda" and loaded.target == TARGET
    assert [m.cubin for m in loaded.modules] == [m.cubin for m in code.modules]
    assert all(m.cubin.startswith(b"\x7fELF") for m in loaded.modules)
    for mine, theirs in zip(code.modules, loaded.modules, strict=True):
        assert theirs.module.launches == mine.module.launches
        assert theirs.module.parameters == mine.module.parameters
        assert theirs.module.outputs == mine.module.outputs
        assert theirs.module.workspace_bytes == mine.module.workspace_bytes
    for mine, theirs in zip(code.launches, loaded.launches, strict=True):
        assert (mine.name, mine.kernel, mine.tensors) == (theirs.name, theirs.kernel, theirs.tensors)
        for name, array in mine.constants.items():
            np.testing.assert_array_equal(theirs.constants[name], array)
    assert loaded.plan == code.plan
    text = members(path)["kernels.cu"].decode()
    assert all(m.module.kernels.rstrip() in text for m in code.modules)
    save_cuda_network(tmp_path / "again.tar", code)
    assert (tmp_path / "again.tar").read_bytes() == path.read_bytes()


def test_the_text_of_an_archive_reads_as_a_file(path: Path):
    """Each function is defined once, each kernel is described, lines are short, and NVRTC compiles the whole file."""
    text = members(path)["kernels.cu"].decode()
    assert max(map(len, text.splitlines())) < 120
    described = re.findall(r"// (\w+): (\w+).*\n//   computes: (.+)\n", text)
    code = compile_kernels(model(), gpu_ahead(TARGET))
    assert [name for name, _, _ in described] == [module.name for module in code.modules]
    assert {operator for _, operator, _ in described} == {launch.operator for launch in code.launches}
    first = code.launches[0]
    assert first.members[0] in described[0][2]
    launch = code.modules[0].module.launches[0]
    grid, block = (" x ".join(map(str, sizes)) for sizes in (launch.grid, launch.block))
    assert f"//   launch:   grid {grid}, block {block}" in text
    assert re.search(r"//   method:   template conv\w+_cuda, \w+ \d+", text)
    functions = re.findall(r"__forceinline__ \w+ (\w+)\(", text)
    assert functions and len(functions) == len(set(functions))
    assert cached_cubin(text, TARGET.arch).startswith(b"\x7fELF")


def test_damaged_and_foreign_archives_are_refused(path: Path, tmp_path: Path):
    with pytest.raises(ArchiveError, match="contains the unexpected file"):
        load_network(path)
    save_network(tmp_path / "cpu.tar", compile_kernels(model(), gpu_emulated_ahead(TARGET, host_target())))
    assert gpu_of(tmp_path / "cpu.tar") is None
    with pytest.raises(ArchiveError, match=r"code\.a"):
        load_cuda_network(tmp_path / "cpu.tar")
    with load_network(tmp_path / "cpu.tar") as network:
        (got,) = network.run({"x": sample()}).values()
    assert relative_error(got, next(iter(runtime(model(), {"x": sample()}).values()))) < 1e-5
    description = json.loads(members(path)["description.json"])
    assert description["format"] == cuda_archive.FORMAT
    rewrite(path, {**members(path), "cubins.bin": b"other"})
    with pytest.raises(ArchiveError, match="changed after it was written"):
        load_cuda_network(path)


@pytest.mark.parametrize(
    "dtype",
    [TensorProto.INT16, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.INT64],
)
def test_rows_of_any_integers_are_emulated(dtype: int):
    """ArgMin over rows of any integer type gives numpy's result on the emulated GPU, which fills unwritten memory of
    each type with a poison value.
    """
    data = np.random.default_rng(0).integers(1, 50, (4, 6)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("ArgMin", ["a"], ["y"], axis=1, keepdims=0)],
        "rows",
        [helper.make_tensor_value_info("a", dtype, data.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = vdla.compile(model, "cuda", device="emulated").run({"a": data})["y"]
    np.testing.assert_array_equal(found, data.argmin(axis=1))
