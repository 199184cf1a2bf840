"""Attention of networks of 16-bit floats on GPUs with tensor cores: one kernel a layer, or separate products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from float_networks import FloatNetwork, runtime
from half_models import in_half
from onnx import TensorProto

import vdla
from vdla.codesign.models.transformers.bert import BertSizes, bert
from vdla.codesign.models.transformers.gpt2 import Gpt2Sizes, gpt2, gpt2_decode
from vdla.codesign.models.transformers.llama import LlamaSizes, llama, llama_decode
from vdla.compiler import gpu_stages
from vdla.compiler.codegen.cuda.machine import cuda_target
from vdla.compiler.codegen.cuda.nvrtc import compile_cubin
from vdla.compiler.codegen.opencl.machine import opencl_target
from vdla.compiler.gpu_stages import GpuLowering, gpu_ahead, gpu_emulated
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.operators import DotProductAttention
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernels, import_graph

F16, BF16 = DType.FLOAT16, DType.BFLOAT16
TARGET = cuda_target("sm_80")
ROUNDING = {F16: 2.0**-10, BF16: 2.0**-7}
Arrays = dict[str, np.ndarray]

_BERT = BertSizes(layers=2, width=32, heads=2, inner=32, vocabulary=24)
_GPT2 = Gpt2Sizes(layers=2, width=64, heads=2, vocabulary=24)
_LLAMA = LlamaSizes(layers=2, width=64, heads=4, groups=2, inner=32, vocabulary=24)
TRANSFORMERS: dict[str, tuple[Callable[[], onnx.ModelProto], DType]] = {
    "bert": (lambda: bert(0, 2, 21, _BERT), F16),
    "bert, bfloat16": (lambda: bert(0, 2, 9, _BERT), BF16),
    "gpt2": (lambda: gpt2(0, 1, 35, _GPT2), F16),
    "gpt2, bfloat16": (lambda: gpt2(0, 1, 35, _GPT2), BF16),
    "gpt2_decode": (lambda: gpt2_decode(0, 1, 70, _GPT2), F16),
    "gpt2_decode, bfloat16": (lambda: gpt2_decode(0, 1, 33, _GPT2), BF16),
    "llama": (lambda: llama(0, 1, 19, _LLAMA), F16),
    "llama_decode": (lambda: llama_decode(0, 1, 19, _LLAMA), F16),
}


def feeds_of(model: onnx.ModelProto) -> Arrays:
    """Random inputs of a model of float32, whose values are numbers of both 16-bit types."""
    rng, feeds = np.random.default_rng(1), Arrays()
    for entry in model.graph.input:
        shape = [d.dim_value for d in entry.type.tensor_type.shape.dim]
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT:
            values = rng.standard_normal(shape, dtype=np.float32)
            feeds[entry.name] = values.astype(BF16.numpy).astype(F16.numpy).astype(np.float32)
        else:
            feeds[entry.name] = rng.integers(0, 2, shape)
    if "attention_mask" in feeds:
        feeds["attention_mask"][:, :2] = 1
    return feeds


def narrowed(feeds: Arrays, dtype: DType) -> Arrays:
    return {name: a.astype(dtype.numpy) if a.dtype == np.float32 else a for name, a in feeds.items()}


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The greatest difference, relative to the greatest absolute value of `expected`."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_attention_is_one_kernel_a_layer(name: str) -> None:
    """Attention is one kernel in each layer: with a mask as an input (BERT), a causal one (GPT-2), heads that share
    keys and values (Llama), and in a step with a cache. The result is as near to that of float32 as the result of
    kernels that round after every operator.
    """
    make, dtype = TRANSFORMERS[name]
    exported = make()
    data, feeds = in_half(exported.SerializeToString(), dtype), feeds_of(exported)
    given = narrowed(feeds, dtype)
    with compile_kernels(data, gpu_emulated(TARGET)) as network:
        got = network.run(given)
        operators = [launch.operator for launch in network.launches]
    assert operators.count("DotProductAttention") == 2
    assert not {"MatrixProduct", "Softmax"} & set(operators)
    if "llama" not in name:
        # The normalizations of Llama have reductions.
        assert "Reduction" not in operators
    rounded = vdla.compile(onnx.load_model_from_string(data), target="llvm").run(given)
    exact = runtime(exported.SerializeToString(), feeds)
    for output, values in exact.items():
        assert error(got[output], rounded[output]) <= 2 * ROUNDING[dtype]
        assert error(got[output], values) <= 1.5 * error(rounded[output], values) + ROUNDING[dtype] / 4


@pytest.mark.parametrize("name", ["bert", "gpt2, bfloat16", "gpt2_decode"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_its_text_has_both_products(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: b"")
    make, dtype = TRANSFORMERS[name]
    data = in_half(make().SerializeToString(), dtype)
    code = compile_kernels(data, gpu_ahead(cuda_target(arch)))
    kinds = {node.name: type(node.operator) for node in code.graph.nodes}
    launched = {launch.kernel for launch in code.launches if kinds[launch.name] is DotProductAttention}
    # Both layers have the same kernel.
    (text,) = [module.module.source for module in code.modules if module.name in launched]
    body = text[text.index("__global__") :]
    scores, context = body.split("// weights.new")
    assert f"mma_{dtype}(score" in scores and f"mma_{dtype}(sum" in context
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype.value.replace('float', 'f')}" in text
    assert b"attention" in compile_cubin(text, arch)


def attention(
    *,
    size: int = 16,
    mask: np.ndarray | None = None,
    wide: bool = False,
    behind: bool = False,
    output: bool = False,
) -> bytes:
    """The bytes of a float16 model of softmax(x x^T / 4) x for 2 heads of `size` channels and 40 positions. `mask` is
    true where a score counts. `wide`: the softmax is computed in float32, between two casts. `behind`: the result is
    multiplied by a factor for each channel. `output`: the softmax is an output of the model, too.
    """
    net = FloatNetwork(1, 2, 40, size)
    query = net.last
    net.add("MatMul", inputs=[query, net.add("Transpose", inputs=[query], perm=[0, 1, 3, 2])])
    net.add("Mul", inputs=[net.last, net.constant(np.float32(0.25))])
    if mask is not None:
        net.add("Where", inputs=[net.constant(mask), net.last, net.constant(np.float32(-65504))])
    if wide:
        net.add("Cast", to=DOUBLE)
    shares = net.add("Softmax", axis=-1)
    if wide:
        shares = net.add("Cast", to=TensorProto.FLOAT)
    net.add("MatMul", inputs=[shares, query])
    if behind:
        net.add("Mul", inputs=[net.last, net.constant(np.arange(size, dtype=np.float32))])
    net.shape = (1, 2, 40, size)
    model = in_half(net.model(**({shares: (1, 2, 40, 40)} if output else {})), F16)
    if not wide:
        return model
    made = onnx.load_model_from_string(model)
    for node in made.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == DOUBLE:
                attribute.i = TensorProto.FLOAT
    return made.SerializeToString()


DOUBLE = TensorProto.DOUBLE
"""Stands for float32 in this test's models: `in_half` changes float32 to 16 bits, and leaves this type alone; then it
is replaced by float32.
"""


def of_graph(data: bytes, target: object = TARGET) -> Graph:
    return import_graph(GpuLowering(target).rules, data)  # type: ignore[arg-type]


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def compare(data: bytes) -> None:
    """Asserts that the network's emulated GPU results are within two float16 steps of a processor's."""
    x = {"x": np.random.default_rng(2).standard_normal((1, 2, 40, 16)).astype(np.float16)}
    expected = vdla.compile(onnx.load_model_from_string(data), target="llvm").run(x)
    with compile_kernels(data, gpu_emulated(TARGET)) as network:
        got = network.run(x)
    for output, values in expected.items():
        assert got[output].dtype == values.dtype
        assert error(got[output], values) <= 2 * ROUNDING[F16]


def test_a_constant_causal_mask_skips_keys() -> None:
    data = attention(mask=np.tri(40, dtype=np.bool_))
    (node,) = [n for n in of_graph(data).nodes if isinstance(n.operator, DotProductAttention)]
    assert isinstance(node.operator, DotProductAttention) and node.operator.ahead == 0
    # The mask itself is read no more.
    assert len(node.inputs) == 3 and not of_graph(data).constants
    compare(data)


def test_a_softmax_between_casts() -> None:
    """Attention whose softmax is computed in float32 between two casts, as exporters write it in models of 16 bits, is
    one kernel.
    """
    data = attention(wide=True)
    assert kinds(of_graph(data)).count("DotProductAttention") == 1
    compare(data)


def test_operators_behind_read_the_result() -> None:
    data = attention(behind=True)
    assert kinds(of_graph(data))[-2:] == ["DotProductAttention", "Elementwise"]
    compare(data)


def test_a_softmax_that_is_an_output_stays_apart() -> None:
    data = attention(output=True)
    assert "DotProductAttention" not in kinds(of_graph(data))
    compare(data)


@pytest.mark.parametrize("size", [8, 24, 144])
def test_other_heads_have_separate_products_on_tensor_cores(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_stages, "cached_cubin", lambda source, arch: b"")
    data = attention(size=size)
    found = kinds(of_graph(data))
    assert found.count("MatrixProduct") == 2 and "DotProductAttention" not in found
    code = compile_kernels(data, gpu_ahead(TARGET))
    products = {node.name for node in code.graph.nodes if node.kind == "MatrixProduct"}
    texts = {module.name: module.module.source for module in code.modules}
    launched = [texts[launch.kernel] for launch in code.launches if launch.name in products]
    assert len(launched) == 2 and all("mma_float16(" in text for text in launched)


def test_targets_without_tensor_cores_have_separate_products() -> None:
    found = kinds(of_graph(attention(), opencl_target()))
    assert found.count("MatrixProduct") == 2 and "DotProductAttention" not in found


def test_a_smaller_machine_has_the_kernel_too() -> None:
    small = replace(TARGET, shared_bytes_per_block=16 * 1024, shared_bytes_per_multiprocessor=16 * 1024)
    assert "DotProductAttention" in kinds(of_graph(attention(), small))
