"""The store pipeline's arithmetic equals exact rational arithmetic, golden values and ONNX Runtime's kernels."""

from fractions import Fraction

import numpy as np
import pytest
from campaign import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.isa import arithmetic as ar
from vdla.isa import scales as sc
from vdla.util.errors import UserError

ort = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

UNSIGNED = pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
float32s = st.floats(min_value=2.0**-60, max_value=2.0**24, width=32)


def run(operator: str, operands: list, outputs_type: int, domain: str = "", **attributes):
    """Runs one ONNX operator of `domain` in ONNX Runtime and returns its output. A tuple (name, array) in `operands` is
    an input of the graph, any other operand is a constant. `outputs_type`: ONNX's number of the output's type.
    """
    helper = onnx.helper
    names, initializers, inputs, feeds = [], [], [], {}
    for position, operand in enumerate(operands):
        if isinstance(operand, tuple):
            name, array = operand
            inputs.append(
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)
                )
            )
            feeds[name] = array
        else:
            name = f"c{position}"
            initializers.append(onnx.numpy_helper.from_array(np.asarray(operand), name))
        names.append(name)
    node = helper.make_node(operator, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", outputs_type, None)], initializers
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def own(stored, unsigned: bool) -> np.ndarray:
    """Values from the stored form (int8) in the model's type: with `unsigned`, uint8 values are 128 larger."""
    return (
        (np.asarray(stored).astype(np.int32) + 128).astype(np.uint8)
        if unsigned
        else np.asarray(stored, np.int8)
    )


def stored(values: np.ndarray) -> np.ndarray:
    """Converts values of a quantized tensor to the form that the accelerator stores: int8. It subtracts 128 from uint8
    values; int8 values stay the same.
    """
    return (values.astype(np.int32) - (128 if values.dtype == np.uint8 else 0)).astype(np.int8)


def tensor_type(unsigned: bool) -> int:
    return onnx.TensorProto.UINT8 if unsigned else onnx.TensorProto.INT8


def all_pairs() -> tuple[np.ndarray, np.ndarray]:
    values = np.arange(-128, 128).astype(np.int8)
    return np.repeat(values, 256), np.tile(values, 256)


def nearest_float32(exact: Fraction) -> np.float32:
    """The float32 nearest to a rational number (ties to even), found by comparing the neighbours of an estimate."""
    guess = np.float32(float(exact))
    candidates = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    distances = [abs(Fraction(float(c)) - exact) for c in candidates]
    best = min(distances)
    nearest = [c for c, d in zip(candidates, distances, strict=True) if d == best]
    return next((c for c in nearest if int(c.view(np.int32)) % 2 == 0), nearest[0])


@given(st.integers(-255, 255), float32s, st.floats(-(2.0**40), 2.0**40, width=32))
def test_fused_multiply_add_rounds_once(integer, factor, addend):
    exact = Fraction(integer) * Fraction(factor) + Fraction(addend)
    assert ar.fused_multiply_add(integer, factor, addend) == nearest_float32(exact)


def test_fused_multiply_add_avoids_double_rounding():
    # 97 * 172961 = 2**24 + 1 lies halfway between two float32 numbers. An addend too small for float64
    # to keep beside it must still decide which of the two it becomes.
    factor, small = np.float32(172961), np.float32(2.0**-40)
    assert ar.fused_multiply_add(97, factor, 0) == 2**24
    assert ar.fused_multiply_add(97, factor, small) == 2**24 + 2
    assert ar.fused_multiply_add(97, factor, -small) == 2**24
    assert ar.fused_multiply_add(-97, factor, -small) == -(2**24) - 2


def test_golden_vectors():
    accumulator = np.array([-(2**31), -301, -300, -1, 0, 1, 50, 150, 250, 2**31 - 1], np.int32)
    assert ar.requantize(accumulator, 0.01, 3).tolist() == [-128, 0, 0, 3, 3, 3, 3, 5, 5, 127]
    assert ar.requantize(np.array([1, 3, 5, -1, -3], np.int32), 0.5, 0).tolist() == [0, 2, 2, 0, -2]
    assert ar.requantize(accumulator, 0.01, 3, low=3, high=4).tolist() == [3, 3, 3, 3, 3, 3, 3, 4, 4, 4]
    assert ar.requantize(np.array([2**31 - 1], np.int32), 3e38, 0).tolist() == [127]
    values = np.array([-128, -3, 0, 1, 2, 127], np.int8)
    assert ar.rescale(values, 0, 1.5, 0, low=0).tolist() == [0, 0, 0, 2, 3, 127]
    assert sc.quantize(np.array([-np.inf, -0.25, 0.25, 0.75, 1e9], np.float32), 0.5, 1).tolist() == [
        -128,
        1,
        1,
        3,
        127,
    ]
    assert sc.dequantize(values, 0.5, -3).tolist() == [-62.5, 0.0, 1.5, 2.0, 2.5, 65.0]
    assert ar.wrap_int32(np.array([2**31, -(2**31) - 1], np.int64)).tolist() == [-(2**31), 2**31 - 1]


@UNSIGNED
def test_add_equals_onnx_runtime_on_all_pairs(unsigned):
    rng = np.random.default_rng(11)
    a, b = all_pairs()
    for trial in range(25):
        scales = np.exp(rng.uniform(-7, 0, 3)).astype(np.float32)
        if trial % 4 == 0:  # powers of two: exact ties everywhere
            scales = np.float32(2.0) ** rng.integers(-4, 1, 3).astype(np.float32)
        zeros = rng.integers(-128, 128, 3)
        constants = ar.add_constants(
            scales[0], int(zeros[0]), scales[1], int(zeros[1]), scales[2], int(zeros[2]), unsigned
        )
        ours = ar.combine_add(a, b, constants)
        z = own(zeros, unsigned)
        operands = [
            ("a", own(a, unsigned)),
            scales[0],
            z[0],
            ("b", own(b, unsigned)),
            scales[1],
            z[1],
            scales[2],
            z[2],
        ]
        theirs = run("QLinearAdd", operands, tensor_type(unsigned), "com.microsoft")
        np.testing.assert_array_equal(ours, stored(theirs), err_msg=f"{scales} {zeros}")


@UNSIGNED
def test_multiply_equals_onnx_runtime_on_all_pairs(unsigned):
    rng = np.random.default_rng(12)
    a, b = all_pairs()
    for trial in range(25):
        scales = np.exp(rng.uniform(-6, 0, 3)).astype(np.float32)
        if trial % 4 == 0:
            scales = np.float32(2.0) ** np.array([-6, -7, -6 + trial % 3], np.float32)
        zeros = rng.integers(-128, 128, 3)
        ratio = ar.multiply_ratio(*scales)
        ours = ar.combine_multiply(a, b, (int(zeros[0]), int(zeros[1])), ratio, int(zeros[2]), unsigned)
        z = own(zeros, unsigned)
        operands = [
            ("a", own(a, unsigned)),
            scales[0],
            z[0],
            ("b", own(b, unsigned)),
            scales[1],
            z[1],
            scales[2],
            z[2],
        ]
        theirs = run("QLinearMul", operands, tensor_type(unsigned), "com.microsoft")
        np.testing.assert_array_equal(ours, stored(theirs), err_msg=f"{scales} {zeros}")


@UNSIGNED
@pytest.mark.parametrize("ties", [False, True])
def test_requantize_equals_onnx_runtime_convolution_and_dense(unsigned, ties):
    rng = np.random.default_rng(13)
    channels, outputs = 16, 24
    for _ in range(4):
        zero_in, zero_out = int(rng.integers(-128, 128)), int(rng.integers(-60, 60)) | 1
        if ties:
            scale_in, scale_weight = np.float32(0.5), np.full(outputs, 0.25, np.float32)
            scale_out = np.float32(32)
        else:
            scale_in, scale_weight = np.float32(0.037), rng.uniform(0.001, 0.01, outputs).astype(np.float32)
            scale_out = np.float32(0.5)
        x = rng.integers(-128, 128, (400, channels)).astype(np.int8)
        weight = rng.integers(-60, 61, (channels, outputs)).astype(np.int8)
        bias = rng.integers(-4000, 4000, outputs).astype(np.int32)
        sums = (x.astype(np.int64) - zero_in) @ weight.astype(np.int64) + bias
        scale = sc.requantize_scale(scale_in, scale_weight, scale_out)
        ours = ar.requantize(ar.wrap_int32(sums), scale, zero_out)
        z_in, z_out, z_weight = own(zero_in, unsigned), own(zero_out, unsigned), np.zeros(outputs, np.int8)
        head = [("x", own(x, unsigned)), scale_in, z_in, weight, scale_weight, z_weight]
        theirs = run("QGemm", [*head, bias, scale_out, z_out], tensor_type(unsigned), "com.microsoft")
        np.testing.assert_array_equal(ours, stored(theirs))
        image = ("x", np.ascontiguousarray(own(x, unsigned).T.reshape(1, channels, 20, 20)))
        kernel = np.ascontiguousarray(weight.T).reshape(outputs, channels, 1, 1)
        operands = [image, scale_in, z_in, kernel, scale_weight, z_weight, scale_out, z_out, bias]
        convolved = run("QLinearConv", operands, tensor_type(unsigned))
        np.testing.assert_array_equal(ours, stored(convolved).reshape(outputs, 400).T)


@UNSIGNED
@pytest.mark.parametrize("ties", [False, True])
def test_average_pools_against_onnx_runtime(unsigned, ties):
    rng = np.random.default_rng(14)
    for kernel in (2, 4, 7):
        scale_in, scale_out = (
            (np.float32(0.25), np.float32(0.25)) if ties else (np.float32(0.031), np.float32(0.017))
        )
        zero_in, zero_out = int(rng.integers(-128, 128)), int(rng.integers(-60, 60)) | 1
        x = rng.integers(-128, 128, (1, 8, kernel, kernel * 5)).astype(np.int8)
        sums = (x.astype(np.int32) - zero_in).reshape(1, 8, kernel, 5, kernel).sum((2, 4))
        ours = ar.requantize(sums, ar.average_pool_scale(scale_in, scale_out, kernel * kernel), zero_out)
        tail = [scale_in, own(zero_in, unsigned), scale_out, own(zero_out, unsigned)]
        pooled = run(
            "QLinearAveragePool",
            [("x", own(x, unsigned)), *tail],
            tensor_type(unsigned),
            "com.microsoft",
            kernel_shape=[kernel, kernel],
            strides=[kernel, kernel],
        )
        assert np.abs(ours.astype(int) - stored(pooled)[:, :, 0, :].astype(int)).max() <= 1
        first = np.ascontiguousarray(own(x, unsigned)[..., :kernel])
        pooled = run(
            "QLinearGlobalAveragePool",
            [("x", first), *tail],
            tensor_type(unsigned),
            "com.microsoft",
            channels_last=0,
        )
        np.testing.assert_array_equal(ours[:, :, :1], stored(pooled)[:, :, 0, :])


@UNSIGNED
def test_quantize_and_dequantize_equal_onnx_runtime(unsigned):
    rng = np.random.default_rng(15)
    for scale in (np.float32(0.5), np.float32(0.0173)):
        x = (rng.integers(-300, 300, 5000) * np.float32(0.25) + rng.choice([0, 0.1], 5000)).astype(np.float32)
        zero = int(rng.integers(-128, 128))
        theirs = run("QuantizeLinear", [("x", x), scale, own(zero, unsigned)], tensor_type(unsigned))
        ours = sc.quantize(x, scale, zero)
        np.testing.assert_array_equal(ours, stored(theirs))
        back = run("DequantizeLinear", [("q", theirs), scale, own(zero, unsigned)], onnx.TensorProto.FLOAT)
        np.testing.assert_array_equal(sc.dequantize(ours, scale, zero), back)


@settings(max_examples=examples(60))
@given(st.floats(0.01, 0.1), st.floats(0.4, 1.5), st.integers(-128, 127), st.integers(-128, 127))
def test_rescale_is_within_one_step_of_dividing(scale_in, factor, zero_in, zero_out):
    scale_out = np.float32(scale_in * factor)
    values = np.arange(-128, 128).astype(np.int8)
    ours = ar.rescale(values, zero_in, ar.rescale_ratio(scale_in, scale_out), zero_out, low=zero_out)
    exact = sc.quantize(np.maximum(sc.dequantize(values, scale_in, zero_in), 0), scale_out, zero_out)
    assert np.abs(ours.astype(int) - exact.astype(int)).max() <= 1


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-40])
def test_unusable_scales_are_refused(scale):
    with pytest.raises(UserError, match="scale"):
        sc.requantize_scale(0.1, [0.1, scale], 0.1)
    with pytest.raises(UserError, match="scale"):
        ar.add_constants(0.1, 0, scale, 0, 0.1, 0, False)


def test_other_unusable_values_are_refused():
    with pytest.raises(UserError, match="ratio"):
        ar.rescale_ratio(1e20, 1e-9)
    with pytest.raises(UserError, match="0 values"):
        ar.average_pool_scale(1.0, 1.0, 0)
    with pytest.raises(UserError, match="NaN"):
        sc.quantize(np.array([np.nan], np.float32), 1.0, 0)
