"""Softmax and normalizations over channels, on accelerators with the extension `rows` (statistics of rows)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from vdla.compiler.frontends.onnx.integer_importer import import_model
from vdla.compiler.frontends.onnx.operators.rows import epsilon_of, parameters_of
from vdla.compiler.graph.abilities import ACCELERATOR
from vdla.compiler.graph.errors import ModelError
from vdla.compiler.graph.host import store_inputs
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.ir.interp import interpret as run_loops
from vdla.compiler.pipeline import compile_program
from vdla.compiler.te.blocks import Blocks
from vdla.compiler.te.functions import FUNCTIONS
from vdla.compiler.te.ops.rows import Shares, rows
from vdla.compiler.te.post import Post
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import format_names
from vdla.isa.rows import exponentials, normalized_shares, planes_of, softmax_shares

from ..right_programs import assert_right

TINY, VTA = load_config("tiny"), load_config("vta")
ROWS = replace(TINY, extensions=(*TINY.extensions, "table", "rows"), row_entries=8, post_lanes=2)


def model(op: str, shape: tuple[int, ...], *, stored: bool = False, axis: int) -> bytes:
    """The bytes of a model of a quantized node, the softmax or normalization `op` of a tensor of `shape` along `axis`;
    the model's input is float or, with `stored`, integers.
    """
    rng = np.random.default_rng(0)
    softmax, channels = op == "Softmax", shape[1]
    values = {
        "si": np.float32(0.07),
        "zi": np.int8(3),
        "so": np.float32(1 / 256 if softmax else 0.05),
        "zo": np.int8(-128 if softmax else 5),
    }
    operands = ["real"]
    if not softmax:
        values["gain"] = rng.normal(0, 1.5, channels).astype(np.float32)
        values["offset"] = rng.normal(0, 1, channels).astype(np.float32)
        values["gain"][:2] = 0
        operands += ["gain", "offset"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "si", "zi"], ["stored"]),
        helper.make_node("DequantizeLinear", ["stored", "si", "zi"], ["real"]),
        helper.make_node(op, operands, ["y"], name="shares", axis=axis),
        helper.make_node("QuantizeLinear", ["y", "so", "zo"], ["result"]),
        helper.make_node("DequantizeLinear", ["result", "so", "zo"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "out")]
    initializers = [numpy_helper.from_array(value, name) for name, value in values.items()]
    if stored:
        nodes, ends[0] = nodes[1:], helper.make_tensor_value_info("stored", TensorProto.INT8, shape)
    graph = helper.make_graph(nodes, "rows", ends[:1], ends[1:], initializers)
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


@pytest.mark.parametrize(
    ("config", "op", "shape", "axis"),
    [
        (ROWS, "Softmax", (2, 24, 7, 3), 1),
        (ROWS, "LayerNormalization", (3, 40), -1),
        # Twelve blocks of channels, eight parameter entries.
        (replace(ROWS, par_buffer_bytes=256, post_lanes=None), "LayerNormalization", (1, 48), 1),
        # The last block is not full.
        (ROWS, "Softmax", (2, 23, 7, 3), 1),
        (replace(ROWS, par_buffer_bytes=256, post_lanes=4), "LayerNormalization", (1, 45), 1),
        (ROWS, "LayerNormalization", (3, 38), -1),
    ],
)
def test_compiled_programs_are_right(config: Config, op: str, shape: tuple[int, ...], axis: int):
    result = compile_program(model(op, shape, axis=axis, stored=True), config, verify=True)
    assert [node.kind for node in result.graph.nodes] == ["Rows"]
    names = format_names(result.program.instructions)
    assert names.count("ROWS") == (2 if op == "Softmax" else 1) * (6 if len(shape) == 4 else shape[0])
    assert assert_right(result) > 100


def test_last_tiles_of_several_images_are_copied_as_well():
    config = replace(ROWS, row_entries=64, acc_buffer_bytes=4096, acc_banks=1)
    result = compile_program(model("Softmax", (2, 16, 41, 3), axis=1, stored=True), config, verify=True)
    assert assert_right(result) > 100


@pytest.mark.parametrize(("op", "shape"), [("Softmax", (2, 64, 5, 3)), ("LayerNormalization", (9, 768))])
def test_within_a_step_of_onnx_runtime(op: str, shape: tuple[int, ...]):
    from onnxruntime import InferenceSession

    data = model(op, shape, axis=1)
    graph = import_model(data, abilities=ACCELERATOR)
    x = np.random.default_rng(1).normal(0.3, 2, shape).astype(np.float32)
    (output,) = graph.outputs
    found = interpret(graph, store_inputs(graph, {"x": x}))[output.tensor]
    (real,) = InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    grid = output.quantization
    assert grid is not None
    expected = np.rint(np.asarray(real) / grid.scale) + grid.stored_zero_point
    assert np.abs(expected - found).max() <= 1 and (expected != found).mean() < 0.01


@pytest.mark.parametrize("length", [8, 7])
@pytest.mark.parametrize("look_up", [False, True])
def test_the_tensor_expression_equals_the_reference_arithmetic(look_up: bool, length: int):
    rng = np.random.default_rng(3)
    shares = Shares(
        look_up=look_up,
        length=length,
        own=not look_up,
        zero_point=-3,
        centre=True,
        epsilon=7,
        epsilon_shift=4,
    )
    program = rows(
        blocks=Blocks.of(TINY), images=1, positions=3, tile=2, shares=shares, post=Post(zero_point=4)
    )
    x = rng.integers(-128, 128, (1, 2, 3, 1, 4), np.int8)
    entries, count = exponentials(0.03), 1 if look_up else 2
    bias = rng.integers(-(1 << 16), 1 << 16, (count, 4), np.int32)
    scale = rng.normal(0, 1e-3, (count, 4)).astype(np.float32)
    arrays = {"X": x, "P": np.stack([bias, scale.view(np.int32)], 1), "Y": np.zeros_like(x)}
    if look_up:
        arrays["T"] = planes_of(entries).reshape(-1)
    arrays = run_loops(program, arrays, functions=FUNCTIONS)
    flat = x[0, :, :, 0].transpose(1, 0, 2).reshape(3, 8)
    rows_alone = flat[:, :length]
    made = softmax_shares(rows_alone, entries) if look_up else normalized_shares(rows_alone, -3, True, 7 << 4)
    made = np.pad(made, ((0, 0), (0, 8 - length)))
    sums = made.reshape(3, 2, 4) + bias
    expected = np.clip(np.rint(sums.astype(np.float32) * scale) + 4, -128, 127).transpose(1, 0, 2)
    np.testing.assert_array_equal(arrays["Y"][0, :, :, 0], expected)


def test_parameters_of_channels():
    bias, scale = parameters_of(np.array([1e-6, -2e-6, 0.0, 0.0]), np.array([5.0, 3.0, 7.0, 0.0]))
    np.testing.assert_allclose(bias * scale.astype(float), [5, 3, 7, 0], rtol=1e-6)
    assert scale[1] < 0 and 0 < scale[2] < 1e-8 and scale[3] > 0
    mantissa, shift = epsilon_of(1e-5, 0.01, 4096)
    assert mantissa << shift == pytest.approx(1e-5 * (4096 / 0.01) ** 2, rel=1e-4) and mantissa < 1 << 16


def test_machines_without_the_extension_refuse_softmax():
    with pytest.raises(ModelError, match="Softmax"):
        compile_program(model("Softmax", (1, 16, 2, 2), axis=1), TINY)
