"""Your own network, from numpy to the accelerator: train it, write ONNX, quantize, compile, simulate, compare.

    pip install -e . && python examples/own_network.py

The network tells noisy pictures of four shapes apart. Its convolution is random and its last layer is a least-squares
fit, so that numpy trains it in a second. The accelerator's int8 answers are compared with the float32 ones.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import vdla

SHAPES = ("ring", "square", "cross", "stripes")
SIZE, FILTERS = 22, 32


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` noisy pictures, float32 (count, 1, SIZE, SIZE) from 0 to 1, and their shapes as indices of SHAPES."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(SHAPES), count)
    y, x = np.mgrid[:SIZE, :SIZE][:, None] - random.uniform(9, 13, (2, count, 1, 1))
    radius = random.uniform(4, 8, (count, 1, 1))
    box = np.maximum(abs(x), abs(y))
    shapes = (
        abs(np.hypot(x, y) - radius) < 1,
        abs(box - radius) < 1,
        (np.minimum(abs(x), abs(y)) < 1) & (box < radius),
        (np.floor(y) % 4 < 2) & (box < radius),
    )
    drawn = np.stack(shapes)[labels, np.arange(count)]
    images = 0.25 * drawn + random.uniform(0, 0.75, drawn.shape)
    return images[:, None].astype(np.float32), labels


def features(images: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The first layers of the network in numpy: a convolution of `images` with the 5x5 `filters` (FILTERS, 1, 5, 5), a
    rectifier, and means of 6x6 elements. Returns a row of numbers for each image.
    """
    patches = np.lib.stride_tricks.sliding_window_view(images[:, 0], (5, 5), axis=(1, 2))
    active = np.maximum(np.tensordot(patches, filters[:, 0], ((3, 4), (1, 2))), 0)
    return active.reshape(-1, 3, 6, 3, 6, FILTERS).mean((2, 4)).transpose(0, 3, 1, 2).reshape(len(images), -1)


def network() -> bytes:
    """The trained network: the bytes of an ONNX file."""
    filters = np.random.default_rng(0).standard_normal((FILTERS, 1, 5, 5)).astype(np.float32)
    filters -= filters.mean((2, 3), keepdims=True)
    images, labels = pictures(1500, seed=1)
    inputs = features(images, filters)
    centred = inputs - inputs.mean(0)
    wanted = np.eye(len(SHAPES))[labels]
    weights = np.linalg.solve(centred.T @ centred + 0.1 * np.eye(len(centred.T)), centred.T @ wanted)
    bias = wanted.mean(0) - inputs.mean(0) @ weights
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["sums"], name="conv"),
        helper.make_node("Relu", ["sums"], ["active"]),
        helper.make_node(
            "AveragePool", ["active"], ["means"], name="means", kernel_shape=[6, 6], strides=[6, 6]
        ),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weights", "bias"], ["scores"], name="classifier"),
    ]
    constants = {"filters": filters, "weights": weights, "bias": bias}
    graph = helper.make_graph(
        nodes,
        "shapes",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, (1, 1, SIZE, SIZE))],
        [helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, (1, len(SHAPES)))],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def main() -> None:
    """Print the accuracy of the int8 and the float32 network on new pictures, and the cycles of the int8 network by
    layer.
    """
    model = network()
    calibration, _ = pictures(64, seed=2)
    quantized = vdla.quantize(model, {"image": calibration}).content

    images, labels = pictures(200, seed=3)
    accelerator = vdla.compile(quantized, config="tiny")
    scores = {"int8 on the accelerator": [], "float32 on this processor": []}
    with vdla.compile(model, target="llvm") as processor:
        for image in images:
            inputs = {"image": image[None]}
            scores["int8 on the accelerator"].append(accelerator.run(inputs)["scores"][0])
            scores["float32 on this processor"].append(processor.run(inputs)["scores"][0])
    for name, rows in scores.items():
        print(f"{name}: {np.mean(np.argmax(rows, 1) == labels):.1%} of {len(images)} new pictures are right")

    report = vdla.simulate(accelerator)
    print(
        f"{report.cycles:,} cycles a picture on {report.config.name}: {report.latency:.3f} ms at {report.clock}"
    )
    for layer in report.rows():
        print(
            f"  {layer['name']:10} {layer['cycles']:7,} cycles; the array worked in {layer['gemm_cycles']:,}"
        )


if __name__ == "__main__":
    main()
