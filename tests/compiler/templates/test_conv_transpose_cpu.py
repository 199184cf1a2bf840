"""Transposed convolutions on CPUs. The tensor expressions are compared with ONNX Runtime, and the compiled kernels with
ONNX Runtime and with the interpreted expressions.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from campaign import examples
from dense_schedules import convolution
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import evaluate, run, targets

from vdla.compiler.codegen.cpu.pool import Pool
from vdla.compiler.te.blocks import Window
from vdla.compiler.te.ops.blocked_convolution import FloatSums, blocked_convolution
from vdla.compiler.te.ops.convolution import Convolution
from vdla.compiler.te.ops.sums import Epilogue
from vdla.compiler.te.ops.transposed_convolution import transposed_outputs


def reference(x, w, window, groups, output_padding):
    """ONNX Runtime's transposed convolution of x [N, C, H, W] with w [C, M / groups, KH, KW]."""
    node = onnx.helper.make_node(
        "ConvTranspose",
        ["X", "W"],
        ["Y"],
        kernel_shape=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=groups,
        output_padding=output_padding,
    )
    info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "XWY"]
    graph = onnx.helper.make_graph([node], "convolution", info[:2], info[2:])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": x, "W": w})[0]


def blocked(x, groups, block):
    """The array [N, C, H, W] in channel blocks within each group, [N, groups, blocks, H, W, block], filled
    with zeros.
    """
    n, c, h, w = x.shape
    x = x.reshape(n, groups, c // groups, h, w)
    x = np.pad(x, ((0, 0), (0, 0), (0, -x.shape[2] % block), (0, 0), (0, 0)))
    return x.reshape(n, groups, -1, block, h, w).transpose(0, 1, 2, 4, 5, 3)


def weights(w, groups, ci, co):
    """ONNX's weights [C, M / groups, KH, KW] in the program's layout [groups, OB * co, CB * ci, KH, KW], filled with
    zeros.
    """
    c, m, kh, kw = w.shape
    w = w.reshape(groups, c // groups, m, kh, kw).transpose(0, 2, 1, 3, 4)
    return np.pad(w, ((0, 0), (0, -m % co), (0, -(c // groups) % ci), (0, 0), (0, 0)))


@st.composite
def cases(draw):
    kernel, strides, dilations, pads, more = [], [], [], [], []
    size = (draw(st.integers(1, 4)), draw(st.integers(1, 9)))
    for axis in range(2):
        k, s, d = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        extra = draw(st.integers(0, s - 1))
        room = (size[axis] - 1) * s + (k - 1) * d + extra
        before = draw(st.integers(0, min(3, room)))
        pads.append((before, draw(st.integers(0, min(3, room - before)))))
        kernel, strides, dilations, more = [*kernel, k], [*strides, s], [*dilations, d], [*more, extra]
    (top, bottom), (left, right) = pads
    window = Window(
        kernel=(kernel[0], kernel[1]),
        strides=(strides[0], strides[1]),
        pads=(top, left, bottom, right),
        dilations=(dilations[0], dilations[1]),
    )
    return size, window, (more[0], more[1])


@settings(max_examples=examples(30), deadline=None)
@given(
    case=cases(),
    groups=st.integers(1, 2),
    channels=st.integers(1, 3),
    filters=st.integers(1, 9),
    blocks=st.sampled_from([(1, 1), (2, 4), (4, 16)]),
    level=st.sampled_from(range(len(targets()))),
)
def test_transposed_convolutions(case, groups, channels, filters, blocks, level):
    (height, width), window, output_padding = case
    (ci, co), c, m = blocks, channels * groups, filters * groups
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, (2, c, height, width)).astype(np.float32)
    w = rng.integers(-8, 9, (c, filters, *window.kernel)).astype(np.float32)
    shape = Convolution(
        batch=2,
        channels=c,
        height=height,
        width=width,
        filters=m,
        window=window,
        groups=groups,
        transposed=True,
        output_padding=output_padding,
    )
    program = blocked_convolution(shape, block_in=ci, block_out=co)
    expected = blocked(reference(x, w, window, groups, output_padding), groups, co)
    arrays = {"X": blocked(x, groups, ci), "W": weights(w, groups, ci, co)}
    (result,) = run(program, arrays, convolution, targets()[level])
    np.testing.assert_array_equal(result, expected)
    if expected.size * channels * window.kernel[0] * window.kernel[1] < 3000:
        np.testing.assert_array_equal(evaluate(program, arrays), expected)


def test_epilogue_in_parallel():
    window = Window(kernel=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1))
    rng = np.random.default_rng(0)
    program = blocked_convolution(
        Convolution(batch=1, channels=8, height=7, width=9, filters=40, window=window, transposed=True),
        block_in=8,
        block_out=16,
        sums=FloatSums(epilogue=Epilogue(bias=True, operand=True, activation="relu")),
    )
    x = rng.integers(-8, 9, (1, 8, 7, 9)).astype(np.float32)
    w = rng.integers(-8, 9, (8, 40, 4, 4)).astype(np.float32)
    expected = blocked(reference(x, w, window, 1, (0, 0)), 1, 16)
    bias = np.arange(48, dtype=np.float32).reshape(1, 48)
    operand = rng.integers(-99, 99, expected.shape).astype(np.float32)
    arrays = {"X": blocked(x, 1, 8), "W": weights(w, 1, 8, 16), "B": bias, "R": operand}
    with Pool(2) as pool:
        (result,) = run(program, arrays, convolution, targets()[0], pool)
    wanted = np.maximum(expected + bias.reshape(1, 1, 3, 1, 1, 16) + operand, 0)
    # Beyond the filters there are zeros, whatever bias and operand hold there.
    wanted[:, :, 2, ..., 8:] = 0
    np.testing.assert_array_equal(result, wanted)


def test_refusals():
    with pytest.raises(ValueError, match="crop all"):
        transposed_outputs(Window(kernel=(1, 1), pads=(1, 0, 1, 0)), 2, 2)
